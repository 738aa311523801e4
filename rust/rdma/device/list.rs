// SPDX-License-Identifier: GPL-2.0

//! The list of a driver's devices.
//!
//! The core finds devices by driver id, and another driver, which may be loaded at the same time,
//! has the same id as ours. So a driver has a list of its own devices: to find the one on a network
//! device, and to remove them all before the module goes.

use super::handle::DeviceHandle;
use crate::{netdev::NetDevice, protocol::Protocol, Driver};
use kernel::{new_mutex, prelude::*, sync::Mutex};
use rdma_bindings as bindings;

/// The network device that a device is on, only to compare, and its protocol: of each there is one
/// on a network device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize, Protocol);

impl Place {
    pub(super) fn of(ndev: &NetDevice, protocol: Protocol) -> Self {
        Self(ndev.as_raw() as usize, protocol)
    }
}

/// A device of the list.
struct Entry<D: Driver> {
    dev: DeviceHandle<D>,
    /// `None` once the driver has finished with the device. The core may not have finished then,
    /// and a thread may be in this module's code: see [`List::reap`].
    place: Option<Place>,
    /// The network device leaves its namespace or goes away.
    leaving: bool,
}

/// The devices of one driver.
#[pin_data]
pub(crate) struct List<D: Driver> {
    #[pin]
    devices: Mutex<KVec<Entry<D>>>,
}

impl<D: Driver> List<D> {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            devices <- new_mutex!(KVec::new(), "rdma_devices"),
        })
    }

    /// The device there, registered or about to be. Context: sleeping.
    pub(super) fn find(&self, place: Place) -> Option<DeviceHandle<D>> {
        let devices = self.devices.lock();
        let found = devices.iter().find(|entry| entry.place == Some(place));
        found.map(|entry| entry.dev.clone())
    }

    /// Notes that the network device of the device there leaves its namespace or goes away. Returns
    /// the device. Context: sleeping.
    pub(super) fn mark_leaving(&self, place: Place) -> Option<DeviceHandle<D>> {
        let mut devices = self.devices.lock();
        let entry = devices
            .iter_mut()
            .find(|entry| entry.place == Some(place))?;
        entry.leaving = true;
        Some(entry.dev.clone())
    }

    pub(super) fn add(&self, place: Place, dev: DeviceHandle<D>) -> Result {
        let mut devices = self.devices.lock();
        if devices.iter().any(|entry| entry.place == Some(place)) {
            return Err(EEXIST);
        }
        let entry = Entry {
            dev,
            place: Some(place),
            leaving: false,
        };
        Ok(devices.push(entry, GFP_KERNEL)?)
    }

    pub(super) fn is_leaving(&self, dev: *mut bindings::ib_device) -> bool {
        let devices = self.devices.lock();
        devices
            .iter()
            .any(|entry| entry.dev.as_raw() == dev && entry.leaving)
    }

    /// Notes that the driver has finished with a device, which stays in the list. Context:
    /// sleeping.
    pub(crate) fn retire(&self, dev: *mut bindings::ib_device) {
        let mut devices = self.devices.lock();
        for entry in devices.iter_mut() {
            if entry.dev.as_raw() == dev {
                entry.place = None;
            }
        }
    }

    /// Takes those devices off the list that the driver has finished with.
    ///
    /// `dealloc_driver`, the end of a device, does not take it off the list:
    /// [`Self::unregister_all`] would not wait then for a thread that is still in that function,
    /// whose code goes with the module. To unregister a device that is not registered is to wait
    /// for such threads. Context: sleeping.
    pub(super) fn reap(&self) {
        while self.unregister_first(|entry| entry.place.is_none()) {}
    }

    /// Unregisters all devices, and takes them off the list. Context: sleeping, with no locks held.
    pub(super) fn unregister_all(&self) {
        while self.unregister_first(|_| true) {}
    }

    /// Unregisters the first device for which `which` is true, or waits for the thread that does
    /// so, and takes it off the list. Returns false if there is none. Context: sleeping.
    fn unregister_first(&self, which: impl Fn(&Entry<D>) -> bool) -> bool {
        let found = {
            let devices = self.devices.lock();
            devices
                .iter()
                .find(|entry| which(entry))
                .map(|entry| entry.dev.clone())
        };
        let Some(dev) = found else {
            return false;
        };
        if let Some(dev) = dev.try_get() {
            D::leaving(&dev);
        }
        dev.unregister();
        let removed = {
            let mut devices = self.devices.lock();
            let index = devices
                .iter()
                .position(|entry| entry.dev.as_raw() == dev.as_raw());
            index.and_then(|index| devices.remove(index).ok())
        };
        drop(removed);
        true
    }
}
