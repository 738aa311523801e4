// SPDX-License-Identifier: GPL-2.0

//! Receiving: who takes the data of a connection's socket, which is the actor, the user of the
//! stream, or nobody.

use super::{Conn, Events};
use crate::cm::User;
use core::sync::atomic::Ordering;
use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use net::{LockedSock, SockCallbacks, TcpState};

/// Who receives the data of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum RxOwner {
    /// The connection's actor, frame by frame.
    Actor = 0,
    /// The user of the stream.
    User = 1,
    /// Nobody: data is thrown away until the peer's FIN.
    Nobody = 2,
}

impl<U: User> Conn<U> {
    /// Receives in place of the user, and adds the events that this leads to. The callbacks for a
    /// state change or an error do not receive, and a reset comes without data. Context: sleeping.
    pub(in crate::cm) fn look(self: &Arc<Self>, events: Events) -> Events {
        Self::receive(self.as_arc_borrow(), &mut self.socket.lock());
        Events(events.0 | self.take_events().0)
    }

    /// Gives the stream to its user, which receives the data that has arrived already. Context:
    /// sleeping.
    pub(in crate::cm) fn give_stream(self: &Arc<Self>, user: &Arc<U>) {
        self.needs_no_order();
        self.user.populate(user.clone());
        let mut sk = self.socket.lock();
        self.rx_owner.store(RxOwner::User as u32, Ordering::Release);
        Self::receive(self.as_arc_borrow(), &mut sk);
        drop(sk);
        // Tx may have found the send buffer full before. `write_space` did not wake it then, as the
        // stream was not the user's.
        user.writable();
    }

    /// Takes the stream from its receiver. Data is thrown away from now on. Context: sleeping.
    pub(in crate::cm) fn discard(self: &Arc<Self>) {
        let mut sk = self.socket.lock();
        self.rx_owner
            .store(RxOwner::Nobody as u32, Ordering::Release);
        Self::receive(self.as_arc_borrow(), &mut sk);
    }

    /// The user has reached the peer's FIN; `whole`, if it came between messages. Context: any.
    pub(crate) fn peer_finished(this: ArcBorrow<'_, Self>, whole: bool) {
        Self::wake(this, if whole { Events::EOF } else { Events::CUT });
    }

    /// Whether `who` receives.
    fn is_for(&self, who: RxOwner) -> bool {
        self.rx_owner.load(Ordering::Acquire) == who as u32
    }

    /// The user, if it owns the stream.
    fn streaming_user(&self) -> Option<&Arc<U>> {
        self.user.as_ref().filter(|_| self.is_for(RxOwner::User))
    }

    /// Receives all of the socket's data for its [`RxOwner`]. Context: socket locked.
    fn receive(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        match this.streaming_user() {
            Some(user) => user.receive_all(this, sk),
            None => Self::receive_frames(this, sk),
        }
    }

    /// Has the actor receive, or throws the data away. Context: socket locked.
    fn receive_frames(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        if !this.is_for(RxOwner::Nobody) {
            return Self::wake(this, Events::SOCKET);
        }
        // Urgent data cannot be read. Then the time-out ends the connection.
        let _ = sk.read(<[u8]>::len);
        if sk.at_eof() {
            Self::wake(this, Events::EOF);
        }
    }
}

impl<U: User> SockCallbacks for Conn<U> {
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        match this.streaming_user() {
            Some(user) => user.data_ready(this, sk),
            None => Self::receive_frames(this, sk),
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
