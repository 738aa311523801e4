// SPDX-License-Identifier: GPL-2.0

//! Operations on shared receive queues.

use super::{errno, Ops};
use crate::{
    attr::SrqAttr,
    device::Device,
    driver::{Driver, SrqOps},
    errno::unsupported,
    object::{
        pd::PdObject,
        share,
        srq::{NewSrq, SrqObject, SrqShares, SrqState},
        Shares,
    },
    owner::Consumer,
    restrack::Details,
    udata::Udata,
    wr::RecvWrs,
};
use core::ptr::NonNull;
use kernel::{error::to_result, new_mutex, prelude::*};
use kext::noio::noio_if;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `create_srq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `attr` is valid for the call, and nobody else uses it.
        let attr = unsafe { &mut *attr };
        errno(noio_if(udata.is_null(), || {
            // SAFETY: These are the parameters of `create_srq`.
            unsafe { Self::make_srq(srq, attr, udata) }
        }))
    }

    /// The rest of `create_srq`.
    ///
    /// # Safety
    ///
    /// Only `create_srq` may call this, with its parameters.
    unsafe fn make_srq(
        srq: *mut bindings::ib_srq,
        c: &mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> Result {
        if c.srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
            return Err(unsupported());
        }
        let consumer = Consumer::of(&NonNull::new(udata));
        let mut attr = SrqAttr::from_c(&c.attr);
        let shares = KBox::pin_init(
            new_mutex!(SrqShares::default(), "rdma_srq_shares"),
            consumer.flags(),
        )?;
        // SAFETY: `srq` is valid until the core frees it, which it does when this has failed or
        // `destroy_srq` has succeeded. The result is revoked before either.
        let object = unsafe { share(srq) }?;
        let made = {
            // SAFETY: The core has set device and domain of the queue. The domain was created, and
            // the consumer does not destroy it before this queue.
            let (dev, pd) = unsafe {
                (
                    Device::<D>::from_raw((*srq).device),
                    PdObject::<D>::state((*srq).pd),
                )
            };
            let mut shares = shares.lock();
            // SAFETY: `udata` is null or that of the verb in progress. The shares become part of
            // the queue, which is of its context.
            let mut udata = unsafe { Udata::new(udata, Some(&mut shares.used)) };
            let mut new = NewSrq::new(&object);
            D::Srq::create(dev, pd, &mut attr, udata.as_mut(), &mut new)
        };
        let state = SrqState {
            data: made.inspect_err(|_| {
                let _ = object.revoke();
            })?,
            object: object.clone(),
            user: !udata.is_null(),
            shares,
        };
        attr.store(&mut c.attr);
        // SAFETY: `srq` is being created by the core, which has allocated as many bytes as asked
        // for.
        unsafe { SrqObject::<D>::init(srq, state) };
        object.open();
        Ok(())
    }

    /// The `modify_srq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn modify_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
        mask: bindings::ib_srq_attr_mask,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `attr` is valid for the call, and nobody changes it.
        let attr = SrqAttr::from_c(unsafe { &*attr });
        let has = |bit: bindings::ib_srq_attr_mask| mask & bit != 0;
        let limit = has(bindings::ib_srq_attr_mask_IB_SRQ_LIMIT).then_some(attr.limit);
        errno(if has(bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR) {
            // SAFETY: These are parameters of `modify_srq`.
            unsafe { Self::resize_srq(srq, attr.max_wr, limit, udata) }
        } else {
            // SAFETY: These are parameters of `modify_srq`.
            unsafe { Self::limit_srq(srq, limit, udata) }
        })
    }

    /// `modify_srq` without another size.
    ///
    /// # Safety
    ///
    /// Only `modify_srq` may call this, with its parameters.
    unsafe fn limit_srq(
        srq: *mut bindings::ib_srq,
        limit: Option<u32>,
        udata: *mut bindings::ib_udata,
    ) -> Result {
        // SAFETY: `srq` was created, and is there when this begins.
        let state = unsafe { SrqObject::<D>::guard(srq) };
        // The library neither sends data nor gets any.
        // SAFETY: `udata` is null or that of the verb in progress.
        to_result(unsafe { bindings::ib_no_udata_io(udata) })?;
        match limit {
            Some(limit) => state?.data.set_limit(limit),
            None => Ok(()),
        }
    }

    /// `modify_srq` with another size.
    ///
    /// # Safety
    ///
    /// Only `modify_srq` may call this, with its parameters.
    unsafe fn resize_srq(
        srq: *mut bindings::ib_srq,
        max_wr: u32,
        limit: Option<u32>,
        udata: *mut bindings::ib_udata,
    ) -> Result {
        // SAFETY: `srq` was created, and is there when this begins.
        let state = unsafe { SrqObject::<D>::guard(srq) }?;
        let shares = &mut *state.shares.lock();
        let prepared = core::mem::take(&mut shares.prepared);
        let mut new = Shares::default();
        // SAFETY: `udata` is null or that of the verb in progress. The shares become part of the
        // queue, which is of its context; or they end here.
        let udata = unsafe { Udata::new(udata, Some(&mut new)) };
        let mut udata = udata.ok_or_else(unsupported)?;
        state.data.resize(max_wr, limit, &mut udata)?;
        if new.is_empty() {
            shares.used = prepared;
        } else {
            shares.prepared = new;
        }
        Ok(())
    }

    /// The `query_srq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn query_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
    ) -> i32 {
        // SAFETY: `srq` was created, and is there when this begins.
        let state = unsafe { SrqObject::<D>::guard(srq) };
        let known = state.and_then(|state| state.data.query());
        // SAFETY: `attr` is valid for writes, and nobody else uses it.
        errno(known.map(|known| known.store(unsafe { &mut *attr })))
    }

    /// The `fill_res_srq_entry` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn fill_res_srq_entry(
        msg: *mut bindings::sk_buff,
        srq: *mut bindings::ib_srq,
    ) -> i32 {
        // SAFETY: `srq` was created: the core got it from the list of resources, where it is from
        // the end of its creation on. It holds a reference to the entry there, for whose end the
        // destruction waits before it calls `destroy_srq`.
        let state = unsafe { SrqObject::<D>::guard(srq) };
        errno(state.and_then(|state| {
            // SAFETY: The core is writing `msg`.
            unsafe { Details::write(msg, |details| state.data.describe(details)) }
        }))
    }

    /// The `destroy_srq` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn destroy_srq(
        srq: *mut bindings::ib_srq,
        _udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `srq` has its state, as it was created and is destroyed here.
        let state = unsafe { SrqObject::<D>::state(srq) };
        if let Err(e) = state.data.destroy() {
            return e.to_errno();
        }
        state.object.revoke();
        // SAFETY: `srq` has its state, which is taken once, as the core frees the queue when this
        // succeeds. Consumers and queue pairs do not use it any more, and the handles are revoked.
        drop(unsafe { SrqObject::<D>::take(srq) });
        0
    }

    /// The `post_srq_recv` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut bindings::ib_srq,
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
    ) -> i32 {
        // SAFETY: `srq` has its state: it was created, and is not destroyed meanwhile.
        let state = unsafe { SrqObject::<D>::state(srq) };
        let (result, bad) = if state.user {
            (Err(EINVAL), wr)
        } else {
            // SAFETY: `wr` is null or the chain of a kernel consumer, which keeps it for the time
            // of the call.
            let mut wrs = unsafe { RecvWrs::new(wr) };
            (state.data.post_recv(&mut wrs), wrs.bad())
        };
        if result.is_err() && !bad_wr.is_null() {
            // SAFETY: `bad_wr` is not null, and so it is valid for a write.
            unsafe { *bad_wr = bad };
        }
        errno(result)
    }
}
