// SPDX-License-Identifier: GPL-2.0

//! A connection: its socket, its events and its actor.
//!
//! Each event, in whatever context, sets a bit in [`Conn::events`] and wakes the connection's
//! actor, [`Actor::act`]. Received data is the exception while a queue pair owns the stream: see
//! [`receive`].

mod actor;
mod receive;
pub(super) mod time;
mod trace;

use super::{
    events::{Event, PendingEvents},
    order::{OrderEntry, Ordered},
    registry::{InOrder, Registry},
    Close, User,
};
use crate::{device::Device, quota::Share, settings::Settings, transport::Transport};
use core::{
    fmt::Arguments,
    format_args,
    mem::replace,
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering},
};
use kernel::{
    alloc::flags::GFP_NOWAIT,
    error::to_result,
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{Arc, ArcBorrow, Mutex, SetOnce},
    time::{Instant, Monotonic},
    workqueue::{Work, WorkItem},
};
use kext::{
    lock::SpinLockIrq,
    new_delayed_work, new_spinlock_irq,
    noio::noio,
    work::{DelayedWork, DelayedWorkItem},
};
use net::{HandshakeOwner, Identity, PagePool, TcpSocket, TcpState, TxBatch};
use rdma::Consumer;

/// Logs a message about a connection's peer. Each use has a rate limit of its own: peers that
/// nobody knows can fail as often as they like, which must not suppress the names of the others.
macro_rules! log_peer {
    ($conn:expr, $what:expr) => {
        if let Some(handle) = $conn.dev().handle() {
            let name = handle.name();
            match $conn.peer() {
                Some(peer) => kext::ratelimited_info!(name, "peer {peer}: {}\n", $what),
                None => kext::ratelimited_info!(name, "{}\n", $what),
            }
        }
    };
}

/// Who receives the data of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum RxOwner {
    /// The connection's actor, frame by frame.
    Actor = 0,
    /// The user of the stream.
    User = 1,
    /// Nobody: data is thrown away until the peer's FIN.
    Nobody = 2,
}

/// The actor of the connections of a user. [`stage`](super::stage) implements it for all users, so
/// that a connection need not know its stages, which all know the connection.
pub(super) trait Actor: User {
    /// What a connection is in between its steps. By default it has not begun, or is over.
    type Stage: Default + Send;

    /// Makes one step of `conn`, if [`Conn::try_stage`] has something to do. Context: sleeping.
    fn act(conn: &Arc<Conn<Self>>);
}

/// The stage of a connection.
type Stage<U> = <U as Actor>::Stage;

/// The connections of a device.
pub(crate) type Conns<U> = Registry<Conn<U>>;

impl<U: User> Conns<U> {
    /// Tells the connection with the key `serial` that it is its turn, if it is not over. Context:
    /// process.
    pub(super) fn give_turn(&self, serial: u64) {
        if let Some(conn) = self.get(serial) {
            conn.notify(Event::Turn);
        }
    }
}

/// One TCP connection of a device.
#[pin_data]
pub(crate) struct Conn<U: User> {
    /// The connections of the device; also leads to the device.
    pub(super) registry: Arc<Conns<U>>,
    /// Key of the connection in the registry.
    pub(super) serial: u64,
    socket: TcpSocket,
    events: PendingEvents,
    /// The strongest [`Close`] asked for, or 0.
    how: AtomicU32,
    /// The first error that TCP reported, as a negative errno, or 0.
    error: AtomicI32,
    /// An [`RxOwner`]. It changes only with the socket locked.
    rx_owner: AtomicU32,
    /// The peer's first FPDU has come.
    started: AtomicBool,
    born: Instant<Monotonic>,
    /// The [`Conn::age`], in milliseconds, at which the timer runs out.
    deadline: AtomicI64,
    /// Address of the peer, for the log.
    peer: SetOnce<SocketAddr>,
    /// Whom the TLS handshake has shown the peer to be.
    identity: SetOnce<Identity>,
    /// The user of the stream. Set before the stream is given to it.
    user: SetOnce<Arc<U>>,
    /// What the connection counts as. Set when the user takes it.
    account: SetOnce<Share>,
    /// The batch that a closing queue pair left unsent.
    #[pin]
    rest: Mutex<Option<KBox<TxBatch>>>,
    #[pin]
    work: Work<Conn<U>>,
    #[pin]
    pub(super) timer: DelayedWork<Conn<U>>,
    /// The order in which steps are made until the queue pair runs.
    order: InOrder<Conn<U>>,
    /// Place of the connection in `order`.
    #[pin]
    turn: SpinLockIrq<OrderEntry<Conn<U>>>,
    /// The connection belongs to a process.
    of_process: AtomicBool,
    /// The current stage. The actor only tries to lock it: see [`Conn::try_stage`].
    #[pin]
    stage: Mutex<Stage<U>>,
}

impl<U: User> HandshakeOwner for Conn<U> {
    fn socket(&self) -> &TcpSocket {
        &self.socket
    }

    fn handshake_done(this: ArcBorrow<'_, Self>) {
        Self::wake(this, Event::Tls);
    }
}

