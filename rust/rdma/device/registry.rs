// SPDX-License-Identifier: GPL-2.0

//! Making, finding and removing devices.
//!
//! The core finds devices by driver id, and another driver, which may be loaded at the same time,
//! has the same id as ours. So a driver has a list of its own devices: to find the one on a network
//! device, and to remove them all before the module goes.

use super::{
    handle::{set_ifname, DeviceHandle},
    Device, DeviceState,
};
use crate::{
    iwcm::Requests,
    link::DelLink,
    local::NewLocalDmaKey,
    netdev::{NetDevice, Rtnl},
    ops,
    protocol::Protocol,
    Driver,
};
use core::mem::MaybeUninit;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use net::Namespace;
use rdma_bindings as bindings;

/// The parameters of a new device.
pub struct DeviceConfig<'a> {
    /// Its name.
    pub name: &'a CStr,
    /// The administrator has chosen the name, so udev leaves it alone.
    pub name_by_user: bool,
    /// Its GUID.
    pub node_guid: [u8; 8],
    /// Its description of itself.
    pub node_desc: &'a CStr,
    /// The network device of its port.
    pub ndev: &'a NetDevice,
    /// The network namespace in which the administrator has named it.
    pub namespace: Namespace,
    /// The number of completion vectors.
    pub comp_vectors: u32,
    /// The ports of listeners are the real ones: the port mapper is told of them, and not asked for
    /// others (`IW_F_NO_PORT_MAP`).
    pub no_port_map: bool,
}

/// A device of the list.
struct Entry<D: Driver> {
    dev: DeviceHandle<D>,
    /// The network device that it is on, only to compare, and its protocol: of each there is one
    /// on a network device. `None` once the driver has finished with the device. The core may not
    /// have finished then, and a thread may be in this module's code: see [`List::reap`].
    on: Option<(usize, Protocol)>,
    /// The network device leaves its namespace or goes away.
    leaving: bool,
}

/// The devices of one driver.
#[pin_data]
pub(crate) struct List<D: Driver> {
    #[pin]
    devices: Mutex<KVec<Entry<D>>>,
}

/// All devices of a driver.
pub struct Devices<D: Driver>(Arc<List<D>>);

impl<D: Driver> Clone for Devices<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

fn key(ndev: &NetDevice) -> usize {
    ndev.as_raw() as usize
}

impl<D: Driver> Devices<D> {
    /// Makes an empty list of devices. Errors: `ENOMEM`. Context: sleeping.
    pub fn new() -> Result<Self> {
        let list = pin_init!(List {
            devices <- new_mutex!(KVec::new(), "rdma_devices"),
        });
        Ok(Self(Arc::pin_init(list, GFP_KERNEL)?))
    }

    /// The device of `protocol` that is on `ndev`, registered or about to be. Context: sleeping,
    /// also under RTNL.
    pub fn by_netdev(&self, ndev: &NetDevice, protocol: Protocol) -> Option<DeviceHandle<D>> {
        let devices = self.0.devices.lock();
        let place = (key(ndev), protocol);
        let found = devices.iter().find(|entry| entry.on == Some(place));
        found.map(|entry| entry.dev.clone())
    }

    /// `ndev` leaves its namespace or goes away, so its device of `protocol` has to end. A
    /// workqueue unregisters it, or [`Self::register`] does, if that has not finished. Context:
    /// under RTNL.
    pub fn netdev_leaves(&self, ndev: &NetDevice, protocol: Protocol) {
        let mut devices = self.0.devices.lock();
        let place = (key(ndev), protocol);
        let found = devices.iter_mut().find(|entry| entry.on == Some(place));
        let Some(entry) = found else {
            return;
        };
        entry.leaving = true;
        let dev = entry.dev.clone();
        drop(devices);
        dev.unregister_queued();
    }

    /// Unregisters all devices. On return all are unregistered, also those whose unregistration was
    /// queued, and the driver's data is dropped. The caller must register no device meanwhile.
    /// Context: sleeping, with no locks held.
    pub fn unregister_all(&self) {
        while self.0.unregister_first(|_| true) {}
    }

