// SPDX-License-Identifier: GPL-2.0

//! The trait that a driver implements.

use crate::{
    attr::{
        device::{DeviceLimits, PortAttr, StatDesc},
        qp::{QpAttr, QpInitAttr, QpModify},
        Access, CqAttr, Notify, SrqAttr,
    },
    details::Details,
    device::{Device, DeviceHandle},
    iwcm::{CmId, ConnParam, ListenId},
    object::{
        cq::NewCq,
        mr::{NewMr, SgMap, UserMr},
        qp::{NewQp, QpHandle},
        srq::NewSrq,
    },
    span::KernelMemory,
    udata::Udata,
    wc::WcSlots,
    wr::{RecvWrs, SendWrs},
};
use kernel::{build_error, error::VTABLE_DEFAULT_ERROR, prelude::*, sync::Arc};

/// A driver of iWARP devices: its types, and the operations of the RDMA core
/// (`struct ib_device_ops`).
///
/// Methods that make an object return an `Arc`, which the core's object keeps. When the method that
/// destroys the object has succeeded, the crate waits for calls through the object's handle to end,
/// and drops the `Arc`. The core gets errors unchanged.
///
/// *Sleeping* context is a thread that may sleep. In *any* context the caller may hold spinlocks of
/// the consumer or of the core, be in a softirq, or have interrupts disabled.
///
/// User objects are those that are made with a [`Udata`]. Processes post work through shared rings,
/// so `post_*` and `poll_cq` are called for objects of kernel consumers only.
#[vtable]
pub trait Driver: Sized + Send + Sync + 'static {
    /// The driver's part of a device.
    type Device: Send + Sync + 'static;
    /// The driver's part of a user context: one open of the device by a process.
    type Context: Send + Sync + 'static;
    /// The driver's part of a protection domain.
    type Pd: Send + Sync + 'static;
    /// The driver's part of a completion queue.
    type Cq: Send + Sync + 'static;
    /// The driver's part of a queue pair.
    type Qp: Send + Sync + 'static;
    /// The driver's part of a shared receive queue.
    type Srq: Send + Sync + 'static;
    /// The driver's part of a memory region.
    type Mr: Send + Sync + 'static;
    /// The driver's part of a listening endpoint.
    type Listener: Send + Sync + 'static;
    /// The driver's part of a connection.
    type Conn: Send + Sync + 'static;

    /// The names of the counters that [`Driver::port_stats`] reads.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// The device exists, but is not registered yet. Called once, before any other method. Context:
    /// sleeping.
    fn attach(data: &Arc<Self::Device>, handle: DeviceHandle<Self>);

    /// The device is about to be unregistered, by `rdma link del` or with all devices of the
    /// driver: ends everything that would hold that up. Context: sleeping; the core may hold a lock
    /// under which it handles all such requests.
    fn leaving(_dev: &Device<Self>) {}

    /// The device is unregistered. This is the last call. Context: sleeping.
    fn detach(data: &Arc<Self::Device>);

    /// The device's limits. Context: sleeping.
    fn limits(dev: &Device<Self>) -> DeviceLimits;

    /// The attributes of the port. It may be called while the device is being registered. Context:
    /// sleeping; RTNL is not held and may be taken.
    fn query_port(dev: &Device<Self>) -> Result<PortAttr>;

    /// A GID of the port; `index` is below [`PortAttr::gid_tbl_len`]. Context: sleeping.
    fn query_gid(dev: &Device<Self>, index: u32) -> Result<[u8; 16]>;

    /// Reads the counters of [`Driver::PORT_STATS`], in their order. Context: sleeping.
    fn port_stats(_dev: &Device<Self>, _values: &mut [u64]) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// A process opens the device. Context: sleeping.
    fn alloc_context(dev: &Device<Self>, udata: &mut Udata<'_, Self>)
        -> Result<Arc<Self::Context>>;

    /// The process has closed the device, or the device is being removed. All objects of the
    /// context are destroyed. Context: sleeping.
    fn dealloc_context(context: &Arc<Self::Context>);

    /// Makes a protection domain. Context: sleeping.
    fn alloc_pd(dev: &Device<Self>, user: Option<&mut Udata<'_, Self>>) -> Result<Arc<Self::Pd>>;

    /// Destroys a protection domain, which nothing uses any more. Context: sleeping.
    fn dealloc_pd(pd: &Arc<Self::Pd>) -> Result;

    /// Makes a completion queue. Context: sleeping.
    fn create_cq(
        dev: &Device<Self>,
        attr: &CqAttr,
        user: Option<&mut Udata<'_, Self>>,
        cq: &mut NewCq<'_>,
    ) -> Result<Arc<Self::Cq>>;

    /// Destroys a completion queue, which no queue pair uses any more. Context: sleeping.
    fn destroy_cq(cq: &Arc<Self::Cq>) -> Result;

    /// Moves completions to `out`, until there are no more or `out` is full. Context: any.
    fn poll_cq(cq: &Arc<Self::Cq>, out: &mut WcSlots<'_>) -> Result;

    /// Arms the queue. With `report_missed`, returns whether it holds completions that the consumer
    /// might miss. Context: any.
    fn req_notify_cq(cq: &Arc<Self::Cq>, how: Notify, report_missed: bool) -> Result<bool>;

    /// Makes a queue pair, and sets its number by [`NewQp::set_number`]. Context: sleeping.
    fn create_qp(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        attr: &mut QpInitAttr<Self>,
        user: Option<&mut Udata<'_, Self>>,
        qp: &mut NewQp<'_>,
    ) -> Result<Arc<Self::Qp>>;

    /// The queue pair that [`Driver::create_qp`] made is complete: [`Driver::iw_get_qp`] may find
    /// it from now on, and not before. If this fails, the queue pair is dropped. Context: sleeping.
    fn publish_qp(qp: &Arc<Self::Qp>) -> Result;

    /// Changes a queue pair. The core does not serialise these calls. Context: sleeping.
    fn modify_qp(qp: &Arc<Self::Qp>, modify: &QpModify) -> Result;

    /// The attributes of a queue pair. Context: sleeping.
    fn query_qp(qp: &Arc<Self::Qp>) -> Result<QpAttr>;

    /// Adds the driver's own attributes to the description of a queue pair. Context: sleeping. The
    /// queue pair may be in any state.
    fn describe_qp(_qp: &Arc<Self::Qp>, _details: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Destroys a queue pair. The driver moves it to ERROR and completes all its work requests, and
    /// [`Driver::iw_get_qp`] finds it no more. If it is connected, the driver also closes the
    /// connection and reports that to the connection manager: on return the crate waits until the
    /// connection manager has released the queue pair. Context: sleeping.
    fn destroy_qp(qp: &Arc<Self::Qp>) -> Result;

    /// Posts all send work requests that `wrs` has. On an error the request that was taken last is
    /// not posted, and those before it are. A queue pair in ERROR completes requests, too, in
    /// order. Context: any.
    fn post_send(qp: &Arc<Self::Qp>, wrs: &mut SendWrs<'_, Self>) -> Result;

    /// A process has put requests into its send queue. Context: sleeping, in the process.
    fn doorbell(qp: &Arc<Self::Qp>) -> Result;

    /// Posts receive work requests, as [`Driver::post_send`] does. Context: any.
    fn post_recv(qp: &Arc<Self::Qp>, wrs: &mut RecvWrs<'_>) -> Result;

    /// Makes a shared receive queue. `attr` has the attributes that the consumer asks for; the
    /// driver leaves there those that it grants. Context: sleeping.
    fn create_srq(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        attr: &mut SrqAttr,
        user: Option<&mut Udata<'_, Self>>,
        srq: &mut NewSrq<'_>,
    ) -> Result<Arc<Self::Srq>>;

    /// Changes a shared receive queue's size or limit. Context: sleeping.
    fn modify_srq(srq: &Arc<Self::Srq>, max_wr: Option<u32>, limit: Option<u32>) -> Result;

    /// The attributes of a shared receive queue. Context: sleeping.
    fn query_srq(srq: &Arc<Self::Srq>) -> Result<SrqAttr>;

    /// Destroys a shared receive queue, which no queue pair uses any more. Context: sleeping.
    fn destroy_srq(srq: &Arc<Self::Srq>) -> Result;

    /// Posts receive work requests, as [`Driver::post_recv`]. Context: any.
    fn post_srq_recv(srq: &Arc<Self::Srq>, wrs: &mut RecvWrs<'_>) -> Result;

    /// Makes a region of all kernel memory, for a kernel consumer. Context: sleeping.
    fn get_dma_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        access: Access,
        memory: KernelMemory,
    ) -> Result<NewMr<Self::Mr>>;

    /// Makes a region of memory of the calling process. Context: sleeping, in the process.
    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        request: &UserMr,
        udata: &mut Udata<'_, Self>,
    ) -> Result<NewMr<Self::Mr>>;

    /// Makes a region for fast registration of up to `max_pages` pages. Context: sleeping.
    fn alloc_mr(dev: &Device<Self>, pd: &Arc<Self::Pd>, max_pages: u32) -> Result<NewMr<Self::Mr>>;

    /// Maps pages to a region of [`Driver::alloc_mr`], by [`SgMap::map_into`]. The region has them
    /// when the consumer has posted a request to register them. Context: any.
    fn map_mr_sg(mr: &Arc<Self::Mr>, map: &mut SgMap<'_>) -> Result;

    /// Destroys a region. On return the driver must not access its memory. Context: sleeping.
    fn dereg_mr(mr: &Arc<Self::Mr>) -> Result;

    /// The handle of the queue pair with number `qpn`, for which the current task wants to connect
    /// or accept. `None` if there is none or the task may not use it: see [`Owner`](crate::Owner).
    /// Context: the task's, with interrupts disabled.
    fn iw_get_qp(dev: &Device<Self>, qpn: u32) -> Option<QpHandle>;

    /// Starts to connect. On success exactly one [`CmId::connect_reply`] must follow, on an error
    /// none. Context: sleeping, under locks of the consumer: must not wait for the network.
    fn iw_connect(dev: &Device<Self>, id: CmId, param: &ConnParam<'_>) -> Result;

    /// Accepts a request that [`CmId::connect_request`] has reported. On success exactly one
    /// [`CmId::established`] must follow. Context: as for [`Driver::iw_connect`].
    fn iw_accept(
        dev: &Device<Self>,
        conn: Arc<Self::Conn>,
        id: CmId,
        param: &ConnParam<'_>,
    ) -> Result;

    /// Rejects a request. Context: as for [`Driver::iw_connect`].
    fn iw_reject(dev: &Device<Self>, conn: Arc<Self::Conn>, private_data: &[u8]) -> Result;

    /// Starts to listen. It may be called while the device is being registered. Context: as for
    /// [`Driver::iw_connect`].
    fn iw_create_listen(
        dev: &Device<Self>,
        id: &ListenId,
        backlog: u32,
    ) -> Result<Arc<Self::Listener>>;

    /// Stops listening. On return the driver must report no more [`CmId::connect_request`].
    /// Context: as for [`Driver::iw_connect`].
    fn iw_destroy_listen(dev: &Device<Self>, listener: Arc<Self::Listener>) -> Result;
}
