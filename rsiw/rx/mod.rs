// SPDX-License-Identifier: GPL-2.0

//! Receive: carries out what the bytes of a connection ask of its QP.
//!
//! Rx gets the bytes of a stream chunk by chunk, under the socket's lock, from whoever receives
//! (`stream::receive`):
//!
//! 1. `iwarp::rx::Receiver::receive` finds the FPDUs and checks the protocol's rules.
//! 2. [`handler::QpHandler`] checks the memory that a segment names, and copies its bytes there.
//! 3. Completions are published in the CQ as messages end.
//! 4. [`Rx::finish_run`] and [`Rx::take_end`] tell what is left to do once the run is over: the
//!    consumer's calls, wake-ups of tx, and a fault.

mod handler;
mod late;
mod message;

use crate::{
    abi::Rqe,
    cq::Notify,
    mem::{scatter::Scatter, Access, HeldAccess, ResolvedMr},
    pd::Membership,
    queue::{reads::OutstandingRead, sq::WakeTx, Queues},
    wr::Status,
};
use iwarp::{
    conn::rnr::RnrRetry,
    rx::{Fault, FpduAssembler, Receiver},
    Msn, SharedByte, Terminate,
};
use kernel::{alloc::Flags, prelude::*};
use late::Late;
use rdma::Wqe;

/// The receive that the Send under way fills. A queue pair has one of these, which is used for one
/// receive after the other in place.
struct Receiving {
    /// There is a receive under way.
    active: bool,
    rqe: Wqe<Rqe>,
    scatter: Scatter,
    /// The status that the receive completes with if the Send never ends.
    status: Status,
}

impl Receiving {
    /// The receive under way.
    fn active(&mut self) -> Option<&mut Self> {
        self.active.then_some(self)
    }
}

/// Where the bytes of the segment under way go.
enum Destination {
    None,
    Recv {
        offset: u32,
    },
    /// To the region of the RDMA Write under way.
    Write {
        addr: u64,
        /// The end of the message, if this is its last segment.
        end: Option<u64>,
    },
    /// To this offset of the sink of the Read whose response is under way.
    Read {
        offset: u32,
    },
}

/// State that the handler keeps from one chunk to the next.
struct State {
    recv: Receiving,
    late: Late,
    destination: Destination,
    /// The access to the region that segments are placed in; it ends with the run, or earlier by
    /// [`Rx::end_access`].
    access: HeldAccess,
    /// Regions that the next segment may need again: the one that the last RDMA Write was for, and
    /// the one that the last Read Request named.
    write: Option<ResolvedMr>,
    source: Option<ResolvedMr>,
    /// The Read whose response is under way.
    read: Option<OutstandingRead>,
    /// The peer has sent an FPDU.
    peer_started: bool,
    /// Its first FPDU came in this run, and lets a responder send.
    starts: bool,
    /// The peer's Terminate has come.
    terminated: Option<Terminate>,
    /// The right that a region has to grant for the peer's Writes, Reads, atomics and flushes. If
    /// the QP denies the peer this operation, it is [`Access::NEVER`], so the region's check fails.
    /// The QP's limit thus needs no check of its own.
    write_needs: Access,
    read_needs: Access,
    atomic_needs: Access,
    flush_needs: Access,
    /// Bytes of the RDMA Write that came last, if no other message of the peer's requests has come
    /// behind it.
    written: u32,
    /// How often the peer's Sends are tried again that find no receive.
    rnr_retry: RnrRetry,
    /// Message sequence number of the peer's next Read or Atomic Request.
    read_msn: Msn,
    send_notify: Notify,
    recv_notify: Notify,
    wake: WakeTx,
    /// A short Read is to be answered.
    answer: bool,
}

impl State {
    /// Milliseconds for which a Send waits that finds no receive.
    fn most_wait(&self, queues: &Queues) -> u32 {
        let most = queues.rq.wait_ms();
        let told = queues.rnr.wait_ms(self.rnr_retry);
        let most = told.map_or(most, |told| told.min(most));
        most.max(queues.rq.least_wait_ms())
    }

    /// Whether a completion of this run was lost because its CQ is full.
    fn lost(&self) -> bool {
        (self.send_notify | self.recv_notify).is_lost()
    }
}

/// Room for one FPDU.
struct Staging(KVVec<SharedByte>);

