// SPDX-License-Identifier: GPL-2.0

//! References to the C structures of devices.

use core::ptr::NonNull;
use rdma_bindings as bindings;

/// A counted reference to the C structure of a device, of any driver.
pub(crate) struct DeviceRef(NonNull<bindings::ib_device>);

// SAFETY: The reference count is atomic, and any thread may drop a reference.
unsafe impl Send for DeviceRef {}
// SAFETY: A shared reference only gives the pointer, or takes another reference, by an atomic
// count.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// # Safety
    ///
    /// `dev` must be alive.
    pub(crate) unsafe fn new(dev: *mut bindings::ib_device) -> Self {
        // SAFETY: By the contract of this function `dev` is alive, and so it is not null.
        unsafe {
            bindings::ib_device_get_ref(dev);
            Self(NonNull::new_unchecked(dev))
        }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }
}

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        // SAFETY: `self` keeps the device alive.
        unsafe { Self::new(self.as_raw()) }
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        // SAFETY: `self` has a reference to give back.
        unsafe { bindings::ib_device_put_ref(self.as_raw()) };
    }
}