    /// Makes a device with `data` and registers it. Wraps `ib_alloc_device()`,
    /// `ib_device_set_netdev()` and `ib_register_device()`. Errors: `EEXIST` if this driver has a
    /// device of that protocol on the network device, `ENFILE` if the name is in use, `ENODEV` if
    /// the network device is going away or has moved to another namespace, and those of operations.
    /// Context: sleeping, without RTNL, and without a lock that an operation takes.
    pub fn register(
        &self,
        module: &'static ThisModule,
        config: &DeviceConfig<'_>,
        data: Arc<D::Device>,
    ) -> Result<DeviceHandle<D>> {
        self.0.reap();
        let dev = self.alloc(module, config, data)?;
        // SAFETY: `alloc` has made the device for driver `D`. From here on its operations may be
        // called, and it may be unregistered at any time: `handle` keeps its memory.
        let handle = unsafe { DeviceHandle::from_raw(dev) };
        let registered = to_result(
            // SAFETY: The device is complete, and the name a string.
            unsafe {
                bindings::ib_register_device(dev, config.name.as_char_ptr(), core::ptr::null_mut())
            },
        );
        if let Err(e) = registered {
            // SAFETY: It is not registered, so it ends here: the core calls `dealloc` and drops its
            // reference.
            unsafe { bindings::ib_dealloc_device(dev) };
            return Err(e);
        }
        // `netdev_leaves` marks the device before it unregisters it. So either it has found the
        // device registered, or the mark is found here.
        if self.0.is_leaving(dev) {
            handle.unregister();
            return Err(ENODEV);
        }
        Ok(handle)
    }

    /// Allocates a device that is complete but not registered.
    fn alloc(
        &self,
        module: &'static ThisModule,
        config: &DeviceConfig<'_>,
        data: Arc<D::Device>,
    ) -> Result<*mut bindings::ib_device> {
        let comp_vectors = config.comp_vectors.try_into()?;
        let requests = Requests::new()?;
        let protocol = D::protocol(&data);
        // SAFETY: The device gets the key below, by `fill`.
        let new = unsafe { NewLocalDmaKey::new() };
        let local_dma_lkey = D::local_dma_key(&data, new)?.lkey();
        // A thread that ends the network device, or moves it to another namespace, holds RTNL and
        // calls the notifier. If it did so before this, the state or the namespace that are read
        // here say so. If it does so later, `netdev_leaves` finds the device in the list.
        let rtnl = Rtnl::lock();
        let moved = config.ndev.namespace().as_ref() != Some(&config.namespace);
        if moved || !config.ndev.is_registered() {
            return Err(ENODEV);
        }
        // SAFETY: A `Device<D>` begins with the C structure, and the network device is alive.
        let dev =
            unsafe { bindings::ib_alloc_device_net(size_of::<Device<D>>(), config.ndev.as_raw()) };
        if dev.is_null() {
            return Err(ENOMEM);
        }
        let state = DeviceState {
            data: data.clone(),
            requests,
            registry: self.0.clone(),
        };
        // SAFETY: Nobody else has the device, which has room for a `Device<D>`, and `set` comes
        // before its registration.
        unsafe {
            (*dev.cast::<Device<D>>())
                .state
                .get()
                .write(MaybeUninit::new(state));
            ops::set::<D>(dev, module, protocol);
        }
        // From here on `ib_dealloc_device` drops the state.
        // SAFETY: The device was just allocated, and nobody else has it.
        let result = unsafe { Self::fill(dev, config, protocol, comp_vectors, local_dma_lkey) };
        // SAFETY: The device is alive, and was made above for driver `D`.
        let handle = unsafe { DeviceHandle::from_raw(dev) };
        let place = (key(config.ndev), protocol);
        let added = result.and_then(|()| self.0.add(place, handle.clone()));
        if let Err(e) = added {
            // To free a device the core takes locks under which others take RTNL.
            drop(rtnl);
            // The driver was not told of the device, so it is not told of its end.
            // SAFETY: Nobody else has the device. Its state is taken once.
            unsafe {
                (*dev).ops.dealloc_driver = None;
                drop(take_state::<D>(dev));
                bindings::ib_dealloc_device(dev);
            }
            return Err(e);
        }
        D::attach(&data, handle);
        Ok(dev)
    }

