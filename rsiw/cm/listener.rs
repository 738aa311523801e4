// SPDX-License-Identifier: GPL-2.0

//! Listening: takes connections off the socket, and bounds the number of those that are not
//! answered yet.
//!
//! A connection occupies a slot of its listener, a [`PendingConn`], from TCP's accept to the
//! consumer's answer. Of those whose Requests have come, the consumer is told of as many as its
//! backlog says ([`Backlog`]), and the others wait. When all slots are taken and one more
//! connection comes, a peer that has not sent its Request yet is given up ([`Silent`]). If all
//! peers have sent theirs, further connections stay in the socket's own queue, of [`QUEUE`] or
//! the consumer's backlog; TCP drops the excess. A refused connection exchanges its slot for a
//! place to linger at ([`Refused`]), of which there are as many as slots. If none is free, the
//! connection is reset.

use super::{
    backlog::Backlog,
    conn::{Conn, Conns},
    events::Event,
    order::Order,
    rc::Calls,
    silent::{Silent, Source},
    sockets,
    sockets::PortMapper,
    User,
};
use crate::device::Rsiw;
use core::{mem::replace, net::SocketAddr};
use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{Arc, ArcBorrow, Mutex},
    time::Instant,
    workqueue::Work,
};
use kext::{
    lock::SpinLockIrq,
    new_delayed_work, new_spinlock_irq,
    work::{DelayedWork, DelayedWorkItem},
};
use net::{errno, ListenCallbacks, TcpSocket};
use rdma::{CmId, ConnInfo, Consumer, ConsumerId, RequestId};

/// The fewest slots of a listener. Consumers choose a backlog with requests in mind, not peers that
/// are slow to send one. With few slots such peers would shut out the others.
const SLOTS: u32 = 128;

/// The most slots of a listener. The consumer's backlog may be any number.
const MOST_SLOTS: u32 = 4096;

/// The shortest queue of a listening socket. A peer whose SYN finds it full tries again 1, 3, 7
/// and 15 s later, as do all others that came with it. So of a crowd only as many get in each time
/// as the queue has room for, and the rest runs out of time.
const QUEUE: u32 = 1024;

/// Milliseconds after which to look again for connections that could not be taken.
const RETRY_MS: u32 = 100;

/// A listening identifier of a consumer, or a door for calls of queue pairs.
#[pin_data]
pub(crate) struct Listener<U: User> {
    pub(super) conns: Arc<Conns<U>>,
    requests: Requests<U>,
    max_slots: u32,
    /// `None` once nobody listens any more, and for an identifier that has no socket. Locked while
    /// a request is reported, so that none is reported after [`unlisten`].
    #[pin]
    socket: Mutex<Option<TcpSocket>>,
    #[pin]
    slots: SpinLockIrq<PendingConns>,
    /// The order in which Requests are read and reported.
    pub(super) order: Arc<Order<Conn<U>>>,
    #[pin]
    work: Work<Listener<U>>,
    #[pin]
    retry: DelayedWork<Listener<U>>,
}

impl_has_work! {
    impl{U: User} HasWork<Self> for Listener<U> { self.work }
}

impl<U: User> DelayedWorkItem for Listener<U> {
    fn expire(this: Arc<Self>) {
        // Not from here: two runs at a time would take connections out of their order.
        this.wake();
    }
}

/// Whom a listener's Requests are for.
enum Requests<U> {
    /// A consumer of iwcm, by its listening identifier.
    Iwcm(CmId),
    /// Queue pairs that expect calls by name.
    Rc(Calls<U>),
}

struct PendingConns {
    used: u32,
    /// Connections that were refused and still linger.
    refused: u32,
    /// Connections may wait in the socket for a slot to become free.
    short: bool,
    /// The connections in slots whose Request has not come.
    silent: Silent,
    /// The connections in slots whose Request has come.
    backlog: Backlog,
}