impl_has_work! {
    impl{U: User} HasWork<Self> for Conn<U> { self.work }
}

impl<U: User> WorkItem for Conn<U> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        noio(|| U::act(&this));
    }
}

impl<U: User> Ordered for Conn<U> {
    fn dev(&self) -> &Device {
        &self.registry.dev
    }

    fn turn(&self) -> &SpinLockIrq<OrderEntry<Self>> {
        &self.turn
    }

    fn act(self: &Arc<Self>) {
        U::act(self);
    }
}

impl<U: User> DelayedWorkItem for Conn<U> {
    fn expire(this: Arc<Self>) {
        this.notify(Event::Timeout);
    }
}

impl<U: User> Conn<U> {
    /// The settings of the device.
    pub(super) fn settings(&self) -> &Settings {
        &self.dev().settings
    }

    /// The device.
    pub(super) fn dev(&self) -> &Arc<Device> {
        &self.registry.dev
    }

    /// The pool that takes the pages that this connection's batches have filled.
    pub(super) fn tx_pages(&self) -> &Arc<PagePool> {
        &self.dev().tx_pages
    }

    /// An empty batch to send on this connection.
    pub(crate) fn new_batch(&self) -> TxBatch {
        TxBatch::new(Some(self.tx_pages().clone()))
    }

    /// What carries the stream.
    #[inline]
    pub(crate) fn transport(&self) -> &impl Transport {
        &self.socket
    }

    /// Makes a connection of a socket, enters it in the device's registry and installs its
    /// callbacks. Its first steps are made in `order`. `first` makes the first stage. Until it
    /// returns, the stage is locked, and events wait.
    ///
    /// Context: sleeping.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` if the device is going away; the errors of `first`. The connection is
    /// over then.
    pub(super) fn start<S: Into<Stage<U>>>(
        registry: &Arc<Conns<U>>,
        socket: TcpSocket,
        order: InOrder<Self>,
        first: impl FnOnce(&Arc<Self>) -> Result<S>,
    ) -> Result<Arc<Self>> {
        let consumer = order.consumer();
        let turn = OrderEntry::new()?;
        let conn = Arc::pin_init(
            try_pin_init!(Self {
                registry: registry.clone(),
                serial: registry.next_serial(),
                socket,
                events: PendingEvents::new(),
                how: AtomicU32::new(0),
                error: AtomicI32::new(0),
                rx_owner: AtomicU32::new(RxOwner::Actor as u32),
                started: AtomicBool::new(false),
                born: Instant::now(),
                deadline: AtomicI64::new(i64::MAX),
                peer: SetOnce::new(),
                identity: SetOnce::new(),
                user: SetOnce::new(),
                account: SetOnce::new(),
                rest <- new_mutex!(None, "rsiw_conn_rest"),
                work <- new_work!("rsiw_conn"),
                timer <- new_delayed_work!("rsiw_conn_timer"),
                order,
                turn <- new_spinlock_irq!(turn, "rsiw_turn"),
                of_process: AtomicBool::new(consumer == Consumer::Process),
                stage <- new_mutex!(Stage::<U>::default(), "rsiw_conn_stage"),
            }? Error),
            GFP_KERNEL,
        )?;
        // Lock the stage before the registry knows the connection: from then on the device may tell
        // it to leave, which must wait for the first stage.
        let mut stage = conn.stage.lock();
        registry.enter(conn.serial, &conn)?;
        let attached = conn.socket.attach(conn.clone());
        match attached.and_then(|()| first(&conn)) {
            Ok(first) => *stage = first.into(),
            Err(e) => {
                conn.leave();
                return Err(e);
            }
        }
        drop(stage);
        if conn.has_news() {
            conn.notify(Event::Socket);
        }
        conn.look_again();
        Ok(conn)
    }

    /// Whether an event came before the callbacks were installed. No callback reports that one.
    ///
    /// A connection must not be woken without need. That would be a step too early, and the next
    /// event would queue the connection behind those of its order that began later.
    fn has_news(&self) -> bool {
        let quiet = matches!(
            self.socket.state(),
            TcpState::SynSent | TcpState::Established
        );
        !quiet || self.socket.bytes_received() != 0
    }

    /// Has the actor make another step if the peer has gone. Context: sleeping.
    pub(super) fn look_for_end(self: &Arc<Self>) {
        if self.error().is_some() || self.socket.state() != TcpState::Established {
            self.notify(Event::Socket);
        }
    }

    /// Undoes [`Conn::start`]: stops the timer, detaches the callbacks, stops receiving, and
    /// removes the connection from the registry. A run of the actor that is still queued finds that
    /// the connection is over. Context: sleeping.
    pub(super) fn leave(&self) {
        self.clear_timeout();
        self.socket.detach();
        {
            let _sk = self.socket.lock();
            self.rx_owner
                .store(RxOwner::Nobody as u32, Ordering::Release);
        }
        self.registry.remove(self.serial);
    }

