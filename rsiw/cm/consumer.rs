// SPDX-License-Identifier: GPL-2.0

//! What a consumer calls for, and what it has of a connection.

use kernel::{prelude::*, sync::Arc};
use net::errno;
use rdma::CmId;

/// An established connection's consumer, by its identifier, and queue pair.
pub(super) struct Established<U> {
    /// `None`: the queue pair's program has connected it, and is told of nothing.
    pub(super) cm: Option<CmId>,
    pub(super) user: Arc<U>,
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
