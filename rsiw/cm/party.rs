// SPDX-License-Identifier: GPL-2.0

//! Whose a connection is, from the first stage to the last.

use super::{initiator::Attempt, listener::Refused, responder::Incoming, User};
use core::mem::replace;
use kernel::{prelude::*, sync::Arc};
use net::errno;
use rdma::CmId;

/// An established connection's consumer, by its identifier, and queue pair.
pub(super) struct Established<U: User> {
    /// `None`: the queue pair's program has connected it, and is told of nothing.
    pub(super) cm: Option<CmId>,
    pub(super) user: Arc<U>,
}

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

/// What a consumer calls for, and what comes of it.
pub(super) struct Call<'a, U: User> {
    /// The queue pair that accepts, if there is one.
    pub(super) user: Option<Arc<U>>,
    /// The identifier that accepts.
    pub(super) cm: Option<CmId>,
    pub(super) ird: u32,
    pub(super) ord: u32,
    pub(super) private_data: &'a [u8],
    /// A Reply has room for these private data.
    pub(super) fits: bool,
    /// What the consumer is told. It comes too late, unless the machine says otherwise.
    pub(super) result: Result,
}

impl<U: User> Call<'_, U> {
    /// No consumer calls.
    pub(super) fn nobodys() -> Self {
        Self {
            user: None,
            cm: None,
            ird: 0,
            ord: 0,
            private_data: &[],
            fits: true,
            result: Err(errno::ECONNRESET.into()),
        }
    }
}

impl<U: User> Party<U> {
    /// The queue pair that the connection was attached to.
    pub(super) fn user(&self) -> Option<&Arc<U>> {
        match self {
            Party::Attempt(attempt) => Some(attempt.user()),
            Party::Incoming(incoming) => incoming.user(),
            Party::Established(established) => Some(&established.user),
            Party::Nobody { .. } => None,
        }
    }

    /// Takes it, and leaves nobody.
    pub(super) fn take(&mut self) -> Self {
        replace(self, Party::Nobody { _place: None })
    }
}
