// SPDX-License-Identifier: GPL-2.0

//! The queues of a queue pair together, and what both directions of its stream go by.

use super::{
    reads::InboundReads,
    rnr::Rnr,
    rq::RecvQueue,
    sq::SendQueue,
    state::{State, StateCell},
    Seq,
};
use crate::{
    counters::{Counter, Traffic},
    cq::{Cq, Out, Tag},
    device::Device,
    pd::Pd,
    wr::Status,
};
use core::sync::atomic::{AtomicBool, Ordering};
use iwarp::TermCode;
use kernel::{prelude::*, sync::Arc};
use kext::{lock::SpinLockIrq, new_spinlock_irq};
use rdma::DeviceName;
use trace::Stall;

/// The queues of a QP.
#[pin_data]
pub(crate) struct Queues {
    pub(crate) dev: Arc<Device>,
    pub(crate) pd: Arc<Pd>,
    tag: Tag,
    pub(crate) scq: Arc<Cq>,
    pub(crate) rcq: Arc<Cq>,
    #[pin]
    pub(crate) sq: SendQueue,
    pub(crate) rq: Arc<RecvQueue>,
    rq_is_shared: bool,
    #[pin]
    pub(crate) inbound: InboundReads,
    /// For how long Sends wait for their receives, if the program has said so.
    pub(crate) rnr: Rnr,
    /// What the QP counts.
    pub(crate) counters: Traffic,
    /// Receives that the peer's Sends have taken. Only rx counts them.
    pub(crate) receives: Counter,
    state: StateCell,
    /// This end may send: it is the initiator, or the peer's first FPDU has arrived, or the wait
    /// for that is over.
    may_send: AtomicBool,
    /// The peer's FIN was reached: it sends nothing any more.
    peer_done: AtomicBool,
    /// The request that the connection fails with, and its status.
    #[pin]
    failure: SpinLockIrq<Option<(Seq, Status)>>,
}

/// The parts that the queues are made of.
pub(crate) struct Parts<S> {
    pub(crate) dev: Arc<Device>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) tag: Tag,
    pub(crate) scq: Arc<Cq>,
    pub(crate) rcq: Arc<Cq>,
    pub(crate) sq: S,
    pub(crate) rq: Arc<RecvQueue>,
    pub(crate) rq_is_shared: bool,
}

impl Queues {
    /// Makes the queues of a QP in IDLE.
    pub(crate) fn new(p: Parts<impl PinInit<SendQueue>>) -> impl PinInit<Self> {
        let Parts {
            dev,
            pd,
            tag,
            scq,
            rcq,
            sq,
            rq,
            rq_is_shared,
        } = p;
        pin_init!(Self {
            dev,
            pd,
            tag,
            scq,
            rcq,
            sq <- sq,
            rq,
            rq_is_shared,
            inbound <- InboundReads::new(),
            rnr: Rnr::unsaid(),
            counters: Traffic::new(),
            receives: Counter::new(),
            state: StateCell::new(),
            may_send: AtomicBool::new(false),
            peer_done: AtomicBool::new(false),
            failure <- new_spinlock_irq!(None, "rsiw_failure"),
        })
    }

    /// The QP number.
    pub(crate) fn number(&self) -> u32 {
        self.tag.number
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    /// Goes to another state, as [`StateCell::advance`]. Context: any.
    pub(crate) fn advance(&self, to: State) -> Result<State, State> {
        self.state.advance(to).inspect(|&from| {
            trace::qp_state(|| (self.dev.name(), self.number(), from as u8, to as u8));
        })
    }

    /// The fields of a tracepoint for a Terminate, that of this end if `out`.
    pub(crate) fn trace_terminate(
        &self,
        out: bool,
        code: TermCode,
    ) -> (DeviceName, u32, bool, u8, u8, u8) {
        let [layer, etype, code] = code.numbers();
        (self.dev.name(), self.number(), out, layer, etype, code)
    }

    /// Emits the `stall` tracepoint. Context: any.
    #[inline]
    pub(crate) fn trace_stall(&self, why: Stall) {
        trace::stall(|| (self.dev.name(), self.number(), why as u8));
    }

    /// Whether an orderly close has begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.state() == State::Closing
    }

