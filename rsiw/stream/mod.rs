// SPDX-License-Identifier: GPL-2.0

//! The stream of a queue pair: the machine that carries out what is in its queues.
//!
//! It has a half for each direction ([`crate::tx`], [`crate::rx`]), which know the queues and the
//! transport, but neither each other nor the connection. What they find, it acts on.
//!
//! - [`absent_peer`]: a peer that is not there, as InfiniBand has it.
//! - [`connection`]: the stream's part in a connection: setup, closing, losing it.
//! - [`silent_peer`]: a peer of which nothing comes any more.
//! - [`sched`]: which thread runs tx, and for how long.
//! - [`receive`], [`bulk`]: which thread receives, and when.
//! - [`fault`]: faults of a connection. [`teardown`]: the way to ERROR, and the end.
//! - [`sqd`]: the send queue drains, and is held.
//! - [`notify`]: the consumer's calls for completions.
//! - [`poll_timer`]: a timer for events of which nobody tells.
//! - [`reset`]: the way back from ERROR, for another connection.
//! - [`limits`]: the peer's rights, and the number of RDMA Reads, as the consumer limits them.
//!
//! Documentation/locking tells who owns what, and which lock guards it.

mod absent_peer;
mod bulk;
mod connection;
mod fault;
mod limits;
mod notify;
mod poll_timer;
mod receive;
mod reset;
mod sched;
mod silent_peer;
mod sqd;
mod teardown;

use crate::{
    cm,
    counters::Traffic,
    cq::Notify,
    device::Device,
    queue::{self, sq::SendQueue, Queues, Seq},
    quota::{Account, Held},
    rx::Rx,
    tx::Tx,
    wr::Status,
};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
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
use net::{Identity, SockCell};
use rdma::{Consumer, Owner, QpHandle};

pub(crate) use crate::cm::rc::Way;
pub(crate) use absent_peer::time_to_retry;

// The numbers of a stream's work items, and those of its timers.

/// Runs tx.
const TX: u64 = 0;
/// Receives bulk data.
const BULK: u64 = 1;
/// Looks for the receive that a Send waits for.
const LATE: u64 = 1;
/// Runs out when a request has waited for its peer for long enough; looks after a peer.
const RETRY: u64 = 2;

/// A connection of a stream.
pub(crate) type Conn = cm::Conn<Stream>;

// What an idle connection costs: with its count of references, 768 bytes, where locks and work
// items have no debugging. A change that makes it larger is made on purpose.
#[cfg(not(any(
    CONFIG_DEBUG_LOCK_ALLOC,
    CONFIG_DEBUG_MUTEXES,
    CONFIG_DEBUG_SPINLOCK,
    CONFIG_LOCKDEP,
    CONFIG_PREEMPT_RT
)))]
const _: () = {
    assert!(core::mem::size_of::<Conn>() <= 760);
    // Beyond 4096 bytes a queue pair would take 8192.
    assert!(core::mem::size_of::<Stream>() <= 4088);
};

/// A stream that its program has connected by name.
pub(crate) type Endpoint = cm::rc::Endpoint<Stream>;

/// What a device has for streams that are called by name.
pub(crate) type Doors = cm::rc::Doors<Stream>;

/// Data that several contexts set and one context takes; each access is short.
struct Shared {
    /// The connection, from `attach` to the end.
    conn: Option<Arc<Conn>>,
    /// What TCP had counted for connections before this one, attempts that were repeated:
    /// retransmissions, and segments out of order.
    tcp_before: (u64, u64),
    /// A Terminate that tx is to send.
    terminate: Option<Terminate>,
    /// The FIN may be sent, or is sent: no Terminate can follow.
    fin: bool,
    /// Calls to the consumers of the send and the receive CQ that the worker is to make.
    deferred_notify: (Notify, Notify),
    /// One of the device's QPs, until the QP is destroyed. Connections have shares in it.
    account: Option<Arc<Account>>,
}

impl Shared {
    /// Notes what TCP has counted so far. The lock is held, so a later value is never overwritten
    /// by an earlier one.
    fn sample(&self, counters: &Traffic) {
        if let Some(conn) = &self.conn {
            let (socket, (retransmits, out_of_order)) = (conn.socket(), self.tcp_before);
            let of = |before: u64, now: u32| before.wrapping_add(now.into());
            counters
                .tcp_retransmits
                .set(of(retransmits, socket.retransmits()));
            counters
                .tcp_out_of_order
                .set(of(out_of_order, socket.out_of_order()));
        }
    }

    /// Takes the connection, after a last look at what TCP has counted.
    fn leave_conn(&mut self, counters: &Traffic) -> Option<Arc<Conn>> {
        self.sample(counters);
        self.tcp_before = (
            counters.tcp_retransmits.get(),
            counters.tcp_out_of_order.get(),
        );
        self.conn.take()
    }
}

/// How far the end of a stream has come.
#[derive(Default)]
struct Teardown {
    /// The queues are flushed.
    flushed: bool,
    /// The consumer has destroyed the QP: `poll_timer` is not armed any more.
    destroyed: bool,
    /// Milliseconds until the timer looks for late posts again.
    pause: u32,
    /// The receive that was being filled when the peer went, and its status.
    filling: Option<(u64, Status)>,
    /// There is a connection that carries requests.
    connected: bool,
    /// A request waits for a peer.
    unanswered: Option<Unanswered>,
    /// Since when it had waited, when the connection came that there is.
    waited_since: Option<u32>,
    /// The peer of the connection that there is says nothing, while requests are under way.
    silence: Option<Silence>,
    /// The next request when none was under way.
    at_rest: Seq,
}

