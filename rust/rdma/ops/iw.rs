// SPDX-License-Identifier: GPL-2.0

//! Operations of the iWARP connection manager.

use super::{errno, Ops};
use crate::{
    device::Device,
    errno::aborted,
    iwcm::{bytes, CmId, ConnParam, RequestId},
    noio::noio,
    object::qp::QpObject,
    Driver,
};
use core::{ffi::c_void, ptr};
use kernel::{prelude::*, sync::Arc};
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The reference that the connection manager asks for here was made by `iw_get_qp`.
    ///
    /// The two are always called one after the other, with interrupts off. If the reference was
    /// made here only, the queue pair could be destroyed in between, unless each destruction
    /// waited for an RCU grace period.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_add_ref(_qp: *mut bindings::ib_qp) {}

    /// The `iw_rem_ref` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_rem_ref(qp: *mut bindings::ib_qp) {
        // SAFETY: The queue pair is there, as its destruction waits for this call.
        // `object` is a reference of its own, as the queue pair may be gone when the access has ended.
        let object = unsafe { QpObject::<D>::state(qp) }.object.clone();
        // SAFETY: `QpHandle::get_raw` has forgotten the guard of the reference that is given back here.
        unsafe { object.end_forgotten() };
    }

    /// The `iw_get_qp` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_get_qp(
        dev: *mut bindings::ib_device,
        qpn: i32,
    ) -> *mut bindings::ib_qp {
        // SAFETY: As the module says.
        let found = D::iw_get_qp(unsafe { Device::<D>::from_raw(dev) }, qpn as u32);
        found.map_or(ptr::null_mut(), |qp| qp.get_raw(dev))
    }

    /// The `iw_connect` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_connect(
        id: *mut bindings::iw_cm_id,
        param: *mut bindings::iw_cm_conn_param,
    ) -> i32 {
        // SAFETY: As the module says: the identifier is alive during the call, and of a device of
        // this driver, which it keeps registered; `param` is valid, too.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            errno(noio(|| {
                D::iw_connect(dev, CmId::new(id), &ConnParam::from_raw(param))
            }))
        }
    }

    /// The request that an identifier stands for, taken out of the table.
    ///
    /// # Safety
    ///
    /// Only for an identifier that is accepted or rejected, of `dev`.
    unsafe fn request(dev: &Device<D>, id: *mut bindings::iw_cm_id) -> Result<Arc<D::Conn>> {
        // SAFETY: By the requirement. Of an identifier that is accepted or rejected the field is what
        // `CmId::connect_request` has put into the event.
        let request = RequestId::from_c(unsafe { (*id).provider_data });
        request
            .and_then(|request| dev.requests().take(request))
            .ok_or_else(aborted)
    }

    /// The `iw_accept` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_accept(
        id: *mut bindings::iw_cm_id,
        param: *mut bindings::iw_cm_conn_param,
    ) -> i32 {
        // SAFETY: As the module says: the identifier is alive during the call, and of a device of
        // this driver, which it keeps registered; `param` is valid, too.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            errno(Self::request(dev, id).and_then(|conn| {
                noio(|| D::iw_accept(dev, conn, CmId::new(id), &ConnParam::from_raw(param)))
            }))
        }
    }

    /// The `iw_reject` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_reject(
        id: *mut bindings::iw_cm_id,
        data: *const c_void,
        len: u8,
    ) -> i32 {
        // SAFETY: As for `iw_accept`; `data` is null or `len` bytes.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            errno(
                Self::request(dev, id)
                    .and_then(|conn| D::iw_reject(dev, conn, bytes(data, len.into()))),
            )
        }
    }

    /// The `iw_create_listen` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_create_listen(
        id: *mut bindings::iw_cm_id,
        backlog: i32,
    ) -> i32 {
        // SAFETY: As for `iw_accept`. The field of a listening identifier is the driver's.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            let backlog = backlog.try_into().unwrap_or(0);
            errno(
                noio(|| D::iw_create_listen(dev, CmId::new(id), backlog)).map(|listener| {
                    (*id).provider_data = Arc::into_raw(listener).cast::<c_void>().cast_mut();
                }),
            )
        }
    }

    /// The `iw_destroy_listen` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the connection manager; see [`super`].
    pub(super) unsafe extern "C" fn iw_destroy_listen(id: *mut bindings::iw_cm_id) -> i32 {
        // SAFETY: As for `iw_accept`. This is called once for an identifier that listens, whose field
        // comes from `iw_create_listen`; it is null only if that was never reached.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            let listener = (*id).provider_data.cast::<D::Listener>();
            (*id).provider_data = ptr::null_mut();
            if listener.is_null() {
                return EINVAL.to_errno();
            }
            errno(D::iw_destroy_listen(dev, Arc::from_raw(listener)))
        }
    }
}
