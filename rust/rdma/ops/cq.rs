// SPDX-License-Identifier: GPL-2.0

//! Operations on completion queues.

use super::{errno, Ops};
use crate::{
    attr::{Arm, CqAttr},
    device::Device,
    driver::{CqOps, Driver},
    object::{
        cq::{CqHandle, CqObject, CqState, NewCq},
        share, Shares,
    },
    owner::Consumer,
    restrack::Details,
    udata::Udata,
    wc::WcSlots,
};
use core::ptr::{self, NonNull};
use kernel::{new_mutex, prelude::*};
use kext::noio::noio_if;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `create_cq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn create_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> i32 {
        let udata = if attrs.is_null() {
            // A kernel consumer's.
            ptr::null_mut()
        } else {
            // SAFETY: It is the bundle of the verb in progress.
            unsafe { bindings::uverbs_bundle_udata(attrs) }
        };
        // SAFETY: `attr` is valid for the call, and nobody changes it.
        let attr = CqAttr::from_c(unsafe { &*attr });
        errno(noio_if(udata.is_null(), || {
            // SAFETY: These are the parameters of `create_cq`.
            unsafe { Self::make_cq(cq, attr, udata) }
        }))
    }

    /// The rest of `create_cq`.
    ///
    /// # Safety
    ///
    /// Only `create_cq` may call this, with its parameters.
    unsafe fn make_cq(
        cq: *mut bindings::ib_cq,
        attr: CqAttr,
        udata: *mut bindings::ib_udata,
    ) -> Result {
        let consumer = Consumer::of(&NonNull::new(udata));
        let shares = KBox::pin_init(
            new_mutex!(Shares::default(), "rdma_cq_shares"),
            consumer.flags(),
        )?;
        let entries = attr.entries.try_into()?;
        // SAFETY: `cq` is valid until the core frees it, which it does when this has failed or
        // `destroy_cq` has succeeded. The result is revoked before either, or dropped at once.
        let object = unsafe { share(cq) }?;
        let handle = CqHandle::new(object, attr.comp_vector, consumer)?;
        let made = {
            // SAFETY: `cq` is being created, so nobody else uses its size. The core has set its
            // device, which has its state.
            let dev = unsafe {
                (*cq).cqe = entries;
                Device::<D>::from_raw((*cq).device)
            };
            let mut shares = shares.lock();
            // SAFETY: `udata` is null or that of the verb in progress. The shares become part of
            // the queue, which is of its context.
            let mut udata = unsafe { Udata::new(udata, Some(&mut *shares)) };
            // SAFETY: `cq` is being created, and nobody else uses it.
            let mut new = unsafe { NewCq::new(cq, &handle) };
            D::Cq::create(dev, &attr, udata.as_mut(), &mut new)
        };
        let state = CqState {
            data: made.inspect_err(|_| handle.revoke())?,
            handle: handle.clone(),
            shares,
        };
        // SAFETY: `cq` is being created by the core, which has allocated as many bytes as asked
        // for.
        unsafe { CqObject::<D>::init(cq, state) };
        handle.open();
        Ok(())
    }

    /// The `fill_res_cq_entry` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn fill_res_cq_entry(
        msg: *mut bindings::sk_buff,
        cq: *mut bindings::ib_cq,
    ) -> i32 {
        // SAFETY: `cq` was created: the core got it from the list of resources, where it is from
        // the end of its creation on. It holds a reference to the entry there, for whose end the
        // destruction waits before it calls `destroy_cq`.
        let state = unsafe { CqObject::<D>::guard(cq) };
        errno(state.and_then(|state| {
            // SAFETY: The core is writing `msg`.
            unsafe { Details::write(msg, |details| state.data.describe(details)) }
        }))
    }

    /// The `modify_cq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn modify_cq(
        cq: *mut bindings::ib_cq,
        count: u16,
        period: u16,
    ) -> i32 {
        // SAFETY: `cq` was created, and is there when this begins.
        let state = unsafe { CqObject::<D>::guard(cq) };
        errno(state.and_then(|state| state.data.modify(count, period)))
    }

    /// The `resize_user_cq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        entries: u32,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `cq` was created, and is there when this begins.
        let state = match unsafe { CqObject::<D>::guard(cq) } {
            Ok(state) => state,
            Err(e) => return e.to_errno(),
        };
        let mut shares = state.shares.lock();
        let mut new = Shares::default();
        // SAFETY: `udata` is that of the verb in progress. The shares become part of the queue,
        // which is of its context; or they end here.
        let resized = match unsafe { Udata::new(udata, Some(&mut new)) } {
            Some(mut udata) => state.data.resize(entries, &mut udata),
            None => Err(EINVAL),
        };
        errno(resized.map(|entries| {
            // SAFETY: `state` keeps the queue. Only this stores the size of a process' queue once
            // it is complete, under the lock. The core reads it to show it, an aligned word.
            unsafe { (&raw mut (*cq).cqe).write_volatile(entries.try_into().unwrap_or(i32::MAX)) };
            *shares = new;
        }))
    }

    /// The `destroy_cq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn destroy_cq(
        cq: *mut bindings::ib_cq,
        _udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `cq` has its state, as it was created and is destroyed here.
        let state = unsafe { CqObject::<D>::state(cq) };
        if let Err(e) = state.data.destroy() {
            return e.to_errno();
        }
        state.handle.revoke();
        // SAFETY: `cq` has its state, which is taken once, as the core frees the queue when this
        // succeeds. Its consumer does not use it any more, and the handles are revoked.
        drop(unsafe { CqObject::<D>::take(cq) });
        0
    }

    /// The `poll_cq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn poll_cq(
        cq: *mut bindings::ib_cq,
        num: i32,
        wc: *mut bindings::ib_wc,
    ) -> i32 {
        let num = num.try_into().unwrap_or(0);
        // SAFETY: `cq` has its state: it was created, and is not destroyed meanwhile. `wc` has room
        // for `num` completions.
        let (state, mut slots) = unsafe { (CqObject::<D>::state(cq), WcSlots::new(wc, num)) };
        match state.data.poll(&mut slots) {
            // Completions that were filled in must be delivered. An error will come again.
            Err(e) if slots.filled() == 0 => e.to_errno(),
            // CAST: It is at most `num`.
            _ => slots.filled() as i32,
        }
    }

    /// The `req_notify_cq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn req_notify_cq(
        cq: *mut bindings::ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> i32 {
        let solicited = flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK
            == bindings::ib_cq_notify_flags_IB_CQ_SOLICITED;
        let how = if solicited { Arm::Solicited } else { Arm::Next };
        let report = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
        // SAFETY: `cq` has its state: it was created, and is not destroyed meanwhile.
        let state = unsafe { CqObject::<D>::state(cq) };
        match state.data.req_notify(how, report) {
            Ok(missed) => (missed && report).into(),
            Err(e) => e.to_errno(),
        }
    }
}
