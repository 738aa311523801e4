// SPDX-License-Identifier: GPL-2.0

//! The queue pair.
//!
//! - [`sq`], [`rq`]: the queues, from post to completion.
//! - [`reads`]: RDMA Reads under way in both directions.
//! - [`state`]: the state diagram.
//! - [`number`]: the queue pairs of a device, by number.
//! - [`limits`]: the peer's rights, and the number of RDMA Reads, as the consumer limits them.
//! - [`stream`]: the QP's part in a connection: setup, receiving, closing, losing it.
//! - [`fault`]: faults, and the way to ERROR.
//!
//! Documentation/locking tells who owns what, and which lock guards it.

pub(crate) mod fault;
mod limits;
pub(crate) mod number;
pub(crate) mod reads;
pub(crate) mod rq;
pub(crate) mod sq;
pub(crate) mod state;
pub(crate) mod stream;

use crate::{
    cm,
    counters::Counter,
    cq::{Cq, Notify, Out, Tag},
    device::Device,
    limit::Held,
    pd::Pd,
    rx::Rx,
    tx::Tx,
    wr::Status,
};
use core::sync::atomic::{AtomicBool, Ordering};
use iwarp::Terminate;
use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{Arc, Mutex},
    workqueue::Work,
};
use kext::{
    lock::SpinLockIrq, new_delayed_work, new_spinlock_irq, revocable::Revocable, tx_lock::TxLock,
    work::DelayedWork,
};
use limits::Limits;
use net::SockCell;
use number::QpNumber;
use rdma::{Consumer, Owner, QpHandle};
use reads::InboundReads;
use rq::RecvQueue;
use sq::{SendQueue, Seq};
use state::{State, StateCell};

/// A connection of a queue pair.
pub(crate) type Conn = cm::Conn<Qp>;

/// Data that several contexts set and one context takes; each access is short.
struct Shared {
    /// The connection, from `attach` to the end.
    conn: Option<Arc<Conn>>,
    /// A Terminate that tx is to send.
    terminate: Option<Terminate>,
    /// The first failure: the request that has failed, and its status.
    failure: Option<(Seq, Status)>,
    /// Calls to the consumers of the send and the receive CQ that the worker is to make.
    deferred_notify: (Notify, Notify),
}

/// How far the end of a QP has come.
#[derive(Default)]
struct Teardown {
    /// The queues are flushed.
    flushed: bool,
    /// The consumer has destroyed the QP: `poll_timer` is not armed any more.
    destroyed: bool,
    /// Milliseconds until the timer looks for late receives again.
    pause: u32,
}

/// A reliable connected queue pair.
#[pin_data]
pub(crate) struct Qp {
    pub(crate) dev: Arc<Device>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) tag: Tag,
    handle: QpHandle,
    state: StateCell,
    pub(crate) scq: Arc<Cq>,
    pub(crate) rcq: Arc<Cq>,
    #[pin]
    pub(crate) sq: SendQueue,
    pub(crate) rq: Arc<RecvQueue>,
    rq_is_shared: bool,
    /// Receives that the peer's Sends have taken. Only rx counts them.
    pub(crate) receives: Counter,
    #[pin]
    pub(crate) inbound: InboundReads,
    /// Guarded by the connection's socket lock.
    rx: SockCell<Option<Rx>>,
    /// Locked by the tx actor while it runs.
    pub(crate) tx: TxLock<Option<Tx>>,
    #[pin]
    tx_work: Work<Qp>,
    /// `shared.deferred_notify` has calls for the worker to make.
    has_deferred: AtomicBool,
    /// The worker makes deferred calls while it has access; revoked when the QP is destroyed.
    #[pin]
    notify_gate: Revocable<()>,
    /// This end may send: it is the initiator, or the peer's first FPDU has arrived, or the wait
    /// for that is over.
    may_send: AtomicBool,
    /// The peer's FIN was reached: it sends nothing any more.
    peer_done: AtomicBool,
    /// A Send waits for its receive. A hint for contexts without the socket lock: rx has the truth.
    late: AtomicBool,
    #[pin]
    shared: SpinLockIrq<Shared>,
    /// Serialises the way to ERROR, and late flushes after it.
    #[pin]
    teardown: Mutex<Teardown>,
    /// Polls for events of which nobody tells: memory for TCP, and in ERROR requests and receives
    /// that a process posts late.
    #[pin]
    poll_timer: DelayedWork<Qp>,
    #[pin]
    limits: SpinLockIrq<Limits>,
    consumer: Consumer,
    owner: Owner,
    number: QpNumber,
    _held: Held,
}

impl_has_work! {
    impl HasWork<Self> for Qp { self.tx_work }
}

/// The most requests that complete in one go, with interrupts off. A queue may have 32,768, and a
/// process can have all of them complete at once, as often as it likes.
const BATCH: u32 = 64;

