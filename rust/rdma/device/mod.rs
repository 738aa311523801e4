// SPDX-License-Identifier: GPL-2.0

//! RDMA devices.
//!
//! - [`Device`]: a device whose driver's data is alive, as operations get it.
//! - [`DeviceHandle`] ([`handle`]): a counted reference for any time and context.
//! - [`Devices`] ([`registry`]): making, finding and ending the devices of one driver.

pub mod handle;
pub mod registry;

pub use handle::{DeviceGuard, DeviceHandle, DeviceName, OnceHandle, PortEvent};
pub use registry::{DeviceConfig, Devices};

use crate::{
    attr::device::{PortAttr, PortState},
    iwcm::Requests,
    netdev::NetDevice,
    Driver,
};
use core::{cell::UnsafeCell, mem::MaybeUninit};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::Opaque,
};
use rdma_bindings as bindings;

/// What the driver's part of a device holds.
pub(crate) struct DeviceState<D: Driver> {
    pub(crate) data: Arc<D::Device>,
    pub(crate) requests: Requests<D::Conn>,
    pub(crate) registry: Arc<registry::List<D>>,
}

/// An RDMA device (`struct ib_device`) whose driver's data is alive.
///
/// Operations get a reference to it, as the core keeps the device registered while they run; other
/// code gets it by way of [`DeviceHandle::try_get`].
#[repr(C)]
pub struct Device<D: Driver> {
    ib: Opaque<bindings::ib_device>,
    state: UnsafeCell<MaybeUninit<DeviceState<D>>>,
}

// SAFETY: `ib_device` may be used by any thread, and so may the state.
unsafe impl<D: Driver> Send for Device<D> {}
// SAFETY: As above; the state is changed only when nobody has a reference.
unsafe impl<D: Driver> Sync for Device<D> {}

impl<D: Driver> Device<D> {
    /// # Safety
    ///
    /// `dev` was made by [`registry`] for driver `D`, and its state is there during `'a`.
    pub(crate) unsafe fn from_raw<'a>(dev: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: By the requirement; the C structure comes first.
        unsafe { &*dev.cast::<Self>() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.ib.get()
    }

    pub(crate) fn state(&self) -> &DeviceState<D> {
        // SAFETY: There are references to `Self` only while the state is there.
        unsafe { (*self.state.get()).assume_init_ref() }
    }

    /// The driver's data.
    pub fn data(&self) -> &Arc<D::Device> {
        &self.state().data
    }

    /// A counted reference for any time and context.
    pub fn handle(&self) -> DeviceHandle<D> {
        // SAFETY: The device is alive.
        unsafe { DeviceHandle::from_raw(self.as_raw()) }
    }

    /// The device's name at this moment.
    pub fn name(&self) -> DeviceName {
        // SAFETY: The device is alive.
        unsafe { DeviceName::of(self.as_raw()) }
    }

    /// The network device that it belongs to; `None` when that is going away. Wraps
    /// `ib_device_get_netdev()`. Context: sleeping.
    pub fn netdev(&self) -> Option<ARef<NetDevice>> {
        // SAFETY: The device is alive and has a port 1; the result is a counted reference.
        unsafe { NetDevice::take_raw(bindings::ib_device_get_netdev(self.as_raw(), 1)) }
    }

    /// Attributes of a port on `ndev`: state, MTU, and the speed as `ib_get_eth_speed()` has it,
    /// with one GID and messages of any length. Takes RTNL. Context: sleeping.
    pub fn port_attr(&self, ndev: &NetDevice) -> Result<PortAttr> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The device is alive and has a port 1.
        to_result(unsafe { bindings::ib_get_eth_speed(self.as_raw(), 1, &mut speed, &mut width) })?;
        Ok(PortAttr {
            state: if ndev.is_running() && ndev.has_carrier() {
                PortState::Active
            } else {
                PortState::Down
            },
            gid_tbl_len: 1,
            max_msg_sz: u32::MAX,
            max_mtu: ndev.max_mtu(),
            active_mtu: ndev.mtu(),
            active_speed: speed,
            active_width: width,
        })
    }

    /// Connection requests that the connection manager has not answered.
    pub(crate) fn requests(&self) -> &Requests<D::Conn> {
        &self.state().requests
    }
}
