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
        // SAFETY: `qp` is of this device and has its state: the core found it in the list of
        // resources, whose entry it holds, or is in a verb on it. It has the lock of `counter`, and
        // both are of one device. The core lets two bind one queue pair at once, to two sets; the
        // driver refuses one of them. Queue pairs of the kernel need these locks, too.
        errno(noio(|| unsafe {
            let dev = Device::<D>::from_raw((*qp).device);
            let is_new = (*counter).id == 0;
            let set = match is_new {
                true => D::new_counter_set(dev),
                false => Ok((*counter).id),
            };
            set.and_then(|set| {
                let qp_data = &QpObject::<D>::state(qp).data;
                D::bind_counter_set(dev, qp_data, Some(set)).inspect_err(|_| {
                    if is_new {
                        D::free_counter_set(dev, set);
                    }
                })?;
                (*counter).id = set;
                (*qp).counter = counter;
                Ok(())
            })
        }))
    }

    /// The `counter_unbind_qp` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_unbind_qp(qp: *mut bindings::ib_qp, _port: u32) -> i32 {
        // SAFETY: As for `counter_bind_qp`. It is bound to a counter set, whose lock the core has.
        errno(unsafe {
            let dev = Device::<D>::from_raw((*qp).device);
            let released = D::bind_counter_set(dev, &QpObject::<D>::state(qp).data, None);
            (*qp).counter = ptr::null_mut();
            released
        })
    }

    /// The `counter_dealloc` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn counter_dealloc(counter: *mut bindings::rdma_counter) -> i32 {
        // SAFETY: The device is there as long as it has counter sets.
        unsafe { D::free_counter_set(Device::<D>::from_raw((*counter).device), (*counter).id) };
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
        // SAFETY: The device is there as long as it has counter sets. `stats` comes from
        // `counter_alloc_stats`, and has room for as many values as there are descriptions. Who
        // writes them has the lock of `counter`. Others read them meanwhile, as they do with all
        // drivers: so each is written at once, and there is no reference to them.
        unsafe {
            let dev = Device::<D>::from_raw((*counter).device);
            D::counter_set_stats(dev, (*counter).id, &mut values);
            let to = (&raw mut (*(*counter).stats).value).cast::<u64>();
            for (i, value) in values.iter().enumerate() {
                to.add(i).write_volatile(*value);
            }
        }
        0
    }
}
