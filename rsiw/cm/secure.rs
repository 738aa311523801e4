// SPDX-License-Identifier: GPL-2.0

//! TLS between TCP and MPA: whether there is any, and the handshake.
//!
//! The initiator decides by its device's policy before TCP connects. The responder's policy says
//! what it takes, and the first octet that comes tells what it is: a TLS record, or an MPA Request.
//! So no octet of either end negotiates TLS, and nobody on the path can negotiate it away.
//!
//! tlshd makes the handshake, with certificates on both ends or by a pre-shared key. It needs the
//! socket to itself: callbacks are detached for that time, and attached on top of TLS' own
//! afterwards.

use super::{
    close,
    conn::{Conn, Events},
    listener::PendingConn,
    pace::{Place, Side},
    patience::Patience,
    responder::AwaitRequest,
    stage::Stage,
    timeout, User,
};
use crate::settings::TlsPolicy;
use core::format_args;
use kernel::{prelude::*, sync::Arc};
use net::{errno, Auth, Handshake, Received, Role};

/// The first octet of a TLS handshake: the type of its record.
const TLS_HANDSHAKE: u8 = 22;

/// Logs why a stream with TLS is broken.
pub(super) fn log_broken<U: User>(conn: &Conn<U>, e: Error) {
    let why = match e {
        e if e == errno::EKEYEXPIRED => "the peer changes its key, which this kernel cannot follow",
        e if e == errno::EDQUOT => "a key is used up (tls_key_mib), and there is no other",
        e if e == errno::EBADMSG => "a record is not the peer's",
        e if e == EACCES => "the peer does not accept this end",
        e if e == errno::ECONNABORTED => "the peer ends it by an alert",
        e if e == errno::EPROTO => "the peer breaks the rules of TLS",
        e if e == errno::ECONNRESET => "connection reset",
        e if e == errno::ETIMEDOUT => "no answer",
        _ => "error of the socket",
    };
    let errno = e.to_errno();
    conn.log_failure(format_args!("TLS stream broken: error {errno}, {why}"));
}

/// Responder: the peer has connected, and its first octet has not come.
pub(super) struct AwaitOctet<U: User> {
    slot: PendingConn<U>,
}

/// Responder: the TLS handshake is made, or waits for its turn.
pub(super) struct Securing<U: User> {
    slot: PendingConn<U>,
    place: Place<U>,
    handshake: Option<Handshake<Conn<U>>>,
    patience: Patience,
}

impl<U: User> AwaitOctet<U> {
    /// The first stage of an accepted connection of a device that takes TLS.
    pub(super) fn begin(conn: &Arc<Conn<U>>, mut slot: PendingConn<U>) -> Stage<U> {
        conn.set_timeout(timeout::REQUEST);
        slot.note_silent(conn);
        Stage::AwaitOctet(Self { slot })
    }

    pub(super) fn step(self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if super::responder::is_over(conn, &self.slot, events) {
            return close::drop_early(conn);
        }
        let given_up = events.any(Events::GIVE_WAY);
        let mut octet = 0;
        match conn.socket().peek(&mut octet) {
            Ok(Received::Bytes(_)) => {}
            Ok(Received::WouldBlock) if conn.error().is_none() && !given_up => {
                return Stage::AwaitOctet(self)
            }
            Ok(Received::WouldBlock | Received::Eof) | Err(_) => return close::drop_early(conn),
        }
        if octet == TLS_HANDSHAKE {
            // The handshakes end in any order. And what the peer sends in TLS may keep this
            // connection's actor busy, which must not make the steps of others.
            conn.needs_no_order();
            let peer = conn.peer().ok_or(errno::ENOTCONN.error());
            return match peer.and_then(|peer| Place::wait(conn, Side::Responder, &peer)) {
                Ok(place) => Securing::begin(conn, self.slot, place),
                Err(_) => close::drop_early(conn),
            };
        }
        if conn.settings().tls() == TlsPolicy::Require {
            conn.log_failure(format_args!("no TLS, which is required; connection reset"));
            return close::drop_early(conn);
        }
        AwaitRequest::go_on(conn, self.slot, events)
    }
}

impl<U: User> Securing<U> {
    fn begin(conn: &Arc<Conn<U>>, slot: PendingConn<U>, place: Place<U>) -> Stage<U> {
        // tlshd waits for data by the socket's own callbacks.
        conn.socket().detach();
        let this = Self {
            slot,
            place,
            handshake: None,
            patience: Patience::new(conn, timeout::TLS),
        };
        this.set_timer(conn);
        this.try_start(conn)
    }

