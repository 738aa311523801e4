// SPDX-License-Identifier: GPL-2.0

//! RDMA devices.
//!
//! - [`Device`]: a device that has its state, as operations get it.
//! - [`DeviceHandle`] ([`handle`]): a counted reference for any time and context.
//! - [`Devices`] ([`registry`]): making, finding and removing the devices of one driver, which are
//!   in a [`list`].

pub mod handle;
pub(crate) mod list;
pub(crate) mod reference;
pub mod registry;

pub use handle::{DeviceGuard, DeviceHandle, DeviceName, OnceHandle, PortEvent};
pub use registry::{DeviceConfig, Devices};

use crate::{
    attr::device::{PortAttr, PortState},
    iwcm::Requests,
    netdev::NetDevice,
    protocol::Protocol,
    types::DriverTypes,
};
use core::{cell::UnsafeCell, mem::MaybeUninit};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::Opaque,
};
use rdma_bindings as bindings;

/// The state of a device: the driver's data, and the crate's own.
pub(crate) struct DeviceState<D: DriverTypes> {
    pub(crate) data: Arc<D::Device>,
    pub(crate) requests: Requests<D::Conn>,
    pub(crate) protocol: Protocol,
    pub(crate) list: Arc<list::List>,
}

/// An RDMA device (`struct ib_device`) that has its state.
///
/// Operations get a reference to it, as the core keeps the device registered while they run. Other
/// code gets it by [`DeviceHandle::try_get`].
#[repr(C)]
pub struct Device<D: DriverTypes> {
    ib: Opaque<bindings::ib_device>,
    state: UnsafeCell<MaybeUninit<DeviceState<D>>>,
}

// SAFETY: Any thread may use an `ib_device`, and the state is `Send` and `Sync`.
unsafe impl<D: DriverTypes> Send for Device<D> {}
// SAFETY: Any thread may use an `ib_device`, and the state is `Send` and `Sync`. It changes only
// while nobody has a reference.
unsafe impl<D: DriverTypes> Sync for Device<D> {}

impl<D: DriverTypes> Device<D> {
    /// # Safety
    ///
    /// `dev` must come from [`registry`] for driver `D`, and must have its state during `'a`.
    pub(crate) unsafe fn from_raw<'a>(dev: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: By the contract of this function `dev` begins a `Device<D>` (`repr(C)`).
        unsafe { &*dev.cast::<Self>() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.ib.get()
    }

    pub(crate) fn state(&self) -> &DeviceState<D> {
        // SAFETY: There are references to a `Device` only while it has its state.
        unsafe { (*self.state.get()).assume_init_ref() }
    }

    /// Gives a device its state.
    ///
    /// # Safety
    ///
    /// `dev` must begin a `Device<D>`, and nobody else may have it.
    unsafe fn set_state(dev: *mut bindings::ib_device, state: DeviceState<D>) {
        // SAFETY: By the contract of this function there is room for it, and nobody else uses it.
        unsafe {
            (*dev.cast::<Self>())
                .state
                .get()
                .write(MaybeUninit::new(state));
        }
    }

    /// Takes the state of a device that ends.
    ///
    /// # Safety
    ///
    /// `dev` must be of driver `D` and have its state. Nobody may use it any more, and it is taken
    /// once.
    pub(crate) unsafe fn take_state(dev: *mut bindings::ib_device) -> DeviceState<D> {
        // SAFETY: By the contract of this function `dev` begins a `Device<D>` with its state.
        unsafe { (*(*dev.cast::<Self>()).state.get()).assume_init_read() }
    }

    /// The driver's data.
    pub fn data(&self) -> &Arc<D::Device> {
        &self.state().data
    }

    /// The device's protocol.
    pub(crate) fn protocol(&self) -> Protocol {
        self.state().protocol
    }

    /// A counted reference, for any time and context.
    pub fn handle(&self) -> DeviceHandle<D> {
        // SAFETY: The device is alive, as `self` is, and comes from `registry` for driver `D`.
        unsafe { DeviceHandle::from_raw(self.as_raw()) }
    }

    /// The device's name at this moment.
    pub fn name(&self) -> DeviceName {
        // SAFETY: The device is alive, as `self` is.
        unsafe { DeviceName::of(self.as_raw()) }
    }

    /// The network device of the port; `None` if it is going away. Wraps `ib_device_get_netdev()`.
    /// Context: sleeping.
    pub fn netdev(&self) -> Option<ARef<NetDevice>> {
        // SAFETY: The device is alive and has a port 1. The function returns a counted reference or
        // null.
        unsafe { NetDevice::take_raw(bindings::ib_device_get_netdev(self.as_raw(), 1)) }
    }

    /// Whether the connection manager asks the host's port mapper for the ports of connections and
    /// listeners that begin after this. It reads the flags without a lock, when it begins one.
    /// Context: any.
    pub fn set_port_map(&self, on: bool) {
        let flags = if on {
            0
        } else {
            bindings::iw_flags_IW_F_NO_PORT_MAP
        };
        // SAFETY: The device is alive, as `self` is. The word is aligned, only this function writes
        // to it once the device is registered, and readers take either value.
        unsafe { (&raw mut (*self.as_raw()).iw_driver_flags).write_volatile(flags) };
    }

    /// Attributes of a port on `ndev`: its state, its MTU, its speed by `ib_get_eth_speed()`, and
    /// the longest messages of the protocol. Takes RTNL. Errors: `ENODEV`. Context: sleeping.
    pub fn port_attr(&self, ndev: &NetDevice) -> Result<PortAttr> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The device is alive and has a port 1, and both results are valid for writes.
        to_result(unsafe { bindings::ib_get_eth_speed(self.as_raw(), 1, &mut speed, &mut width) })?;
        Ok(PortAttr {
            state: if ndev.is_running() && ndev.has_carrier() {
                PortState::Active
            } else {
                PortState::Down
            },
            max_msg_sz: self.protocol().max_message(),
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
