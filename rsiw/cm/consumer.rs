// SPDX-License-Identifier: GPL-2.0

//! What a consumer calls for, and what it has of a connection.

use super::rc::Pairing;
use kernel::{prelude::*, sync::Arc};
use net::errno;
use rdma::CmId;

/// An established connection's queue pair, and who is told of the connection.
pub(super) enum Established<U> {
    /// A consumer of iwcm, by its identifier.
    Iwcm(CmId, Arc<U>),
    /// Nobody: the queue pair was called by name.
    Called(Arc<Pairing<U>>),
    /// Nobody: the queue pair has called by name.
    Caller(Arc<U>),
}

impl<U> Established<U> {
    /// The queue pair.
    pub(super) fn user(&self) -> &Arc<U> {
        match self {
            Self::Iwcm(_, user) | Self::Caller(user) => user,
            Self::Called(pairing) => &pairing.user,
        }
    }

    /// The identifier of the consumer that is told, if any is.
    pub(super) fn cm(&self) -> Option<&CmId> {
        match self {
            Self::Iwcm(cm, _) => Some(cm),
            Self::Called(_) | Self::Caller(_) => None,
        }
    }

    /// The queue pair that was called by name, if the connection is a call's.
    pub(super) fn called(&self) -> Option<&Arc<Pairing<U>>> {
        match self {
            Self::Called(pairing) => Some(pairing),
            Self::Iwcm(..) | Self::Caller(_) => None,
        }
    }
}

/// What a consumer calls for, and what comes of it.
pub(super) struct Call<'a, U> {
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

impl<U> Call<'_, U> {
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