    /// Whether data of the peer are still received. After an error of either end they are not,
    /// although the connection is closed only later.
    #[inline]
    pub(crate) fn may_receive(&self) -> bool {
        matches!(self.state(), State::Rts | State::Closing)
    }

    /// Whether receives come from a shared queue.
    pub(crate) fn rq_is_shared(&self) -> bool {
        self.rq_is_shared
    }

    /// The CQ for completions of requests.
    pub(crate) fn send_out(&self) -> Out<'_> {
        Out {
            cq: &self.scq,
            tag: &self.tag,
        }
    }

    /// The CQ for completions of receives.
    pub(crate) fn recv_out(&self) -> Out<'_> {
        Out {
            cq: &self.rcq,
            tag: &self.tag,
        }
    }

    //= 5044-7.1.2-8: MPA Responder mode implementations MUST receive and validate at least
    //# deviates: for an initiator that agreed to no ready-to-receive message the wait ends
    //# responder_wait_ms milliseconds after it has acknowledged the Reply (0: never:
    //# `tests/vm/cm/ending.py:begins_after_late_reply`, `ending::silence_without_a_limit`), as
    //# siw and programs written for it depend on that; and a Terminate does not wait, whether for
    //# a first FPDU that is bad or for a fault of this end (a completion queue that is full)
    /// Whether tx may send requests and responses.
    pub(crate) fn may_send(&self) -> bool {
        self.may_send.load(Ordering::Acquire)
    }

    /// Sets whether tx may send. If it may not, tx waits for the peer's first FPDU. Returns the
    /// value before. Context: any.
    pub(crate) fn set_may_send(&self, may: bool) -> bool {
        self.may_send.swap(may, Ordering::AcqRel)
    }

    /// Whether the peer's FIN was reached. It sends nothing any more, so waiting for it is no use.
    pub(crate) fn peer_done(&self) -> bool {
        self.peer_done.load(Ordering::Acquire)
    }

    /// Notes that the peer's FIN was reached. Context: any.
    pub(crate) fn set_peer_done(&self) {
        self.peer_done.store(true, Ordering::Release);
    }

    /// Notes the request that the connection fails with. Only the first note counts. `None` is the
    /// Read of connection setup, whose failure no consumer hears of. Context: any.
    pub(crate) fn note_failure(&self, seq: Option<Seq>, status: Status) {
        if let Some(seq) = seq {
            self.failure.lock().get_or_insert((seq, status));
        }
    }

    /// Makes the queues of a QP in ERROR, which are flushed, ready for another connection. Their
    /// positions stay as they are: a process' library goes on where it is in its rings. Context:
    /// sleeping; the QP has no connection, and its consumer posts nothing meanwhile. Errors:
    /// `ENOMEM`, which changes nothing.
    pub(crate) fn reset(&self) -> Result {
        self.sq.reset()?;
        if !self.rq_is_shared {
            self.rq.reset();
        }
        self.may_send.store(false, Ordering::Release);
        self.peer_done.store(false, Ordering::Release);
        self.rnr.reset();
        self.take_failure();
        Ok(())
    }

    /// Makes the queues ready for another connection, as this one has carried nothing: what is
    /// posted stays. Context: sleeping; the QP has no connection.
    pub(crate) fn begin_again(&self) {
        self.may_send.store(false, Ordering::Release);
        self.peer_done.store(false, Ordering::Release);
    }

    /// The request that the connection fails with, and its status. Context: any.
    pub(crate) fn take_failure(&self) -> Option<(Seq, Status)> {
        self.failure.lock().take()
    }
}
