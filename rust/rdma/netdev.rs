// SPDX-License-Identifier: GPL-2.0

//! Network devices, as far as RDMA devices on top of them need to know them.

use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    fmt,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};
use rdma_bindings as bindings;

/// A network device (`struct net_device`). [`ARef`] counts references (`dev_hold()`,
/// `dev_put()`); holding one delays the end of a device that goes away, so give it back then.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: Network devices may be used by any thread, and references dropped by any.
unsafe impl Send for NetDevice {}
// SAFETY: As above; what is read here is either constant or read once.
unsafe impl Sync for NetDevice {}

// SAFETY: As long as a reference is held, the structure is not freed.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: The device is alive.
        unsafe { bindings::dev_hold(self.as_raw()) };
    }

    unsafe fn dec_ref(dev: NonNull<Self>) {
        // SAFETY: By the trait's requirement the caller has a reference.
        unsafe { bindings::dev_put(dev.as_ptr().cast()) };
    }
}

/// The lock under which network devices come, go and change; given back when this is dropped.
pub(crate) struct Rtnl {
    /// Of one task.
    _task: PhantomData<*mut ()>,
}

impl Rtnl {
    /// Takes the lock. Wraps `rtnl_lock()`. Context: sleeping, without it.
    pub(crate) fn lock() -> Self {
        // SAFETY: Callers may sleep; taking it twice is a deadlock, not unsound.
        unsafe { bindings::rtnl_lock() };
        Self { _task: PhantomData }
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: `lock` took it, in this task: the type is not `Send`.
        unsafe { bindings::rtnl_unlock() };
    }
}

/// The hardware types that RDMA devices care about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ethernet, or what looks like it.
    Ethernet,
    /// The loopback device.
    Loopback,
    /// No link layer, as tunnels.
    None,
    /// Another `ARPHRD_` constant.
    Other(u16),
}

/// The name of a network device at some moment.
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
    /// `dev` is alive during `'a`.
    pub(crate) unsafe fn from_raw<'a>(dev: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the requirement; the type is transparent.
        unsafe { &*dev.cast::<Self>() }
    }

    /// Takes over a counted reference, or null.
    ///
    /// # Safety
    ///
    /// `dev` is null or comes with a reference that is the caller's.
    pub(crate) unsafe fn take_raw(dev: *mut bindings::net_device) -> Option<ARef<Self>> {
        // SAFETY: By the requirement; the type is transparent.
        NonNull::new(dev.cast::<Self>()).map(|dev| unsafe { ARef::from_raw(dev) })
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// The device's name at this moment. Context: any.
    pub fn name(&self) -> Name {
        let mut name = [0; bindings::IFNAMSIZ as usize];
        // SAFETY: The device is alive, and there is room for a name. It may be changed meanwhile,
        // and then may come out as a mixture.
        unsafe { bindings::netdev_name_bytes(self.as_raw(), name.as_mut_ptr()) };
        let len = name.iter().position(|&c| c == 0).unwrap_or(name.len());
        Name { name, len }
    }

    /// The device's index in its namespace.
    pub fn ifindex(&self) -> i32 {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_ifindex(self.as_raw()) }
    }

    /// The MTU now.
    pub fn mtu(&self) -> u32 {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_mtu(self.as_raw()) }
    }

    /// The largest MTU that the device can have.
    pub fn max_mtu(&self) -> u32 {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_max_mtu(self.as_raw()) }
    }

    /// Whether the device was brought up (`netif_running()`).
    pub fn is_running(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netif_running(self.as_raw()) }
    }

    /// Whether the link is there (`netif_carrier_ok()`).
    pub fn has_carrier(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netif_carrier_ok(self.as_raw()) }
    }

    /// Whether the device is registered, and not on its way out.
    pub fn is_registered(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { bindings::netdev_is_registered(self.as_raw()) }
    }

    /// The hardware type.
    pub fn kind(&self) -> Kind {
        // SAFETY: The device is alive.
        match unsafe { bindings::netdev_type(self.as_raw()) } {
            t if t == bindings::ARPHRD_ETHER as u16 => Kind::Ethernet,
            t if t == bindings::ARPHRD_LOOPBACK as u16 => Kind::Loopback,
            t if t == bindings::ARPHRD_NONE as u16 => Kind::None,
            other => Kind::Other(other),
        }
    }

    /// The hardware address. Context: any; under RTNL it does not change.
    pub fn hw_addr(&self) -> HwAddr {
        let mut addr = [0; bindings::MAX_ADDR_LEN as usize];
        // SAFETY: The device is alive, and there is room for the longest address.
        let len = unsafe { bindings::netdev_copy_addr(self.as_raw(), addr.as_mut_ptr()) };
        let len = usize::from(len).min(addr.len());
        HwAddr { addr, len }
    }

    /// The network namespace; `None` if it is being destroyed.
    pub fn namespace(&self) -> Option<net::Namespace> {
        // SAFETY: The device is alive.
        unsafe { net::Namespace::of_netdev(self.as_raw()) }
    }

    /// Whether both are the same device.
    pub fn same(&self, other: &NetDevice) -> bool {
        self.as_raw() == other.as_raw()
    }
}
