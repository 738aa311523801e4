// SPDX-License-Identifier: GPL-2.0

//! The queue pair.
//!
//! - [`sq`], [`rq`]: the queues, from post to completion.
//! - [`reads`]: RDMA Reads under way in both directions.
//! - [`state`]: the state diagram.
//! - [`number`]: the queue pairs of a device, by number.
//! - [`limits`]: what the consumer allows the peer, and how many Reads.
//! - [`stream`]: life with a connection: set up, receive, close, lose it.
//! - [`fault`]: what goes wrong, and the way to ERROR.
//!
//! Who owns what, and which lock guards it, is told in Documentation/locking.

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

/// What several contexts set and one acts on; each access is short.
struct Shared {
    /// The connection, from `attach` to the end.
    conn: Option<Arc<Conn>>,
    /// A Terminate that tx is to send.
    terminate: Option<Terminate>,
    /// The first failure: the request that it belongs to, and its status.
    failure: Option<(Seq, Status)>,
    /// Calls that are owed to the consumers of the send and the receive CQ.
    deferred_notify: (Notify, Notify),
}

/// How far a QP's end has come.
#[derive(Default)]
struct Teardown {
    /// The queues are flushed.
    flushed: bool,
    /// The consumer has destroyed the QP: no timer any more.
    destroyed: bool,
    /// Milliseconds to the next look for late receives.
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
    /// Receives that the peer's Sends took. Counted by rx alone.
    pub(crate) receives: Counter,
    #[pin]
    pub(crate) inbound: InboundReads,
    /// Guarded by the connection's socket lock.
    rx: SockCell<Option<Rx>>,
    /// Locked by the tx actor while it runs.
    pub(crate) tx: TxLock<Option<Tx>>,
    #[pin]
    tx_work: Work<Qp>,
    /// Calls are owed to consumers.
    has_deferred: AtomicBool,
    /// The worker makes them inside; closed when the QP is destroyed.
    #[pin]
    notify_gate: Revocable<()>,
    /// A responder may send: the peer's first FPDU has arrived.
    may_send: AtomicBool,
    /// The peer sends nothing any more.
    peer_done: AtomicBool,
    /// A Send waits for its receive. A hint: rx knows.
    late: AtomicBool,
    #[pin]
    shared: SpinLockIrq<Shared>,
    /// Serialises the way to ERROR, and what comes after.
    #[pin]
    teardown: Mutex<Teardown>,
    /// Looks for what nobody tells: memory for TCP, and in ERROR what a process posts late.
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

/// How many requests complete in one go, with interrupts off. A queue may have 32,768, and a process
/// can have all of them complete at once, as often as it likes.
const BATCH: u32 = 64;

/// What a QP is made of.
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
    /// A QP in IDLE. Context: sleeping. Errors: `ENOMEM`.
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

    /// The core's side of this QP.
    pub(crate) fn handle(&self) -> &QpHandle {
        &self.handle
    }

    /// The QP number.
    pub(crate) fn number(&self) -> u32 {
        self.tag.number
    }

    /// Who uses it.
    pub(crate) fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Whose it is.
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

    /// Whether what the peer sends counts. It does not behind an error, whoever's it is, before the
    /// connection is closed for it.
    #[inline]
    pub(crate) fn may_receive(&self) -> bool {
        matches!(self.state(), State::Rts | State::Closing)
    }

    /// Whether receives come from a shared queue.
    pub(crate) fn rq_is_shared(&self) -> bool {
        self.rq_is_shared
    }

    /// Where completions of requests go.
    pub(crate) fn send_out(&self) -> Out<'_> {
        Out {
            cq: &self.scq,
            tag: &self.tag,
        }
    }

    /// Where completions of receives go.
    pub(crate) fn recv_out(&self) -> Out<'_> {
        Out {
            cq: &self.rcq,
            tag: &self.tag,
        }
    }

    /// Calls the consumer for what was published in the send CQ. Context: any, no lock held.
    pub(crate) fn after_send(self: &Arc<Self>, n: Notify) {
        self.after(&self.scq, n);
    }

    /// Calls the consumer for what was published in the receive CQ. Context: any, no lock held.
    pub(crate) fn after_recv(self: &Arc<Self>, n: Notify) {
        self.after(&self.rcq, n);
    }

    /// Has the worker call the consumers, for who may not do it itself: a verb must not call back
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

    /// Makes the calls that are owed. Context: worker.
    pub(crate) fn flush_notify(self: &Arc<Self>) {
        // Set behind the lock and before the wake-up, so what is missed here comes with another.
        if !self.has_deferred.load(Ordering::Acquire) {
            return;
        }
        if let Some(_inside) = self.notify_gate.try_access() {
            self.make_calls();
        }
    }

    /// Makes the calls that are owed, and none from now on: a consumer may free what its handlers use
    /// once its QP is destroyed. A CQ that was armed for one of these calls may serve other QPs, too, so
    /// none is left out. Context: sleeping; the consumer posts nothing any more.
    pub(super) fn end_notify(self: &Arc<Self>) {
        // Waits for the worker if that makes some.
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
