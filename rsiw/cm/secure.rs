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
    close::LastWords,
    conn::{Conn, Events},
    initiator::{self, Attempt, Connecting},
    listener::PendingConn,
    pace::{Place, Side},
    patience::Patience,
    responder::AwaitRequest,
    stage::Stage,
    timeout, Lost, User,
};
use crate::settings::TlsPolicy;
use core::{format_args, net::SocketAddr};
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

/// The attempt waits for its turn to make a TLS handshake. TCP has not begun to connect.
pub(super) struct AwaitTurn<U: User> {
    attempt: KBox<Attempt<U>>,
    /// The address to connect to.
    remote: SocketAddr,
}

/// Responder: the peer has connected, and its first octet has not come.
pub(super) struct AwaitOctet<U: User> {
    slot: PendingConn<U>,
}

/// The TLS handshake is made, or waits for its turn.
pub(super) struct Securing<U: User> {
    end: End<U>,
    handshake: Option<Handshake<Conn<U>>>,
    patience: Patience,
}

/// What this end is, and goes on with.
enum End<U: User> {
    /// The initiator, which sends the MPA Request. It has its place since before TCP connected.
    Initiator(KBox<Attempt<U>>),
    /// The responder, which awaits the MPA Request.
    Responder(PendingConn<U>, Place<U>),
}

impl<U: User> AwaitTurn<U> {
    /// Takes a place for the handshake of `attempt`; false if others have their turns first.
    /// Errors: `ENOMEM`; the user has lost the connection then.
    pub(super) fn is_over(conn: &Arc<Conn<U>>, attempt: &mut Attempt<U>) -> Result<bool> {
        let place = Place::wait(conn, Side::Initiator, &attempt.remote).inspect_err(|_| {
            attempt.user.lost(Lost::Handshake);
        })?;
        // The handshakes end in any order.
        conn.needs_no_order();
        Ok(attempt.place.insert(place).take())
    }

    /// The first stage, if it is not over.
    pub(super) fn begin(
        conn: &Arc<Conn<U>>,
        mut attempt: KBox<Attempt<U>>,
        remote: SocketAddr,
    ) -> Stage<U> {
        let ms = attempt.turn;
        attempt.set_timeout(conn, ms);
        Stage::AwaitTurn(Self { attempt, remote })
    }

    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if let Some(e) = self.attempt.cut_short(conn, events) {
            return close::fail_attempt(conn, &self.attempt, e, LastWords::None, None);
        }
        let mut attempt = self.attempt;
        if !attempt.place.as_mut().is_none_or(Place::take) {
            self.attempt = attempt;
            return Stage::AwaitTurn(self);
        }
        // All turns of an attempt that is repeated have this time together.
        attempt.turn = attempt.patience.left(conn).max(1);
        let ms = attempt.connect;
        attempt.set_timeout(conn, ms);
        match conn.socket().connect(&self.remote) {
            Ok(_) => Stage::Connecting(Connecting { attempt }),
            Err(e) => close::fail_attempt(conn, &attempt, e, LastWords::None, None),
        }
    }
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
                Ok(place) => Securing::begin(conn, End::Responder(self.slot, place)),
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
    /// The next stage of an initiator that TCP has connected.
    pub(super) fn initiate(conn: &Arc<Conn<U>>, attempt: KBox<Attempt<U>>) -> Stage<U> {
        Self::begin(conn, End::Initiator(attempt))
    }

    fn begin(conn: &Arc<Conn<U>>, end: End<U>) -> Stage<U> {
        // tlshd waits for data by the socket's own callbacks.
        conn.socket().detach();
        let this = Self {
            end,
            handshake: None,
            patience: Patience::new(conn, timeout::TLS),
        };
        this.set_timer(conn);
        this.try_start(conn)
    }

    /// The timer runs for a short time at once, to try again, or to see whether the process that
    /// connects still exists. Returns false if no time is left.
    fn set_timer(&self, conn: &Arc<Conn<U>>) -> bool {
        // Who waits for a place is told when there is one.
        let waits = matches!(&self.end, End::Responder(_, place) if !place.is_taken());
        let look = match self.handshake {
            None if !waits => timeout::PENDING,
            _ => timeout::GLANCE,
        };
        self.patience.go_on(conn, look)
    }

    /// Asks for the handshake if it is this connection's turn.
    fn try_start(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        if let End::Responder(_, place) = &mut self.end {
            if !place.take() {
                return Stage::Securing(self);
            }
        }
        let role = match &self.end {
            End::Initiator(attempt) => Role::Client(attempt.server),
            End::Responder(..) => match conn.peer() {
                Some(peer) => Role::Server(peer),
                None => return self.fail(conn, errno::ENOTCONN.error()),
            },
        };
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
        if ends || self.end.is_over(events) {
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
        let socket = conn.socket();
        let secured = socket.secure(conn.settings().tls_key_mib());
        if let Err(e) = secured.and_then(|()| socket.attach(conn.clone())) {
            return self.fail(conn, e);
        }
        conn.dev().counters.tls_handshakes.add(1);
        // What came before the callbacks is reported by none.
        conn.notify(Events::SOCKET);
        match self.end {
            End::Initiator(attempt) => initiator::request(conn, attempt),
            End::Responder(slot, place) => {
                drop(place);
                AwaitRequest::begin(conn, slot)
            }
        }
    }

    /// There is no TLS, and so no connection.
    fn fail(self, conn: &Arc<Conn<U>>, e: Error) -> Stage<U> {
        // Cancelled first. Then the connection is reset, or the peer would wait for its time.
        drop(self.handshake);
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
        match self.end {
            End::Initiator(attempt) => {
                let e = match e {
                    e if e == errno::ECONNABORTED || e == errno::ETIMEDOUT => e,
                    _ => EACCES,
                };
                close::fail_attempt(conn, &attempt, e, LastWords::None, None)
            }
            End::Responder(..) => close::drop_early(conn),
        }
    }
}

impl<U: User> End<U> {
    /// Whether nobody waits for the handshake any more.
    fn is_over(&self, events: Events) -> bool {
        match self {
            End::Initiator(attempt) => events.any(Events::TIMEOUT) && attempt.user.is_orphaned(),
            End::Responder(slot, _) => slot.is_dead() || events.any(Events::GIVE_WAY),
        }
    }
}
