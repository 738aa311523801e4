// SPDX-License-Identifier: GPL-2.0

//! Making, finding and ending devices.
//!
//! The core finds devices by driver id, and ours is the id of another driver as well, which may be
//! loaded at the same time. So a driver has a list of its own devices: to find the one on a network
//! device, and to end them all before the module goes.

use super::{handle::DeviceHandle, Device, DeviceState};
use crate::{iwcm::Requests, link::DelLink, netdev::NetDevice, ops, Driver};
use core::mem::MaybeUninit;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use rdma_bindings as bindings;

/// What a device is made with.
pub struct DeviceConfig<'a> {
    /// Its name.
    pub name: &'a CStr,
    /// The name was chosen by the administrator, so that udev leaves it alone.
    pub name_by_user: bool,
    /// Its GUID.
    pub node_guid: [u8; 8],
    /// What it calls itself.
    pub node_desc: &'a CStr,
    /// The network device of its port.
    pub ndev: &'a NetDevice,
    /// The number of completion vectors.
    pub comp_vectors: u32,
    /// The key of all kernel memory, if [`DeviceLimits`](crate::DeviceLimits) says that there is.
    pub local_dma_lkey: u32,
    /// Listening ports are the real ones: the port mapper is told, not asked.
    pub no_port_map: bool,
}

/// The devices of one driver: each with the network device that it is on, only to compare.
#[pin_data]
pub(crate) struct List<D: Driver> {
    #[pin]
    devices: Mutex<KVec<(usize, DeviceHandle<D>)>>,
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
    /// No devices. Context: sleeping.
    pub fn new() -> Result<Self> {
        let list = pin_init!(List {
            devices <- new_mutex!(KVec::new(), "rdma_devices"),
        });
        Ok(Self(Arc::pin_init(list, GFP_KERNEL)?))
    }

    /// The device that is on `ndev`, registered or about to be. Context: sleeping, also under
    /// RTNL.
    pub fn by_netdev(&self, ndev: &NetDevice) -> Option<DeviceHandle<D>> {
        let devices = self.0.devices.lock();
        devices
            .iter()
            .find(|(on, _)| *on == key(ndev))
            .map(|(_, dev)| dev.clone())
    }

    /// Unregisters all devices. On return each is unregistered and its driver's data dropped, also
    /// those whose unregistration was queued. No device must be registered meanwhile. Context:
    /// sleeping, with no locks held.
    pub fn unregister_all(&self) {
        loop {
            let next = self.0.devices.lock().last().map(|(_, dev)| dev.clone());
            let Some(dev) = next else {
                return;
            };
            dev.unregister();
            // `dealloc` took it off the list; a device whose registration failed is off it, too.
            self.0.remove(dev.as_raw());
        }
    }

    /// Makes and registers a device with `data`. Wraps `ib_alloc_device()`,
    /// `ib_device_set_netdev()` and `ib_register_device()`. Fails with `EEXIST` if the network
    /// device has one of this driver's already, `ENFILE` if the name is in use, `ENODEV` if the
    /// network device is going away, and what operations return. Context: sleeping, with no lock
    /// that an operation takes, nor RTNL.
    pub fn register(
        &self,
        module: &'static ThisModule,
        config: &DeviceConfig<'_>,
        data: Arc<D::Device>,
    ) -> Result<DeviceHandle<D>> {
        let dev = self.alloc(module, config, data)?;
        // SAFETY: The device is alive. Its operations may be called from here on, and it may be
        // unregistered at any time: `handle` keeps its memory.
        let handle = unsafe { DeviceHandle::from_raw(dev) };
        let registered = to_result(
            // SAFETY: The device is complete, and the name a string.
            unsafe {
                bindings::ib_register_device(dev, config.name.as_char_ptr(), core::ptr::null_mut())
            },
        );
        if let Err(e) = registered {
            // SAFETY: It is not registered, so this ends it, by way of `ops::dealloc`.
            unsafe { bindings::ib_dealloc_device(dev) };
            return Err(e);
        }
        // When a network device goes away, its state is changed, then the notifier runs. Either
        // that finds the device registered, or this finds the state changed.
        crate::ring::mb();
        if !config.ndev.is_registered() {
            handle.unregister();
            return Err(ENODEV);
        }
        Ok(handle)
    }

