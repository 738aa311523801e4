// SPDX-License-Identifier: GPL-2.0

//! References to devices of one driver that do not keep them registered.

use super::{reference::DeviceRef, Device};
use crate::{iwcm::RequestId, netdev::NetDevice, types::DriverTypes};
use core::{marker::PhantomData, ops::Deref};
use kernel::{
    fmt,
    sync::{Arc, SetOnce},
};
use rdma_bindings as bindings;

/// The name that a device had at some moment.
#[derive(Clone, Copy)]
pub struct DeviceName {
    name: [u8; NAME_MAX],
    len: usize,
}

const NAME_MAX: usize = bindings::IB_DEVICE_NAME_MAX as usize;

impl DeviceName {
    /// # Safety
    ///
    /// `dev` must be alive.
    pub(crate) unsafe fn of(dev: *mut bindings::ib_device) -> Self {
        let mut name = [0; NAME_MAX];
        // SAFETY: By the contract of this function `dev` is alive. If the name changes meanwhile,
        // the copy may be a mixture, within the array.
        unsafe { kext::copy::bytes_in(&mut name, (&raw const (*dev).name).cast()) };
        let len = name.iter().position(|&c| c == 0).unwrap_or(NAME_MAX);
        Self { name, len }
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name[..self.len]
    }
}

impl AsRef<[u8]> for DeviceName {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Default for DeviceName {
    /// No name.
    fn default() -> Self {
        Self {
            name: [0; NAME_MAX],
            len: 0,
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() {
                Ok(())
            } else {
                f.write_str("?")
            }
        })
    }
}

/// An event of the port (`enum ib_event_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortEvent {
    /// It has become usable.
    Active,
    /// It cannot be used any more.
    Error,
    /// Its address has changed.
    LidChange,
    /// Its GID has changed.
    GidChange,
}

/// A counted reference to a device of driver `D`. It keeps the memory, but not the device
/// registered. It may be kept, cloned and dropped in any context.
pub struct DeviceHandle<D: DriverTypes> {
    dev: DeviceRef,
    _driver: PhantomData<fn(D)>,
}

/// Storage for a device's handle in the driver's data, which is made before the device.
pub struct OnceHandle<D: DriverTypes>(SetOnce<DeviceHandle<D>>);

impl<D: DriverTypes> OnceHandle<D> {
    /// Makes an empty storage.
    pub const fn new() -> Self {
        Self(SetOnce::new())
    }

    /// Stores the handle, for [`Driver::attach`](crate::Driver::attach). Returns false, and does
    /// nothing, if there is one.
    pub fn set(&self, handle: DeviceHandle<D>) -> bool {
        self.0.populate(handle)
    }

    /// The handle, if there is one. Context: any.
    pub fn get(&self) -> Option<&DeviceHandle<D>> {
        self.0.as_ref()
    }
}

impl<D: DriverTypes> Default for OnceHandle<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: DriverTypes> Clone for DeviceHandle<D> {
    fn clone(&self) -> Self {
        Self {
            dev: self.dev.clone(),
            _driver: PhantomData,
        }
    }
}

impl<D: DriverTypes> DeviceHandle<D> {
    /// # Safety
    ///
    /// `dev` must be alive, and come from [`registry`](super::registry) for driver `D`.
    pub(crate) unsafe fn from_raw(dev: *mut bindings::ib_device) -> Self {
        // SAFETY: By the contract of this function `dev` is alive, and is of driver `D`.
        unsafe { Self::of(DeviceRef::new(dev)) }
    }

    /// # Safety
    ///
    /// `dev` must come from [`registry`](super::registry) for driver `D`.
    pub(super) unsafe fn of(dev: DeviceRef) -> Self {
        Self {
            dev,
            _driver: PhantomData,
        }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.dev.as_raw()
    }

    pub(super) fn reference(&self) -> DeviceRef {
        self.dev.clone()
    }

    /// The device's name at this moment.
    pub fn name(&self) -> DeviceName {
        // SAFETY: `self` keeps the device alive.
        unsafe { DeviceName::of(self.as_raw()) }
    }

    /// Keeps the device registered, if it is: its unregistration waits until the guard is dropped.
    /// Wraps `ib_device_try_get()`. Context: any.
    pub fn try_get(&self) -> Option<DeviceGuard<D>> {
        // SAFETY: `self` keeps the device alive.
        if !unsafe { bindings::ib_device_try_get(self.as_raw()) } {
            return None;
        }
        Some(DeviceGuard(self.clone()))
    }

