// SPDX-License-Identifier: GPL-2.0

//! The verbs: a thin layer between the RDMA core's calls and the driver's objects.
//!
//! There is one file for each kind of object. This one has the verbs on the device as a whole, and
//! the table of calls.

mod cq;
mod mr;
mod qp;
mod srq;

use crate::{
    abi::{AllocContextResp, MAX_SGE},
    cm, counters,
    device::{max, Rsiw},
    limit::Held,
    params,
    pd::Pd,
    qp::Qp,
    queue::rq::RecvQueue,
    rnic::Rnic,
    stream::{Conn, Stream},
};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    Access, CmId, ConnParam, Consumer, CqAttr, Details, Device as RdmaDevice, DeviceHandle,
    DeviceLimits, Driver, KernelMemory, ListenId, NewCq, NewMr, NewQp, NewSrq, Notify, PortAttr,
    QpAttr, QpHandle, QpInitAttr, QpModify, RecvWrs, SendWrs, SgMap, SrqAttr, StatDesc, Udata,
    UserMr, WcSlots,
};

/// "rsi": this implementation has no OUI.
const VENDOR_ID: u32 = 0x727369;

/// A process' context on a device.
pub(crate) struct Context {
    _held: Held,
}

/// A shared receive queue.
pub(crate) struct Srq {
    pub(crate) rq: Arc<RecvQueue>,
    _held: Held,
}

#[vtable]
impl Driver for Rsiw {
    type Device = Rnic;
    type Context = Context;
    type Pd = Pd;
    type Cq = cq::Object;
    type Qp = Qp;
    type Srq = Srq;
    type Mr = mr::Mr;
    type Listener = cm::Listener<Stream>;
    type Conn = Conn;

    const PORT_STATS: &'static [StatDesc] = counters::NAMES;

    fn attach(dev: &Arc<Rnic>, handle: DeviceHandle<Self>) {
        dev.attach(handle);
    }

    fn leaving(dev: &RdmaDevice<Self>) {
        cm::leave(&dev.data().conns);
    }

    fn detach(dev: &Arc<Rnic>) {
        cm::shutdown(&dev.conns);
        // Queued tx work refers to the device. No queue pair is left to queue more. But the last
        // run of tx may have queued itself again, on either queue, during the first round.
        for _ in 0..2 {
            dev.workqueues.tx.flush();
            dev.workqueues.tx_in_turn.flush();
        }
    }

    fn limits(dev: &RdmaDevice<Self>) -> DeviceLimits {
        DeviceLimits {
            max_mr_size: u64::MAX,
            page_size_cap: kernel::page::PAGE_SIZE as u64,
            vendor_id: VENDOR_ID,
            vendor_part_id: 1,
            hw_ver: 1,
            sys_image_guid: dev.data().guid(),
            max_qp: max::QP,
            max_qp_wr: max::QP_WR,
            max_send_sge: max::SEND_SGE,
            max_recv_sge: MAX_SGE as u32,
            // The sink of an RDMA Read is one STag on the wire.
            max_sge_rd: 1,
            max_cq: max::CQ,
            max_cqe: max::CQE,
            max_mr: max::MR,
            max_pd: max::PD,
            max_qp_rd_atom: max::READS,
            max_qp_init_rd_atom: max::READS,
            max_res_rd_atom: max::QP * max::READS,
            max_srq: max::SRQ,
            max_srq_wr: max::SRQ_WR,
            max_srq_sge: MAX_SGE as u32,
            max_fast_reg_page_list_len: max::FAST_PAGES,
            mem_mgt_extensions: true,
            allow_user_unreg: true,
            ..Default::default()
        }
    }

    fn query_port(dev: &RdmaDevice<Self>) -> Result<PortAttr> {
        let ndev = dev.netdev().ok_or(ENODEV)?;
        dev.port_attr(&ndev)
    }

    fn query_gid(dev: &RdmaDevice<Self>, _index: u32) -> Result<[u8; 16]> {
        let mut gid = [0; 16];
        gid[..6].copy_from_slice(&dev.data().gid);
        Ok(gid)
    }

    fn port_stats(dev: &RdmaDevice<Self>, values: &mut [u64]) {
        dev.data().counters.read(values);
    }

    fn alloc_context(dev: &RdmaDevice<Self>, udata: &mut Udata<'_, Self>) -> Result<Arc<Context>> {
        let context = Context {
            _held: dev.data().limits.context.hold()?,
        };
        udata.require_out(core::mem::size_of::<AllocContextResp>())?;
        udata.respond(&AllocContextResp { dev_id: 0, pad: 0 })?;
        // Only processes have a context.
        Ok(Arc::new(context, Consumer::Process.flags())?)
    }

    fn dealloc_context(_ctx: &Arc<Context>) {}

    fn alloc_pd(dev: &RdmaDevice<Self>, user: Option<&mut Udata<'_, Self>>) -> Result<Arc<Pd>> {
        Pd::new(&dev.data().limits.pd, Consumer::of(&user))
    }

    fn dealloc_pd(_pd: &Arc<Pd>) -> Result {
        Ok(())
    }

    fn create_cq(
        dev: &RdmaDevice<Self>,
        attr: &CqAttr,
        user: Option<&mut Udata<'_, Self>>,
        new: &mut NewCq<'_>,
    ) -> Result<Arc<cq::Object>> {
        cq::create(&dev.data().dev, attr, user, new)
    }

    fn destroy_cq(_cq: &Arc<cq::Object>) -> Result {
        Ok(())
    }

    fn poll_cq(cq: &Arc<cq::Object>, out: &mut WcSlots<'_>) -> Result {
        cq.cq.poll(out)
    }