/// A listener's slot, held by a connection that is not answered yet. Dropping it frees the slot.
pub(super) struct PendingConn<U: User> {
    listener: Arc<Listener<U>>,
    /// Key of the connection, while its Request has not come.
    silent: Option<u64>,
    request: Request,
    /// The backlog's progress when the Request began to wait, or when room was last made for it.
    progress: u64,
    /// The consumer has accepted the Request.
    accepted: bool,
}

/// The Request of a connection, as the listener's [`Backlog`] has it.
#[derive(Clone, Copy)]
enum Request {
    /// It is not in the backlog.
    None,
    /// It waits. The key of the connection.
    Waits(u64),
    /// It counts as reported, in this epoch of the backlog, until it is answered.
    Counts(u64),
}

/// A place to linger at, held by a refused connection until its peer has closed. Dropping it frees
/// the place.
pub(super) struct Refused<U: User>(Arc<Listener<U>>);

/// Starts to listen at the local address of `cm`: the `iw_create_listen` operation. Context:
/// sleeping, within locks of the RDMA CM; possibly before the device is registered.
///
/// # Errors
///
/// `ENOMEM`, `ENODEV`, the errors of making and binding a socket.
pub(crate) fn listen<U: User>(
    conns: &Arc<Conns<U>>,
    dev: &rdma::Device<Rsiw>,
    cm: &ConsumerId,
    backlog: u32,
) -> Result<Arc<Listener<U>>> {
    let backlog = backlog.max(1);
    let mapper = PortMapper::of(dev, &conns.dev.settings);
    let socket = sockets::listener(dev, mapper, cm, backlog.max(QUEUE))?;
    start(conns, Requests::Iwcm(cm.id().clone()), socket, backlog)
}

/// Starts to take `calls` of queue pairs off a socket that listens. Context: sleeping. Errors:
/// `ENOMEM`.
pub(super) fn for_calls<U: User>(
    conns: &Arc<Conns<U>>,
    socket: TcpSocket,
    calls: Calls<U>,
    backlog: u32,
) -> Result<Arc<Listener<U>>> {
    start(conns, Requests::Rc(calls), Some(socket), backlog)
}

fn start<U: User>(
    conns: &Arc<Conns<U>>,
    requests: Requests<U>,
    socket: Option<TcpSocket>,
    backlog: u32,
) -> Result<Arc<Listener<U>>> {
    // Connections that iwcm is told of belong to no process until one accepts, so no step waits for
    // one. A step of a call may wait for a process' queue pair.
    let consumer = match requests {
        Requests::Iwcm(_) => Consumer::Kernel,
        Requests::Rc(_) => Consumer::Process,
    };
    let max_slots = backlog.clamp(SLOTS, MOST_SLOTS);
    let slots = PendingConns {
        used: 0,
        refused: 0,
        short: false,
        silent: Silent::new(max_slots)?,
        backlog: Backlog::new(backlog, max_slots)?,
    };
    let listener = Arc::pin_init(
        try_pin_init!(Listener {
            conns: conns.clone(),
            requests,
            max_slots,
            socket <- new_mutex!(None, "rsiw_listener"),
            slots <- new_spinlock_irq!(slots, "rsiw_slots"),
            order: Order::new(consumer)?,
            work <- new_work!("rsiw_listener"),
            retry <- new_delayed_work!("rsiw_listener_retry"),
        }? Error),
        GFP_KERNEL,
    )?;
    if let Some(socket) = socket {
        socket.attach_listener(listener.clone())?;
        *listener.socket.lock() = Some(socket);
        // Connections may have come before the callback was attached.
        listener.wake();
    }
    Ok(listener)
}

/// Stops listening: the `iw_destroy_listen` operation. On return the port is free, and no more
/// requests are reported. Those that were reported can still be answered. Context: sleeping.
pub(crate) fn unlisten<U: User>(listener: Arc<Listener<U>>) -> Result {
    let socket = listener.socket.lock().take();
    // Without a socket nobody arms it again.
    listener.retry.cancel();
    // This resets the connections in the socket's accept queue.
    drop(socket);
    // The Requests that wait find that nobody listens, one after the other.
    let next = {
        let mut slots = listener.slots.lock();
        slots.backlog.close();
        slots.backlog.next()
    };
    listener.report_next(next);
    Ok(())
}