    /// Tells consumers of an event of the port. Does nothing if the device is not registered. Wraps
    /// `ib_dispatch_event()`. Context: any.
    pub fn port_event(&self, event: PortEvent) {
        let Some(dev) = self.try_get() else {
            return;
        };
        let event = bindings::ib_event {
            device: dev.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 { port_num: 1 },
            event: match event {
                PortEvent::Active => bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
                PortEvent::Error => bindings::ib_event_type_IB_EVENT_PORT_ERR,
                PortEvent::LidChange => bindings::ib_event_type_IB_EVENT_LID_CHANGE,
                PortEvent::GidChange => bindings::ib_event_type_IB_EVENT_GID_CHANGE,
            },
        };
        // SAFETY: The device is registered as long as the guard is there.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Tells consumers whether the port is usable, by the state of `ndev`, if that has changed.
    /// Does nothing if the device is not registered. Wraps `ib_dispatch_port_state_event()`.
    /// Context: sleeping, also under RTNL.
    pub fn port_state_changed(&self, ndev: &NetDevice) {
        let Some(dev) = self.try_get() else {
            return;
        };
        // SAFETY: The guard keeps the device, and the reference the network device.
        unsafe { bindings::ib_dispatch_port_state_event(dev.as_raw(), ndev.as_raw()) };
    }

    /// Tells the connection manager the name of `ndev`, the network device of the port, which it
    /// passes on to the port mapper. It reads the name without a lock, and may get a mixture of the
    /// old and the new one. Context: under RTNL.
    pub fn set_netdev_name(&self, ndev: &NetDevice) {
        // SAFETY: `self` keeps the device alive.
        unsafe { set_ifname(self.as_raw(), ndev) };
    }

    /// Has a workqueue unregister the device, if it is registered. Wraps
    /// `ib_unregister_device_queued()`. Context: sleeping, also under RTNL.
    pub fn unregister_queued(&self) {
        if let Some(dev) = self.try_get() {
            // SAFETY: The device is registered as long as the guard is there, and has a
            // `dealloc_driver` operation.
            unsafe { bindings::ib_unregister_device_queued(dev.as_raw()) };
        }
    }

    /// Unregisters the device, if it is registered, and waits until it is unregistered, whoever
    /// does that. Wraps `ib_unregister_device()`. Context: sleeping, without RTNL, and without a
    /// lock that an operation of the driver takes.
    pub fn unregister(&self) {
        // SAFETY: `self` keeps the device alive. If the device is not registered, the function only
        // waits for others that unregister it.
        unsafe { bindings::ib_unregister_device(self.as_raw()) };
    }

    /// Takes back a connection request that the connection manager has not answered. `None` if it
    /// has, or if the device is not registered. Context: any.
    pub fn withdraw(&self, id: RequestId) -> Option<Arc<D::Conn>> {
        self.try_get()?.requests().take(id)
    }
}

/// Writes the name of `ndev` to `iw_ifname`.
///
/// # Safety
///
/// `dev` must be alive.
pub(super) unsafe fn set_ifname(dev: *mut bindings::ib_device, ndev: &NetDevice) {
    const LEN: usize = bindings::IFNAMSIZ as usize;
    let (name, mut to) = (ndev.name(), [0; LEN]);
    // The last byte stays 0, so readers find the end of a string at any time.
    for (to, from) in to[..LEN - 1].iter_mut().zip(name.as_bytes()) {
        *to = *from;
    }
    // SAFETY: By the contract of this function `dev` is alive, and the field has `LEN` bytes. Only
    // C code reads it.
    unsafe { kext::copy::bytes_out((&raw mut (*dev).iw_ifname).cast(), &to) };
}

/// Keeps a device registered while it exists.
pub struct DeviceGuard<D: DriverTypes>(DeviceHandle<D>);

impl<D: DriverTypes> Deref for DeviceGuard<D> {
    type Target = Device<D>;

    fn deref(&self) -> &Device<D> {
        // SAFETY: The device was made for driver `D`. It has its state as long as it is registered,
        // and this guard keeps it registered.
        unsafe { Device::from_raw(self.0.as_raw()) }
    }
}

impl<D: DriverTypes> Drop for DeviceGuard<D> {
    fn drop(&mut self) {
        // SAFETY: This gives back the reference that `try_get` has taken.
        unsafe { bindings::ib_device_put(self.0.as_raw()) };
    }
}
