// SPDX-License-Identifier: GPL-2.0

//! The operations that the core calls: one C function for each method of [`Driver`] and of the
//! traits of its objects.
//!
//! They turn C parameters into Rust values and results into error codes, and keep the states of the
//! objects. All are in `impl` blocks of [`Ops`], by object: [`device`], [`context`] (user contexts
//! and protection domains), [`counter`], [`cq`], [`qp`], [`srq`], [`mr`], [`mw`],
//! [`iw`].
//!
//! # Safety
//!
//! The callers of all operations, the core and kernel consumers, must keep to these rules:
//!
//! - Pointers to objects are to those of devices with this table of operations, that is, of driver
//!   `D`: not null, except where an operation says so.
//! - The device has its state, from before it is registered until `dealloc_driver`.
//! - An operation that creates an object gets its C structure zeroed, with the room after it that
//!   `size_ib_*` asks for. Nobody else uses the object before the operation has succeeded.
//! - Other operations on an object begin between its creation and its destruction. For a process'
//!   objects the core sees to that by its own locks, for others the consumer does. The connection
//!   manager modifies a queue pair to which it has a reference.
//! - Operations end before the destruction, too, with one exception: queries and changes of queue
//!   pairs, completion queues and shared receive queues, and the binding of counter sets. The
//!   destruction waits for these ([`StateGuard`](crate::object::StateGuard)).
//! - Attributes are valid for the time of the call.
//!
//! `iw_cm_disconnect()` breaks the first of the rules about operations, if the queue pair is
//! destroyed between the moment when it unlocks its identifier and that when `modify_qp` has begun.
//! It uses the queue pair itself in between, so that no driver can prevent this.

mod context;
mod counter;
mod cq;
mod device;
mod iw;
mod mr;
mod mw;
mod qp;
mod srq;

use crate::{
    object::{cq::CqObject, mr::MwObject, pd::PdObject, qp::QpObject, srq::SrqObject},
    port_counters,
    protocol::Protocol,
    ring, settings,
    udata::ContextObject,
    Driver,
};
use core::marker::PhantomData;
use kernel::prelude::*;
use rdma_bindings as bindings;

/// The operations for driver `D`.
struct Ops<D: Driver>(PhantomData<D>);