/// The parts that a QP is made of.
pub(crate) struct Parts<S> {
    pub(crate) dev: Arc<Device>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) number: QpNumber,
    pub(crate) handle: QpHandle,
    pub(crate) scq: Arc<Cq>,
    pub(crate) rcq: Arc<Cq>,
    pub(crate) sq: S,
    pub(crate) rq: Arc<RecvQueue>,
    pub(crate) rq_is_shared: bool,
    pub(crate) consumer: Consumer,
    pub(crate) held: Held,
}

impl Qp {
    /// Makes a QP in IDLE. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(p: Parts<impl PinInit<SendQueue>>) -> Result<Arc<Self>> {
        let shared = Shared {
            conn: None,
            terminate: None,
            failure: None,
            deferred_notify: Default::default(),
        };
        let tag = Tag {
            number: p.number.id(),
            token: p.handle.token(),
        };
        let Parts {
            dev,
            pd,
            number,
            handle,
            scq,
            rcq,
            sq,
            rq,
            rq_is_shared,
            consumer,
            held,
        } = p;
        Arc::pin_init(
            pin_init!(Self {
                dev,
                pd,
                tag,
                handle,
                state: StateCell::new(),
                scq,
                rcq,
                sq <- sq,
                rq,
                rq_is_shared,
                receives: Counter::new(),
                inbound <- InboundReads::new(),
                rx: SockCell::new(None),
                tx: TxLock::new(None),
                tx_work <- new_work!("rsiw_tx_work"),
                has_deferred: AtomicBool::new(false),
                notify_gate <- Revocable::new(()),
                may_send: AtomicBool::new(false),
                peer_done: AtomicBool::new(false),
                late: AtomicBool::new(false),
                shared <- new_spinlock_irq!(shared, "rsiw_qp"),
                teardown <- new_mutex!(Teardown::default(), "rsiw_teardown"),
                poll_timer <- new_delayed_work!("rsiw_poll_timer"),
                limits <- new_spinlock_irq!(Limits::new(), "rsiw_qp_limits"),
                owner: Owner::current(consumer),
                consumer,
                number,
                _held: held,
            }),
            consumer.flags(),
        )
    }

    /// The RDMA core's object of this QP.
    pub(crate) fn handle(&self) -> &QpHandle {
        &self.handle
    }

    /// The QP number.
    pub(crate) fn number(&self) -> u32 {
        self.tag.number
    }

    /// The kind of consumer that uses the QP.
    pub(crate) fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// The owner: a process, or the kernel.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.state.get()
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

    /// Calls the consumer's handler for completions in the send CQ, as `n` says. Context: any, no
    /// lock held.
    pub(crate) fn after_send(self: &Arc<Self>, n: Notify) {
        self.after(&self.scq, n);
    }

    /// Calls the consumer's handler for completions in the receive CQ, as `n` says. Context: any,
    /// no lock held.
    pub(crate) fn after_recv(self: &Arc<Self>, n: Notify) {
        self.after(&self.rcq, n);
    }

    /// Has the worker call the consumers, for a caller that must not: a verb must not call back
    /// from within (Documentation/infiniband/core_locking.rst). Context: any.
    pub(crate) fn defer_notify(self: &Arc<Self>, send: Notify, recv: Notify) {
        if send == Notify::default() && recv == Notify::default() {
            return;
        }
        {
            let deferred_notify = &mut self.shared.lock().deferred_notify;
            deferred_notify.0 |= send;
            deferred_notify.1 |= recv;
        }
        self.has_deferred.store(true, Ordering::Release);
        self.wake_tx();
    }

    /// Makes the deferred calls. Context: worker.
    pub(crate) fn flush_notify(self: &Arc<Self>) {
        // `defer_notify` sets the flag after it has released the lock and before it wakes tx. So a
        // call that is missed here is made when the worker runs for that wake-up.
        if !self.has_deferred.load(Ordering::Acquire) {
            return;
        }
        if let Some(_inside) = self.notify_gate.try_access() {
            self.make_calls();
        }
    }

    /// Makes the deferred calls, and prevents others from now on: a consumer may free what its
    /// handlers use once its QP is destroyed. All calls are made, as a CQ that was armed for one of
    /// them may serve other QPs, too. Context: sleeping; the consumer posts nothing any more.
    pub(super) fn end_notify(self: &Arc<Self>) {
        // Waits until the worker, if it is making such calls, has made them.
        self.notify_gate.revoke();
        self.make_calls();
    }

    fn make_calls(self: &Arc<Self>) {
        if !self.has_deferred.swap(false, Ordering::AcqRel) {
            return;
        }
        let (send, recv) = core::mem::take(&mut self.shared.lock().deferred_notify);
        self.after_send(send);
        self.after_recv(recv);
    }

    #[inline]
    fn after(self: &Arc<Self>, cq: &Cq, n: Notify) {
        if n == Notify::default() {
            return;
        }
        cq.notify(n);
        if n.lost {
            self.cq_overflow();
        }
    }
}