    /// The socket, as long as there is a reference to the connection. Once the connection is
    /// closed, sends fail with `EPIPE`.
    pub(crate) fn socket(&self) -> &TcpSocket {
        &self.socket
    }

    /// Notes the peer's address. Context: sleeping.
    pub(super) fn note_peer(&self, peer: SocketAddr) {
        self.peer.populate(peer);
    }

    /// The peer's address, once it is known. Context: any.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer.copy()
    }

    /// Whom the TLS handshake has shown the peer to be, if there was one. Context: any.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity.copy()
    }

    /// Notes, and logs, whom the TLS handshake has shown the peer to be. Context: sleeping.
    pub(super) fn note_identity(&self, peer: Identity) {
        log_peer!(self, format_args!("TLS with \"{peer}\""));
        self.identity.populate(peer);
    }

    /// Notes why the stream is broken, if nothing was noted before, and wakes the actor. Context:
    /// any.
    fn note_error(this: ArcBorrow<'_, Self>, reason: Error) {
        let errno = reason.to_errno();
        // Keep the first error.
        let _ = this
            .error
            .compare_exchange(0, errno, Ordering::Release, Ordering::Relaxed);
        Self::wake(this, Event::Socket);
    }

    /// Counts the connection as one more of `account` from now to its end: it may linger when the
    /// user is gone, or has another one. Context: any.
    pub(crate) fn count_in(&self, account: Share) {
        self.account.populate(account);
    }

    /// Has the actor close the connection. Of several calls the strongest [`Close`] counts.
    /// Context: any.
    pub(crate) fn close(self: &Arc<Self>, how: Close) {
        self.how.fetch_max(how as u32, Ordering::Relaxed);
        self.notify(Event::Close);
    }

    /// Resets TCP's connection now, and has the actor close this one. Context: sleeping.
    pub(crate) fn reset(self: &Arc<Self>) {
        self.socket.abort();
        self.close(Close::Abort);
    }

    /// Takes the batch that TCP had no room for, to be sent in front of the FIN. The queue pair
    /// calls it before it closes. Context: sleeping.
    pub(crate) fn take_over(self: &Arc<Self>, rest: TxBatch) {
        // The allocation must not wait: reclaim may write back to storage that waits for this queue
        // pair to be gone.
        let begun = rest.is_begun();
        match KBox::new(rest, GFP_NOWAIT) {
            Ok(rest) => *self.rest.lock() = Some(rest),
            // The stream ends in the middle of an FPDU. A FIN would not tell the peer so; a reset
            // does.
            Err(_) if begun => self.close(Close::Abort),
            // The peer does without answers.
            Err(_) => {}
        }
    }

    /// Returns the batch to send in front of the FIN.
    pub(super) fn take_rest(&self) -> Option<KBox<TxBatch>> {
        self.rest.lock().take()
    }

    /// Notes that the queue pair found a fault and is about to send a Terminate. Afterwards the
    /// queue pair calls [`Conn::close`]; if it takes too long, the connection is reset. Context:
    /// any.
    pub(crate) fn faulted(self: &Arc<Self>) {
        self.notify(Event::Fault);
    }

    /// The user's answer to [`User::drain`]: it has handed everything to TCP. Context: any.
    pub(crate) fn tx_drained(self: &Arc<Self>) {
        self.notify(Event::Drained);
    }

    /// Notes that the peer's first FPDU has come. Context: any.
    pub(crate) fn first_fpdu_seen(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    /// Whether the peer's first FPDU has come.
    pub(super) fn peer_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// The strongest [`Close`] that was asked for, if any.
    pub(super) fn requested_close(&self) -> Option<Close> {
        match self.how.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Close::Graceful),
            2 => Some(Close::Flush),
            _ => Some(Close::Abort),
        }
    }

    /// The error with which TCP ended the connection, if it did.
    pub(super) fn error(&self) -> Option<Error> {
        to_result(self.error.load(Ordering::Acquire)).err()
    }

    /// The consumer that the connection belongs to. A connection that has no consumer yet counts as
    /// the kernel's.
    pub(super) fn consumer(&self) -> Consumer {
        if self.of_process.load(Ordering::Relaxed) {
            Consumer::Process
        } else {
            Consumer::Kernel
        }
    }

    /// The connection belongs to `consumer` from now on.
    pub(super) fn belongs_to(&self, consumer: Consumer) {
        self.of_process
            .store(consumer == Consumer::Process, Ordering::Relaxed);
    }

    /// Takes the connection out of its order: later steps need none. Context: any.
    pub(super) fn needs_no_order(&self) {
        let turn = replace(&mut *self.turn.lock(), OrderEntry::Over);
        // Drop it unlocked, as that may free memory.
        drop(turn);
    }

    /// Logs why there is no connection, at a limited rate. Context: any.
    pub(super) fn log_failure(&self, why: Arguments<'_>) {
        log_peer!(self, why);
    }

    /// Logs that a peer that TLS has verified is refused, at a limited rate. Context: any.
    pub(super) fn log_refusal(&self, why: Arguments<'_>) {
        log_peer!(self, why);
    }
}
