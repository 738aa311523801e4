// SPDX-License-Identifier: GPL-2.0

//! Receive: what a connection's bytes do to this QP.
//!
//! The rx actor is whoever holds the socket's lock: TCP's softirq, or a process that gives the lock
//! back. It runs to the end of what the socket has queued:
//!
//! 1. `Conn::data_ready` → [`Qp::readable`](crate::cm::User::readable)
//! 2. → `LockedSock::read_into`: each contiguous chunk, one cursor over the buffers
//! 3. → `iwarp::Receiver::receive`: framing and the protocol's rules
//! 4. → [`handler::QpHandler`]: the segment's memory, its bytes
//! 5. → completions, published in the CQ; the consumer is called once per run.

mod handler;
mod late;

use crate::{
    abi::Rqe,
    cq::Notify,
    mem::{scatter::Scatter, Access, ResolvedMr},
    params,
    pd::Stream,
    qp::{reads::OutstandingRead, sq::WakeTx, Qp},
    wr::Status,
};
use iwarp::{
    rx::{Fault, FpduAssembler, Receiver, RxConfig},
    Msn,
};
use kernel::{prelude::*, sync::Arc};
use late::Late;

/// The receive request that the Send under way fills. There is one of these, which serves one after
/// the other in place.
struct Receiving {
    /// There is a request.
    active: bool,
    rqe: Rqe,
    scatter: Scatter,
    /// What the request completes with if the Send never does.
    status: Status,
}

impl Receiving {
    /// The request under way.
    fn active(&mut self) -> Option<&mut Self> {
        self.active.then_some(self)
    }
}

/// Sink of the segment under way.
enum Destination {
    None,
    Recv {
        offset: u32,
    },
    /// Of the RDMA Write under way.
    Write {
        addr: u64,
    },
    /// Of the Read whose response is under way.
    Read {
        addr: u64,
    },
}

/// What the handler keeps from chunk to chunk.
struct State {
    recv: Receiving,
    late: Late,
    destination: Destination,
    /// What the last RDMA Write might write to, and the last Read Request read from.
    write: Option<ResolvedMr>,
    source: Option<ResolvedMr>,
    /// The Read whose response is under way.
    read: Option<OutstandingRead>,
    /// The peer has sent something: a responder may send from now on.
    peer_started: bool,
    /// What to ask of a region for the peer's Writes and Reads: the right, or none that there is if
    /// the QP does not admit it. So that costs nothing where all is checked anyway.
    write_needs: Access,
    read_needs: Access,
    /// Number of the peer's next Read Request.
    read_msn: Msn,
    send_notify: Notify,
    recv_notify: Notify,
    wake: WakeTx,
    /// There is a short Read to answer.
    answer: bool,
}

impl State {
    /// A completion of this run was lost: its queue is full.
    fn lost(&self) -> bool {
        self.send_notify.lost || self.recv_notify.lost
    }
}

/// Room for one FPDU.
struct Staging(KVVec<u8>);

impl AsRef<[u8]> for Staging {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Staging {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The inbound half of a QP's connection.
pub(crate) struct Rx {
    receiver: Receiver,
    /// There if nothing may be placed before its CRC was verified: it puts together the FPDUs that
    /// come in pieces.
    whole: Option<FpduAssembler<Staging>>,
    state: State,
    /// There as long as the peer can name memory.
    stream: Option<Stream>,
    /// A fault was found, or the QP left the states in which it receives: bytes are dropped.
    dead: bool,
}

impl Rx {
    /// Before the first FPDU. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(cfg: RxConfig, expect_rtr_send: bool, stream: Stream) -> Result<Self> {
        let mut receiver = Receiver::new(cfg);
        if expect_rtr_send {
            receiver.expect_rtr_send();
        }
        let whole = if cfg.crc && params::verify_first() {
            let room = KVVec::from_elem(0, FpduAssembler::MAX_FPDU, GFP_KERNEL)?;
            Some(FpduAssembler::new(Staging(room)).ok_or(EINVAL)?)
        } else {
            None
        };
        Ok(Self {
            receiver,
            whole,
            stream: Some(stream),
            state: State {
                recv: Receiving {
                    active: false,
                    rqe: Rqe::default(),
                    scatter: Scatter::empty(),
                    status: Status::Flush,
                },
                late: Late::none(),
                destination: Destination::None,
                write: None,
                source: None,
                read: None,
                peer_started: false,
                write_needs: Access::REMOTE_WRITE,
                read_needs: Access::REMOTE_READ,
                read_msn: Msn::FIRST,
                send_notify: Notify::default(),
                recv_notify: Notify::default(),
                wake: WakeTx::default(),
                answer: false,
            },
            dead: false,
        })
    }