    fn req_notify_cq(cq: &Arc<cq::Object>, how: Notify, report_missed: bool) -> Result<bool> {
        let waiting = cq.cq.arm(matches!(how, Notify::Solicited));
        Ok(report_missed && waiting)
    }

    fn create_qp(
        dev: &RdmaDevice<Self>,
        pd: &Arc<Pd>,
        attr: &mut QpInitAttr<Self>,
        user: Option<&mut Udata<'_, Self>>,
        new: &mut NewQp<'_>,
    ) -> Result<Arc<Qp>> {
        qp::create(dev.data(), pd, attr, user, new)
    }

    fn publish_qp(qp: &Arc<Qp>) -> Result {
        qp::publish(qp)
    }

    fn modify_qp(qp: &Arc<Qp>, m: &QpModify) -> Result {
        qp.modify(m)
    }

    fn query_qp(qp: &Arc<Qp>) -> Result<QpAttr> {
        qp::query(qp)
    }

    fn describe_qp(qp: &Arc<Qp>, details: &mut Details<'_>) -> Result {
        qp::describe(qp, details)
    }

    fn destroy_qp(qp: &Arc<Qp>) -> Result {
        qp::destroy(qp);
        Ok(())
    }

    fn post_send(qp: &Arc<Qp>, wrs: &mut SendWrs<'_, Self>) -> Result {
        qp::post_send(qp, wrs)
    }

    fn doorbell(qp: &Arc<Qp>) -> Result {
        qp.doorbell();
        Ok(())
    }

    fn post_recv(qp: &Arc<Qp>, wrs: &mut RecvWrs<'_>) -> Result {
        qp::post_recv(qp, wrs)
    }

    fn create_srq(
        dev: &RdmaDevice<Self>,
        pd: &Arc<Pd>,
        attr: &mut SrqAttr,
        user: Option<&mut Udata<'_, Self>>,
        new: &mut NewSrq<'_>,
    ) -> Result<Arc<Srq>> {
        srq::create(&dev.data().dev, pd, attr, user, new)
    }

    fn modify_srq(srq: &Arc<Srq>, max_wr: Option<u32>, limit: Option<u32>) -> Result {
        srq::modify(srq, max_wr, limit)
    }

    fn query_srq(srq: &Arc<Srq>) -> Result<SrqAttr> {
        Ok(srq::query(srq))
    }

    fn destroy_srq(_srq: &Arc<Srq>) -> Result {
        Ok(())
    }

    fn post_srq_recv(srq: &Arc<Srq>, wrs: &mut RecvWrs<'_>) -> Result {
        srq::post(srq, wrs)
    }

    fn get_dma_mr(
        dev: &RdmaDevice<Self>,
        pd: &Arc<Pd>,
        access: Access,
        mem: KernelMemory,
    ) -> Result<NewMr<mr::Mr>> {
        mr::dma(&dev.data().dev, pd, access, mem)
    }

    fn reg_user_mr(
        dev: &RdmaDevice<Self>,
        pd: &Arc<Pd>,
        req: &UserMr,
        udata: &mut Udata<'_, Self>,
    ) -> Result<NewMr<mr::Mr>> {
        mr::user(&dev.data().dev, pd, req, udata)
    }

    fn alloc_mr(dev: &RdmaDevice<Self>, pd: &Arc<Pd>, max_sg: u32) -> Result<NewMr<mr::Mr>> {
        mr::fast(&dev.data().dev, pd, max_sg)
    }

    fn map_mr_sg(mr: &Arc<mr::Mr>, map: &mut SgMap<'_>) -> Result {
        mr.region.map(map)
    }

    fn dereg_mr(mr: &Arc<mr::Mr>) -> Result {
        mr.dereg();
        Ok(())
    }

    fn iw_get_qp(dev: &RdmaDevice<Self>, qpn: u32) -> Option<QpHandle> {
        qp::named(dev, qpn)
    }

    fn iw_connect(dev: &RdmaDevice<Self>, cm: CmId, param: &ConnParam<'_>) -> Result {
        let rnic = dev.data();
        let qp = rnic.qps.get(param.qpn).ok_or(EINVAL)?;
        cm::connect(&rnic.conns, dev, qp.stream.clone(), cm, param)
    }

    fn iw_accept(
        dev: &RdmaDevice<Self>,
        conn: Arc<Conn>,
        cm: CmId,
        param: &ConnParam<'_>,
    ) -> Result {
        let qp = dev.data().qps.get(param.qpn);
        cm::accept(conn, qp.map(|qp| qp.stream.clone()), cm, param)
    }

    fn iw_reject(_dev: &RdmaDevice<Self>, conn: Arc<Conn>, private_data: &[u8]) -> Result {
        cm::reject(conn, private_data)
    }

    fn iw_create_listen(
        dev: &RdmaDevice<Self>,
        cm: &ListenId,
        backlog: u32,
    ) -> Result<Arc<Self::Listener>> {
        cm::listen(&dev.data().conns, dev, cm, backlog)
    }

    fn iw_destroy_listen(_dev: &RdmaDevice<Self>, listener: Arc<Self::Listener>) -> Result {
        cm::unlisten(listener)
    }
}

/// Milliseconds that a Send waits for a receive of this consumer. 0 for kernel consumers: their
/// receives are never late, unless the peer sends more than was agreed on.
fn recv_wait_ms(consumer: Consumer) -> u32 {
    match consumer {
        Consumer::Process => params::recv_wait_ms(),
        Consumer::Kernel => 0,
    }
}

/// The elements of a ring for `n` requests: a power of two, as the provider's index arithmetic
/// needs it.
///
/// # Errors
///
/// `EINVAL` when `n` exceeds `max`.
fn ring_size(n: u32, max: u32) -> Result<u32> {
    if n > max {
        return Err(EINVAL);
    }
    Ok(n.max(1).next_power_of_two())
}
