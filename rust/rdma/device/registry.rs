// SPDX-License-Identifier: GPL-2.0

//! Making, finding and removing devices.

use super::{
    handle::{set_ifname, DeviceHandle},
    list::{List, Place},
    reference::DeviceRef,
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
use core::marker::PhantomData;
use kernel::{error::to_result, prelude::*, sync::Arc};
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

/// All devices of a driver.
///
/// INVARIANT: The list has devices that [`Self::alloc`] has made for driver `D`, and no others.
pub struct Devices<D: Driver>(Arc<List>, PhantomData<fn(D)>);

impl<D: Driver> Clone for Devices<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<D: Driver> Devices<D> {
    /// Makes an empty list of devices. Errors: `ENOMEM`. Context: sleeping.
    pub fn new() -> Result<Self> {
        // INVARIANT: The list is empty.
        Ok(Self(Arc::pin_init(List::new(), GFP_KERNEL)?, PhantomData))
    }

    /// The device of `protocol` that is on `ndev`, registered or about to be. Context: sleeping,
    /// also under RTNL.
    pub fn by_netdev(&self, ndev: &NetDevice, protocol: Protocol) -> Option<DeviceHandle<D>> {
        self.0.find(Place::of(ndev, protocol)).map(Self::handle)
    }

    /// `ndev` leaves its namespace or goes away, so its device of `protocol` has to end. A
    /// workqueue unregisters it, or [`Self::register`] does, if that has not finished. Context:
    /// under RTNL.
    pub fn netdev_leaves(&self, ndev: &NetDevice, protocol: Protocol) {
        if let Some(dev) = self.0.mark_leaving(Place::of(ndev, protocol)) {
            Self::handle(dev).unregister_queued();
        }
    }

    /// Unregisters all devices. On return all are unregistered, also those whose unregistration was
    /// queued, and the driver's data is dropped. The caller must register no device meanwhile.
    /// Context: sleeping, with no locks held.
    pub fn unregister_all(&self) {
        while let Some(dev) = self.0.first() {
            self.unregister(Self::handle(dev));
        }
    }

    /// A handle of a device of the list.
    fn handle(dev: DeviceRef) -> DeviceHandle<D> {
        // SAFETY: By the type invariant the list has devices of driver `D` only.
        unsafe { DeviceHandle::of(dev) }
    }

    /// Unregisters a device, or waits for the thread that does so, and takes it off the list.
    /// Context: sleeping, with no locks held.
    fn unregister(&self, dev: DeviceHandle<D>) {
        if let Some(dev) = dev.try_get() {
            D::leaving(&dev);
        }
        dev.unregister();
        self.0.remove(dev.as_raw());
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
        while let Some(dev) = self.0.first_retired() {
            self.unregister(Self::handle(dev));
        }
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
            // SAFETY: It is not registered, so it ends here: the core calls `dealloc_driver` and
            // drops its reference.
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
        let requests = Requests::<D::Conn>::new()?;
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
        let state = DeviceState::<D> {
            data: data.clone(),
            requests,
            protocol,
            list: self.0.clone(),
        };
        // SAFETY: Nobody else has the device, which has room for a `Device<D>`, and `set` comes
        // before its registration.
        unsafe {
            Device::set_state(dev, state);
            ops::set::<D>(dev, module, protocol);
        }
        // From here on `ib_dealloc_device` drops the state.
        // SAFETY: The device was just allocated, and nobody else has it.
        let result = unsafe { Self::fill(dev, config, protocol, comp_vectors, local_dma_lkey) };
        // SAFETY: The device is alive, and was made above for driver `D`.
        let handle = unsafe { DeviceHandle::from_raw(dev) };
        let place = Place::of(config.ndev, protocol);
        // INVARIANT: The device was made above for driver `D`.
        let added = result.and_then(|()| self.0.add(place, handle.reference()));
        if let Err(e) = added {
            // To free a device the core takes locks under which others take RTNL.
            drop(rtnl);
            // The driver was not told of the device, so it is not told of its end.
            // SAFETY: Nobody else has the device. Its state is taken once.
            unsafe {
                (*dev).ops.dealloc_driver = None;
                drop(Device::<D>::take_state(dev));
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

/// Copies `src` to `dst`, which is zeroed, cut off so that a NUL remains.
fn copy_str(dst: &mut [kernel::ffi::c_char], src: &[u8]) {
    let room = dst.len() - 1;
    for (to, from) in dst[..room].iter_mut().zip(src) {
        *to = *from as kernel::ffi::c_char;
    }
}
