// SPDX-License-Identifier: GPL-2.0

//! Connection requests that are not answered yet.
//!
//! iwcm carries a pointer of the driver's from the request to its answer, and may drop the request
//! on the way without telling. So it gets a number instead of a pointer. The connection is in a
//! table until it is accepted, rejected or withdrawn: each of these takes it out, and only the
//! first one finds it.

use core::{ffi::c_void, ptr};
use kernel::{prelude::*, sync::Arc};
use kext::idtable::IdTable;

/// The number of a connection request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestId(u32);

impl RequestId {
    pub(super) fn to_c(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0 as usize)
    }

    /// The number in the pointer that iwcm gave back.
    pub(crate) fn from_c(data: *mut c_void) -> Option<Self> {
        data.addr().try_into().ok().map(Self)
    }
}

/// The requests of one device.
pub struct Requests<T: Send + Sync + 'static>(IdTable<T>);

impl<T: Send + Sync + 'static> Requests<T> {
    pub(crate) fn new() -> Result<Self> {
        // 0 would be a null pointer. Allocation is cyclic, so that a number is not used again soon.
        Ok(Self(IdTable::new(1, u32::MAX - 1)?))
    }

    pub(super) fn add(&self, conn: Arc<T>) -> Result<RequestId> {
        let reserved = self.0.reserve_cyclic()?;
        let id = reserved.id();
        reserved.publish(conn, GFP_KERNEL)?;
        Ok(RequestId(id))
    }

    /// Takes the connection of a request out of the table, unless that was done before. Context:
    /// any.
    pub(crate) fn take(&self, id: RequestId) -> Option<Arc<T>> {
        self.0.remove(id.0)
    }
}
