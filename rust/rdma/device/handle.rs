// SPDX-License-Identifier: GPL-2.0

//! References to devices that do not depend on the registration.

use super::Device;
use crate::{iwcm::RequestId, netdev::NetDevice, Driver};
use core::{marker::PhantomData, ops::Deref, ptr::NonNull};
use kernel::{
    fmt,
    sync::{Arc, SetOnce},
};
use rdma_bindings as bindings;

/// A counted reference to the C structure, of any driver.
pub(crate) struct DeviceRef(NonNull<bindings::ib_device>);

// SAFETY: The reference count is atomic, and may be dropped by any thread.
unsafe impl Send for DeviceRef {}
// SAFETY: As above.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// # Safety
    ///
    /// `dev` is alive.
    pub(crate) unsafe fn new(dev: *mut bindings::ib_device) -> Self {
        // SAFETY: By the requirement.
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
        // SAFETY: `self` has a reference.
        unsafe { bindings::ib_device_put_ref(self.as_raw()) };
    }
}

/// The name of a device at some moment.
#[derive(Clone, Copy)]
pub struct DeviceName {
    name: [u8; NAME_MAX],
    len: usize,
}

const NAME_MAX: usize = bindings::IB_DEVICE_NAME_MAX as usize;

impl DeviceName {
    /// # Safety
    ///
    /// `dev` is alive.
    pub(crate) unsafe fn of(dev: *mut bindings::ib_device) -> Self {
        let mut name = [0; NAME_MAX];
        // SAFETY: By the requirement. The name may be changed meanwhile, and then may come out as
        // a mixture; it stays within the array.
        unsafe { crate::copy::bytes_in(&mut name, (&raw const (*dev).name).cast()) };
        let len = name.iter().position(|&c| c == 0).unwrap_or(NAME_MAX);
        Self { name, len }
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name[..self.len]
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

/// What can happen to a port.
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

/// A counted reference to a device of driver `D`. It keeps memory, not the registration, and may
/// be kept, cloned and dropped in any context.
pub struct DeviceHandle<D: Driver> {
    dev: DeviceRef,
    _driver: PhantomData<fn(D)>,
}

/// A place for a device's handle in the driver's data, which exists before the device does.
pub struct OnceHandle<D: Driver>(SetOnce<DeviceHandle<D>>);

impl<D: Driver> OnceHandle<D> {
    /// An empty place.
    pub const fn new() -> Self {
        Self(SetOnce::new())
    }

    /// Fills it, unless it is full; to be called by [`Driver::attach`].
    pub fn set(&self, handle: DeviceHandle<D>) -> bool {
        self.0.populate(handle)
    }

    /// The handle, if there is one. Context: any.
    pub fn get(&self) -> Option<&DeviceHandle<D>> {
        self.0.as_ref()
    }
}

impl<D: Driver> Default for OnceHandle<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Driver> Clone for DeviceHandle<D> {
    fn clone(&self) -> Self {
        Self {
            dev: self.dev.clone(),
            _driver: PhantomData,
        }
    }
}

impl<D: Driver> DeviceHandle<D> {
    /// # Safety
    ///
    /// `dev` is alive and was made by [`registry`](super::registry) for driver `D`.
    pub(crate) unsafe fn from_raw(dev: *mut bindings::ib_device) -> Self {
        Self {
            // SAFETY: By the requirement.
            dev: unsafe { DeviceRef::new(dev) },
            _driver: PhantomData,
        }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.dev.as_raw()
    }

    /// The device's name at this moment.
    pub fn name(&self) -> DeviceName {
        // SAFETY: `self` keeps the device alive.
        unsafe { DeviceName::of(self.as_raw()) }
    }

    /// Keeps the device registered, if it is: unregistering it waits until the guard is dropped.
    /// Wraps `ib_device_try_get()`. Context: any.
    pub fn try_get(&self) -> Option<DeviceGuard<D>> {
        // SAFETY: `self` keeps the device alive.
        if !unsafe { bindings::ib_device_try_get(self.as_raw()) } {
            return None;
        }
        Some(DeviceGuard(self.clone()))
    }

    /// Tells consumers of an event of the port. Does nothing if the device is not registered.
    /// Wraps `ib_dispatch_event()`. Context: any.
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

    /// Tells consumers whether the port is usable, by what `ndev` says, if that has changed. Does
    /// nothing if the device is not registered. Wraps `ib_dispatch_port_state_event()`. Context:
    /// sleeping, also under RTNL.
    pub fn port_state_changed(&self, ndev: &NetDevice) {
        let Some(dev) = self.try_get() else {
            return;
        };
        // SAFETY: Both devices are kept.
        unsafe { bindings::ib_dispatch_port_state_event(dev.as_raw(), ndev.as_raw()) };
    }

    /// Lets the device be unregistered by a workqueue, if it is registered. Wraps
    /// `ib_unregister_device_queued()`. Context: sleeping, also under RTNL.
    pub fn unregister_queued(&self) {
        if let Some(dev) = self.try_get() {
            // SAFETY: The device is registered as long as the guard is there, and has a
            // `dealloc_driver` operation.
            unsafe { bindings::ib_unregister_device_queued(dev.as_raw()) };
        }
    }

    /// Unregisters the device, if it is registered, and waits until that is done, whoever does
    /// it. Wraps `ib_unregister_device()`. Context: sleeping, with no lock that an operation of
    /// the driver's takes, nor RTNL.
    pub fn unregister(&self) {
        // SAFETY: `self` keeps the device alive; the function does nothing but wait for others if
        // the device is not registered (any more).
        unsafe { bindings::ib_unregister_device(self.as_raw()) };
    }

    /// Takes a connection request back that the connection manager has not answered; `None` if it
    /// has, or if the device is not registered. Context: any.
    pub fn withdraw(&self, id: RequestId) -> Option<Arc<D::Conn>> {
        self.try_get()?.requests().take(id)
    }
}

/// Keeps a device registered.
pub struct DeviceGuard<D: Driver>(DeviceHandle<D>);

impl<D: Driver> Deref for DeviceGuard<D> {
    type Target = Device<D>;

    fn deref(&self) -> &Device<D> {
        // SAFETY: The device was made for driver `D`; its state is there as long as it is
        // registered, which this guard keeps it.
        unsafe { Device::from_raw(self.0.as_raw()) }
    }
}

impl<D: Driver> Drop for DeviceGuard<D> {
    fn drop(&mut self) {
        // SAFETY: This gives back what `try_get` has got.
        unsafe { bindings::ib_device_put(self.0.as_raw()) };
    }
}
