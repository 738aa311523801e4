// SPDX-License-Identifier: GPL-2.0

//! Connection requests that are not answered yet.
//!
//! The connection manager carries a pointer of the driver's from the request to its answer, and
//! may drop it on the way without telling. So it gets a number instead, and the connection stays
//! in a table until it is accepted, rejected or withdrawn, whichever comes first; each of them
//! takes it out, and only one finds it.

use crate::idtable::IdTable;
use core::{ffi::c_void, ptr};
use kernel::{prelude::*, sync::Arc};

/// The number of a connection request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestId(u32);

impl RequestId {
    pub(super) fn to_c(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0 as usize)
    }

    /// From what the connection manager gave back.
    pub(crate) fn from_c(data: *mut c_void) -> Option<Self> {
        data.addr().try_into().ok().map(Self)
    }
}

/// The requests of one device.
pub struct Requests<T: Send + Sync + 'static>(IdTable<T>);

impl<T: Send + Sync + 'static> Requests<T> {
    pub(crate) fn new() -> Result<Self> {
        // 0 would be a null pointer. Numbers go round, so that one is not used again soon.
        Ok(Self(IdTable::new(1, u32::MAX - 1)?))
    }

    pub(super) fn add(&self, conn: Arc<T>) -> Result<RequestId> {
        let reserved = self.0.reserve_cyclic()?;
        let id = reserved.id();
        reserved.publish(conn, GFP_KERNEL)?;
        Ok(RequestId(id))
    }

    /// Takes the request out, unless somebody else has. Context: any.
    pub(crate) fn take(&self, id: RequestId) -> Option<Arc<T>> {
        self.0.remove(id.0)
    }
}
