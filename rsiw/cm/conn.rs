// SPDX-License-Identifier: GPL-2.0

//! A connection: its socket, what happened to it, and its callbacks.
//!
//! Whatever happens, in whatever context, becomes a bit in [`Conn::events`] and a wake-up of the
//! actor, which is [`Conn::act`]. Received data is the exception while a queue pair owns the
//! stream: `data_ready` then calls [`User::readable`] at once, under the socket lock, or has the job
//! [`Conn::bulk`] do it, if much has come, or comes all the time. A Send that waits for its receive
//! stays in the socket; the timer [`Conn::late`] looks for the receive.

use super::{
    bulk::BulkDetector, order::Turn, registry::InOrder, registry::Registry, stage::Stage, timeout,
    Close, User,
};
use crate::device::{self, Device};
use core::{
    fmt::Arguments,
    mem::replace,
    net::SocketAddr,
    sync::atomic::{fence, AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering},
};
use kernel::{
    alloc::flags::GFP_NOWAIT,
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{Arc, ArcBorrow, Mutex, SetOnce},
    time::{Instant, Monotonic},
};
use kext::{
    lock::SpinLockIrq,
    new_delayed_work, new_owned_work, new_spinlock_irq,
    work::{DelayedWork, DelayedWorkItem, OwnedWork, OwnedWorkItem},
};
use net::{LockedSock, PagePool, SockCallbacks, TcpSocket, TcpState, TxBatch};
use rdma::Consumer;

/// How much earlier than asked for a timer may run out, in milliseconds.
const TICK: i64 = 20;

/// The job that receives what comes in bulk, and the one that does so in turn with processes.
const BULK: u64 = 1;
const BULK_IN_TURN: u64 = 2;

/// The timer that looks for a receive.
const LATE: u64 = 1;

/// So many octets that wait are bulk: more than one message that somebody waits for, or one that takes
/// longer than the way to a worker.
const BULK_LEN: usize = 32 << 10;

/// Octets that the job receives at a time, before others get the CPU, and those the socket who want to
/// send.
const BULK_BUDGET: usize = 1 << 20;

/// Who receives.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum RxOwner {
    /// The actor, frame by frame.
    Actor = 0,
    /// The queue pair.
    User = 1,
    /// Nobody: data is thrown away on the way to the FIN.
    Nobody = 2,
}

/// What happened since the actor looked last.
#[derive(Clone, Copy)]
pub(super) struct Events(u32);

impl Events {
    /// Something about the socket: data, FIN, state, error.
    pub(super) const SOCKET: u32 = 1 << 0;
    /// The timer ran out.
    pub(super) const TIMEOUT: u32 = 1 << 1;
    /// [`Conn::close`] was called; how is in [`Conn::how`].
    pub(super) const CLOSE: u32 = 1 << 2;
    /// The queue pair has sent all it had.
    pub(super) const DRAINED: u32 = 1 << 3;
    /// The peer's FIN was reached at an FPDU boundary.
    pub(super) const EOF: u32 = 1 << 4;
    /// The peer's FIN was reached elsewhere.
    pub(super) const CUT: u32 = 1 << 5;
    /// The queue pair is about to send a Terminate.
    pub(super) const FAULT: u32 = 1 << 6;
    /// The device is about to be removed.
    pub(super) const LEAVE: u32 = 1 << 7;
    /// Another connection needs the slot of this one, if its Request is not there.
    pub(super) const GIVE_WAY: u32 = 1 << 8;

    /// Whether any of `bits` happened.
    pub(super) fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
}

