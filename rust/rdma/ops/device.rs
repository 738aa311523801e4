// SPDX-License-Identifier: GPL-2.0

//! Operations on devices and their port.

use super::{errno, Ops};
use crate::{device::Device, Driver};
use core::{ptr, slice};
use kernel::prelude::*;
use rdma_bindings as bindings;

/// How long counters may be old, in milliseconds (`RDMA_HW_STATS_DEFAULT_LIFESPAN`).
const STATS_LIFESPAN: usize = 10;

impl<D: Driver> Ops<D> {
    /// The `query_device` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn query_device(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: As the module says. There is no data of the library in either direction.
        unsafe {
            let ret = bindings::ib_no_udata_io(udata);
            if ret != 0 {
                return ret;
            }
            D::limits(Device::<D>::from_raw(dev)).store(&mut *attr);
        }
        0
    }

    /// The `query_port` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn query_port(
        dev: *mut bindings::ib_device,
        _port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> i32 {
        // SAFETY: As the module says.
        let result =
            unsafe { D::query_port(Device::<D>::from_raw(dev)).map(|port| port.store(&mut *attr)) };
        errno(result)
    }

    /// The `get_port_immutable` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn get_port_immutable(
        dev: *mut bindings::ib_device,
        _port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> i32 {
        // SAFETY: As the module says.
        let result = unsafe {
            D::query_port(Device::<D>::from_raw(dev)).map(|port| {
                (*immutable).gid_tbl_len = port.gid_tbl_len.try_into().unwrap_or(1);
                (*immutable).core_cap_flags = bindings::RDMA_CORE_PORT_IWARP;
            })
        };
        errno(result)
    }

    /// The `query_gid` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn query_gid(
        dev: *mut bindings::ib_device,
        _port: u32,
        index: i32,
        gid: *mut bindings::ib_gid,
    ) -> i32 {
        let Ok(index) = index.try_into() else {
            return EINVAL.to_errno();
        };
        // SAFETY: As the module says.
        let result =
            unsafe { D::query_gid(Device::<D>::from_raw(dev), index).map(|raw| (*gid).raw = raw) };
        errno(result)
    }

    /// The `alloc_hw_port_stats` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn alloc_hw_port_stats(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        let Ok(num) = D::PORT_STATS.len().try_into() else {
            return ptr::null_mut();
        };
        // SAFETY: The descriptions are `num` and static; `StatDesc` is transparent.
        unsafe {
            bindings::rdma_alloc_hw_stats_struct(D::PORT_STATS.as_ptr().cast(), num, STATS_LIFESPAN)
        }
    }

    /// The `get_hw_stats` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn get_hw_stats(
        dev: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        _port: u32,
        _index: i32,
    ) -> i32 {
        // SAFETY: As the module says; the caller has the lock of the structure, which comes from
        // `alloc_hw_port_stats` and has as many values as it says.
        unsafe {
            let num = (*stats).num_counters;
            let values = (&raw mut (*stats).value).cast::<u64>();
            let values = slice::from_raw_parts_mut(values, num as usize);
            D::port_stats(Device::<D>::from_raw(dev), values);
            num
        }
    }
}
