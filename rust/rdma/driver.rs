// SPDX-License-Identifier: GPL-2.0

//! What a driver implements.

use crate::{
    attr::{
        device::{DeviceLimits, PortAttr, StatDesc},
        qp::{QpAttr, QpInitAttr, QpModify},
        Access, CqAttr, Notify, SrqAttr,
    },
    details::Details,
    device::{Device, DeviceHandle},
    iwcm::{CmId, ConnParam},
    object::{
        cq::NewCq,
        mr::{NewMr, SgMap, UserMr},
        qp::{NewQp, QpHandle},
        srq::NewSrq,
        NewPd,
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
/// Objects are made by a method that returns an `Arc`. The core's object keeps it until the
/// method that destroys the object has succeeded; then the crate waits for calls by way of the
/// object's handle to end, and drops it. Errors are returned to the core as they are.
///
/// *Sleeping* context means a process that may sleep; *any* context may hold spinlocks of the
/// consumer or of the core, or be a softirq, or have interrupts disabled.
///
/// User objects are the ones with a [`Udata`]. Processes post work by shared rings, so `post_*`
/// and `poll_cq` are for the objects of kernel consumers.
#[vtable]
pub trait Driver: Sized + Send + Sync + 'static {
    /// The driver's part of a device.
    type Device: Send + Sync + 'static;
    /// Of a user context: one open of the device by a process.
    type Context: Send + Sync + 'static;
    /// Of a protection domain.
    type Pd: Send + Sync + 'static;
    /// Of a completion queue.
    type Cq: Send + Sync + 'static;
    /// Of a queue pair.
    type Qp: Send + Sync + 'static;
    /// Of a shared receive queue.
    type Srq: Send + Sync + 'static;
    /// Of a memory region.
    type Mr: Send + Sync + 'static;
    /// Of a listening endpoint.
    type Listener: Send + Sync + 'static;
    /// Of a connection.
    type Conn: Send + Sync + 'static;

    /// The counters of [`Driver::port_stats`], by name.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// The device exists: called once, before any other method. It is not registered yet.
    /// Context: sleeping.
    fn attach(data: &Arc<Self::Device>, handle: DeviceHandle<Self>);

    /// The device is about to be unregistered (`rdma link del`, or with all others of the driver): ends
    /// what that would wait for. Context: sleeping; possibly within a lock of all such requests.
    fn leaving(_dev: &Device<Self>) {}

    /// The device is unregistered: the last call. Context: sleeping.
    fn detach(data: &Arc<Self::Device>);

    /// The device's limits. Context: sleeping.
    fn limits(dev: &Device<Self>) -> DeviceLimits;

    /// The attributes of the port. Also called while the device is being registered. Context:
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

    /// The process has closed the device, or the device is going; all objects of the context are
    /// destroyed. Context: sleeping.
    fn dealloc_context(context: &Arc<Self::Context>);

    /// Makes a protection domain. Context: sleeping.
    fn alloc_pd(
        dev: &Device<Self>,
        user: Option<&mut Udata<'_, Self>>,
        pd: NewPd,
    ) -> Result<Arc<Self::Pd>>;

    /// Destroys a protection domain; nothing uses it any more. Context: sleeping.
    fn dealloc_pd(pd: &Arc<Self::Pd>) -> Result;

    /// Makes a completion queue. Context: sleeping.
    fn create_cq(
        dev: &Device<Self>,
        attr: &CqAttr,
        user: Option<&mut Udata<'_, Self>>,
        cq: &mut NewCq<'_>,
    ) -> Result<Arc<Self::Cq>>;

    /// Destroys a completion queue; no queue pair uses it any more. Context: sleeping.
    fn destroy_cq(cq: &Arc<Self::Cq>) -> Result;

    /// Moves completions to `out`, as many as there are and fit. Context: any.
    fn poll_cq(cq: &Arc<Self::Cq>, out: &mut WcSlots<'_>) -> Result;

    /// Arms the queue. Returns whether completions are there that the consumer might miss, if it
    /// asked for that by `report_missed`. Context: any.
    fn req_notify_cq(cq: &Arc<Self::Cq>, how: Notify, report_missed: bool) -> Result<bool>;

    /// Makes a queue pair. Its number must be set by [`NewQp::set_number`]. Context: sleeping.
    fn create_qp(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        attr: &mut QpInitAttr<Self>,
        user: Option<&mut Udata<'_, Self>>,
        qp: &mut NewQp<'_>,
    ) -> Result<Arc<Self::Qp>>;

    /// The queue pair that [`Driver::create_qp`] made is complete: from now on
    /// [`Driver::iw_get_qp`] may find it, and not before. If this fails, the queue pair is dropped.
    /// Context: sleeping.
    fn publish_qp(qp: &Arc<Self::Qp>) -> Result;

    /// Changes a queue pair. Not serialised by the core. Context: sleeping.
    fn modify_qp(qp: &Arc<Self::Qp>, modify: &QpModify) -> Result;

    /// The attributes of a queue pair. Context: sleeping.
    fn query_qp(qp: &Arc<Self::Qp>) -> Result<QpAttr>;

    /// Adds what else there is to tell of a queue pair to its description. Context: sleeping; it may
    /// be in any state.
    fn describe_qp(_qp: &Arc<Self::Qp>, _details: &mut Details<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Destroys a queue pair: it must go to error, complete all its work requests, and be found by
    /// [`Driver::iw_get_qp`] no more. If it is connected, its connection must close by itself and
    /// say so to the connection manager, as on return the crate waits until that has let go of the
    /// queue pair. Context: sleeping.
    fn destroy_qp(qp: &Arc<Self::Qp>) -> Result;

    /// Posts send work requests, all that `wrs` gives. On an error the request that was taken last
    /// is not posted, and those before it are. A queue pair in error completes them, in order.
    /// Context: any.
    fn post_send(qp: &Arc<Self::Qp>, wrs: &mut SendWrs<'_, Self>) -> Result;

    /// A process says that there are requests in its send queue. Context: sleeping, in the process.
    fn doorbell(qp: &Arc<Self::Qp>) -> Result;

    /// Posts receive work requests, likewise. Context: any.
    fn post_recv(qp: &Arc<Self::Qp>, wrs: &mut RecvWrs<'_>) -> Result;

    /// Makes a shared receive queue. `attr` is what is asked for; what the driver leaves there is
    /// reported as granted. Context: sleeping.
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

    /// Destroys a shared receive queue; no queue pair uses it any more. Context: sleeping.
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

    /// Maps pages to a region of [`Driver::alloc_mr`], by [`SgMap::map_into`]. They take effect
    /// when the consumer posts a request to register them. Context: any.
    fn map_mr_sg(mr: &Arc<Self::Mr>, map: &mut SgMap<'_>) -> Result;

    /// Destroys a region. On return the memory must not be used any more. Context: sleeping.
    fn dereg_mr(mr: &Arc<Self::Mr>) -> Result;

    /// The handle of the queue pair of that number, which the current task wants to connect or to
    /// accept for, if it may: see [`Owner`](crate::Owner). Context: that task's, with interrupts
    /// disabled.
    fn iw_get_qp(dev: &Device<Self>, qpn: u32) -> Option<QpHandle>;

    /// Connects. On success exactly one [`CmId::connect_reply`] must follow, on an error none.
    /// Context: sleeping, under locks of the consumer: must not wait for the network.
    fn iw_connect(dev: &Device<Self>, id: CmId, param: &ConnParam<'_>) -> Result;

    /// Accepts a request that was reported by [`CmId::connect_request`]. On success exactly one
    /// [`CmId::established`] must follow. Context: as for [`Driver::iw_connect`].
    fn iw_accept(
        dev: &Device<Self>,
        conn: Arc<Self::Conn>,
        id: CmId,
        param: &ConnParam<'_>,
    ) -> Result;

    /// Rejects a request. Context: as for [`Driver::iw_connect`].
    fn iw_reject(dev: &Device<Self>, conn: Arc<Self::Conn>, private_data: &[u8]) -> Result;

    /// Listens. May be called while the device is being registered. Context: as for
    /// [`Driver::iw_connect`].
    fn iw_create_listen(dev: &Device<Self>, id: CmId, backlog: u32) -> Result<Arc<Self::Listener>>;

    /// Stops listening: on return there must be no more [`CmId::connect_request`]. Context: as for
    /// [`Driver::iw_connect`].
    fn iw_destroy_listen(dev: &Device<Self>, listener: Arc<Self::Listener>) -> Result;
}