impl Staging {
    /// Context: sleeping. Errors: `ENOMEM`.
    fn new(flags: Flags) -> Result<Self> {
        let mut room = KVVec::with_capacity(FpduAssembler::MAX_FPDU, flags)?;
        for _ in 0..FpduAssembler::MAX_FPDU {
            room.push(SharedByte::new(0), flags)?;
        }
        Ok(Self(room))
    }
}

impl AsRef<[SharedByte]> for Staging {
    fn as_ref(&self) -> &[SharedByte] {
        &self.0
    }
}

/// The parameters of a connection's inbound half.
pub(crate) struct RxConfig {
    pub(crate) crc: bool,
    /// The peer's first message may be a Send that is an RTR.
    pub(crate) expects_rtr_send: bool,
    /// The consumer knows the messages of RFC 7306.
    pub(crate) extended: bool,
    /// Both ends have agreed to Sends with immediate data.
    pub(crate) send_immediate: bool,
    /// Nothing is placed before its CRC was verified.
    pub(crate) verify_first: bool,
}

/// The inbound half of a QP's connection.
pub(crate) struct Rx {
    receiver: Receiver,
    /// FPDUs that the queue pair has received by connections before this one.
    fpdus_before: u64,
    /// There if nothing may be placed before its CRC was verified: puts FPDUs together that arrive
    /// in pieces.
    whole: Option<FpduAssembler<Staging>>,
    state: State,
    /// There as long as the peer can access memory of the domain.
    membership: Option<Membership>,
    /// A fault was found, or the QP has left RTS and CLOSING: bytes are dropped.
    dead: bool,
    /// Rx was stopped for good.
    stopped: bool,
    /// Why the stream ends, until the caller takes it.
    end: Option<RxEnd>,
}

/// Where the peer's FIN came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinAt {
    /// Between messages, or when the stream had ended already.
    Boundary,
    /// Within a message.
    MidMessage,
}

/// Why no more of a stream is received.
pub(crate) enum RxEnd {
    /// A fault in the data of the peer, or in a receive of the consumer; and the Terminate for the
    /// peer.
    Fault(Fault, Option<Terminate>),
    /// The peer has found a fault in the data of this end.
    Terminated(Terminate),
}

