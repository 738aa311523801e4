// SPDX-License-Identifier: GPL-2.0

//! TLS between TCP and MPA: whether there is any, and the handshake.
//!
//! The initiator decides by its device's policy before TCP connects. The responder's policy says
//! what it takes, and the first byte that comes tells what it is: a TLS record, or an MPA Request.
//! So no byte of either end negotiates TLS, and nobody on the path can negotiate it away.
//!
//! tlshd makes the handshake, with certificates on both ends or by a pre-shared key. It needs the
//! socket to itself: callbacks are detached for that time, and attached on top of TLS' own
//! afterwards.

use super::{
    conn::{Conn, Conns},
    events::Event,
    pace::{Side, Ticket},
    silent::Source,
    timeout, Told, User,
};
use core::format_args;
use iwarp::conn::{Input, SetUp};
use kernel::{prelude::*, sync::Arc};
use net::{errno, Auth, Handshake, Role};
use rdma::Consumer;

/// The first byte of a TLS handshake: the type of its record.
pub(super) const TLS_HANDSHAKE: u8 = 22;

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

/// Logs why a stream with TLS is broken that the peer may have reset: what it has said before can
/// still be read behind the socket's error. Context: sleeping.
pub(super) fn log_gone<U: User>(conn: &Conn<U>, e: Error) {
    let is_gone = e == EPIPE || e == errno::ECONNRESET;
    let said = is_gone.then(|| conn.socket().recv(&mut [0]).err());
    log_broken(conn, said.flatten().unwrap_or(e));
}

/// Whether a connection may make its TLS handshake.
pub(super) enum TlsTurn {
    /// It may.
    Come,
    /// Others make theirs first. [`Event::Turn`] comes when it may.
    Waits,
}

/// A connection's place for the handshake, or its wait for one. Dropping it ends either.
struct Place<U: User> {
    conns: Arc<Conns<U>>,
    side: Side,
    consumer: Consumer,
    ticket: Ticket,
}

impl<U: User> Place<U> {
    /// Has `conn` wait for a place. Context: sleeping. Errors: `ENOMEM`; `ENOTCONN`: the peer has
    /// gone.
    fn wait(conn: &Conn<U>, side: Side) -> Result<Self> {
        let peer = conn.peer().ok_or_else(|| errno::ENOTCONN.error())?;
        let (conns, consumer) = (conn.registry.clone(), conn.consumer());
        let pace = conns.paces.of(side, consumer);
        let ticket = pace.wait(Source::of(&peer), conn.serial)?;
        Ok(Self {
            conns,
            side,
            consumer,
            ticket,
        })
    }

    /// Takes a place if it is the connection's turn. If not, [`Event::Turn`] comes when it is.
    /// Returns whether it has one. Context: sleeping.
    fn take(&mut self) -> bool {
        let pace = self.conns.paces.of(self.side, self.consumer);
        if let Some(next) = pace.take(&mut self.ticket) {
            self.conns.give_turn(next);
        }
        self.ticket.has_place()
    }
}

impl<U: User> Drop for Place<U> {
    fn drop(&mut self) {
        let pace = self.conns.paces.of(self.side, self.consumer);
        if let Some(next) = pace.leave(&self.ticket) {
            self.conns.give_turn(next);
        }
    }
}

/// A connection's part in TLS until its handshake has ended.
pub(super) struct Tls<U: User> {
    /// This end's role in the handshake. `None`: the peer has gone already.
    role: Option<Role>,
    /// The place for the handshake, or the wait for one.
    place: Option<Place<U>>,
    /// The handshake, while it is made.
    handshake: Option<Handshake<Conn<U>>>,
}

impl<U: User> Tls<U> {
    pub(super) fn new(role: Option<Role>) -> Self {
        Self {
            role,
            place: None,
            handshake: None,
        }
    }

    /// Has `conn` wait for its turn, which may have come at once. Context: sleeping. Errors:
    /// `ENOMEM`; `ENOTCONN`: the peer has gone.
    pub(super) fn wait(&mut self, conn: &Conn<U>) -> Result<TlsTurn> {
        let side = match self.role {
            Some(Role::Client(_)) => Side::Initiator,
            _ => Side::Responder,
        };
        let has_come = self.place.insert(Place::wait(conn, side)?).take();
        Ok(if has_come {
            TlsTurn::Come
        } else {
            TlsTurn::Waits
        })
    }

    /// Whether the handshake has ended, and how; or whether it is the connection's turn to make it.
    /// Context: sleeping.
    pub(super) fn ask(&mut self, conn: &Conn<U>) -> Told {
        let Some(handshake) = &self.handshake else {
            let come = self.place.as_mut().is_none_or(Place::take);
            return Ok(come.then_some(Input::Turn));
        };
        let Some(outcome) = handshake.outcome() else {
            return Ok(None);
        };
        // It has ended: this waits for nothing but the end of the callback.
        self.handshake = None;
        match outcome {
            Ok(peer) => {
                conn.note_identity(peer);
                Ok(Some(Input::TlsDone))
            }
            Err(e) => Err((Input::TlsFailed, e)),
        }
    }

    /// Ends the handshake, if it has not ended, as it fails with `e`. Context: sleeping.
    pub(super) fn fail(&mut self, conn: &Conn<U>, e: Error) {
        self.handshake = None;
        failed(conn, e);
    }

    /// Does what the machine has decided. Context: sleeping.
    pub(super) fn set_up(&mut self, conn: &Arc<Conn<U>>, action: SetUp) -> Told {
        let failed = |e| (Input::TlsFailed, e);
        Ok(match action {
            SetUp::AwaitPlace => match self.wait(conn).map_err(|e| (Input::Broken, e))? {
                TlsTurn::Come => Some(Input::Turn),
                TlsTurn::Waits => None,
            },
            SetUp::FreePlace => {
                self.place = None;
                None
            }
            SetUp::StartTls => {
                let role = self.role.ok_or(failed(errno::ENOTCONN.error()))?;
                let auth = if conn.settings().tls_psk() {
                    Auth::Psk(conn.dev().keys.clone())
                } else {
                    Auth::Certificates
                };
                match Handshake::start(conn.clone(), role, auth, timeout::TLSHD) {
                    Ok(handshake) => {
                        self.handshake = Some(handshake);
                        Some(Input::TlsStarted)
                    }
                    // The kernel has no room for it at the moment.
                    Err(e) if e == EAGAIN => Some(Input::TryAgain),
                    Err(e) => return Err(failed(e)),
                }
            }
            SetUp::AttachTls => {
                attach(conn).map_err(failed)?;
                Some(Input::Secured)
            }
            _ => None,
        })
    }
}

/// Goes on over TLS: the handshake has ended well. Context: sleeping.
fn attach<U: User>(conn: &Arc<Conn<U>>) -> Result {
    let socket = conn.socket();
    socket.secure(conn.settings().tls_key_mib())?;
    socket.attach(conn.clone())?;
    conn.dev().counters.tls_handshakes.add(1);
    // What came before the callbacks is reported by none.
    conn.notify(Event::Socket);
    Ok(())
}

/// Counts, and logs, a TLS handshake that fails; `ECONNABORTED`: this end gives it up.
fn failed<U: User>(conn: &Conn<U>, e: Error) {
    let why = match e {
        e if e == ESRCH => "no tlshd serves this network namespace",
        e if e == errno::ENOKEY => {
            if conn.settings().tls_psk() {
                "the keyring .rsiw has no key for the peer"
            } else {
                "the peer shows no certificate"
            }
        }
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
