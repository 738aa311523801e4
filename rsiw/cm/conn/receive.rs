// SPDX-License-Identifier: GPL-2.0

//! Receiving: who takes the data that a connection's socket has, and in which context.
//!
//! While a queue pair owns the stream, `data_ready` calls [`User::readable`] at once, under the
//! socket lock. If much data waits, or data comes fast, the work item [`Conn::bulk`] calls it
//! instead. Data behind a Send that waits for its receive stays in the socket; the timer
//! [`Conn::late`] tries again until there is a receive.

use super::{Conn, Events, BULK, BULK_IN_TURN, LATE};
use crate::{cm::User, device};
use core::sync::atomic::Ordering;
use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use kext::work::{DelayedWorkItem, OwnedWorkItem};
use net::{LockedSock, SockCallbacks, TcpState};

/// Unread octets that count as bulk. That is more than one message that somebody waits for, or a
/// message that takes longer to receive than a worker takes to wake.
const BULK_LEN: usize = 32 << 10;

/// Octets that the bulk work item receives in one run. Afterwards other work gets the CPU, and
/// senders get the socket lock.
const BULK_BUDGET: usize = 1 << 20;

/// Who receives the data of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum RxOwner {
    /// The connection's actor, frame by frame.
    Actor = 0,
    /// The queue pair.
    User = 1,
    /// Nobody: data is thrown away until the peer's FIN.
    Nobody = 2,
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
        // Clear the mark first: data that finds no receive from here on arms the timer again.
        this.looks.store(false, Ordering::Relaxed);
        this.receive_some();
    }
}

impl<U: User> Conn<U> {
    /// Receives in place of the queue pair, and adds the events that this leads to. The callbacks
    /// for a state change or an error do not receive, and a reset comes without data. Context:
    /// sleeping.
    pub(in crate::cm) fn look(self: &Arc<Self>, events: Events) -> Events {
        Self::receive(self.as_arc_borrow(), &mut self.socket.lock(), usize::MAX);
        Events(events.0 | self.take_events().0)
    }

    /// Gives the stream to the queue pair, which receives the data that has arrived already.
    /// Context: sleeping.
    pub(in crate::cm) fn give_stream(self: &Arc<Self>, user: &Arc<U>) {
        self.needs_no_order();
        self.user.populate(user.clone());
        let mut sk = self.socket.lock();
        self.rx_owner.store(RxOwner::User as u32, Ordering::Release);
        Self::receive(self.as_arc_borrow(), &mut sk, usize::MAX);
        drop(sk);
        // Tx may have found the send buffer full before. `write_space` did not wake it then, as the
        // stream was not the queue pair's.
        user.writable();
    }

    /// Takes the stream from its receiver. Data is thrown away from now on. Context: sleeping.
    pub(in crate::cm) fn discard(self: &Arc<Self>) {
        let mut sk = self.socket.lock();
        self.rx_owner
            .store(RxOwner::Nobody as u32, Ordering::Release);
        Self::receive(self.as_arc_borrow(), &mut sk, usize::MAX);
    }

    /// Receives up to about [`BULK_BUDGET`] octets, if callbacks have left any. Run by work items,
    /// and by a process that has posted a receive. Context: sleeping.
    pub(crate) fn receive_some(self: &Arc<Self>) {
        Self::receive(self.as_arc_borrow(), &mut self.socket.lock(), BULK_BUDGET);
    }

    /// Has a work item receive. Context: socket locked.
    fn receive_in_bulk(this: ArcBorrow<'_, Self>) {
        let queues = &this.dev().queues;
        match device::in_turn() {
            true => this.bulk_in_turn.queue(&queues.rx_in_turn, this.into()),
            false => this.bulk.queue(&queues.rx, this.into()),
        };
    }

    /// Whether `who` receives.
    fn is_for(&self, who: RxOwner) -> bool {
        self.rx_owner.load(Ordering::Acquire) == who as u32
    }

    /// The queue pair, if it owns the stream.
    fn streaming_user(&self) -> Option<&Arc<U>> {
        self.user.as_ref().filter(|_| self.is_for(RxOwner::User))
    }

    /// Receives the socket's data for its [`RxOwner`]. A queue pair takes about `most` octets; a
    /// work item receives the rest. Context: socket locked.
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
            // Urgent data cannot be read. Then the time-out ends the connection.
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
        // All new data waits behind a Send that has no receive yet. The timer `late` looks for the
        // receive.
        if this.looks.load(Ordering::Relaxed) {
            if let Some(user) = this.streaming_user() {
                if user.is_waiting(sk) {
                    return;
                }
            }
        }
        let unread = sk.unread();
        // More than a segment comes at a time, so this is no slow start that each acknowledgement
        // would help. (Where many connections take turns, each turn begins after an idle time,
        // behind which TCP expects a slow start.)
        if unread > sk.mss() as usize {
            sk.spare_acks();
        }
        // (For the actor and for nobody the detector counts nothing, so it stays slow.)
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
            // `close::Linger` may have a batch left to send. (A handshake never waits for room.)
            Self::wake(this, Events::SOCKET);
        }
    }

    fn state_change(this: ArcBorrow<'_, Self>, state: TcpState) {
        // The connection is established, or over. A FIN comes by `data_ready`, behind the data.
        if matches!(state, TcpState::Established | TcpState::Closed) {
            Self::wake(this, Events::SOCKET);
        }
    }

    fn error_report(this: ArcBorrow<'_, Self>, reason: Error) {
        let errno = reason.to_errno();
        // Keep the first error.
        let _ = this
            .error
            .compare_exchange(0, errno, Ordering::Release, Ordering::Relaxed);
        Self::wake(this, Events::SOCKET);
    }
}
