// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the RDMA core, for drivers of devices in software.
//!
//! To write a driver, do this:
//!
//! - Name the types of its objects by [`DriverTypes`]: [`Unsupported`] in place of a kind that its
//!   devices do not have.
//! - Implement [`Driver`] for the device, and the traits in [`driver`] for the objects.
//! - Make a device by [`Devices::register`]. The core then calls these methods.
//! - Call that for `rdma link add` ([`link`]), end devices with the network devices below them
//!   ([`NotifierRegistration`]), and with the module ([`Devices::unregister_all`]).
//! - Have the module create [`kext::Core`] before anything else of this crate, and drop it last.
//!
//! A driver contains no unsafe code. `rust_rdma_sample.rs` is the least that is a whole module.
//!
//! # Example
//!
//! A device that answers queries, and of which a process can have protection domains.
//!
//! ```
//! use kernel::{prelude::*, str::CStr, sync::Arc};
//! use rdma::*;
//!
//! /// The driver, and what it keeps of a device, an open of it by a process, and a domain.
//! struct MyDriver;
//! struct Port([u8; 8]);
//! struct Context;
//! struct Pd;
//!
//! impl DriverTypes for MyDriver {
//!     type Device = Port;
//!     type Context = Context;
//!     type Pd = Pd;
//!     type Cq = Unsupported;
//!     type Qp = Unsupported;
//!     type Srq = Unsupported;
//!     type Mr = Unsupported;
//!     type Conn = Unsupported;
//!     type Listener = Unsupported;
//! }
//!
//! impl Driver for MyDriver {
//!     const ID: DriverId = DriverId::UNKNOWN;
//!     const UVERBS_ABI_VERSION: u32 = 1;
//!
//!     fn local_dma_key(_port: &Arc<Port>, new: NewLocalDmaKey) -> Result<LocalDmaKey> {
//!         Ok(new.choose(0))
//!     }
//!
//!     fn attach(_port: &Arc<Port>, _handle: DeviceHandle<Self>) {}
//!
//!     fn detach(_port: &Arc<Port>) {}
//!
//!     fn limits(dev: &Device<Self>) -> DeviceLimits {
//!         DeviceLimits { sys_image_guid: dev.data().0, max_pd: 16, ..Default::default() }
//!     }
//!
//!     fn query_port(dev: &Device<Self>) -> Result<PortAttr> {
//!         dev.port_attr(&*dev.netdev().ok_or(ENODEV)?)
//!     }
//!
//!     fn query_gid(dev: &Device<Self>, _index: u32) -> Result<[u8; 16]> {
//!         let mut gid = [0; 16];
//!         gid[8..].copy_from_slice(&dev.data().0);
//!         Ok(gid)
//!     }
//! }
//!
//! impl ContextOps<MyDriver> for Context {
//!     fn alloc(_dev: &Device<MyDriver>, _udata: &mut Udata<'_, MyDriver>) -> Result<Arc<Self>> {
//!         Ok(Arc::new(Self, GFP_KERNEL)?)
//!     }
//! }
//!
//! impl PdOps<MyDriver> for Pd {
//!     fn alloc(
//!         _dev: &Device<MyDriver>,
//!         _user: Option<&mut Udata<'_, MyDriver>>,
//!     ) -> Result<Arc<Self>> {
//!         Ok(Arc::new(Self, GFP_KERNEL)?)
//!     }
//! }
//!
//! /// What `rdma link add NAME type TYPE netdev NDEV` calls.
//! fn add(
//!     devices: &Devices<MyDriver>,
//!     module: &'static ThisModule,
//!     name: &CStr,
//!     ndev: &NetDevice,
//! ) -> Result {
//!     let namespace = ndev.namespace().ok_or(ENODEV)?;
//!     let node_guid = kext::random_u64().to_ne_bytes();
//!     let config = DeviceConfig {
//!         name,
//!         name_by_user: true,
//!         node_guid,
//!         node_desc: c"My device",
//!         ndev,
//!         namespace,
//!         comp_vectors: 1,
//!         no_port_map: true,
//!     };
//!     let port = Arc::new(Port(node_guid), GFP_KERNEL)?;
//!     devices.register(module, &config, port).map(drop)
//! }
//! ```
//!
//! # Modules
//!
//! Beside the verbs there are:
//!
//! - [`ring`]: queues that are shared with a process; [`udata`]: how the process learns of them.
//! - [`umem`] and [`span`]: the memory that data is copied to and from; [`object::mr`]: that of
//!   fast registration; [`local`]: that of kernel consumers.
//! - [`protocol`]: whether programs see iWARP, or InfiniBand on Ethernet.
//! - [`iwcm`]: connections, as the connection manager sees them.
//! - [`link`] and [`netdev`]: how devices come and go.
//! - [`Driver::SETTINGS`]: what an administrator changes of a device in use.
//!
//! Only this crate, `kext` and `net` name raw C (through `rdma_bindings`). [`compat`] has the
//! differences between the supported kernels.

#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rust_rdma\0";

pub mod attr;
mod blocks;
pub mod compat;
pub mod device;
pub mod dma_buf;
pub mod driver;
pub mod errno;
pub mod iwcm;
pub mod link;
pub mod local;
pub mod netdev;
pub mod object;
mod ops;
mod owner;
mod port_counters;
pub mod protocol;
pub mod restrack;
pub mod ring;
mod runs;
mod settings;
pub mod span;
mod types;
pub mod udata;
mod umem;
mod unsupported;
pub mod wc;
pub mod wr;

/// Memory regions, under the name that drivers look for.
pub use object::mr;

pub use attr::{
    device::{DeviceLimits, PortAttr, PortState, StatDesc},
    path::{AddressVector, QpPath},
    qp::{QpAttr, QpCap, QpInitAttr, QpModify, QpType},
    qp_state::QpState,
    Access, Arm, CqAttr, SrqAttr,
};
pub use device::{
    Device, DeviceConfig, DeviceGuard, DeviceHandle, DeviceName, Devices, OnceHandle, PortEvent,
};
pub use driver::{
    ConnOps, ContextOps, CqOps, Driver, DriverId, ListenerOps, MrOps, PdOps, QpOps, SrqOps,
};
pub use iwcm::{CmId, ConnInfo, ConnParam, ConsumerId, RequestId};
pub use link::{LinkOps, LinkRegistration, LinkSlot};
pub use local::{AllMemory, KernelMemory, LocalDmaKey, LocalSge, NewLocalDmaKey};
pub use netdev::{Kind, NetDevice, NetdevEvent, NetdevNotifier, NotifierRegistration};
pub use object::{
    cq::{CqEvent, CqHandle, NewCq},
    mr::{DmaBufMr, MwType, NewMr, Rereg, UserMemory, UserMr},
    page_list::{MrType, PageList, SgMap},
    qp::{NewQp, QpEvent, QpHandle},
    srq::{NewSrq, SrqEvent, SrqHandle},
};
pub use owner::{Consumer, Owner};
pub use protocol::Protocol;
pub use restrack::Details;
pub use ring::{Ring, SharedMem, Wqe, WqeLayout, WqeRing};
pub use span::{Memory, Reader, Span};
pub use types::DriverTypes;
pub use udata::Udata;
pub use umem::Umem;
pub use unsupported::Unsupported;
pub use wc::{QpToken, Wc, WcOpcode, WcSlots, WcStatus};
pub use wr::{RecvWr, RecvWrs, SendFlags, SendOp, SendWr, SendWrs, Sge};