impl<U: User> Listener<U> {
    /// Has the listener's work item take connections ([`responder`](super::responder)).
    pub(super) fn wake(self: &Arc<Self>) {
        let queue = self.conns.dev.workqueues.cm.of(Consumer::Kernel);
        queue.enqueue(self.clone());
    }

    /// Takes a connection off the socket, if there is one and a slot for it. Context: sleeping, the
    /// listener's work item.
    pub(super) fn next(self: &Arc<Self>) -> Option<(TcpSocket, PendingConn<U>)> {
        let Some(slot) = self.slot() else {
            self.make_room();
            return None;
        };
        let socket = self.socket.lock();
        match socket.as_ref()?.accept() {
            Ok(accepted) => Some((accepted?, slot)),
            Err(_) => {
                // There is no memory at the moment.
                self.retry_later();
                None
            }
        }
    }

    fn slot(self: &Arc<Self>) -> Option<PendingConn<U>> {
        let mut slots = self.slots.lock();
        if slots.used >= self.max_slots {
            slots.short = true;
            return None;
        }
        slots.short = false;
        slots.used += 1;
        Some(PendingConn {
            listener: self.clone(),
            silent: None,
            request: Request::None,
            progress: 0,
            accepted: false,
        })
    }

    /// If a connection waits for a slot, gives up a silent one. That one's slot wakes the listener
    /// when it is free.
    fn make_room(self: &Arc<Self>) {
        // Locked to the end: once the socket was taken, the timer must not be armed.
        let socket = self.socket.lock();
        let waits = |socket: &TcpSocket| socket.has_connection();
        if !socket.as_ref().is_some_and(waits) {
            return;
        }
        let (given_up, none) = {
            let mut slots = self.slots.lock();
            (
                slots.silent.give_up(Instant::now()),
                slots.silent.is_empty(),
            )
        };
        if let Some(conn) = given_up.and_then(|serial| self.conns.get(serial)) {
            conn.notify(Event::GiveWay);
        } else if none {
            return;
        }
        // Look again later. The silent ones may all be too new to be given up, and the one given up
        // keeps its slot if its Request has come by now.
        self.retry_later();
    }

    /// Wakes the connection whose Request is to be reported next. Context: process.
    fn report_next(&self, next: Option<u64>) {
        if let Some(serial) = next {
            self.conns.give_turn(serial);
        }
    }

    fn retry_later(self: &Arc<Self>) {
        let queue = self.conns.dev.workqueues.cm.of(Consumer::Kernel);
        self.retry.arm(queue, self.clone(), RETRY_MS);
    }
}

impl<U: User> ListenCallbacks for Listener<U> {
    fn ready(this: ArcBorrow<'_, Self>) {
        Arc::from(this).wake();
    }
}

impl<U: User> PendingConn<U> {
    /// What calls need, if the Request is a call of a queue pair by name.
    pub(super) fn calls(&self) -> Option<&Calls<U>> {
        match &self.listener.requests {
            Requests::Rc(calls) => Some(calls),
            Requests::Iwcm(_) => None,
        }
    }

    /// Whether nobody listens any more.
    pub(super) fn is_dead(&self) -> bool {
        self.listener.socket.lock().is_none()
    }

    /// Notes that the peer of `conn` owes a Request.
    pub(super) fn note_silent(&mut self, conn: &Arc<Conn<U>>) {
        // `ENOTCONN`: the peer has gone. A step of the connection is about to learn of it.
        let Ok(peer) = conn.socket().peer_addr() else {
            return;
        };
        conn.note_peer(peer);
        self.silent = Some(conn.serial);
        let silent = &mut self.listener.slots.lock().silent;
        silent.add(conn.serial, Source::of(&peer), Instant::now());
    }

