// SPDX-License-Identifier: GPL-2.0

//! Operations on counter sets (`struct rdma_counter`), to which queue pairs are bound.
//!
//! The core makes the structure, numbers it by the driver's number, and frees it. A set begins when
//! the first queue pair is bound to it.

use super::{errno, Ops};
use crate::{device::Device, object::qp::QpObject, Driver};
use core::ptr;
use kernel::prelude::*;
use kext::noio::noio;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `counter_init` operation. Nothing is kept in the structure but the number.
    ///
    /// # Safety
    ///
    /// There are no requirements: it does nothing.
    pub(super) unsafe extern "C" fn counter_init(_counter: *mut bindings::rdma_counter) {}

    /// The `counter_alloc_stats` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_alloc_stats(
        counter: *mut bindings::rdma_counter,
    ) -> *mut bindings::rdma_hw_stats {
        // SAFETY: The core has set the device and the port.
        unsafe { Self::alloc_hw_port_stats((*counter).device, (*counter).port) }
    }

    /// The `counter_bind_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_bind_qp(
        counter: *mut bindings::rdma_counter,
        qp: *mut bindings::ib_qp,
        _port: u32,
    ) -> i32 {
        // SAFETY: `qp` was created, and is there when this begins: the core found it in the list of
        // resources, whose entry it holds, or is in a verb on it.
        let state = match unsafe { QpObject::<D>::guard(qp) } {
            Ok(state) => state,
            Err(e) => return e.to_errno(),
        };
        // SAFETY: `state` keeps the queue pair. Its device has its state, as it has objects. The
        // core has the lock of `counter`, under which alone the number changes.
        let (dev, old) = unsafe { (Device::<D>::from_raw((*qp).device), (*counter).id) };
        let bind = |set| D::bind_counter_set(dev, &state.data, Some(set)).map(|()| set);
        // Without I/O, as queue pairs of the kernel need these locks, too.
        let bound = noio(|| match old {
            0 => {
                let set = D::new_counter_set(dev)?;
                bind(set).inspect_err(|_| D::free_counter_set(dev, set))
            }
            set => bind(set),
        });
        errno(bound.map(|set| {
            // SAFETY: As above. The core lets two bind one queue pair at once, to two sets. The
            // driver has refused the other one, so that only this one stores the set.
            unsafe {
                (*counter).id = set;
                (*qp).counter = counter;
            }
        }))
    }

    /// The `counter_unbind_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_unbind_qp(qp: *mut bindings::ib_qp, _port: u32) -> i32 {
        // SAFETY: As for `counter_bind_qp`. If the queue pair is being destroyed, this comes first.
        let state = match unsafe { QpObject::<D>::guard(qp) } {
            Ok(state) => state,
            Err(e) => return e.to_errno(),
        };
        // SAFETY: `state` keeps the queue pair. Its device has its state, as it has objects.
        let dev = unsafe { Device::<D>::from_raw((*qp).device) };
        let released = D::bind_counter_set(dev, &state.data, None);
        // SAFETY: `state` keeps the queue pair. It is bound to a counter set, whose lock the core
        // has.
        unsafe { (*qp).counter = ptr::null_mut() };
        errno(released)
    }

    /// The `counter_dealloc` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_dealloc(counter: *mut bindings::rdma_counter) -> i32 {
        // SAFETY: The device is there as long as it has counter sets. Nobody else uses this one any
        // more.
        let (dev, set) = unsafe { (Device::<D>::from_raw((*counter).device), (*counter).id) };
        D::free_counter_set(dev, set);
        0
    }

    /// The `counter_update_stats` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_update_stats(
        counter: *mut bindings::rdma_counter,
    ) -> i32 {
        // Without I/O, as who destroys a queue pair of the kernel waits for the lock of `counter`.
        let Ok(mut values) = noio(|| KVec::from_elem(0, D::PORT_STATS.len(), GFP_KERNEL)) else {
            return ENOMEM.to_errno();
        };
        // SAFETY: The device is there as long as it has counter sets. The core has the lock of
        // `counter`, under which alone the number changes. `stats` comes from
        // `counter_alloc_stats`.
        let (dev, set, to) = unsafe {
            (
                Device::<D>::from_raw((*counter).device),
                (*counter).id,
                (&raw mut (*(*counter).stats).value).cast::<u64>(),
            )
        };
        D::counter_set_stats(dev, set, &mut values);
        for (i, value) in values.iter().enumerate() {
            // SAFETY: There is room for as many values as there are descriptions. Who writes them
            // has the lock of `counter`. Others read them meanwhile, as they do with all drivers:
            // so each is written at once, and there is no reference to them.
            unsafe { to.add(i).write_volatile(*value) };
        }
        0
    }
}
