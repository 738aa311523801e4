// SPDX-License-Identifier: GPL-2.0

//! Network namespaces, as far as sockets need them.

use crate::bindings;
use core::ptr::NonNull;

/// A counted reference to a live network namespace.
///
/// The reference keeps the namespace from being destroyed. Hold it for one operation only: an
/// object that waits for the end of the namespace must not keep it alive.
pub struct Namespace {
    /// INVARIANT: This object owns one reference count of the namespace.
    net: NonNull<bindings::net>,
}

// SAFETY: The reference count is atomic, and any thread may drop a reference.
unsafe impl Send for Namespace {}
// SAFETY: Functions with a shared reference only read the namespace.
unsafe impl Sync for Namespace {}

impl Namespace {
    /// The initial namespace.
    pub fn init() -> Self {
        // SAFETY: `init_net` is a static variable, so a reference to it may be taken at any time.
        let net = unsafe { bindings::ksock_net_init() };
        // INVARIANT: The helper took a reference.
        Self {
            // SAFETY: It is the address of a variable, and never null.
            net: unsafe { NonNull::new_unchecked(net) },
        }
    }

    /// The namespace of a network device, or `None` if that namespace is being destroyed.
    ///
    /// C: `maybe_get_net(dev_net_rcu(dev))`. Any context.
    ///
    /// # Safety
    ///
    /// `dev` must point to a `net_device` that stays allocated for the time of the call.
    pub unsafe fn of_netdev(dev: *const bindings::net_device) -> Option<Self> {
        // SAFETY: `dev` is valid by the contract of this function. The helper reads `dev`'s pointer
        // to the namespace under the RCU read lock. So the namespace's memory stays until the
        // reference is taken, even if the device moves to another namespace meanwhile.
        let net = unsafe { bindings::ksock_net_of_netdev(dev) };
        // INVARIANT: The helper took a reference if it returned a namespace.
        Some(Self {
            net: NonNull::new(net)?,
        })
    }

    /// Whether it is the initial namespace, that of the host. Context: any.
    pub fn is_init(&self) -> bool {
        *self == Self::init()
    }

    /// Whether `port` is in the range from which `connect()` picks local ports
    /// (`net.ipv4.ip_local_port_range`).
    pub fn is_ephemeral_port(&self, port: u16) -> bool {
        // SAFETY: The namespace is alive by the type invariant.
        unsafe { bindings::ksock_net_ephemeral_port(self.net.as_ptr(), port) }
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::net {
        self.net.as_ptr()
    }
}

impl PartialEq for Namespace {
    /// Whether both are the same namespace.
    fn eq(&self, other: &Self) -> bool {
        self.net == other.net
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is a reference to give back, and it is not used
        // again.
        unsafe { bindings::ksock_net_put(self.net.as_ptr()) };
    }
}
