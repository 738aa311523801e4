// SPDX-License-Identifier: GPL-2.0

//! Operations of the iWARP connection manager.

use super::{errno, Ops};
use crate::{
    device::Device,
    driver::{ConnOps, Driver, ListenerOps, QpOps},
    errno::aborted,
    iwcm::{bytes, CmId, ConnParam, ListenId, RequestId},
    object::qp::QpObject,
};
use core::{ffi::c_void, ptr};
use kernel::{prelude::*, sync::Arc};
use kext::noio::noio;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `iw_add_ref` operation. It does nothing, as `iw_get_qp` has taken the reference that the
    /// connection manager asks for here.
    ///
    /// The two are always called one after the other, with interrupts disabled. If this took the
    /// reference, the queue pair could be destroyed in between, unless each destruction waited for
    /// an RCU grace period.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_add_ref(_qp: *mut bindings::ib_qp) {}

    /// The `iw_rem_ref` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_rem_ref(qp: *mut bindings::ib_qp) {
        // SAFETY: The queue pair has its state: its destruction waits until the connection manager
        // has given its reference back, which it does here. The clone keeps the object, as the
        // queue pair may be freed as soon as the access has ended.
        let object = unsafe { QpObject::<D>::state(qp) }.object.clone();
        // SAFETY: `QpHandle::get_raw` has forgotten the guard of the reference that is given back
        // here.
        unsafe { object.end_forgotten() };
    }

    /// The `iw_get_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_get_qp(
        dev: *mut bindings::ib_device,
        qpn: i32,
    ) -> *mut bindings::ib_qp {
        // SAFETY: `dev` is the device of an identifier, and has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there.
        let found = D::Qp::find(unsafe { Device::<D>::from_raw(dev) }, qpn as u32);
        found.map_or(ptr::null_mut(), |qp| qp.get_raw(dev))
    }

    /// The `iw_connect` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_connect(
        id: *mut bindings::iw_cm_id,
        param: *mut bindings::iw_cm_conn_param,
    ) -> i32 {
        // SAFETY: `id` is alive during the call. Its device has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there. `param` and its private data
        // are valid for the call.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            errno(noio(|| {
                D::Conn::connect(dev, CmId::new(id), &ConnParam::from_raw(param))
            }))
        }
    }

    /// Takes the connection that an identifier stands for out of the table of requests. Errors:
    /// `ECONNABORTED` if it was withdrawn.
    ///
    /// # Safety
    ///
    /// `id` must be an identifier of `dev` that is being accepted or rejected.
    unsafe fn request(dev: &Device<D>, id: *mut bindings::iw_cm_id) -> Result<Arc<D::Conn>> {
        // SAFETY: By the contract of this function `id` is valid. iwcm made it for a request, and
        // set the field to the value that `CmId::connect_request` had put into the event. Nobody
        // changes it.
        let request = RequestId::from_c(unsafe { (*id).provider_data });
        request
            .and_then(|request| dev.requests().take(request))
            .ok_or_else(aborted)
    }

    /// The `iw_accept` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_accept(
        id: *mut bindings::iw_cm_id,
        param: *mut bindings::iw_cm_conn_param,
    ) -> i32 {
        // SAFETY: `id` is alive during the call, and is accepted. Its device has its state: before
        // a device is unregistered, the RDMA CM gives up its identifiers there. `param` and its
        // private data are valid for the call.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            errno(Self::request(dev, id).and_then(|conn| {
                noio(|| conn.accept(dev, CmId::new(id), &ConnParam::from_raw(param)))
            }))
        }
    }

    /// The `iw_reject` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_reject(
        id: *mut bindings::iw_cm_id,
        data: *const c_void,
        len: u8,
    ) -> i32 {
        // SAFETY: `id` is alive during the call, and is rejected. Its device has its state: before
        // a device is unregistered, the RDMA CM gives up its identifiers there. `data` is null or
        // `len` bytes, which are valid for the call.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            errno(Self::request(dev, id).and_then(|conn| conn.reject(dev, bytes(data, len.into()))))
        }
    }

    /// The `iw_create_listen` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_create_listen(
        id: *mut bindings::iw_cm_id,
        backlog: i32,
    ) -> i32 {
        // SAFETY: `id` is alive during the call. Its device has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there. `provider_data` of a listening
        // identifier is the driver's: only this operation and `iw_destroy_listen`, which comes
        // later, access it.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            let backlog = backlog.try_into().unwrap_or(0);
            errno(
                noio(|| D::Listener::create(dev, &ListenId::new(id), backlog)).map(|listener| {
                    (*id).provider_data = Arc::into_raw(listener).cast::<c_void>().cast_mut();
                }),
            )
        }
    }

    /// The `iw_destroy_listen` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_destroy_listen(id: *mut bindings::iw_cm_id) -> i32 {
        // SAFETY: `id` is alive during the call. Its device has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there. `provider_data` is the
        // reference that `iw_create_listen` has left there, and is taken once; it is null only if
        // that was never reached.
        unsafe {
            let dev = Device::<D>::from_raw((*id).device);
            let listener = (*id).provider_data.cast::<D::Listener>();
            (*id).provider_data = ptr::null_mut();
            if listener.is_null() {
                return EINVAL.to_errno();
            }
            errno(Arc::from_raw(listener).destroy(dev))
        }
    }
}
