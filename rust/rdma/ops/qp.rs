// SPDX-License-Identifier: GPL-2.0

//! Operations on queue pairs.

use super::{errno, Ops};
use crate::{
    attr::qp::{QpCap, QpInitAttr, QpModify, QpType},
    device::Device,
    driver::{Driver, QpOps},
    object::{
        cq::CqObject,
        pd::PdObject,
        qp::{NewQp, QpObject, QpObjectState},
        share,
        srq::SrqObject,
        Shares,
    },
    protocol::Protocol,
    restrack::Details,
    udata::Udata,
    wr::{RecvWrs, SendWrs},
};
use kernel::prelude::*;
use kext::noio::noio_if;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `create_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn create_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `attr` is valid for the call, and nobody else uses it.
        let attr = unsafe { &mut *attr };
        errno(noio_if(udata.is_null(), || {
            // SAFETY: These are the parameters of `create_qp`.
            unsafe { Self::make_qp(qp, attr, udata) }
        }))
    }

    /// The rest of `create_qp`.
    ///
    /// # Safety
    ///
    /// Only `create_qp` may call this, with its parameters.
    unsafe fn make_qp(
        qp: *mut bindings::ib_qp,
        c: &mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> Result {
        // SAFETY: The core has set the domain of the queue pair that it creates.
        let pd = unsafe { (*qp).pd };
        if pd.is_null() {
            return Err(EINVAL);
        }
        let cq = |cq: *mut bindings::ib_cq| {
            // SAFETY: A queue that is not null is of this device. It was created, and the consumer
            // does not destroy it before this queue pair.
            (!cq.is_null()).then(|| unsafe { CqObject::<D>::state(cq) }.data.clone())
        };
        // SAFETY: As for the completion queues.
        let srq = (!c.srq.is_null()).then(|| unsafe { SrqObject::<D>::state(c.srq) }.data.clone());
        let mut attr = QpInitAttr {
            send_cq: cq(c.send_cq),
            recv_cq: cq(c.recv_cq),
            srq,
            cap: QpCap::from_c(&c.cap),
            signal_all: c.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            qp_type: QpType::from_c(c.qp_type),
            create_flags: c.create_flags,
        };
        let mut shares = Shares::default();
        // SAFETY: `qp` is valid until the core frees it, which it does when this has failed or
        // `destroy_qp` has succeeded. The result is revoked before either.
        let object = unsafe { share(qp) }?;
        let made = {
            // SAFETY: The core has set the device of the queue pair. The domain is of this device;
            // it was created, and the consumer does not destroy it before this queue pair.
            let (dev, pd) = unsafe {
                (
                    Device::<D>::from_raw((*qp).device),
                    PdObject::<D>::state(pd),
                )
            };
            // SAFETY: `udata` is null or that of the verb in progress. The shares become part of
            // the queue pair, which is of its context.
            let mut udata = unsafe { Udata::new(udata, Some(&mut shares)) };
            // SAFETY: `qp` is being created, and nobody else uses it.
            let mut new = unsafe { NewQp::new(qp, &object) };
            D::Qp::create(dev, pd, &mut attr, udata.as_mut(), &mut new)
        };
        let data = made.inspect_err(|_| {
            let _ = object.revoke();
        })?;
        attr.cap.store(&mut c.cap);
        let state = QpObjectState {
            data: data.clone(),
            object: object.clone(),
            user: !udata.is_null(),
            _shares: shares,
        };
        // SAFETY: `qp` is being created by the core, which has allocated as many bytes as asked
        // for.
        unsafe { QpObject::<D>::init(qp, state) };
        // From here on handles reach the core's object, and its state is there.
        object.open();
        data.publish().inspect_err(|_| {
            object.revoke();
            // SAFETY: The state is there. The core does not know the queue pair yet, and nobody has
            // found it by its number. The handles are revoked.
            drop(unsafe { QpObject::<D>::take(qp) });
        })
    }

    /// The `modify_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn modify_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: i32,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `qp` was created, and is there when this begins.
        let state = match unsafe { QpObject::<D>::guard(qp) } {
            Ok(state) => state,
            Err(e) => return e.to_errno(),
        };
        // The library neither sends data nor gets any.
        // SAFETY: `udata` is null or that of the verb in progress.
        let ret = unsafe { bindings::ib_no_udata_io(udata) };
        if ret != 0 || mask == 0 {
            return ret;
        }
        // SAFETY: `qp` is there, and its device has its state, as it has objects.
        let dev = unsafe { Device::<D>::from_raw((*qp).device) };
        let port = match dev.protocol() {
            Protocol::Iwarp => None,
            Protocol::Roce => match dev.netdev() {
                Some(port) => Some(port),
                None => return ENODEV.to_errno(),
            },
        };
        // SAFETY: `attr` is valid for the call, and nobody changes it.
        let modify = unsafe { QpModify::from_c(&*attr, mask as u32, port.as_deref()) };
        errno(noio_if(!state.user, || {
            modify.and_then(|modify| state.data.modify(&modify))
        }))
    }

    /// The `fill_res_qp_entry` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn fill_res_qp_entry(
        msg: *mut bindings::sk_buff,
        qp: *mut bindings::ib_qp,
    ) -> i32 {
        // SAFETY: `qp` was created: the core got it from the list of resources, where it is from
        // the end of its creation on. It holds a reference to the entry there, for whose end the
        // destruction waits before it calls `destroy_qp`.
        let state = unsafe { QpObject::<D>::guard(qp) };
        errno(state.and_then(|state| {
            // SAFETY: The core is writing `msg`.
            unsafe { Details::write(msg, |details| state.data.describe(details)) }
        }))
    }

    /// The `query_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn query_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: i32,
        init: *mut bindings::ib_qp_init_attr,
    ) -> i32 {
        // SAFETY: `qp` was created, and is there when this begins.
        let state = match unsafe { QpObject::<D>::guard(qp) } {
            Ok(state) => state,
            Err(e) => return e.to_errno(),
        };
        let known = match state.data.query() {
            Ok(known) => known,
            Err(e) => return e.to_errno(),
        };
        // A driver does not know all fields that the core copies to processes, and the core does
        // not clear the structures.
        // SAFETY: Both are valid for writes, and nobody else uses them.
        let (attr, init) = unsafe {
            attr.write(pin_init::zeroed());
            init.write(pin_init::zeroed());
            (&mut *attr, &mut *init)
        };
        known.store(attr, init);
        init.port_num = 1;
        // SAFETY: `state` keeps the queue pair. The core has set these fields when it made it.
        unsafe {
            init.event_handler = (*qp).event_handler;
            init.qp_context = (*qp).qp_context;
            init.send_cq = (*qp).send_cq;
            init.recv_cq = (*qp).recv_cq;
            init.srq = (*qp).srq;
            init.qp_type = (*qp).qp_type;
        }
        0
    }

    /// The `destroy_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn destroy_qp(
        qp: *mut bindings::ib_qp,
        _udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `qp` has its state, as it was created and is destroyed here.
        let state = unsafe { QpObject::<D>::state(qp) };
        if let Err(e) = state.data.destroy() {
            return e.to_errno();
        }
        // This waits for the connection manager's references, and for operations that began before
        // its last one went. They end: none waits for this thread, nor for a lock that it holds.
        state.object.revoke();
        // SAFETY: `qp` has its state, which is taken once, as the core frees the queue pair when
        // this succeeds. Handles are revoked, and the operations that sleep are over. The consumer
        // does not begin another one: it destroys the queue pair.
        drop(unsafe { QpObject::<D>::take(qp) });
        0
    }

    /// The `post_send` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn post_send(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_send_wr,
        bad_wr: *mut *const bindings::ib_send_wr,
    ) -> i32 {
        // SAFETY: `qp` has its state: it was created, and is not destroyed meanwhile. The consumer
        // does not destroy a queue pair that it posts to, and the core holds one for whose process
        // it rings the doorbell. No other calls this.
        let state = unsafe { QpObject::<D>::state(qp) };
        if wr.is_null() {
            return errno(if state.user {
                state.data.doorbell()
            } else {
                Ok(())
            });
        }
        // A request that a process posts in this way names addresses that it has chosen, and kernel
        // addresses are expected here.
        let (result, bad) = if state.user {
            (Err(EINVAL), wr)
        } else {
            // SAFETY: `wr` is the chain of a kernel consumer, which keeps it and the regions that
            // it names for the time of the call. `device` is that of the queue pair, of driver `D`.
            let mut wrs = unsafe { SendWrs::new(wr, (*qp).device) };
            (state.data.post_send(&mut wrs), wrs.bad())
        };
        if result.is_err() && !bad_wr.is_null() {
            // SAFETY: `bad_wr` is not null, and so it is valid for a write.
            unsafe { *bad_wr = bad };
        }
        errno(result)
    }

    /// The `post_recv` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn post_recv(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
    ) -> i32 {
        // SAFETY: `qp` has its state: it was created, and is not destroyed meanwhile.
        let state = unsafe { QpObject::<D>::state(qp) };
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