    /// Allocates a device, complete but not registered.
    fn alloc(
        &self,
        module: &'static ThisModule,
        config: &DeviceConfig<'_>,
        data: Arc<D::Device>,
    ) -> Result<*mut bindings::ib_device> {
        let comp_vectors = config.comp_vectors.try_into()?;
        let requests = Requests::new()?;
        // SAFETY: The size is at least that of the C structure, and the network device is alive.
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
        // SAFETY: The device is this function's own, with room for a `Device<D>`.
        unsafe {
            (*dev.cast::<Device<D>>())
                .state
                .get()
                .write(MaybeUninit::new(state));
            ops::set::<D>(dev, module);
        }
        // From here on `ib_dealloc_device` drops the state.
        // SAFETY: The device is this function's own.
        let result = unsafe { Self::fill(dev, config, comp_vectors) };
        // SAFETY: The device is alive.
        let handle = unsafe { DeviceHandle::from_raw(dev) };
        if let Err(e) = result.and_then(|()| self.0.add(config.ndev, handle.clone())) {
            // The driver was not told of the device, and is not told of its end.
            // SAFETY: The device is this function's own; the state is taken once.
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
    /// `dev` was just allocated, and nobody else has it.
    unsafe fn fill(
        dev: *mut bindings::ib_device,
        config: &DeviceConfig<'_>,
        comp_vectors: i32,
    ) -> Result {
        // SAFETY: By the requirement.
        let c = unsafe { &mut *dev };
        c.node_type = bindings::RDMA_NODE_RNIC as u8;
        c.link_ops = DelLink::<D>::OPS;
        c.node_guid = u64::from_ne_bytes(config.node_guid);
        c.phys_port_cnt = 1;
        c.num_comp_vectors = comp_vectors;
        c.local_dma_lkey = config.local_dma_lkey;
        c.uverbs_cmd_mask |= 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND;
        if config.no_port_map {
            c.iw_driver_flags = bindings::iw_flags_IW_F_NO_PORT_MAP;
        }
        copy_str(&mut c.node_desc, config.node_desc.to_bytes());
        copy_str(&mut c.iw_ifname, config.ndev.name().as_bytes());
        // SAFETY: Both devices are alive.
        unsafe {
            if config.name_by_user {
                bindings::ib_mark_name_assigned_by_user(dev);
            }
            to_result(bindings::ib_device_set_netdev(dev, config.ndev.as_raw(), 1))
        }
    }
}

impl<D: Driver> List<D> {
    fn add(&self, ndev: &NetDevice, dev: DeviceHandle<D>) -> Result {
        let mut devices = self.devices.lock();
        if devices.iter().any(|(on, _)| *on == key(ndev)) {
            return Err(EEXIST);
        }
        Ok(devices.push((key(ndev), dev), GFP_KERNEL)?)
    }

    /// Takes a device off the list. Context: sleeping.
    fn remove(&self, dev: *mut bindings::ib_device) {
        let mut devices = self.devices.lock();
        let index = devices.iter().position(|(_, d)| d.as_raw() == dev);
        let removed = index.and_then(|index| devices.remove(index).ok());
        drop(devices);
        drop(removed);
    }
}

/// Copies `src` and a NUL, cut off where there is no more room.
fn copy_str(dst: &mut [kernel::ffi::c_char], src: &[u8]) {
    let room = dst.len() - 1;
    for (to, from) in dst[..room].iter_mut().zip(src) {
        *to = *from as kernel::ffi::c_char;
    }
}

/// # Safety
///
/// `dev` is of driver `D` and has its state; nobody uses it any more, and it is taken once.
unsafe fn take_state<D: Driver>(dev: *mut bindings::ib_device) -> DeviceState<D> {
    // SAFETY: By the requirement.
    unsafe { (*(*dev.cast::<Device<D>>()).state.get()).assume_init_read() }
}

/// The `dealloc_driver` operation: the end of a device.
///
/// # Safety
///
/// Only to be called by the core, for a device of driver `D`.
pub(crate) unsafe extern "C" fn dealloc<D: Driver>(dev: *mut bindings::ib_device) {
    // SAFETY: This is the last operation of the device, and called once.
    let state = unsafe { take_state::<D>(dev) };
    D::detach(&state.data);
    state.registry.remove(dev);
    drop(state);
}