    /// # Safety
    ///
    /// `dev` must have just been allocated, and nobody else may have it.
    unsafe fn fill(
        dev: *mut bindings::ib_device,
        config: &DeviceConfig<'_>,
        protocol: Protocol,
        comp_vectors: i32,
        local_dma_lkey: u32,
    ) -> Result {
        // SAFETY: By the contract of this function `dev` is valid, and nobody else has it.
        let c = unsafe { &mut *dev };
        c.node_type = protocol.node_type();
        c.link_ops = DelLink::<D>::OPS;
        c.node_guid = u64::from_ne_bytes(config.node_guid);
        c.phys_port_cnt = 1;
        c.num_comp_vectors = comp_vectors;
        c.local_dma_lkey = local_dma_lkey;
        c.uverbs_cmd_mask |= 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND;
        if config.no_port_map {
            c.iw_driver_flags = bindings::iw_flags_IW_F_NO_PORT_MAP;
        }
        copy_str(&mut c.node_desc, config.node_desc.to_bytes());
        // SAFETY: By the contract of this function `dev` is valid.
        unsafe { set_ifname(dev, config.ndev) };
        // SAFETY: Both devices are alive, and the device is not registered.
        unsafe {
            if config.name_by_user {
                bindings::ib_mark_name_assigned_by_user(dev);
            }
            to_result(bindings::ib_device_set_netdev(dev, config.ndev.as_raw(), 1))
        }
    }
}

impl<D: Driver> List<D> {
    fn add(&self, place: (usize, Protocol), dev: DeviceHandle<D>) -> Result {
        let mut devices = self.devices.lock();
        if devices.iter().any(|entry| entry.on == Some(place)) {
            return Err(EEXIST);
        }
        let entry = Entry {
            dev,
            on: Some(place),
            leaving: false,
        };
        Ok(devices.push(entry, GFP_KERNEL)?)
    }

    fn is_leaving(&self, dev: *mut bindings::ib_device) -> bool {
        let devices = self.devices.lock();
        devices
            .iter()
            .any(|entry| entry.dev.as_raw() == dev && entry.leaving)
    }

    /// Notes that the driver has finished with a device, which stays in the list. Context:
    /// sleeping.
    fn retire(&self, dev: *mut bindings::ib_device) {
        let mut devices = self.devices.lock();
        for entry in devices.iter_mut() {
            if entry.dev.as_raw() == dev {
                entry.on = None;
            }
        }
    }

    /// Takes those devices off the list that the driver has finished with.
    ///
    /// `dealloc`, the end of a device, does not take it off the list: [`Devices::unregister_all`]
    /// would not wait then for a thread that is still in that function, whose code goes with the
    /// module. To unregister a device that is not registered is to wait for such threads. Context:
    /// sleeping.
    fn reap(&self) {
        while self.unregister_first(|entry| entry.on.is_none()) {}
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

/// Copies `src` to `dst`, which is zeroed, cut off so that a NUL remains.
fn copy_str(dst: &mut [kernel::ffi::c_char], src: &[u8]) {
    let room = dst.len() - 1;
    for (to, from) in dst[..room].iter_mut().zip(src) {
        *to = *from as kernel::ffi::c_char;
    }
}

/// # Safety
///
/// `dev` must be of driver `D` and have its state. Nobody may use it any more, and it is taken
/// once.
unsafe fn take_state<D: Driver>(dev: *mut bindings::ib_device) -> DeviceState<D> {
    // SAFETY: By the contract of this function `dev` begins a `Device<D>` with its state.
    unsafe { (*(*dev.cast::<Device<D>>()).state.get()).assume_init_read() }
}

/// The `dealloc_driver` operation: the end of a device.
///
/// # Safety
///
/// Only the core may call this, for a device of driver `D`.
pub(crate) unsafe extern "C" fn dealloc<D: Driver>(dev: *mut bindings::ib_device) {
    // SAFETY: This is the last operation of the device, and the core calls it once.
    let state = unsafe { take_state::<D>(dev) };
    D::detach(&state.data);
    state.registry.retire(dev);
    drop(state);
}