/// One TCP connection of a device.
#[pin_data]
pub(crate) struct Conn<U: User> {
    /// Of the device's connections, and through it the device.
    pub(super) registry: Arc<Registry<U>>,
    /// Its key in the registry.
    pub(super) serial: u64,
    socket: TcpSocket,
    events: AtomicU32,
    /// The strongest [`Close`] asked for, or 0.
    how: AtomicU32,
    /// The first error TCP reported, as a negative errno, or 0.
    error: AtomicI32,
    /// A [`RxOwner`]; changed with the socket locked.
    rx_owner: AtomicU32,
    /// Of what the queue pair receives.
    bulk_detector: BulkDetector,
    /// The peer's first FPDU came.
    started: AtomicBool,
    born: Instant<Monotonic>,
    /// The [`Conn::age`] at which the timer runs out.
    deadline: AtomicI64,
    /// Who is at the other end, for the log.
    peer: SetOnce<SocketAddr>,
    /// Who uses the stream, from the moment that it can be called.
    user: SetOnce<Arc<U>>,
    /// What the queue pair leaves to be sent.
    #[pin]
    rest: Mutex<Option<KBox<TxBatch>>>,
    #[pin]
    job: OwnedWork<Conn<U>>,
    #[pin]
    bulk: OwnedWork<Conn<U>, BULK>,
    /// Each belongs to one work queue, or who cancels it could not wait for it.
    #[pin]
    bulk_in_turn: OwnedWork<Conn<U>, BULK_IN_TURN>,
    /// Set with the socket locked, and while the queue pair receives.
    #[pin]
    late: DelayedWork<Conn<U>, LATE>,
    /// It is set, and has not begun to look.
    looks: AtomicBool,
    #[pin]
    timer: DelayedWork<Conn<U>>,
    /// In which its steps are made until the queue pair runs.
    order: InOrder<U>,
    /// Where it is in there.
    #[pin]
    pub(super) turn: SpinLockIrq<Turn<U>>,
    /// It is a process' connection.
    of_process: AtomicBool,
    /// Only tried by the actor: see [`Conn::act`].
    #[pin]
    stage: Mutex<Stage<U>>,
}

impl<U: User> OwnedWorkItem for Conn<U> {
    fn run(this: Arc<Self>) {
        this.act();
    }
}

impl<U: User> OwnedWorkItem<BULK> for Conn<U> {
    fn run(this: Arc<Self>) {
        this.receive_some();
    }
}

impl<U: User> OwnedWorkItem<BULK_IN_TURN> for Conn<U> {
    fn run(this: Arc<Self>) {
        this.receive_some();
    }
}

impl<U: User> DelayedWorkItem<LATE> for Conn<U> {
    fn expire(this: Arc<Self>) {
        // First: what is missed from here on sets it again.
        this.looks.store(false, Ordering::Relaxed);
        this.receive_some();
    }
}

impl<U: User> DelayedWorkItem for Conn<U> {
    fn expire(this: Arc<Self>) {
        this.notify(Events::TIMEOUT);
    }
}

impl<U: User> Conn<U> {
    /// The device.
    pub(super) fn dev(&self) -> &Arc<Device> {
        &self.registry.dev
    }

    /// Where its batches leave the pages that they have filled.
    pub(crate) fn tx_pages(&self) -> &Arc<PagePool> {
        &self.dev().tx_pages
    }

    /// Makes a connection of a socket, enters it in the device's registry and installs its
    /// callbacks. Its steps are made in `order` first. `first` makes the first stage; until it has,
    /// the stage is locked and events wait.
    /// Context: sleeping.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` if the device is going away; what `first` returns. The connection is over
    /// then.
    pub(super) fn start(
        registry: &Arc<Registry<U>>,
        socket: TcpSocket,
        order: InOrder<U>,
        first: impl FnOnce(&Arc<Conn<U>>) -> Result<Stage<U>>,
    ) -> Result<Arc<Conn<U>>> {
        let consumer = order.consumer();
        let turn = Turn::new()?;
        let conn = Arc::pin_init(
            try_pin_init!(Self {
                registry: registry.clone(),
                serial: registry.next_serial(),
                socket,
                events: AtomicU32::new(0),
                how: AtomicU32::new(0),
                error: AtomicI32::new(0),
                rx_owner: AtomicU32::new(RxOwner::Actor as u32),
                bulk_detector: BulkDetector::new(),
                started: AtomicBool::new(false),
                born: Instant::now(),
                deadline: AtomicI64::new(i64::MAX),
                peer: SetOnce::new(),
                user: SetOnce::new(),
                rest <- new_mutex!(None, "rsiw_conn_rest"),
                job <- new_owned_work!("rsiw_conn"),
                bulk <- new_owned_work!("rsiw_conn_bulk"),
                bulk_in_turn <- new_owned_work!("rsiw_conn_bulk_in_turn"),
                late <- new_delayed_work!("rsiw_conn_late"),
                looks: AtomicBool::new(false),
                timer <- new_delayed_work!("rsiw_conn_timer"),
                order,
                turn <- new_spinlock_irq!(turn, "rsiw_turn"),
                of_process: AtomicBool::new(consumer == Consumer::Process),
                stage <- new_mutex!(Stage::Closed, "rsiw_conn_stage"),
            }? Error),
            GFP_KERNEL,
        )?;
        // Locked first: once it is entered, it may be told to leave, which must wait.
        let mut stage = conn.stage.lock();
        registry.enter(&conn)?;
        let attached = conn.socket.attach(conn.clone());
        match attached.and_then(|()| first(&conn)) {
            Ok(first) => *stage = first,
            Err(e) => {
                conn.leave();
                return Err(e);
            }
        }
        drop(stage);
        if conn.has_news() {
            conn.notify(Events::SOCKET);
        }
        conn.look_again();
        Ok(conn)
    }

