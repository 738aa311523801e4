// SPDX-License-Identifier: GPL-2.0

//! The operations that the core calls: one C function for each method of [`Driver`].
//!
//! They turn C parameters into Rust values, results into error codes, and keep the objects'
//! states. All are in `impl` blocks of [`Ops`], by object: [`device`], [`context`] (user contexts
//! and protection domains), [`cq`], [`qp`], [`srq`], [`mr`], [`iw`].
//!
//! About the safety of all of them: the core calls an operation only with pointers to objects of
//! a device that has these operations, that is, of this driver; it calls it between the object's
//! creation and its destruction, and keeps the device registered meanwhile (operations that come
//! during registration find the device's state in place). It serialises creation and destruction
//! with everything else about an object. Attributes are valid for the time of the call.

mod context;
mod cq;
mod device;
mod iw;
mod mr;
mod qp;
mod srq;

use crate::{
    device::registry,
    object::{cq::CqObject, qp::QpObject, srq::SrqObject, ContextObject, PdObject},
    ring, Driver,
};
use core::marker::PhantomData;
use kernel::prelude::*;
use rdma_bindings as bindings;

/// The functions for driver `D`.
struct Ops<D: Driver>(PhantomData<D>);

/// The version of the interface to the user library.
const UVERBS_ABI_VER: u32 = 1;

/// Gives `dev` its operations.
///
/// # Safety
///
/// `dev` is a device that is not registered yet, made for driver `D`.
pub(crate) unsafe fn set<D: Driver>(dev: *mut bindings::ib_device, module: &'static ThisModule) {
    let ops = bindings::ib_device_ops {
        owner: module.as_ptr(),
        driver_id: bindings::rdma_driver_id_RDMA_DRIVER_SIW,
        uverbs_abi_ver: UVERBS_ABI_VER,

        dealloc_driver: Some(registry::dealloc::<D>),
        query_device: Some(Ops::<D>::query_device),
        query_port: Some(Ops::<D>::query_port),
        get_port_immutable: Some(Ops::<D>::get_port_immutable),
        query_gid: Some(Ops::<D>::query_gid),
        alloc_hw_port_stats: if D::HAS_PORT_STATS {
            Some(Ops::<D>::alloc_hw_port_stats)
        } else {
            None
        },
        get_hw_stats: if D::HAS_PORT_STATS {
            Some(Ops::<D>::get_hw_stats)
        } else {
            None
        },

        fill_res_qp_entry: if D::HAS_DESCRIBE_QP {
            Some(Ops::<D>::fill_res_qp_entry)
        } else {
            None
        },

        alloc_ucontext: Some(Ops::<D>::alloc_ucontext),
        dealloc_ucontext: Some(Ops::<D>::dealloc_ucontext),
        disassociate_ucontext: Some(Ops::<D>::disassociate_ucontext),
        mmap: Some(ring::mem::mmap),
        mmap_free: Some(ring::mem::mmap_free),
        alloc_pd: Some(Ops::<D>::alloc_pd),
        dealloc_pd: Some(Ops::<D>::dealloc_pd),

        create_cq: Some(Ops::<D>::create_cq),
        destroy_cq: Some(Ops::<D>::destroy_cq),
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

        get_dma_mr: Some(Ops::<D>::get_dma_mr),
        reg_user_mr: Some(Ops::<D>::reg_user_mr),
        alloc_mr: Some(Ops::<D>::alloc_mr),
        map_mr_sg: Some(Ops::<D>::map_mr_sg),
        dereg_mr: Some(Ops::<D>::dereg_mr),

        iw_add_ref: Some(Ops::<D>::iw_add_ref),
        iw_rem_ref: Some(Ops::<D>::iw_rem_ref),
        iw_get_qp: Some(Ops::<D>::iw_get_qp),
        iw_connect: Some(Ops::<D>::iw_connect),
        iw_accept: Some(Ops::<D>::iw_accept),
        iw_reject: Some(Ops::<D>::iw_reject),
        iw_create_listen: Some(Ops::<D>::iw_create_listen),
        iw_destroy_listen: Some(Ops::<D>::iw_destroy_listen),

        size_ib_ucontext: ContextObject::<D>::SIZE,
        size_ib_pd: PdObject::<D>::SIZE,
        size_ib_cq: CqObject::<D>::SIZE,
        size_ib_qp: QpObject::<D>::SIZE,
        size_ib_srq: SrqObject::<D>::SIZE,

        ..pin_init::zeroed()
    };
    // SAFETY: The device is not in use yet, by the requirement; the table is copied.
    unsafe { bindings::ib_set_device_ops(dev, &ops) };
}

/// The error code of a result.
#[inline]
fn errno(result: Result) -> i32 {
    result.map_or_else(Error::to_errno, |()| 0)
}