    /// Processes the next bytes; returns how many were taken. That is all of them, also those behind a
    /// fault, which go nowhere, unless a Send waits for its receive. Context: the socket's lock is held.
    pub(crate) fn chunk(&mut self, qp: &Arc<Qp>, data: &[u8]) -> usize {
        // An error of this end ends the stream as one of the peer's does: RFC 5040 section 7.
        if !self.dead && !qp.may_receive() {
            self.die();
        }
        if self.dead {
            return data.len();
        }
        let mut place = handler::QpHandler {
            qp,
            st: &mut self.state,
        };
        let received = match &mut self.whole {
            None => self.receiver.receive(data, &mut place),
            Some(whole) => whole.receive(&mut self.receiver, data, &mut place),
        };
        match received {
            Ok(taken) => taken,
            // Of this the QP hears at the end of the run, by what is owed.
            Err(_) if self.state.lost() => {
                self.die();
                data.len()
            }
            Err(fault) => {
                self.fault(qp, &fault);
                data.len()
            }
        }
    }

    /// Whether a Send waits for its receive.
    pub(crate) fn is_late(&self) -> bool {
        self.state.late.waits()
    }

    /// In how many milliseconds to look for the receive that a Send waits for, if one does.
    pub(crate) fn next_look(&self, qp: &Qp) -> Option<u32> {
        self.state
            .late
            .next_look(qp.rq.wait_ms(), kext::jiffies_ms())
    }

    /// Limits the peer to these rights. Context: the socket's lock is held.
    pub(crate) fn admit(&mut self, rights: Access) {
        self.state.write_needs = rights.admit(Access::REMOTE_WRITE);
        self.state.read_needs = rights.admit(Access::REMOTE_READ);
    }

    /// Ends a run: calls the consumers and wakes tx.
    pub(crate) fn finish_run(&mut self) -> RunOutcome {
        let st = &mut self.state;
        RunOutcome {
            send: core::mem::take(&mut st.send_notify),
            recv: core::mem::take(&mut st.recv_notify),
            wake: core::mem::take(&mut st.wake),
            answer: core::mem::take(&mut st.answer),
        }
    }

    /// The peer's FIN was reached; whether it cuts nothing short.
    pub(crate) fn end(&mut self) -> bool {
        self.stream = None;
        let at_boundary = self.whole.as_ref().is_none_or(FpduAssembler::at_boundary);
        self.dead || at_boundary && self.receiver.at_boundary() && !self.receiver.mid_message()
    }

    /// Stops receiving for good; returns the receive that was being filled, with the status that
    /// it fails with. Context: sleeping, the socket's lock is held.
    pub(crate) fn stop(&mut self) -> Option<(u64, Status)> {
        self.die();
        self.whole = None;
        self.state.destination = Destination::None;
        self.state.write = None;
        self.state.source = None;
        self.state.read = None;
        let recv = &mut self.state.recv;
        recv.scatter.release();
        core::mem::take(&mut recv.active).then_some((recv.rqe.id, recv.status))
    }

    #[cold]
    fn fault(&mut self, qp: &Arc<Qp>, fault: &Fault) {
        self.die();
        qp.peer_fault(fault, self.receiver.terminate_for(fault));
    }

    /// Nothing is received any more. The request under way is left to [`Self::stop`].
    fn die(&mut self) {
        self.dead = true;
        self.stream = None;
        self.state.late.end();
    }
}

/// What a run owes to others, once the receive state is no longer borrowed.
pub(crate) struct RunOutcome {
    pub(crate) send: Notify,
    pub(crate) recv: Notify,
    /// For the worker.
    pub(crate) wake: WakeTx,
    /// Short Reads wait, which are best answered at once.
    pub(crate) answer: bool,
}
