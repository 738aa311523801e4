// SPDX-License-Identifier: GPL-2.0

//! Operations of the iWARP connection manager.

use super::{errno, Ops};
use crate::{
    device::Device,
    driver::{ConnOps, Driver, ListenerOps, QpOps},
    errno::aborted,
    iwcm::{bytes, CmId, ConnParam, ConsumerId, RequestId},
    object::qp::{CmRefs, QpObject},
};
use core::{ffi::c_void, ptr};
use kernel::{prelude::*, sync::Arc};
use kext::noio::noio;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `iw_add_ref` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_add_ref(qp: *mut bindings::ib_qp) {
        // SAFETY: The connection manager has found the queue pair just now, or has a reference to
        // it. In either case it is not destroyed meanwhile.
        let state = unsafe { QpObject::<D>::state(qp) };
        // SAFETY: As above.
        unsafe { CmRefs::to(&state.object).add() };
    }

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
        // SAFETY: The connection manager has a reference, and does not use the queue pair any more.
        unsafe { CmRefs::to(&object).put() };
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
        found.map_or(ptr::null_mut(), |qp| qp.find_raw(dev))
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
        let (dev, id, param) = unsafe {
            (
                Device::<D>::from_raw((*id).device),
                ConsumerId::new(id),
                ConnParam::from_raw(param),
            )
        };
        errno(noio(|| D::Conn::connect(dev, &id, &param)))
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
        // SAFETY: `id` is alive during the call. Its device has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there. `param` and its private data
        // are valid for the call.
        let (dev, cm, param) = unsafe {
            (
                Device::<D>::from_raw((*id).device),
                CmId::new(id),
                ConnParam::from_raw(param),
            )
        };
        // SAFETY: `id` is one of `dev`, and is accepted.
        let conn = unsafe { Self::request(dev, id) };
        errno(conn.and_then(|conn| noio(|| conn.accept(dev, cm, &param))))
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
        // SAFETY: `id` is alive during the call. Its device has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there. `data` is null or `len` bytes,
        // which are valid for the call.
        let (dev, data) = unsafe { (Device::<D>::from_raw((*id).device), bytes(data, len.into())) };
        // SAFETY: `id` is one of `dev`, and is rejected.
        let conn = unsafe { Self::request(dev, id) };
        errno(conn.and_then(|conn| conn.reject(dev, data)))
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
        // SAFETY: `id` is alive during the call, and `listen` does not outlive that. Its device has
        // its state: before a device is unregistered, the RDMA CM gives up its identifiers there.
        let (dev, listen) = unsafe { (Device::<D>::from_raw((*id).device), ConsumerId::new(id)) };
        let backlog = backlog.try_into().unwrap_or(0);
        let made = noio(|| D::Listener::create(dev, &listen, backlog));
        errno(made.map(|listener| {
            let listener = Arc::into_raw(listener).cast::<c_void>().cast_mut();
            // SAFETY: `id` is alive. This field of a listening identifier is the driver's: only
            // this operation and `iw_destroy_listen`, which comes later, access it.
            unsafe { (*id).provider_data = listener };
        }))
    }

    /// The `iw_destroy_listen` operation.
    ///
    /// # Safety
    ///
    /// Only the connection manager may call this; see [`super`].
    pub(super) unsafe extern "C" fn iw_destroy_listen(id: *mut bindings::iw_cm_id) -> i32 {
        // SAFETY: `id` is alive during the call. Its device has its state: before a device is
        // unregistered, the RDMA CM gives up its identifiers there. `provider_data` is the
        // driver's, as in `iw_create_listen`.
        let (dev, listener) = unsafe {
            let listener = core::mem::replace(&mut (*id).provider_data, ptr::null_mut());
            (Device::<D>::from_raw((*id).device), listener)
        };
        if listener.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: It is the reference that `iw_create_listen` has left there, and was taken above,
        // where a second call would find none.
        let listener = unsafe { Arc::from_raw(listener.cast::<D::Listener>()) };
        errno(listener.destroy(dev))
    }
}
