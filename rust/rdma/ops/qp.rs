// SPDX-License-Identifier: GPL-2.0

//! Operations on queue pairs.

use super::{errno, Ops};
use crate::{
    attr::qp::{QpCap, QpInitAttr, QpModify, QpType},
    details::Details,
    device::Device,
    driver::{Driver, QpOps},
    object::{
        cq::CqObject,
        qp::{NewQp, QpObject, QpObjectState},
        share,
        srq::SrqObject,
        PdObject, Shares,
    },
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
        // SAFETY: `qp` is being created, and `attr` and `udata` are valid, as `make_qp` requires.
        errno(noio_if(udata.is_null(), || unsafe {
            Self::make_qp(qp, &mut *attr, udata)
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
        // SAFETY: The core has set `device` and `pd` of the queue pair that it creates. The queues
        // and the protection domain are null or of this device, complete, and not destroyed
        // meanwhile.
        let (dev, pd, mut attr) = unsafe {
            let cq = |cq: *mut bindings::ib_cq| {
                (!cq.is_null()).then(|| CqObject::<D>::state(cq).data.clone())
            };
            let srq = (!c.srq.is_null()).then(|| SrqObject::<D>::state(c.srq).data.clone());
            if (*qp).pd.is_null() {
                return Err(EINVAL);
            }
            (
                Device::<D>::from_raw((*qp).device),
                PdObject::<D>::state((*qp).pd),
                QpInitAttr {
                    send_cq: cq(c.send_cq),
                    recv_cq: cq(c.recv_cq),
                    srq,
                    cap: QpCap::from_c(&c.cap),
                    signal_all: c.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
                    qp_type: QpType::from_c(c.qp_type),
                    create_flags: c.create_flags,
                },
            )
        };
        let mut shares = Shares::default();
        // SAFETY: `qp` stays valid until the core frees it. It does so when this fails or
        // `destroy_qp` has succeeded, and the handles are revoked before that. `udata` is null or
        // that of the verb in progress, and the shares become part of an object of its context. The
        // state is initialised once, and before its first use. If `publish_qp` fails, nobody can
        // find the queue pair, and its handles are revoked, so nobody uses the state that `take`
        // takes.
        unsafe {
            let object = share(qp)?;
            let made = D::Qp::create(
                dev,
                pd,
                &mut attr,
                Udata::new(udata, Some(&mut shares)).as_mut(),
                &mut NewQp::new(qp, &object),
            );
            match made {
                Ok(data) => {
                    attr.cap.store(&mut c.cap);
                    let ready = data.clone();
                    let state = QpObjectState {
                        data,
                        object: object.clone(),
                        user: !udata.is_null(),
                        _shares: shares,
                    };
                    QpObject::<D>::init(qp, state);
                    // From here on handles reach the core's object, and its state is there.
                    object.open();
                    if let Err(e) = ready.publish() {
                        object.revoke();
                        drop(QpObject::<D>::take(qp));
                        return Err(e);
                    }
                    Ok(())
                }
                Err(e) => {
                    object.revoke();
                    Err(e)
                }
            }
        }
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
        // SAFETY: `udata` is null or that of the verb in progress, and `attr` is valid for the
        // call. `qp` has its state: it was created, and is not destroyed meanwhile; the connection
        // manager calls with a reference, for which the destruction waits. The library neither
        // sends data nor gets any.
        let (state, modify) = unsafe {
            let ret = bindings::ib_no_udata_io(udata);
            if ret != 0 {
                return ret;
            }
            if mask == 0 {
                return 0;
            }
            (
                QpObject::<D>::state(qp),
                QpModify::from_c(&*attr, mask as u32),
            )
        };
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
        // SAFETY: `qp` has its state: the core got it from the list of resources, where it is from
        // the end of its creation on. It holds a reference to the entry there, for whose end the
        // destruction waits before it calls `destroy_qp`. The core is writing `msg`.
        errno(unsafe {
            let state = QpObject::<D>::state(qp);
            Details::write(msg, |details| state.data.describe(details))
        })
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
        // SAFETY: `qp` has its state: it was created, and is not destroyed meanwhile. `attr` and
        // `init` are valid for writes, and nobody else uses them.
        let result = unsafe {
            QpObject::<D>::state(qp).data.query().map(|known| {
                // A driver does not know all fields that the core copies to processes, and the core
                // does not clear the structures.
                *attr = pin_init::zeroed();
                *init = pin_init::zeroed();
                known.store(&mut *attr, &mut *init);
                (*init).event_handler = (*qp).event_handler;
                (*init).qp_context = (*qp).qp_context;
                (*init).send_cq = (*qp).send_cq;
                (*init).recv_cq = (*qp).recv_cq;
                (*init).srq = (*qp).srq;
                (*init).qp_type = (*qp).qp_type;
                (*init).port_num = 1;
            })
        };
        errno(result)
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
        // This waits for the connection manager, too.
        state.object.revoke();
        // SAFETY: `qp` has its state, which is taken once, as the core frees the queue pair when
        // this succeeds. Consumers and processes do not use it any more, handles are revoked, and
        // the connection manager has released it.
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
        // SAFETY: `qp` has its state: it was created, and is not destroyed meanwhile.
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
