// SPDX-License-Identifier: GPL-2.0

//! The connection manager: from an address to a byte stream that a queue pair owns, and back.
//!
//! One [`Conn`] stands for one TCP connection. Its life is a sequence of stages ([`stage`]), and
//! one work item, the connection's actor, makes it go through them: socket callbacks, timers, the
//! queue pair and the RDMA core only note what happened and wake it. The exceptions are `accept`
//! and `reject`, which act in the place of the actor, and received data once the queue pair runs:
//! they are taken by it straight from the callback.
//!
//! - [`conn`]: the connection: its socket, its events, its callbacks.
//! - [`stage`]: the stages and the way between them.
//! - [`initiator`]: connecting, MPA Request, MPA Reply.
//! - [`responder`]: MPA Request, the consumer's answer, MPA Reply.
//! - [`listener`]: listening sockets and what they accept.
//! - [`streaming`]: the time in which a queue pair owns the stream.
//! - [`close`]: every way a connection ends.
//! - [`open`], [`frame`], [`registry`]: making sockets, moving MPA frames, the device's connections.
//! - [`bulk`]: whether a stream comes fast.
//! - [`order`]: steps that have to be made one after the other.
//! - [`silent`]: which peer is given up that says nothing.
//!
//! Documentation/connection.md has the table of stages, Documentation/locking/cm.md the rules.

mod bulk;
mod close;
mod conn;
mod frame;
mod initiator;
mod listener;
mod open;
mod order;
mod registry;
mod responder;
mod silent;
mod stage;
mod streaming;
#[cfg(CONFIG_KUNIT)]
mod tests;
mod user;

pub(crate) use self::{
    conn::Conn,
    initiator::connect,
    listener::{listen, unlisten, Listener},
    registry::{leave, shutdown, Registry},
    responder::{accept, reject},
    user::User,
};

use crate::{device::max, params};
use iwarp::mpa::{Agreed, Limits, Offer, Rtr, RtrSet, MAX_PRIVATE_DATA, NO_NEGOTIATION};

/// What connection setup settled, as the queue pair needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamParams {
    /// FPDUs carry a CRC.
    pub(crate) crc: bool,
    /// FPDUs sent carry markers.
    pub(crate) tx_markers: bool,
    /// How many RDMA Reads the peer may have outstanding.
    pub(crate) ird: u16,
    /// How many RDMA Reads this end may have outstanding.
    pub(crate) ord: u16,
    /// FPDUs may be longer than a TCP segment.
    pub(crate) large_fpdu: bool,
    /// This end may send first.
    pub(crate) initiator: bool,
    /// Initiator: the RTR to send before anything else. Responder: `Some(Send)` if the first
    /// message may be a zero-length Send that is no message of the ULP.
    pub(crate) rtr: Option<Rtr>,
}

impl StreamParams {
    fn new(agreed: &Agreed, initiator: bool) -> Self {
        Self {
            crc: agreed.crc,
            tx_markers: agreed.tx_markers,
            ird: agreed.ird,
            ord: agreed.ord,
            large_fpdu: agreed.large_fpdu,
            initiator,
            rtr: if initiator {
                agreed.rtr
            } else {
                agreed.rtr_any.contains(Rtr::Send).then_some(Rtr::Send)
            },
        }
    }
}

/// How a queue pair lost its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// There never was one: setup failed.
    Handshake,
    /// Both ends closed it.
    Closed,
    /// The peer or the network ended it.
    Reset,
    /// This end gave it up.
    Aborted,
}

/// How to close a connection. Each one outdoes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Close {
    /// The queue pair sends what it has, then FINs are exchanged.
    Graceful = 1,
    /// What TCP has goes out, followed by a FIN; the queue pair is through with the connection.
    Flush = 2,
    /// Reset.
    Abort = 3,
}

