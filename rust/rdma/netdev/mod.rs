// SPDX-License-Identifier: GPL-2.0

//! Network devices, with what RDMA devices on top of them need, and their events.

mod notifier;

pub use notifier::{NetdevEvent, NetdevNotifier, NotifierRegistration};

use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    fmt,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};
use rdma_bindings as bindings;

/// A network device (`struct net_device`). [`ARef`] counts references (`dev_hold()`, `dev_put()`).
/// A reference delays the end of a device that goes away, so it must be dropped then.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: Any thread may use a network device, and drop a reference to it.
unsafe impl Send for NetDevice {}
// SAFETY: Any thread may use a network device. C functions read its fields, and say nothing of how
// long the values hold.
unsafe impl Sync for NetDevice {}

// SAFETY: The structure is not freed while a reference is held.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: The device is alive, as `self` is borrowed.
        unsafe { bindings::dev_hold(self.as_raw()) };
    }

    unsafe fn dec_ref(dev: NonNull<Self>) {
        // SAFETY: By the trait's contract the caller has a reference to give back.
        unsafe { bindings::dev_put(dev.as_ptr().cast()) };
    }
}

/// The lock under which network devices come, go and change. Dropping this releases it.
pub(crate) struct Rtnl {
    /// It belongs to one task.
    _task: PhantomData<*mut ()>,
}

impl Rtnl {
    /// Takes the lock. Wraps `rtnl_lock()`. Context: sleeping, without the lock.
    pub(crate) fn lock() -> Self {
        // SAFETY: The function has no requirements but its context, and taking the lock twice is a
        // deadlock, not unsound.
        unsafe { bindings::rtnl_lock() };
        Self { _task: PhantomData }
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: `lock` took it in this task, as the type is not `Send`.
        unsafe { bindings::rtnl_unlock() };
    }
}

/// Hardware types (`ARPHRD_`) that RDMA devices can be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ethernet, or a device that looks like it.
    Ethernet,
    /// The loopback device.
    Loopback,
    /// No link layer, as of a tunnel.
    None,
    /// Another `ARPHRD_` constant.
    Other(u16),
}

/// The name that a network device had at some moment.
#[derive(Clone, Copy)]
pub struct Name {
    name: [u8; bindings::IFNAMSIZ as usize],
    len: usize,
}

impl Name {
    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name[..self.len]
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(self.as_bytes()).unwrap_or("?"))
    }
}

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HwAddr {
    addr: [u8; bindings::MAX_ADDR_LEN as usize],
    len: usize,
}

impl HwAddr {
    /// The address' bytes; none if the device has no address.
    pub fn bytes(&self) -> &[u8] {
        &self.addr[..self.len]
    }
}

impl NetDevice {
    /// # Safety
    ///
    /// `dev` must be alive during `'a`.
    pub(crate) unsafe fn from_raw<'a>(dev: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the contract of this function `dev` is alive. The type is transparent.
        unsafe { &*dev.cast::<Self>() }
    }

    /// Takes over a counted reference; `None` if `dev` is null.
    ///
    /// # Safety
    ///
    /// `dev` must be null, or come with a reference that the caller gives away.
    pub(crate) unsafe fn take_raw(dev: *mut bindings::net_device) -> Option<ARef<Self>> {
        // SAFETY: By the contract of this function the reference is ours. The type is transparent.
        NonNull::new(dev.cast::<Self>()).map(|dev| unsafe { ARef::from_raw(dev) })
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// The device's name at this moment. Context: any.
    pub fn name(&self) -> Name {
        let mut name = [0; bindings::IFNAMSIZ as usize];
        // SAFETY: The device is alive, and there is room for a name. If it changes meanwhile, the
        // copy may be a mixture.
        unsafe { bindings::netdev_name_bytes(self.as_raw(), name.as_mut_ptr()) };
        let len = name.iter().position(|&c| c == 0).unwrap_or(name.len());
        Name { name, len }
    }

    /// The device's index in its namespace. Context: any.
    pub fn ifindex(&self) -> i32 {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_ifindex(self.as_raw()) }
    }

    /// The current MTU, in bytes. Context: any.
    pub fn mtu(&self) -> u32 {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_mtu(self.as_raw()) }
    }

    /// The largest MTU that the device can have, in bytes; `u32::MAX` if it sets no limit, as `lo`
    /// does not. Context: any.
    pub fn max_mtu(&self) -> u32 {
        // SAFETY: The device is alive.
        match unsafe { bindings::netdev_max_mtu(self.as_raw()) } {
            0 => u32::MAX,
            limit => limit,
        }
    }

    /// Whether the device was brought up (`netif_running()`). Context: any.
    pub fn is_running(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netif_running(self.as_raw()) }
    }

    /// Whether the device has a link (`netif_carrier_ok()`). Context: any.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netif_carrier_ok(self.as_raw()) }
    }

    /// Whether the device is registered, and not going away. Context: any; under RTNL it does not
    /// change.
    pub fn is_registered(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_is_registered(self.as_raw()) }
    }

    /// The hardware type. Context: any.
    pub fn kind(&self) -> Kind {
        // SAFETY: The device is alive.
        match unsafe { bindings::netdev_type(self.as_raw()) } {
            t if t == bindings::ARPHRD_ETHER as u16 => Kind::Ethernet,
            t if t == bindings::ARPHRD_LOOPBACK as u16 => Kind::Loopback,
            t if t == bindings::ARPHRD_NONE as u16 => Kind::None,
            other => Kind::Other(other),
        }
    }

    /// Whether the device is a VLAN of another one. Context: any.
    pub fn is_vlan(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_is_vlan(self.as_raw()) }
    }

    /// The hardware address. Context: any; under RTNL it does not change.
    pub fn hw_addr(&self) -> HwAddr {
        let mut addr = [0; bindings::MAX_ADDR_LEN as usize];
        // SAFETY: The device is alive, and there is room for the longest address.
        let len = unsafe { bindings::netdev_copy_addr(self.as_raw(), addr.as_mut_ptr()) };
        let len = usize::from(len).min(addr.len());
        HwAddr { addr, len }
    }

    /// The network namespace; `None` if it is being destroyed. Context: any.
    pub fn namespace(&self) -> Option<net::Namespace> {
        // SAFETY: The device is alive.
        unsafe { net::Namespace::of_netdev(self.as_raw()) }
    }

    /// Whether both are the same device.
    pub fn same(&self, other: &NetDevice) -> bool {
        self.as_raw() == other.as_raw()
    }
}
