// SPDX-License-Identifier: GPL-2.0

//! Receiving: who takes the data of a connection's socket, which is the actor, the user of the
//! stream, or nobody.

use super::{Conn, RxOwner};
use crate::{
    cm::{
        events::{Event, Events},
        Close, User,
    },
    transport::Transport,
};
use core::sync::atomic::Ordering;
use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use net::{LockedSock, SockCallbacks, TcpState};

/// Bytes of TLS that the actor throws away in one step; each record counts for at least so many.
const DISCARD: usize = 1 << 20;
const RECORD: usize = 512;

impl<U: User> Conn<U> {
    /// Receives in place of the user, and adds the events that this leads to. The callbacks for a
    /// state change or an error do not receive, and a reset comes without data. Context: sleeping.
    pub(in crate::cm) fn look(self: &Arc<Self>, events: Events) -> Events {
        self.receive_here();
        events | self.take_events()
    }

    //= 5044-7.1-1
    /// Gives the stream to its user, which receives the data that has arrived already. Context:
    /// sleeping.
    pub(in crate::cm) fn give_stream(self: &Arc<Self>, user: &Arc<U>) {
        self.needs_no_order();
        self.user.populate(user.clone());
        {
            let _sk = self.socket.lock();
            self.rx_owner.store(RxOwner::User as u32, Ordering::Release);
        }
        self.receive_here();
        // Tx may have run before, for a doorbell, and have found the send buffer full.
        // `write_space` did not wake it then, as the stream was not the user's.
        user.given();
    }

    /// Takes the stream from its receiver. Data is thrown away from now on. Context: sleeping.
    pub(in crate::cm) fn discard(self: &Arc<Self>) {
        {
            let _sk = self.socket.lock();
            self.rx_owner
                .store(RxOwner::Nobody as u32, Ordering::Release);
        }
        self.receive_here();
    }

    /// Receives for the [`RxOwner`], in a process. Records of TLS without data are taken on
    /// the way. Context: sleeping.
    fn receive_here(self: &Arc<Self>) {
        loop {
            {
                let mut sk = self.socket.lock();
                match self.streaming_user() {
                    Some(user) => user.receive_all(self.as_arc_borrow(), &mut sk),
                    None if self.is_for(RxOwner::Nobody) => {
                        Self::discard_some(self.as_arc_borrow(), &mut sk);
                    }
                    None => return Self::wake(self.as_arc_borrow(), Event::Socket),
                }
            }
            // The loop is bounded: a peer may send so many of these records, and no more.
            if !self.take_control() {
                return;
            }
        }
    }

    /// Takes a record of TLS that has no data, if receiving has stopped in front of one. Returns
    /// true if there was one: more can be received. Context: sleeping, socket not locked.
    pub(crate) fn take_control(self: &Arc<Self>) -> bool {
        self.socket.take_control().unwrap_or_else(|e| {
            Self::note_error(self.as_arc_borrow(), e);
            false
        })
    }

    /// The user cannot read the stream any more: ends the connection. Context: any.
    pub(crate) fn broken(this: ArcBorrow<'_, Self>, reason: Error) {
        if this.socket.is_secure() {
            Self::note_error(this, reason);
        }
        Arc::from(this).close(Close::Abort);
    }

    /// Has the actor receive for the user. Context: any.
    pub(crate) fn receive_later(this: ArcBorrow<'_, Self>) {
        Self::wake(this, Event::Socket);
    }

    /// The user has reached the peer's FIN; `whole`, if it came between messages. Context: any.
    pub(crate) fn peer_finished(this: ArcBorrow<'_, Self>, whole: bool) {
        Self::wake(this, if whole { Event::Eof } else { Event::Cut });
    }

    /// Whether `who` receives.
    fn is_for(&self, who: RxOwner) -> bool {
        self.rx_owner.load(Ordering::Acquire) == who as u32
    }

    /// The user, if it owns the stream.
    fn streaming_user(&self) -> Option<&Arc<U>> {
        self.user.as_ref().filter(|_| self.is_for(RxOwner::User))
    }

    /// Has the actor receive, or throws the data away. Context: callback, socket locked.
    fn receive_frames(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        if this.is_for(RxOwner::Nobody) && this.transport().works_in_callback() {
            Self::discard_some(this, sk)
        } else {
            Self::wake(this, Event::Socket)
        }
    }

    /// Throws away data that has come. Context: socket locked; with TLS sleeping.
    fn discard_some(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        let mut left = if this.transport().works_in_callback() {
            usize::MAX
        } else {
            // While records are decrypted more may come, without end. The actor has to look at its
            // time meanwhile.
            DISCARD
        };
        // Urgent data cannot be read. Then the time-out ends the connection.
        let _ = this.socket.read(sk, |bytes| match left {
            0 => 0,
            _ => {
                left = left.saturating_sub(bytes.len() + RECORD);
                bytes.len()
            }
        });
        if left == 0 {
            Self::wake(this, Event::Socket);
        }
        if this.socket.at_eof(sk) {
            Self::wake(this, Event::Eof);
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
            // One that lingers may have a batch left to send. (A handshake never waits for room.)
            Self::wake(this, Event::Socket);
        }
    }

    fn state_change(this: ArcBorrow<'_, Self>, state: TcpState) {
        // The connection is established, or over. A FIN comes by `data_ready`, behind the data.
        if matches!(state, TcpState::Established | TcpState::Closed) {
            Self::wake(this, Event::Socket);
        }
    }

    fn error_report(this: ArcBorrow<'_, Self>, reason: Error) {
        Self::note_error(this, reason);
    }

    fn released(this: ArcBorrow<'_, Self>) {
        if let Some(user) = this.streaming_user() {
            user.writable();
        }
    }
}
