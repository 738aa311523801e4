// SPDX-License-Identifier: GPL-2.0

//! The time limits of connections, in milliseconds.

/// By how much a timer may run out early.
pub const TICK: i64 = 20;

/// For TCP to connect. `iw_destroy_cm_id()` waits as long, so it is shorter than TCP's own limit:
/// it leaves time to repeat the SYN four times.
pub const CONNECT: u32 = 20_000;

/// Before a refused connection is tried again, for the first time. It doubles each time.
pub const REFUSED: u32 = 20;

/// How often a refused connection is tried again. The consumer hears of the failure after 140 ms.
pub const REFUSALS: u32 = 3;

/// Between two checks whether the process that connects still exists.
pub const ORPHAN_CHECK: u32 = 1_000;

/// For all turns of an attempt to make a TLS handshake: for hundreds of handshakes on a slow
/// processor.
pub const TLS_WAIT: u32 = 120_000;

/// For a TLS handshake, with the wait for the turn of a responder.
pub const TLS: u32 = 20_000;

/// Of that, what tlshd is told to take at the most.
pub const TLSHD: u32 = 15_000;

/// Before a handshake is asked for again that the kernel had no room for.
pub const PENDING: u32 = 50;

/// For the peer's consumer to answer our MPA Request.
pub const REPLY: u32 = 30_000;

/// For the MPA Request of a peer that connected; and for the consumer to answer any, while that
/// Request waits to be reported.
pub const REQUEST: u32 = 10_000;

/// For our consumer to answer a Request. Peers are not known to wait that long.
pub const ANSWER: u32 = 75_000;

/// For the queue pair that a call names to expect a peer. The initiator calls again afterwards.
pub const PARKED: u32 = 5_000;

/// Before a peer is called again that could not be called, or did not want to, after `tries` calls.
pub const fn call_again(tries: u32) -> u32 {
    const FIRST: u32 = 20;
    const MOST: u32 = 1_000;
    match tries {
        // The shift is bounded.
        0..=5 => FIRST.wrapping_shl(tries),
        _ => MOST,
    }
}

/// For the RTR that was agreed on.
pub const RTR: u32 = 10_000;

/// The least, before the next check whether the peer has acknowledged the Reply.
pub const LOOK: u32 = 50;

/// For the queue pair to send some of its data, in an orderly close.
pub const DRAIN: u32 = 30_000;

/// For the peer's FIN after ours, or for some of the data that the peer still has to send.
pub const FIN: u32 = 10_000;

/// In place of [`DRAIN`] and of [`FIN`] while the device is being removed. Unlike those it is not
/// extended.
pub const LEAVE: u32 = 1_000;

/// For the peer to acknowledge some of the last data: a Terminate, a rejection, or data that TCP
/// still has of a queue pair that is gone.
pub const LINGER: u32 = 5_000;

/// Before something is sent again for which TCP had no memory, or the FIN, for which it had no room
/// behind the last records of TLS.
pub const SEND_AGAIN: u32 = 20;

/// How often [`LINGER`] is extended at the most.
pub const LINGERS: u32 = 12;

/// For a Terminate to find room in the send buffer.
pub const TERMINATE: u32 = 5_000;
