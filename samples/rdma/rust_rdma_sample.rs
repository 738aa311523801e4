// SPDX-License-Identifier: GPL-2.0

//! A sample of an RDMA driver in Rust.
//!
//! `rdma link add NAME type rust_sample netdev DEV` makes a device. It answers queries, a process
//! can open it and allocate protection domains, and it supports nothing else.

use kernel::{prelude::*, str::CStr, sync::Arc};
use kext::Core;
use rdma::{
    DeviceConfig, DeviceHandle, DeviceLimits, Devices, Driver, DriverId, DriverTypes, LinkOps,
    LinkRegistration, LinkSlot, LocalDmaKey, NetDevice, NetdevEvent, NetdevNotifier,
    NewLocalDmaKey, NotifierRegistration, PortAttr, Protocol, Udata, Unsupported,
};

module! {
    type: Sample,
    name: "rust_rdma_sample",
    authors: ["The rsiw developers"],
    description: "Sample RDMA driver in Rust",
    license: "GPL",
    alias: ["rdma-link-rust_sample"],
}

/// The type that the driver's operations belong to.
struct SampleDriver;

/// The driver's part of a device.
struct Port {
    guid: [u8; 8],
}

/// The driver's part of an open of the device by a process: nothing.
struct Context;

/// The driver's part of a protection domain: nothing.
struct Pd;

type Device = rdma::Device<SampleDriver>;

impl DriverTypes for SampleDriver {
    type Device = Port;
    type Context = Context;
    type Pd = Pd;
    type Cq = Unsupported;
    type Qp = Unsupported;
    type Srq = Unsupported;
    type Mr = Unsupported;
    type Conn = Unsupported;
    type Listener = Unsupported;
}

impl Driver for SampleDriver {
    const ID: DriverId = DriverId::UNKNOWN;
    const UVERBS_ABI_VERSION: u32 = 1;

    fn local_dma_key(_port: &Arc<Port>, new: NewLocalDmaKey) -> Result<LocalDmaKey> {
        // There is no queue pair to use it.
        Ok(new.choose(0))
    }

    fn attach(_port: &Arc<Port>, _handle: DeviceHandle<Self>) {}

    fn detach(_port: &Arc<Port>) {}

    fn limits(dev: &Device) -> DeviceLimits {
        DeviceLimits {
            sys_image_guid: dev.data().guid,
            max_pd: 16,
            allow_user_unreg: true,
            ..Default::default()
        }
    }

    fn query_port(dev: &Device) -> Result<PortAttr> {
        dev.port_attr(&*dev.netdev().ok_or(ENODEV)?)
    }

    fn query_gid(dev: &Device, _index: u32) -> Result<[u8; 16]> {
        let mut gid = [0; 16];
        gid[8..].copy_from_slice(&dev.data().guid);
        Ok(gid)
    }
}

impl rdma::ContextOps<SampleDriver> for Context {
    fn alloc(_dev: &Device, _udata: &mut Udata<'_, SampleDriver>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self, GFP_KERNEL)?)
    }
}

impl rdma::PdOps<SampleDriver> for Pd {
    fn alloc(_dev: &Device, _user: Option<&mut Udata<'_, SampleDriver>>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self, GFP_KERNEL)?)
    }
}

/// The link type, and what follows the events of network devices.
struct Links {
    devices: Devices<SampleDriver>,
    module: &'static ThisModule,
}

static SLOT: LinkSlot<Links> = LinkSlot::new();

impl LinkOps for Links {
    const TYPE: &'static CStr = c"rust_sample";

    fn slot() -> &'static LinkSlot<Self> {
        &SLOT
    }

    fn newlink(&self, name: &CStr, ndev: &NetDevice) -> Result {
        let namespace = ndev.namespace().ok_or(ENODEV)?;
        let guid = kext::random_u64().to_ne_bytes();
        let config = DeviceConfig {
            name,
            name_by_user: true,
            node_guid: guid,
            node_desc: c"Sample RDMA device",
            ndev,
            namespace,
            comp_vectors: 1,
            no_port_map: true,
        };
        let port = Arc::new(Port { guid }, GFP_KERNEL)?;
        self.devices.register(self.module, &config, port).map(drop)
    }
}

struct Notifier(Devices<SampleDriver>);

impl NetdevNotifier for Notifier {
    fn event(&self, event: NetdevEvent, ndev: &NetDevice) {
        if event == NetdevEvent::Unregister {
            self.0.netdev_leaves(ndev, Protocol::Iwarp);
        }
    }
}

/// Unregisters all devices when dropped.
struct Unregister(Devices<SampleDriver>);

impl Drop for Unregister {
    fn drop(&mut self) {
        self.0.unregister_all();
    }
}

/// The module. Its fields are dropped in order: no new device, no more events, then no device.
struct Sample {
    _link: Pin<KBox<LinkRegistration<Links>>>,
    _notifier: Pin<KBox<NotifierRegistration<Notifier>>>,
    _devices: Unregister,
    _core: Core,
}

impl kernel::Module for Sample {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let core = Core::new()?;
        let devices = Devices::new()?;
        let unregister = Unregister(devices.clone());
        let notifier = NotifierRegistration::new(Notifier(devices.clone()))?;
        let link = LinkRegistration::new(Links { devices, module })?;
        Ok(Self {
            _link: link,
            _notifier: notifier,
            _devices: unregister,
            _core: core,
        })
    }
}