    /// Whether something happened that callbacks do not tell, as it was before they were there.
    ///
    /// No wake-up without need: it would be a step too early, and what comes next would be behind
    /// those connections of the order that began later.
    fn has_news(&self) -> bool {
        let quiet = matches!(
            self.socket.state(),
            TcpState::SynSent | TcpState::Established
        );
        !quiet || self.socket.bytes_received() != 0
    }

    /// Ends what [`Conn::start`] began: no timer, no callback, nothing that receives, no entry in the
    /// registry. What is still queued of the actor finds [`Stage::Closed`]. Context: sleeping.
    pub(super) fn leave(&self) {
        self.timer.cancel();
        self.socket.detach();
        {
            // Whoever sets or queues these does so with the socket locked, for a queue pair.
            let _sk = self.socket.lock();
            self.rx_owner
                .store(RxOwner::Nobody as u32, Ordering::Release);
        }
        self.late.cancel_sync();
        self.bulk.cancel_sync();
        self.bulk_in_turn.cancel_sync();
        self.registry.remove(self.serial);
    }

    /// The socket; valid as long as the connection is referred to. Once it is closed, sends fail
    /// with `EPIPE`.
    pub(crate) fn socket(&self) -> &TcpSocket {
        &self.socket
    }

    /// Notes who is at the other end. Context: sleeping.
    pub(super) fn note_peer(&self, peer: SocketAddr) {
        self.peer.populate(peer);
    }