    /// Notes that the Request has come.
    pub(super) fn note_request(&mut self) {
        if let Some(serial) = self.silent.take() {
            self.listener.slots.lock().silent.remove(serial);
        }
    }

    /// A place for a refused connection to linger at; `None` if all are taken. They are as many as
    /// the slots, as peers that do not go must not fill the memory. They are apart from the slots,
    /// where such peers would keep out others.
    pub(super) fn linger_place(&self) -> Option<Refused<U>> {
        let listener = &self.listener;
        let mut slots = listener.slots.lock();
        if slots.refused >= listener.max_slots {
            return None;
        }
        slots.refused += 1;
        Some(Refused(listener.clone()))
    }

    /// Has the Request of `conn` wait to be reported. When it is its turn, [`Event::Turn`] comes.
    pub(super) fn wait_for_report(&mut self, conn: &Arc<Conn<U>>, peer: &SocketAddr) {
        let mut slots = self.listener.slots.lock();
        slots.backlog.wait(conn.serial, Source::of(peer));
        self.progress = slots.backlog.progress();
        self.request = Request::Waits(conn.serial);
    }

    /// Counts the Request as reported, if it is to be reported now: the consumer has room, and no
    /// other Request is before it. To be followed by [`Self::report`]. Context: process.
    pub(super) fn take_turn(&mut self) -> bool {
        let Request::Waits(serial) = self.request else {
            return false;
        };
        let mut slots = self.listener.slots.lock();
        let taken = slots.backlog.take(serial);
        // There may be room for another one.
        let next = slots.backlog.next();
        drop(slots);
        if let Some(epoch) = taken {
            self.request = Request::Counts(epoch);
            self.listener.report_next(next);
        }
        taken.is_some()
    }

    /// Notes that the consumer accepts.
    pub(super) fn note_accept(&mut self) {
        self.accepted = true;
    }

    /// Makes room for as many Requests as the consumer has in its backlog, if it has answered none
    /// since this one waits, or since the last call. Context: process.
    pub(super) fn make_room(&mut self) {
        let next = {
            let mut slots = self.listener.slots.lock();
            let backlog = &mut slots.backlog;
            let stalled = backlog.progress() == self.progress;
            if stalled {
                backlog.make_room();
            }
            self.progress = backlog.progress();
            stalled.then(|| backlog.next()).flatten()
        };
        self.listener.report_next(next);
    }

    /// Reports the Request of `conn`, whose turn it is, to the consumer, whose answer comes with
    /// the connection. Context: sleeping, the stage of `conn` is locked.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: iwcm has no room for the request. `ECONNABORTED`, `ENODEV`: nobody listens any
    /// more.
    pub(super) fn report(&mut self, conn: &Arc<Conn<U>>, info: &ConnInfo<'_>) -> Result<RequestId> {
        let listener = &*self.listener;
        let socket = listener.socket.lock();
        if socket.is_none() {
            return Err(errno::ECONNABORTED.into());
        }
        let Requests::Iwcm(cm) = &listener.requests else {
            return Err(EINVAL);
        };
        let handle = listener.conns.dev.handle().ok_or(ENODEV)?;
        let dev = handle.try_get().ok_or(ENODEV)?;
        U::report_request(&dev, cm, conn.clone(), info)
    }
}

impl<U: User> Drop for Refused<U> {
    fn drop(&mut self) {
        self.0.slots.lock().refused -= 1;
    }
}

impl<U: User> Drop for PendingConn<U> {
    fn drop(&mut self) {
        self.note_request();
        let (short, next) = {
            let mut slots = self.listener.slots.lock();
            slots.used -= 1;
            match replace(&mut self.request, Request::None) {
                Request::None => {}
                Request::Waits(serial) => slots.backlog.leave(serial),
                Request::Counts(epoch) => slots.backlog.answered(epoch, self.accepted),
            }
            (slots.short, slots.backlog.next())
        };
        self.listener.report_next(next);
        if short {
            self.listener.wake();
        }
    }
}
