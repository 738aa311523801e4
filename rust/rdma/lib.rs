// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the RDMA core, for drivers of devices in software.
//!
//! A driver names the types of its objects by [`DriverTypes`], implements [`Driver`] and the traits
//! of its objects ([`driver`]), makes its devices by [`Devices`], and contains no unsafe code. The
//! sample driver that goes to the kernel with this crate, `sample/rust_rdma_sample.rs`, is the
//! least that does so, in 180 lines.
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
//! A module creates [`kext::Core`] before anything else of this crate, and drops it last.
//!
//! Only this crate, `kext` and `net` name raw C (through `rdma_bindings`). [`compat`] has the
//! differences between the supported kernels.

#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rust_rdma\0";

pub mod attr;
mod blocks;
pub mod compat;
pub mod details;
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
pub mod ring;
mod runs;
mod settings;
pub mod span;
mod types;
pub mod udata;
mod umem;
pub mod wc;
pub mod wr;

/// Memory regions, under the name that drivers look for.
pub use object::mr;

pub use attr::{
    device::{DeviceLimits, PortAttr, PortState, StatDesc},
    path::{AddressVector, QpPath},
    qp::{QpAttr, QpCap, QpInitAttr, QpModify, QpType},
    qp_state::QpState,
    Access, CqAttr, Notify, SrqAttr,
};
pub use details::Details;
pub use device::{
    Device, DeviceConfig, DeviceGuard, DeviceHandle, DeviceName, Devices, OnceHandle, PortEvent,
};
pub use driver::{
    ConnOps, ContextOps, CqOps, Driver, DriverId, ListenerOps, MrOps, PdOps, QpOps, SrqOps,
};
pub use iwcm::{CmId, ConnInfo, ConnParam, ConsumerId, RequestId};
pub use link::{
    LinkOps, LinkRegistration, LinkSlot, NetdevEvent, NetdevNotifier, NotifierRegistration,
};
pub use local::{AllMemory, KernelMemory, LocalDmaKey, LocalSge, NewLocalDmaKey};
pub use netdev::{Kind, NetDevice};
pub use object::{
    cq::{CqEvent, CqHandle, NewCq},
    mr::{DmaBufMr, MwType, NewMr, Rereg, UserMemory, UserMr},
    page_list::{MrType, PageList, SgMap},
    qp::{NewQp, QpEvent, QpHandle},
    srq::{NewSrq, SrqEvent, SrqHandle},
};
pub use owner::{Consumer, Owner};
pub use protocol::Protocol;
pub use ring::{Ring, SharedMem, Wqe, WqeLayout, WqeRing};
pub use span::{Memory, Reader, Span};
pub use types::DriverTypes;
pub use udata::Udata;
pub use umem::Umem;
pub use wc::{QpToken, Wc, WcOpcode, WcSlots, WcStatus};
pub use wr::{RecvWr, RecvWrs, SendFlags, SendOp, SendWr, SendWrs, Sge};
