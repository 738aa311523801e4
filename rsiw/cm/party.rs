// SPDX-License-Identifier: GPL-2.0

//! Whose a connection is, from the first stage to the last.

use super::{
    consumer::Established, initiator::attempt::Attempt, listener::Refused, rc::Pairing,
    responder::incoming::Incoming, tls::Tls, User,
};
use core::mem::replace;
use kernel::{prelude::*, sync::Arc};

/// Whose the connection is at the moment, and what that needs of it.
pub(super) enum Party<U: User> {
    /// That of an attempt, until `CONNECT_REPLY` is reported, which takes it.
    Attempt(KBox<Attempt<U>>),
    /// That of a listener, until its Request is answered.
    Incoming(KBox<Incoming<U>>),
    /// That of a queue pair, until `CLOSE` is reported, which takes it.
    Established(Established<U>),
    /// Nobody's any more. One that a listener has refused keeps its place until the end.
    Nobody { _place: Option<Refused<U>> },
}

impl<U: User> Party<U> {
    /// The queue pair that the connection was attached to.
    pub(super) fn user(&self) -> Option<&Arc<U>> {
        match self {
            Party::Attempt(attempt) => Some(attempt.user()),
            Party::Incoming(incoming) => incoming.user(),
            Party::Established(established) => Some(established.user()),
            Party::Nobody { .. } => None,
        }
    }

    /// The queue pair that was called by name, if the connection is a call's.
    pub(super) fn called(&self) -> Option<&Arc<Pairing<U>>> {
        match self {
            Party::Incoming(incoming) => incoming.called(),
            Party::Established(established) => established.called(),
            Party::Attempt(_) | Party::Nobody { .. } => None,
        }
    }

    /// The part of TLS in a connection that is set up.
    pub(super) fn tls(&mut self) -> Option<&mut Tls<U>> {
        match self {
            Party::Attempt(attempt) => Some(&mut attempt.tls),
            Party::Incoming(incoming) => Some(&mut incoming.tls),
            Party::Established(_) | Party::Nobody { .. } => None,
        }
    }

    /// Takes it, and leaves nobody.
    pub(super) fn take(&mut self) -> Self {
        replace(self, Party::Nobody { _place: None })
    }
}
