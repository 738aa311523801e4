// SPDX-License-Identifier: GPL-2.0

//! Receive: what a connection's bytes do to this QP.
//!
//! The rx actor is whoever holds the socket's lock: TCP's softirq, or a process that gives the lock
//! back. It runs to the end of what the socket has queued:
//!
//! 1. `Conn::data_ready` → [`Qp::rx_pump`](crate::qp::Qp::rx_pump)
//! 2. → `LockedSock::read_into`: each contiguous chunk, one cursor over the buffers
//! 3. → `iwarp::Receiver::receive`: framing and the protocol's rules
//! 4. → [`handler::Place`]: the segment's memory, its bytes
//! 5. → completions, published in the CQ; the consumer is called once per run.

mod handler;

use crate::{
    abi::Rqe,
    cq::Notify,
    mem::{scatter::Scatter, Grant},
    pd::Stream,
    qp::{reads::OutstandingRead, sq::WakeTx, Qp},
    wr::Status,
};
use iwarp::{
    rx::{Fault, Receiver, RxConfig},
    Msn,
};
use kernel::sync::Arc;

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
enum Sink {
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
    sink: Sink,
    /// What the last RDMA Write might write to, and the last Read Request read from.
    write: Option<Grant>,
    source: Option<Grant>,
    /// The Read whose response is under way.
    read: Option<OutstandingRead>,
    /// The peer has sent something: a responder may send from now on.
    peer_started: bool,
    /// Number of the peer's next Read Request.
    read_msn: Msn,
    send_notify: Notify,
    recv_notify: Notify,
    wake: WakeTx,
    /// There is a short Read to answer.
    answer: bool,
}

/// The inbound half of a QP's connection.
pub(crate) struct Rx {
    receiver: Receiver,
    state: State,
    /// There as long as the peer can name memory.
    stream: Option<Stream>,
    /// A fault was found, or the QP left the states in which it receives: bytes are dropped.
    dead: bool,
}

impl Rx {
    /// Before the first FPDU.
    pub(crate) fn new(cfg: RxConfig, expect_rtr_send: bool, stream: Stream) -> Self {
        let mut receiver = Receiver::new(cfg);
        if expect_rtr_send {
            receiver.expect_rtr_send();
        }
        Self {
            receiver,
            stream: Some(stream),
            state: State {
                recv: Receiving {
                    active: false,
                    rqe: Rqe::default(),
                    scatter: Scatter::empty(),
                    status: Status::Flush,
                },
                sink: Sink::None,
                write: None,
                source: None,
                read: None,
                peer_started: false,
                read_msn: Msn::FIRST,
                send_notify: Notify::default(),
                recv_notify: Notify::default(),
                wake: WakeTx::default(),
                answer: false,
            },
            dead: false,
        }
    }

    /// Processes the next bytes; all are taken, also those behind a fault, which go nowhere.
    /// Context: the socket's lock is held.
    pub(crate) fn chunk(&mut self, qp: &Arc<Qp>, data: &[u8]) -> usize {
        if !self.dead {
            let mut place = handler::Place {
                qp,
                st: &mut self.state,
            };
            if let Err(fault) = self.receiver.receive(data, &mut place) {
                self.fault(qp, &fault);
            }
        }
        data.len()
    }

    /// Ends a run: calls the consumers and wakes tx.
    pub(crate) fn settle(&mut self) -> Settled {
        let st = &mut self.state;
        Settled {
            send: core::mem::take(&mut st.send_notify),
            recv: core::mem::take(&mut st.recv_notify),
            wake: core::mem::take(&mut st.wake),
            answer: core::mem::take(&mut st.answer),
        }
    }

    /// The peer's FIN was reached; whether it cuts nothing short.
    pub(crate) fn end(&mut self) -> bool {
        self.stream = None;
        self.dead || self.receiver.at_boundary() && !self.receiver.mid_message()
    }

    /// Stops receiving for good; returns the receive that was being filled, with the status that
    /// it fails with.
    pub(crate) fn stop(&mut self) -> Option<(u64, Status)> {
        self.dead = true;
        self.stream = None;
        self.state.sink = Sink::None;
        self.state.write = None;
        self.state.source = None;
        self.state.read = None;
        let recv = &mut self.state.recv;
        recv.scatter.release();
        core::mem::take(&mut recv.active).then_some((recv.rqe.id, recv.status))
    }

    #[cold]
    fn fault(&mut self, qp: &Arc<Qp>, fault: &Fault) {
        self.dead = true;
        self.stream = None;
        qp.peer_fault(fault, self.receiver.terminate_for(fault));
    }
}

/// What a run owes to others, once the receive state is no longer borrowed.
pub(crate) struct Settled {
    pub(crate) send: Notify,
    pub(crate) recv: Notify,
    /// For the worker.
    pub(crate) wake: WakeTx,
    /// Short Reads wait, which are best answered at once.
    pub(crate) answer: bool,
}