    /// The timer runs for a short time at once, to try again. Returns false if no time is left.
    fn set_timer(&self, conn: &Arc<Conn<U>>) -> bool {
        // Who waits for a place is told when there is one.
        let waits = !self.place.is_taken();
        let look = match self.handshake {
            None if !waits => timeout::PENDING,
            _ => timeout::GLANCE,
        };
        self.patience.go_on(conn, look)
    }

    /// Asks for the handshake if it is this connection's turn.
    fn try_start(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        if !self.place.take() {
            return Stage::Securing(self);
        }
        let Some(peer) = conn.peer() else {
            return self.fail(conn, errno::ENOTCONN.error());
        };
        let role = Role::Server(peer);
        let auth = match conn.settings().tls_psk() {
            true => Auth::Psk(conn.dev().keys.clone()),
            false => Auth::Certificates,
        };
        match Handshake::start(conn.clone(), role, auth, timeout::TLSHD) {
            Ok(handshake) => {
                self.handshake = Some(handshake);
                // In place of the short one. The callback of the handshake wakes the actor, which
                // looks again when this step is over.
                self.set_timer(conn);
                Stage::Securing(self)
            }
            // The kernel has no room for it at the moment; the timer tries again.
            Err(e) if e == EAGAIN => Stage::Securing(self),
            Err(e) => self.fail(conn, e),
        }
    }

    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let ends = conn.how().is_some() || events.any(Events::LEAVE);
        if ends || self.slot.is_dead() || events.any(Events::GIVE_WAY) {
            return self.fail(conn, errno::ECONNABORTED.error());
        }
        if let Some(outcome) = self.handshake.as_ref().and_then(Handshake::outcome) {
            // It has ended: this waits for nothing but the end of the callback.
            self.handshake = None;
            return match outcome {
                Ok(peer) => {
                    conn.note_identity(peer);
                    self.succeed(conn)
                }
                Err(e) => self.fail(conn, e),
            };
        }
        if events.any(Events::TIMEOUT) && !self.set_timer(conn) {
            return self.fail(conn, errno::ETIMEDOUT.error());
        }
        match self.handshake {
            Some(_) => Stage::Securing(self),
            None => self.try_start(conn),
        }
    }

    /// Goes on over TLS.
    fn succeed(self, conn: &Arc<Conn<U>>) -> Stage<U> {
        match attach(conn) {
            Ok(()) => AwaitRequest::begin(conn, self.slot),
            Err(e) => self.fail(conn, e),
        }
    }

    /// There is no TLS, and so no connection.
    fn fail(self, conn: &Arc<Conn<U>>, e: Error) -> Stage<U> {
        // Cancelled first. Then the connection is reset, or the peer would wait for its time.
        drop(self.handshake);
        failed(conn, e);
        close::drop_early(conn)
    }
}

/// Goes on over TLS: the handshake has ended well. Context: sleeping.
pub(super) fn attach<U: User>(conn: &Arc<Conn<U>>) -> Result {
    let socket = conn.socket();
    socket.secure(conn.settings().tls_key_mib())?;
    socket.attach(conn.clone())?;
    conn.dev().counters.tls_handshakes.add(1);
    // What came before the callbacks is reported by none.
    conn.notify(Events::SOCKET);
    Ok(())
}

/// Counts, and logs, a TLS handshake that fails; `ECONNABORTED`: this end gives it up.
pub(super) fn failed<U: User>(conn: &Conn<U>, e: Error) {
    let why = match e {
        e if e == ESRCH => "no tlshd serves this network namespace",
        e if e == errno::ENOKEY => match conn.settings().tls_psk() {
            true => "the keyring .rsiw has no key for the peer",
            false => "the peer shows no certificate",
        },
        e if e == errno::ENOTUNIQ => "the keyring .rsiw has several keys for the peer",
        e if e == errno::EKEYREJECTED => "the peer's key is none of .rsiw for this address",
        e if e == EACCES => "one end does not accept the other",
        e if e == errno::ECONNRESET => "the peer ends it",
        e if e == errno::ETIMEDOUT => "no answer",
        e if e == errno::EPROTO => "tlshd has agreed on no keys of TLS 1.3",
        _ => "see tlshd's log",
    };
    conn.dev().counters.tls_failures.add(1);
    let errno = e.to_errno();
    if e != errno::ECONNABORTED {
        conn.log_failure(format_args!("TLS handshake failed: error {errno}, {why}"));
    }
}