    /// Who is at the other end, once that is known. Context: any.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer.copy()
    }

    /// Has the connection closed; the strongest of all calls counts. Context: any.
    pub(crate) fn close(self: &Arc<Self>, how: Close) {
        self.how.fetch_max(how as u32, Ordering::Relaxed);
        self.notify(Events::CLOSE);
    }

    /// Takes what TCP had no room for, to be sent in front of the FIN. Context: sleeping, the
    /// queue pair is about to close.
    pub(crate) fn take_over(self: &Arc<Self>, rest: TxBatch) {
        // Not waiting: storage under writeback may wait for this queue pair to be gone.
        match KBox::new(rest, GFP_NOWAIT) {
            Ok(rest) => *self.rest.lock() = Some(rest),
            // The stream ends in the middle of an FPDU, which a FIN would not tell.
            Err(_) => self.close(Close::Abort),
        }
    }

    /// What goes in front of the FIN.
    pub(super) fn take_rest(&self) -> Option<KBox<TxBatch>> {
        self.rest.lock().take()
    }

    /// The queue pair found a fault and is about to send a Terminate, after which it calls
    /// [`Conn::close`]. If that takes too long, the connection is reset. Context: any.
    pub(crate) fn faulted(self: &Arc<Self>) {
        self.notify(Events::FAULT);
    }

    /// The answer to [`User::drain`]: everything was handed to TCP. Context: any.
    pub(crate) fn tx_drained(self: &Arc<Self>) {
        self.notify(Events::DRAINED);
    }

    /// The peer's first FPDU came. Context: any.
    pub(crate) fn first_fpdu_seen(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    /// Whether the peer's first FPDU came.
    pub(super) fn peer_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// How to close, if that was asked for.
    pub(super) fn how(&self) -> Option<Close> {
        match self.how.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Close::Graceful),
            2 => Some(Close::Flush),
            _ => Some(Close::Abort),
        }
    }

    /// Why TCP ended the connection.
    pub(super) fn error(&self) -> Option<Error> {
        to_result(self.error.load(Ordering::Acquire)).err()
    }

    /// Notes that something happened and wakes the actor. Context: any.
    pub(super) fn notify(self: &Arc<Self>, events: u32) {
        Self::wake(self.as_arc_borrow(), events);
    }

    fn wake(this: ArcBorrow<'_, Self>, events: u32) {
        this.events.fetch_or(events, Ordering::Release);
        let this = Arc::from(this);
        if !this.order.enter(&this) {
            this.job
                .queue(this.dev().queues.cm_of(this.consumer()), this.clone());
        }
    }

    /// Whose it is; the kernel's as long as it is nobody's.
    fn consumer(&self) -> Consumer {
        match self.of_process.load(Ordering::Relaxed) {
            true => Consumer::Process,
            false => Consumer::Kernel,
        }
    }

    /// The connection is one of that consumer's from now on.
    pub(super) fn belongs_to(&self, consumer: Consumer) {
        self.of_process
            .store(consumer == Consumer::Process, Ordering::Relaxed);
    }

    /// Steps need no order any more. Context: any.
    pub(super) fn needs_no_order(&self) {
        let turn = replace(&mut *self.turn.lock(), Turn::Over);
        // Not within the lock.
        drop(turn);
    }

    /// Tells the log, now and then, why there is no connection. Context: any.
    pub(super) fn log_failure(&self, why: Arguments<'_>) {
        if let Some(handle) = self.dev().handle() {
            let name = handle.name();
            match self.peer() {
                Some(peer) => kext::ratelimited_info!(name, "peer {peer}: {why}\n"),
                None => kext::ratelimited_info!(name, "{why}\n"),
            }
        }
    }

    /// Gives what comes next `ms` milliseconds, in place of what was set before. Context: any.
    pub(super) fn set_timeout(self: &Arc<Self>, ms: u32) {
        let deadline = self.age() + i64::from(ms);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.timer.arm(&self.dev().queues.cm, self.clone(), ms);
    }

    /// As [`Conn::set_timeout`], for a consumer that closes: not so much while the device is being removed,
    /// as its consumers wait for that one after the other.
    pub(super) fn set_close_timeout(self: &Arc<Self>, ms: u32) {
        self.set_timeout(match self.registry.is_leaving() {
            true => ms.min(timeout::LEAVE),
            false => ms,
        });
    }

    /// Gives what comes next all the time it wants.
    pub(super) fn clear_timeout(&self) {
        self.deadline.store(i64::MAX, Ordering::Relaxed);
        self.timer.cancel();
    }

    /// Does something in the actor's place, which steps aside meanwhile. Context: sleeping.
    pub(super) fn in_actors_place<R>(self: &Arc<Self>, f: impl FnOnce(&mut Stage<U>) -> R) -> R {
        let result = f(&mut self.stage.lock());
        self.look_again();
        result
    }

    /// For whoever has unlocked the stage: wakes the actor, if it found the stage locked.
    fn look_again(self: &Arc<Self>) {
        // Pairs with the one in `act`: either the actor finds the stage free, or this finds its
        // events.
        fence(Ordering::SeqCst);
        if self.events.load(Ordering::Relaxed) != 0 {
            self.notify(0);
        }
    }

    /// The actor: one step of the connection. Runs in work items.
    ///
    /// It does not wait for the stage: a thread that accepts, or starts a connection, may be a long
    /// time without a processor. Whoever has the stage looks again afterwards.
    pub(super) fn act(self: &Arc<Self>) {
        fence(Ordering::SeqCst);
        let Some(mut stage) = self.stage.try_lock() else {
            return;
        };
        let events = self.take_events();
        let now = replace(&mut *stage, Stage::Closed);
        let retry = match now.step(self, events) {
            Stage::Retry(retry) => retry,
            next => {
                *stage = next;
                drop(stage);
                return self.look_again();
            }
        };
        // A connection of its own, with a stage of its own.
        drop(stage);
        retry.run(self);
    }

    /// Milliseconds since the connection was made.
    fn age(&self) -> i64 {
        (Instant::now() - self.born).as_millis()
    }

    fn take_events(&self) -> Events {
        let events = self.events.swap(0, Ordering::Acquire);
        // The timer may have run out for a stage before, while that ended in another way.
        let early = self.deadline.load(Ordering::Relaxed) - TICK > self.age();
        Events(if early {
            events & !Events::TIMEOUT
        } else {
            events
        })
    }

    /// Looks at the socket in the queue pair's place, in case that a callback has nothing to go by
    /// (a reset comes without data), and adds what there is to `events`. Context: sleeping.
    pub(super) fn look(self: &Arc<Self>, events: Events) -> Events {
        Self::receive(self.as_arc_borrow(), &mut self.socket.lock(), usize::MAX);
        Events(events.0 | self.take_events().0)
    }

    /// Gives the stream to the queue pair, and with it what arrived already. Context: sleeping.
    pub(super) fn give_stream(self: &Arc<Self>, user: &Arc<U>) {
        self.needs_no_order();
        self.user.populate(user.clone());
        let mut sk = self.socket.lock();
        self.rx_owner.store(RxOwner::User as u32, Ordering::Release);
        Self::receive(self.as_arc_borrow(), &mut sk, usize::MAX);
        drop(sk);
        // It may have found the send buffer full before, and nobody told it since.
        user.writable();
    }

    /// Takes the stream from whoever receives and throws away what arrives from now on. Context:
    /// sleeping.
    pub(super) fn discard(self: &Arc<Self>) {
        let mut sk = self.socket.lock();
        self.rx_owner
            .store(RxOwner::Nobody as u32, Ordering::Release);
        Self::receive(self.as_arc_borrow(), &mut sk, usize::MAX);
    }

    /// Receives some of what there is, as the job of bulk does, unless a callback has done so. Context:
    /// sleeping.
    pub(crate) fn receive_some(self: &Arc<Self>) {
        Self::receive(self.as_arc_borrow(), &mut self.socket.lock(), BULK_BUDGET);
    }

    /// Has a job receive. Context: socket locked.
    fn receive_in_bulk(this: ArcBorrow<'_, Self>) {
        let queues = &this.dev().queues;
        match device::in_turn() {
            true => this.bulk_in_turn.queue(&queues.rx_in_turn, this.into()),
            false => this.bulk.queue(&queues.rx, this.into()),
        };
    }

    /// Whether this one receives.
    fn is_for(&self, who: RxOwner) -> bool {
        self.rx_owner.load(Ordering::Acquire) == who as u32
    }

    /// The queue pair, if the stream is its own.
    fn streaming_user(&self) -> Option<&Arc<U>> {
        self.user.as_ref().filter(|_| self.is_for(RxOwner::User))
    }

    /// Receives what the socket has, for whoever receives; of a queue pair's stream about `most`
    /// octets, then the job goes on. Context: socket locked.
    fn receive(this: ArcBorrow<'_, Self>, sk: &mut LockedSock, most: usize) {
        if let Some(user) = this.streaming_user() {
            let taken = user.readable(sk, most);
            this.bulk_detector.took(taken);
            if taken >= most {
                Self::receive_in_bulk(this);
            } else if let Some(ms) = user.next_look(sk) {
                if !this.looks.swap(true, Ordering::Relaxed) {
                    this.late
                        .arm(&this.dev().queues.rx_in_turn, this.into(), ms);
                }
            } else if sk.at_eof() {
                let clean = user.eof(sk);
                Self::wake(this, if clean { Events::EOF } else { Events::CUT });
            }
        } else if this.is_for(RxOwner::Nobody) {
            // What cannot be read (urgent data) is left to the time-out.
            let _ = sk.read(<[u8]>::len);
            if sk.at_eof() {
                Self::wake(this, Events::EOF);
            }
        } else {
            Self::wake(this, Events::SOCKET);
        }
    }
}

