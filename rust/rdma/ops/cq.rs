// SPDX-License-Identifier: GPL-2.0

//! Operations on completion queues.

use super::{errno, Ops};
use crate::{
    attr::{CqAttr, Notify},
    details::Details,
    device::Device,
    driver::{CqOps, Driver},
    object::{
        cq::{CqHandle, CqObject, CqState, NewCq},
        share, Shares,
    },
    owner::Consumer,
    udata::Udata,
    wc::WcSlots,
};
use core::ptr;
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
        // SAFETY: `attr` is valid for the call. `attrs` is null for a kernel consumer, else the
        // bundle of the verb in progress. `cq` is being created, as `make_cq` requires.
        errno(unsafe {
            let udata = if attrs.is_null() {
                ptr::null_mut()
            } else {
                bindings::uverbs_bundle_udata(attrs)
            };
            noio_if(udata.is_null(), || {
                Self::make_cq(cq, CqAttr::from_c(&*attr), udata)
            })
        })
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
        let consumer = match udata.is_null() {
            true => Consumer::Kernel,
            false => Consumer::Process,
        };
        let shares = KBox::pin_init(
            new_mutex!(Shares::default(), "rdma_cq_shares"),
            consumer.flags(),
        )?;
        // SAFETY: The core has set the `device` of the queue that it creates. `cq` stays valid
        // until the core frees it. It does so when this fails or `destroy_cq` has succeeded, and
        // the handles are revoked before that. `udata` is null or that of the verb in progress, and
        // the shares become part of an object of its context. The state is initialised once, and
        // before its first use.
        unsafe {
            let dev = Device::<D>::from_raw((*cq).device);
            let handle = CqHandle::new(share(cq)?, attr.comp_vector, consumer)?;
            (*cq).cqe = attr.entries.try_into()?;
            let made = D::Cq::create(
                dev,
                &attr,
                Udata::new(udata, Some(&mut *shares.lock())).as_mut(),
                &mut NewCq::new(cq, &handle),
            );
            match made {
                Ok(data) => {
                    let state = CqState {
                        data,
                        handle: handle.clone(),
                        shares,
                    };
                    CqObject::<D>::init(cq, state);
                    handle.open();
                    Ok(())
                }
                Err(e) => {
                    handle.revoke();
                    Err(e)
                }
            }
        }
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
        // SAFETY: `cq` has its state: the core got it from the list of resources, where it is from
        // the end of its creation on. It holds a reference to the entry there, for whose end the
        // destruction waits before it calls `destroy_cq`. The core is writing `msg`.
        errno(unsafe {
            let data = &CqObject::<D>::state(cq).data;
            Details::write(msg, |details| data.describe(details))
        })
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
        // SAFETY: `cq` has its state: it was created, and is not destroyed meanwhile.
        let state = unsafe { CqObject::<D>::state(cq) };
        errno(state.data.modify(count, period))
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
        // SAFETY: `cq` has its state: it was created, and is not destroyed meanwhile. `udata` is
        // that of the verb in progress, and the shares become part of the queue, which is of its
        // context. Only this stores the size of a process' queue, under the lock; the core reads
        // it, to show it.
        errno(unsafe {
            let state = CqObject::<D>::state(cq);
            let mut shares = state.shares.lock();
            let mut new = Shares::default();
            Udata::new(udata, Some(&mut new))
                .ok_or(EINVAL)
                .and_then(|mut udata| state.data.resize(entries, &mut udata))
                .map(|entries| {
                    (*cq).cqe = entries.try_into().unwrap_or(i32::MAX);
                    *shares = new;
                })
        })
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
        let how = if solicited {
            Notify::Solicited
        } else {
            Notify::Next
        };
        let report = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
        // SAFETY: `cq` has its state: it was created, and is not destroyed meanwhile.
        let state = unsafe { CqObject::<D>::state(cq) };
        match state.data.req_notify(how, report) {
            Ok(missed) => (missed && report).into(),
            Err(e) => e.to_errno(),
        }
    }
}