/// Gives `dev` the operations of a device of `protocol`.
///
/// # Safety
///
/// `dev` must be a device that was made for driver `D` and is not registered yet.
pub(crate) unsafe fn set<D: Driver>(
    dev: *mut bindings::ib_device,
    module: &'static ThisModule,
    protocol: Protocol,
) {
    let has_stats = !D::PORT_STATS.is_empty();
    let (iwcm, gids) = (protocol.has_iwcm(), protocol.core_keeps_gids());
    // One of those without which the core offers the device to no kernel consumer.
    let for_kernel = protocol.serves_kernel();
    let ops = bindings::ib_device_ops {
        owner: module.as_ptr(),
        driver_id: D::ID.0,
        uverbs_abi_ver: D::UVERBS_ABI_VERSION,

        device_group: settings::group::<D>(),
        port_groups: port_counters::groups::<D>(),
        dealloc_driver: Some(Ops::<D>::dealloc_driver),
        query_device: Some(Ops::<D>::query_device),
        query_port: Some(Ops::<D>::query_port),
        get_port_immutable: Some(Ops::<D>::get_port_immutable),
        query_gid: (!gids).then_some(Ops::<D>::query_gid),
        get_link_layer: gids.then_some(Ops::<D>::get_link_layer),
        query_pkey: Some(Ops::<D>::query_pkey),
        alloc_hw_port_stats: has_stats.then_some(Ops::<D>::alloc_hw_port_stats),
        get_hw_stats: has_stats.then_some(Ops::<D>::get_hw_stats),
        modify_hw_stat: has_stats.then_some(Ops::<D>::modify_hw_stat),

        counter_init: has_stats.then_some(Ops::<D>::counter_init),
        counter_alloc_stats: has_stats.then_some(Ops::<D>::counter_alloc_stats),
        counter_bind_qp: has_stats.then_some(Ops::<D>::counter_bind_qp),
        counter_unbind_qp: has_stats.then_some(Ops::<D>::counter_unbind_qp),
        counter_dealloc: has_stats.then_some(Ops::<D>::counter_dealloc),
        counter_update_stats: has_stats.then_some(Ops::<D>::counter_update_stats),

        get_dev_fw_str: Some(Ops::<D>::get_dev_fw_str),

        fill_res_cq_entry: Some(Ops::<D>::fill_res_cq_entry),
        fill_res_mr_entry: Some(Ops::<D>::fill_res_mr_entry),
        fill_res_srq_entry: Some(Ops::<D>::fill_res_srq_entry),
        fill_res_qp_entry: Some(Ops::<D>::fill_res_qp_entry),

        alloc_ucontext: Some(Ops::<D>::alloc_ucontext),
        dealloc_ucontext: Some(Ops::<D>::dealloc_ucontext),
        disassociate_ucontext: Some(Ops::<D>::disassociate_ucontext),
        mmap: Some(ring::mem::mmap),
        mmap_free: Some(ring::mem::mmap_free),
        alloc_pd: Some(Ops::<D>::alloc_pd),
        dealloc_pd: Some(Ops::<D>::dealloc_pd),

        create_cq: Some(Ops::<D>::create_cq),
        destroy_cq: Some(Ops::<D>::destroy_cq),
        modify_cq: Some(Ops::<D>::modify_cq),
        resize_user_cq: Some(Ops::<D>::resize_user_cq),
        poll_cq: Some(Ops::<D>::poll_cq),
        req_notify_cq: Some(Ops::<D>::req_notify_cq),

        create_qp: Some(Ops::<D>::create_qp),
        modify_qp: Some(Ops::<D>::modify_qp),
        query_qp: Some(Ops::<D>::query_qp),
        destroy_qp: Some(Ops::<D>::destroy_qp),
        post_send: Some(Ops::<D>::post_send),
        post_recv: Some(Ops::<D>::post_recv),

        create_srq: Some(Ops::<D>::create_srq),
        modify_srq: Some(Ops::<D>::modify_srq),
        query_srq: Some(Ops::<D>::query_srq),
        destroy_srq: Some(Ops::<D>::destroy_srq),
        post_srq_recv: Some(Ops::<D>::post_srq_recv),

        get_dma_mr: for_kernel.then_some(Ops::<D>::get_dma_mr),
        reg_user_mr: Some(Ops::<D>::reg_user_mr),
        reg_user_mr_dmabuf: Some(Ops::<D>::reg_user_mr_dmabuf),
        rereg_user_mr: Some(Ops::<D>::rereg_user_mr),
        alloc_mr: Some(Ops::<D>::alloc_mr),
        map_mr_sg: Some(Ops::<D>::map_mr_sg),
        dereg_mr: Some(Ops::<D>::dereg_mr),
        alloc_mw: Some(Ops::<D>::alloc_mw),
        dealloc_mw: Some(Ops::<D>::dealloc_mw),

        iw_add_ref: iwcm.then_some(Ops::<D>::iw_add_ref),
        iw_rem_ref: iwcm.then_some(Ops::<D>::iw_rem_ref),
        iw_get_qp: iwcm.then_some(Ops::<D>::iw_get_qp),
        iw_connect: iwcm.then_some(Ops::<D>::iw_connect),
        iw_accept: iwcm.then_some(Ops::<D>::iw_accept),
        iw_reject: iwcm.then_some(Ops::<D>::iw_reject),
        iw_create_listen: iwcm.then_some(Ops::<D>::iw_create_listen),
        iw_destroy_listen: iwcm.then_some(Ops::<D>::iw_destroy_listen),

        size_ib_ucontext: ContextObject::<D>::SIZE,
        size_ib_pd: PdObject::<D>::SIZE,
        size_ib_cq: CqObject::<D>::SIZE,
        size_ib_qp: QpObject::<D>::SIZE,
        size_ib_srq: SrqObject::<D>::SIZE,
        size_ib_mw: MwObject::<D>::SIZE,
        size_rdma_counter: size_of::<bindings::rdma_counter>(),

        ..pin_init::zeroed()
    };
    // SAFETY: By the contract of this function `dev` is not in use yet. The core copies the table.
    unsafe { bindings::ib_set_device_ops(dev, &ops) };
}

/// The error code of a result: 0, or less than 0.
#[inline]
fn errno(result: Result) -> i32 {
    result.map_or_else(Error::to_errno, |()| 0)
}