impl<U: User> SockCallbacks for Conn<U> {
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        // All that comes waits behind a Send without a receive, and the timer looks for that.
        if this.looks.load(Ordering::Relaxed) {
            if let Some(user) = this.streaming_user() {
                if user.is_waiting(sk) {
                    return;
                }
            }
        }
        let unread = sk.unread();
        // More than a segment at a time: this is no slow start that each acknowledgement would help. Where
        // many connections have their turns, each of them begins behind a silence.
        if unread > sk.mss() as usize {
            sk.spare_acks();
        }
        // (What comes for the actor, or for nobody, leaves it slow.)
        if unread >= BULK_LEN || this.bulk_detector.is_fast() {
            Self::receive_in_bulk(this);
        } else {
            Self::receive(this, sk, usize::MAX);
        }
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        if let Some(user) = this.streaming_user() {
            user.writable();
        } else if this.is_for(RxOwner::Nobody) {
            // `close::Linger` may have something left. (A handshake never waits for room.)
            Self::wake(this, Events::SOCKET);
        }
    }

    fn state_change(this: ArcBorrow<'_, Self>, state: TcpState) {
        // Connected, or over. FINs come with `data_ready`, behind the data.
        if matches!(state, TcpState::Established | TcpState::Closed) {
            Self::wake(this, Events::SOCKET);
        }
    }

    fn error_report(this: ArcBorrow<'_, Self>, reason: Error) {
        let errno = reason.to_errno();
        // The first one counts.
        let _ = this
            .error
            .compare_exchange(0, errno, Ordering::Release, Ordering::Relaxed);
        Self::wake(this, Events::SOCKET);
    }
}