/// Since when the oldest request waits for a peer, and when it fails for lack of one, in
/// milliseconds of a clock that wraps.
struct Unanswered {
    since: u32,
    until: u32,
}

/// A peer that has said nothing since a look, in milliseconds of a clock that wraps.
struct Silence {
    since: u32,
    /// What counted of it at the last look.
    silent: u32,
    /// At the last look the peer had something to acknowledge.
    in_flight: bool,
    /// How long it may last.
    most: u32,
}

/// Tx, and the connection that it sends on.
struct Sender {
    tx: Tx,
    conn: Arc<Conn>,
}

/// The stream of a queue pair. It is there before it has a connection, and has one at the most.
#[pin_data]
pub(crate) struct Stream {
    #[pin]
    pub(crate) queues: Queues,
    handle: QpHandle,
    /// Guarded by the connection's socket lock.
    rx: SockCell<Option<Rx>>,
    /// Locked by the tx actor while it runs.
    tx: TxLock<Option<Sender>>,
    #[pin]
    tx_work: Work<Stream, TX>,
    #[pin]
    bulk_work: Work<Stream, BULK>,
    /// Rate at which data comes.
    bulk_detector: bulk::BulkDetector,
    /// Armed only with the socket locked.
    #[pin]
    late_timer: DelayedWork<Stream, LATE>,
    /// `late_timer` is armed and has not begun to run.
    late_timer_armed: AtomicBool,
    /// A Send waits for its receive. A hint for contexts without the socket lock: rx has the truth.
    late: AtomicBool,
    /// Polls for events of which nobody tells: memory for TCP, and in ERROR requests and receives
    /// that a process posts late.
    #[pin]
    poll_timer: DelayedWork<Stream>,
    #[pin]
    retry_timer: DelayedWork<Stream, RETRY>,
    /// `retry_timer` looks after the peer, or nothing has to.
    watched: AtomicBool,
    /// `shared.deferred_notify` has calls for the worker to make.
    has_deferred: AtomicBool,
    /// The worker makes deferred calls while it has access; revoked when the QP is destroyed.
    #[pin]
    notify_gate: Revocable<()>,
    #[pin]
    shared: SpinLockIrq<Shared>,
    /// How often the QP has been reset. Changed with `teardown` and `shared` locked.
    life: AtomicU32,
    /// Serialises the way to ERROR, late flushes after it, and the way back.
    #[pin]
    teardown: Mutex<Teardown>,
    #[pin]
    limits: SpinLockIrq<Limits>,
    owner: Owner,
}

impl_has_work! {
    impl HasWork<Self, TX> for Stream { self.tx_work }
    impl HasWork<Self, BULK> for Stream { self.bulk_work }
}

impl Stream {
    /// Makes a stream without a connection, of a QP of `consumer`. Context: sleeping. Errors:
    /// `ENOMEM`.
    pub(crate) fn new(
        queues: queue::Parts<impl PinInit<SendQueue>>,
        handle: QpHandle,
        consumer: Consumer,
        held: Held,
    ) -> Result<Arc<Self>> {
        let shared = Shared {
            conn: None,
            tcp_before: (0, 0),
            terminate: None,
            fin: false,
            deferred_notify: Default::default(),
            account: Some(Account::new(held, consumer.flags())?),
        };
        let (limits, is_rc) = (Limits::new(&queues.dev, true), queues.dev.is_rc());
        Arc::pin_init(
            pin_init!(Self {
                queues <- Queues::new(queues),
                handle,
                rx: SockCell::new(None),
                tx: TxLock::new(None),
                tx_work <- new_work!("rsiw_tx_work"),
                bulk_work <- new_work!("rsiw_bulk_work"),
                bulk_detector: bulk::BulkDetector::new(),
                late_timer <- new_delayed_work!("rsiw_late_timer"),
                late_timer_armed: AtomicBool::new(false),
                late: AtomicBool::new(false),
                poll_timer <- new_delayed_work!("rsiw_poll_timer"),
                retry_timer <- new_delayed_work!("rsiw_retry_timer"),
                watched: AtomicBool::new(!is_rc),
                has_deferred: AtomicBool::new(false),
                notify_gate <- Revocable::new(()),
                shared <- new_spinlock_irq!(shared, "rsiw_stream"),
                life: AtomicU32::new(0),
                teardown <- new_mutex!(Teardown::default(), "rsiw_teardown"),
                limits <- new_spinlock_irq!(limits, "rsiw_qp_limits"),
                owner: Owner::current(consumer),
            }),
            consumer.flags(),
        )
    }

    /// The RDMA core's object of the QP.
    pub(crate) fn handle(&self) -> &QpHandle {
        &self.handle
    }

    /// The owner: a process, or the kernel.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The number of the QP's life: how often it has been reset. A call that was begun in one life
    /// has no effect on a later one, whose connection is another. Context: any.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Relaxed)
    }

    /// The device.
    fn dev(&self) -> &Arc<Device> {
        &self.queues.dev
    }

    /// The cookie of the connection's socket, if there is a connection. Context: sleeping.
    pub(crate) fn tcp_cookie(&self) -> Option<u64> {
        Some(self.conn()?.socket().cookie())
    }

    /// Notes what TCP has counted for the connection, which nobody tells of. Context: any, without
    /// the lock of `shared`.
    pub(crate) fn sample(&self) {
        self.shared.lock().sample(&self.queues.counters);
    }

    /// Whom TLS has shown the peer to be, if there is a connection with TLS. Context: any.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.conn()?.identity()
    }

    /// The connection, if there is one. Context: any, without the lock of `shared`.
    fn conn(&self) -> Option<Arc<Conn>> {
        self.shared.lock().conn.clone()
    }
}
