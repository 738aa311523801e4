// SPDX-License-Identifier: GPL-2.0

//! Operations on devices and their port.

use super::{errno, Ops};
use crate::{
    attr::device::{StatDesc, DEFAULT_PKEY, PKEY_TBL_LEN},
    device::Device,
    Driver,
};
use core::{ptr, slice};
use kernel::{ffi::c_ulong, prelude::*};
use rdma_bindings as bindings;

/// How old counters may be when they are reported, in milliseconds
/// (`RDMA_HW_STATS_DEFAULT_LIFESPAN`).
const STATS_LIFESPAN: usize = 10;

impl<D: Driver> Ops<D> {
    /// The `dealloc_driver` operation: the end of a device.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn dealloc_driver(dev: *mut bindings::ib_device) {
        // SAFETY: This is the last operation of the device, and the core calls it once.
        let state = unsafe { Device::<D>::take_state(dev) };
        D::detach(&state.data);
        state.list.retire(dev);
        drop(state);
    }

    /// The `query_device` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn query_device(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // The library neither sends data nor gets any.
        // SAFETY: `udata` is null or that of the verb in progress.
        let ret = unsafe { bindings::ib_no_udata_io(udata) };
        if ret != 0 {
            return ret;
        }
        // SAFETY: `dev` has its state. `attr` is valid for writes, and nobody else uses it.
        let (device, attr) = unsafe { (Device::<D>::from_raw(dev), &mut *attr) };
        // The core's own are in the device.
        // SAFETY: `dev` is valid.
        let of_core = ptr::eq(attr, unsafe { &raw const (*dev).attrs });
        D::limits(device).store(device.protocol(), of_core, attr);
        if attr.fw_ver == 0 {
            // SAFETY: `dev` is valid, and its driver's module stays while it has a device.
            attr.fw_ver = unsafe { bindings::rdma_module_version(dev, ptr::null_mut()) };
        }
        0
    }

    /// The `get_dev_fw_str` operation: the module's version, in place of a firmware's.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn get_dev_fw_str(
        dev: *mut bindings::ib_device,
        text: *mut kernel::ffi::c_char,
    ) {
        // SAFETY: `dev` is valid, and its driver's module stays while it has a device. `text` has
        // room for `IB_FW_VERSION_NAME_MAX` characters.
        unsafe { bindings::rdma_module_version(dev, text) };
    }

    /// The `query_port` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn query_port(
        dev: *mut bindings::ib_device,
        _port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> i32 {
        // SAFETY: `dev` has its state. `attr` is valid for writes, and nobody else uses it.
        let (dev, attr) = unsafe { (Device::<D>::from_raw(dev), &mut *attr) };
        errno(D::query_port(dev).map(|port| port.store(dev.protocol(), attr)))
    }

    /// The `get_port_immutable` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn get_port_immutable(
        dev: *mut bindings::ib_device,
        _port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> i32 {
        // SAFETY: `dev` has its state. `immutable` is valid for writes, and nobody else uses it.
        let (dev, immutable) = unsafe { (Device::<D>::from_raw(dev), &mut *immutable) };
        let protocol = dev.protocol();
        immutable.gid_tbl_len = protocol.gids().into();
        immutable.pkey_tbl_len = PKEY_TBL_LEN.into();
        immutable.core_cap_flags = protocol.port_flags();
        0
    }

    /// The `get_link_layer` operation.
    ///
    /// # Safety
    ///
    /// There are no requirements.
    pub(super) unsafe extern "C" fn get_link_layer(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> bindings::rdma_link_layer {
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }

    /// The `query_gid` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn query_gid(
        dev: *mut bindings::ib_device,
        _port: u32,
        index: i32,
        gid: *mut bindings::ib_gid,
    ) -> i32 {
        let Ok(index) = index.try_into() else {
            return EINVAL.to_errno();
        };
        // SAFETY: `dev` has its state.
        let raw = D::query_gid(unsafe { Device::<D>::from_raw(dev) }, index);
        // SAFETY: `gid` is valid for writes. Each field of the union is as long as all of it.
        errno(raw.map(|raw| unsafe { (*gid).raw = raw }))
    }

    /// The `query_pkey` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn query_pkey(
        _dev: *mut bindings::ib_device,
        _port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> i32 {
        if index >= PKEY_TBL_LEN {
            return EINVAL.to_errno();
        }
        // SAFETY: `pkey` is valid for writes.
        unsafe { pkey.write(DEFAULT_PKEY) };
        0
    }

    /// The `alloc_hw_port_stats` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn alloc_hw_port_stats(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        const {
            assert!(
                StatDesc::fit(D::PORT_STATS),
                "optional counters come last, and the core's messages have no room for more"
            )
        };
        let Ok(num) = D::PORT_STATS.len().try_into() else {
            return ptr::null_mut();
        };
        // SAFETY: There are `num` descriptions, which are static. `StatDesc` has the layout of a
        // `rdma_stat_desc`.
        let stats = unsafe {
            bindings::rdma_alloc_hw_stats_struct(D::PORT_STATS.as_ptr().cast(), num, STATS_LIFESPAN)
        };
        if stats.is_null() {
            return stats;
        }
        // The core leaves it to the driver that optional counters begin as disabled ones.
        for (i, desc) in D::PORT_STATS.iter().enumerate() {
            if desc.is_optional() {
                let (word, bit) = (i / c_ulong::BITS as usize, i % c_ulong::BITS as usize);
                // SAFETY: Nobody else has the structure yet. Its bitmap has `num` bits,
                // and `i` is less.
                unsafe { *(*stats).is_disabled.add(word) |= 1 << bit };
            }
        }
        stats
    }

    /// The `modify_hw_stat` operation: an optional counter is shown from now on, or not any more.
    /// The driver counts in either case.
    ///
    /// # Safety
    ///
    /// There are no requirements: it does nothing.
    pub(super) unsafe extern "C" fn modify_hw_stat(
        _dev: *mut bindings::ib_device,
        _port: u32,
        _index: u32,
        _enable: bool,
    ) -> i32 {
        0
    }

    /// The `get_hw_stats` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn get_hw_stats(
        dev: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        _port: u32,
        _index: i32,
    ) -> i32 {
        // SAFETY: `stats` comes from `alloc_hw_port_stats`, and has room for `num_counters` values.
        // The caller has the lock of the structure, or has not published it yet: nobody else uses
        // the values.
        let values = unsafe {
            let values = (&raw mut (*stats).value).cast::<u64>();
            slice::from_raw_parts_mut(values, (*stats).num_counters as usize)
        };
        // SAFETY: `dev` has its state.
        D::port_stats(unsafe { Device::<D>::from_raw(dev) }, values);
        // CAST: It is a C int.
        values.len() as i32
    }
}
