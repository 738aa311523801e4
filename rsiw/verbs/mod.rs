// SPDX-License-Identifier: GPL-2.0

//! The verbs: a thin layer between the RDMA core's calls and the driver's objects.
//!
//! There is one file for each kind of object ([`queue`] is for all that have a ring). This one has
//! the verbs on the device as a whole.

mod context;
mod cq;
mod iw;
mod mr;
mod qp;
mod queue;
mod srq;

use crate::{
    abi::{ABI_VERSION, MAX_SGE},
    cm, counters,
    device::{max, Rsiw},
    pd::Pd,
    qp::Qp,
    rnic::Rnic,
    settings::{self, Settings},
    stream::{Conn, Stream},
};
use kernel::{prelude::*, str::CStr, sync::Arc};
use rdma::{
    Device as RdmaDevice, DeviceHandle, DeviceLimits, Driver, DriverId, DriverTypes, LocalDmaKey,
    NewLocalDmaKey, PortAttr, Protocol, StatDesc,
};

/// "rsi": this implementation has no OUI.
const VENDOR_ID: u32 = 0x727369;

impl DriverTypes for Rsiw {
    type Device = Rnic;
    type Context = context::Context;
    type Pd = Pd;
    type Cq = cq::Object;
    type Qp = Qp;
    type Srq = srq::Srq;
    type Mr = mr::Mr;
    type Conn = Conn;
    type Listener = cm::Listener<Stream>;
}

impl Driver for Rsiw {
    // The library of siw serves this driver, too.
    const ID: DriverId = DriverId::SIW;
    const UVERBS_ABI_VERSION: u32 = ABI_VERSION;

    const PORT_STATS: &'static [StatDesc] = counters::STATS;
    const PORT_COUNTERS: &'static [&'static CStr] = counters::PORT_NAMES;
    const SETTINGS: &'static [&'static CStr] = settings::NAMES;
    const TEXTS: &'static [&'static CStr] = &[c"tls_names"];

    fn protocol(rnic: &Rnic) -> Protocol {
        rnic.protocol
    }

    fn setting(dev: &RdmaDevice<Self>, index: usize) -> u32 {
        dev.data().settings.get(index)
    }

    fn set_setting(dev: &RdmaDevice<Self>, index: usize, value: u32) -> Result {
        // The RDMA CM asks the port mapper itself.
        let tell_core =
            |settings: &Settings| dev.set_port_map(cm::PortMapper::of(dev, settings).chooses());
        dev.data().settings.set(index, value, tell_core)
    }

    fn text(dev: &RdmaDevice<Self>, _index: usize, out: &mut [u8]) -> usize {
        dev.data().settings.tls_names(out)
    }

    fn set_text(dev: &RdmaDevice<Self>, _index: usize, value: &[u8]) -> Result {
        dev.data().settings.set_tls_names(value)
    }

    fn local_dma_key(dev: &Arc<Rnic>, new: NewLocalDmaKey) -> Result<LocalDmaKey> {
        mr::local_dma_key(&dev.dev, new)
    }

    fn attach(dev: &Arc<Rnic>, handle: DeviceHandle<Self>) {
        dev.attach(handle);
    }

    fn leaving(dev: &RdmaDevice<Self>) {
        cm::leave(&dev.data().conns);
    }

    fn detach(dev: &Arc<Rnic>) {
        cm::shutdown(&dev.conns);
        // Queued tx work refers to the device. No queue pair is left to queue more. But the last
        // run of tx may have queued itself again, during the first round.
        for _ in 0..2 {
            dev.workqueues.tx.flush();
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
            max_cq_moderation: (u16::MAX, u16::MAX),
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
            flush: true,
            sg_gaps: true,
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
        let rnic = dev.data();
        let (traffic, others) = values.split_at_mut(counters::Traffic::COUNT.min(values.len()));
        traffic.fill(0);
        rnic.qps.statistics().read(traffic);
        let (sent, received) = (&rnic.terminates_sent, &rnic.terminates_received);
        // By its full name, as `Init` has a method of that name.
        let terminates = Iterator::chain(sent.values(), received.values());
        let numbers = Iterator::chain(rnic.counters.values().into_iter(), terminates);
        for (value, n) in others.iter_mut().zip(numbers) {
            *value = n;
        }
    }

    fn port_counter(dev: &RdmaDevice<Self>, index: usize) -> u64 {
        counters::of_port(index, &dev.data().qps.statistics().read_all())
    }

    fn new_counter_set(dev: &RdmaDevice<Self>) -> Result<u32> {
        dev.data().qps.statistics().new_set()
    }

    fn free_counter_set(dev: &RdmaDevice<Self>, set: u32) {
        dev.data().qps.statistics().free_set(set);
    }

    fn bind_counter_set(dev: &RdmaDevice<Self>, qp: &Arc<Qp>, set: Option<u32>) -> Result {
        dev.data().qps.statistics().bind(qp.number(), set)
    }

    fn counter_set_stats(dev: &RdmaDevice<Self>, set: u32, values: &mut [u64]) {
        // The counters of the device that are no queue pair's are 0 for a set.
        values.fill(0);
        dev.data().qps.statistics().read_set(set, values);
    }
}