impl Rx {
    /// Makes the inbound half, before the first FPDU, for receives of up to `sges` elements.
    /// Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        cfg: RxConfig,
        membership: Membership,
        (sges, flags): (u32, Flags),
        fpdus_before: u64,
    ) -> Result<Self> {
        let mut receiver = Receiver::new(iwarp::rx::RxConfig { crc: cfg.crc });
        if cfg.expects_rtr_send {
            receiver.expect_rtr_send();
        }
        if cfg.extended {
            receiver.allow_extensions();
        }
        if cfg.send_immediate {
            receiver.allow_send_immediate();
        }
        let whole = if cfg.crc && cfg.verify_first {
            Some(FpduAssembler::new(Staging::new(flags)?).ok_or(EINVAL)?)
        } else {
            None
        };
        Ok(Self {
            receiver,
            fpdus_before,
            whole,
            membership: Some(membership),
            state: State {
                recv: Receiving {
                    active: false,
                    rqe: Wqe::new(Rqe::default()),
                    scatter: Scatter::new(sges, flags)?,
                    status: Status::Flush,
                },
                late: Late::none(),
                destination: Destination::None,
                access: HeldAccess::none(),
                write: None,
                source: None,
                read: None,
                peer_started: false,
                starts: false,
                terminated: None,
                write_needs: Access::REMOTE_WRITE,
                read_needs: Access::REMOTE_READ,
                atomic_needs: Access::REMOTE_ATOMIC,
                flush_needs: Access::FLUSH,
                written: 0,
                rnr_retry: RnrRetry::FOR_EVER,
                read_msn: Msn::FIRST,
                send_notify: Notify::default(),
                recv_notify: Notify::default(),
                wake: WakeTx::default(),
                answer: false,
            },
            dead: false,
            stopped: false,
            end: None,
        })
    }

    //= 5040-7-1
    /// Processes the next bytes and returns how many it has taken. These are all of them, also
    /// those after a fault, which are dropped; but fewer if a Send waits for its receive. Context:
    /// the socket's lock is held.
    pub(crate) fn chunk(&mut self, queues: &Queues, data: &[SharedByte]) -> usize {
        // An error of this end ends the stream as the peer's errors do: RFC 5040 section 7.
        if !self.dead && !queues.may_receive() {
            self.die();
        }
        if self.dead {
            return data.len();
        }
        let mut handler = handler::QpHandler {
            queues,
            st: &mut self.state,
        };
        let received = match &mut self.whole {
            None => self.receiver.receive(data, &mut handler),
            Some(whole) => whole.receive(&mut self.receiver, data, &mut handler),
        };
        let fpdus = self.fpdus_before.wrapping_add(self.receiver.fpdus());
        queues.counters.rx_fpdus.set(fpdus);
        match received {
            Ok(taken) if self.state.terminated.is_none() => taken,
            // The peer says that its stream ends here.
            Ok(_) => {
                self.die();
                self.end = self.state.terminated.take().map(RxEnd::Terminated);
                data.len()
            }
            // The QP learns of the lost completion at the end of the run, by the `Notify` that says
            // so.
            Err(_) if self.state.lost() => {
                self.die();
                data.len()
            }
            Err(fault) => {
                self.fault(fault);
                data.len()
            }
        }
    }

    /// Whether a Send waits for its receive.
    pub(crate) fn is_late(&self) -> bool {
        self.state.late.waits()
    }

    /// Milliseconds until the timer looks for the receive that a Send waits for; `None` if no Send
    /// waits.
    pub(crate) fn next_look(&self, queues: &Queues) -> Option<u32> {
        // Most often none waits. Then the time does not matter.
        if !self.is_late() {
            return None;
        }
        self.state
            .late
            .next_look(self.state.most_wait(queues), kext::jiffies_ms())
    }

    /// Limits the peer to these rights. Context: the socket's lock is held.
    pub(crate) fn admit(&mut self, rights: Access) {
        self.state.write_needs = rights.admit(Access::REMOTE_WRITE);
        self.state.read_needs = rights.admit(Access::REMOTE_READ);
        self.state.atomic_needs = rights.admit(Access::REMOTE_ATOMIC);
        self.state.flush_needs = rights.admit(Access::FLUSH);
    }

    /// Ends the access to a region that is kept from one chunk to the next, before the caller
    /// sleeps.
    pub(crate) fn end_access(&mut self) {
        self.state.access.end();
    }

    /// Ends a run; returns the calls and wake-ups that it has left to do.
    pub(crate) fn finish_run(&mut self) -> RunOutcome {
        let st = &mut self.state;
        st.access.end();
        RunOutcome {
            send: core::mem::take(&mut st.send_notify),
            recv: core::mem::take(&mut st.recv_notify),
            wake: core::mem::take(&mut st.wake),
            answer: core::mem::take(&mut st.answer),
            starts: core::mem::take(&mut st.starts),
        }
    }

    /// Whether [`Self::take_end`] has something to tell.
    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// Why the stream has ended in this run, once.
    pub(crate) fn take_end(&mut self) -> Option<RxEnd> {
        self.end.take()
    }

    /// Whether [`Self::stop`] was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The peer's FIN was reached; returns where.
    pub(crate) fn fin_reached(&mut self) -> FinAt {
        self.membership = None;
        if self.dead || self.receiver.at_boundary() && !self.receiver.mid_message() {
            FinAt::Boundary
        } else {
            FinAt::MidMessage
        }
    }

    /// Stops receiving for good; returns the receive that was being filled, with the status that it
    /// fails with. Context: sleeping, the socket's lock is held.
    pub(crate) fn stop(&mut self) -> Option<(u64, Status)> {
        self.die();
        self.stopped = true;
        self.whole = None;
        self.state.destination = Destination::None;
        self.state.access.end();
        self.state.write = None;
        self.state.source = None;
        self.state.read = None;
        let recv = &mut self.state.recv;
        recv.scatter.release();
        core::mem::take(&mut recv.active).then_some((recv.rqe.id, recv.status))
    }

    //= 5044-8-1
    #[cold]
    fn fault(&mut self, fault: Fault) {
        self.die();
        let terminate = self.receiver.terminate_for(&fault);
        self.end = Some(RxEnd::Fault(fault, terminate));
    }

    /// From now on bytes are dropped. The receive under way is left to [`Self::stop`].
    fn die(&mut self) {
        self.dead = true;
        self.membership = None;
        self.state.late.end();
    }
}

/// Calls and wake-ups that a run has left to do once the receive state is no longer borrowed.
pub(crate) struct RunOutcome {
    pub(crate) send: Notify,
    pub(crate) recv: Notify,
    /// Whether the worker has to run tx.
    pub(crate) wake: WakeTx,
    /// Short Reads wait, which tx had best answer at once.
    pub(crate) answer: bool,
    /// The peer's first FPDU has come, and this end has waited for it.
    pub(crate) starts: bool,
}
