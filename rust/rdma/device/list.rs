// SPDX-License-Identifier: GPL-2.0

//! The list of a driver's devices.
//!
//! The core finds devices by driver id, and another driver, which may be loaded at the same time,
//! has the same id as ours. So a driver has a list of its own devices: to find the one on a network
//! device, and to remove them all before the module goes.

use super::reference::DeviceRef;
use crate::{netdev::NetDevice, protocol::Protocol};
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
struct Entry {
    dev: DeviceRef,
    /// `None` once the driver has finished with the device. The core may not have finished then,
    /// and a thread may be in this module's code: see [`List::first_retired`].
    place: Option<Place>,
    /// The network device leaves its namespace or goes away.
    leaving: bool,
}

/// The devices of one driver.
#[pin_data]
pub(crate) struct List {
    #[pin]
    devices: Mutex<KVec<Entry>>,
}

impl List {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            devices <- new_mutex!(KVec::new(), "rdma_devices"),
        })
    }

    fn find_entry(&self, which: impl Fn(&Entry) -> bool) -> Option<DeviceRef> {
        let devices = self.devices.lock();
        let found = devices.iter().find(|entry| which(entry));
        found.map(|entry| entry.dev.clone())
    }

    /// The device there, registered or about to be. Context: sleeping.
    pub(super) fn find(&self, place: Place) -> Option<DeviceRef> {
        self.find_entry(|entry| entry.place == Some(place))
    }

    /// The first device. Context: sleeping.
    pub(super) fn first(&self) -> Option<DeviceRef> {
        self.find_entry(|_| true)
    }

    /// The first device that the driver has finished with.
    ///
    /// `dealloc_driver`, the end of a device, does not take it off the list: who removes all
    /// devices would not wait then for a thread that is still in that function, whose code goes
    /// with the module. To unregister a device that is not registered is to wait for such threads.
    /// Context: sleeping.
    pub(super) fn first_retired(&self) -> Option<DeviceRef> {
        self.find_entry(|entry| entry.place.is_none())
    }

    /// Notes that the network device of the device there leaves its namespace or goes away. Returns
    /// the device. Context: sleeping.
    pub(super) fn mark_leaving(&self, place: Place) -> Option<DeviceRef> {
        let mut devices = self.devices.lock();
        let entry = devices
            .iter_mut()
            .find(|entry| entry.place == Some(place))?;
        entry.leaving = true;
        Some(entry.dev.clone())
    }

    pub(super) fn add(&self, place: Place, dev: DeviceRef) -> Result {
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

    /// Takes a device off the list. Context: sleeping.
    pub(super) fn remove(&self, dev: *mut bindings::ib_device) {
        let removed = {
            let mut devices = self.devices.lock();
            let index = devices.iter().position(|entry| entry.dev.as_raw() == dev);
            index.and_then(|index| devices.remove(index).ok())
        };
        drop(removed);
    }
}