/// How long things may take, in milliseconds.
mod timeout {
    /// For TCP to connect. Destroying the consumer's id waits as long, so it is shorter than TCP's
    /// own patience: four repetitions of the SYN.
    pub(super) const CONNECT: u32 = 20_000;
    /// Before a connection that was refused is tried again, for the first time; then twice as long.
    pub(super) const REFUSED: u32 = 20;
    /// How often it is tried again, so that the consumer hears of it after 140 ms.
    pub(super) const REFUSALS: u32 = 3;
    /// How often to look whether the process that connects is still there.
    pub(super) const GLANCE: u32 = 1_000;
    /// For the peer's consumer to answer our MPA Request.
    pub(super) const REPLY: u32 = 30_000;
    /// For the MPA Request of a peer that connected.
    pub(super) const REQUEST: u32 = 10_000;
    /// For our consumer to answer a Request: longer than peers are known to wait for it.
    pub(super) const ANSWER: u32 = 75_000;
    /// For the RTR that was agreed on.
    pub(super) const RTR: u32 = 10_000;
    /// At least, before looking again whether the peer has acknowledged the Reply.
    pub(super) const LOOK: u32 = 50;
    /// For the queue pair to send some of what it has.
    pub(super) const DRAIN: u32 = 30_000;
    /// For the peer's FIN after ours, or some of what it still has to send.
    pub(super) const FIN: u32 = 10_000;
    /// In place of each of these two in all, while the device is being removed.
    pub(super) const LEAVE: u32 = 1_000;
    /// For the peer to take some of what was sent last: a Terminate, a rejection, what TCP still has
    /// of a queue pair that is gone.
    pub(super) const LINGER: u32 = 5_000;
    /// How often, at the most, it may do so.
    pub(super) const LINGERS: u32 = 12;
    /// For a Terminate to find room in the send buffer.
    pub(super) const TERMINATE: u32 = 5_000;
}

/// Private data that iwcm can carry to the consumer (`iw_cm_event::private_data_len` is a `u8`).
/// MPA allows for more, which only ULPs outside of the RDMA CM use; they get the beginning.
const EVENT_PRIVATE_DATA: usize = 255;

fn event_private_data(data: &[u8]) -> &[u8] {
    data.get(..EVENT_PRIVATE_DATA).unwrap_or(data)
}

/// The largest private data of a frame of this revision (RFC 6581 section 6: the enhanced data
/// take four octets).
fn max_private_data(revision: u8) -> usize {
    if revision >= 2 {
        MAX_PRIVATE_DATA - 4
    } else {
        MAX_PRIVATE_DATA
    }
}

/// A read queue depth as the consumer asked for it, within the device's limits.
fn clip(depth: u32) -> u16 {
    // CAST: The limit is far below.
    depth.min(max::READS) as u16
}

/// The IRD that this end announces when its consumer asked for `reads` at a time: that, or a few more,
/// a power of two. siw as the peer makes powers of two of what it has agreed to; so it sends no more
/// Reads than were agreed on, and more are refused.
fn announced_ird(reads: u32) -> u16 {
    // The limit is a power of two itself.
    const { assert!(max::READS.is_power_of_two()) };
    match clip(reads) {
        0 => 0,
        reads => reads.next_power_of_two(),
    }
}

/// An IRD to announce, within what a queue pair has at the most: a power of two still.
fn bounded_ird(ird: u16, most: u32) -> u16 {
    match clip(most) {
        0 => 0,
        most => ird.min(1 << most.ilog2()),
    }
}

/// What a depth says that the peer sent or did not send: the consumer's events have 8 bits for it.
fn event_depth(depth: u16) -> u8 {
    let depth = if depth == NO_NEGOTIATION {
        clip(u32::MAX)
    } else {
        depth
    };
    u8::try_from(depth).unwrap_or(u8::MAX)
}

/// What this end says of itself in an MPA frame.
fn offer(revision: u8, ird: u16, ord: u16, rtr: RtrSet, private_data: &[u8]) -> Offer<'_> {
    Offer {
        revision,
        crc: params::crc_required(),
        ird,
        ord,
        rtr,
        large_fpdu: params::large_fpdu(),
        private_data,
    }
}

/// The depths this end can provide where they are not negotiated, and at the most.
fn limits<U: User>(user: &U, ord: u16) -> Limits {
    let (ird, _) = user.most_reads();
    Limits {
        ird: bounded_ird(clip(u32::MAX), ird),
        ord,
    }
}
