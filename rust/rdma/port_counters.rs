// SPDX-License-Identifier: GPL-2.0

//! The counters of a port that tools for InfiniBand read: files in the folder `counters` of the
//! port's folder in sysfs (`/sys/class/infiniband/NAME/ports/1/counters`), by the `port_groups` of
//! the core.
//!
//! The core itself makes that folder for a device that answers management datagrams of the
//! performance class (`process_mad`). iWARP has none.

use crate::{device::Device, Driver};
use core::{marker::PhantomData, mem};
use kernel::{ffi, prelude::*};
use rdma_bindings as bindings;

/// The most counters that a driver can have.
const MAX: usize = 16;

/// A file, and which counter it shows.
#[repr(C)]
struct File {
    attr: bindings::ib_port_attribute,
    index: usize,
}

/// The files of driver `D`.
struct Files<D: Driver>(PhantomData<D>);

impl<D: Driver> Files<D> {
    const FILES: &'static [File; MAX] = &{
        assert!(D::PORT_COUNTERS.len() <= MAX);
        // SAFETY: A file without a name and without functions is all zeroes; it is in no list.
        let mut files: [File; MAX] = unsafe { mem::zeroed() };
        let mut index = 0;
        while index < D::PORT_COUNTERS.len() {
            let file = &mut files[index];
            file.index = index;
            file.attr.show = Some(show::<D>);
            file.attr.attr.name = D::PORT_COUNTERS[index].to_bytes_with_nul().as_ptr().cast();
            file.attr.attr.mode = 0o444;
            index += 1;
        }
        files
    };

    /// Pointers to whole files, which begin with their attributes. The list ends with null.
    const LIST: &'static [*mut bindings::attribute; MAX + 1] = &{
        let mut list = [core::ptr::null_mut(); MAX + 1];
        let mut index = 0;
        while index < D::PORT_COUNTERS.len() {
            list[index] = (&raw const Self::FILES[index])
                .cast::<bindings::attribute>()
                .cast_mut();
            index += 1;
        }
        list
    };

    const GROUP: &'static bindings::attribute_group = &{
        // SAFETY: A group without a name and without attributes is all zeroes.
        let mut group: bindings::attribute_group = unsafe { mem::zeroed() };
        group.name = c"counters".to_bytes_with_nul().as_ptr().cast();
        group.__bindgen_anon_2.attrs = Self::LIST.as_ptr().cast_mut();
        group
    };

    /// The list ends with null.
    const GROUPS: &'static [*const bindings::attribute_group; 2] =
        &[Self::GROUP, core::ptr::null()];
}

/// The groups for the core, which does not write to them; null if the driver has no such counters.
pub(crate) fn groups<D: Driver>() -> *mut *const bindings::attribute_group {
    if D::PORT_COUNTERS.is_empty() {
        return core::ptr::null_mut();
    }
    Files::<D>::GROUPS.as_ptr().cast_mut()
}

/// A file is read: prints the counter as a decimal number. Context: sleeping.
///
/// # Safety
///
/// Only sysfs may call this, for a file of [`Files`]. It removes the files before the device loses
/// its state, and waits for calls.
unsafe extern "C" fn show<D: Driver>(
    dev: *mut bindings::ib_device,
    _port: u32,
    attr: *mut bindings::ib_port_attribute,
    buf: *mut ffi::c_char,
) -> isize {
    // SAFETY: By the contract of this function the device is registered, of driver `D`, and so has
    // its state. `attr` begins a `File` (`repr(C)`), which nobody changes.
    let (dev, index) = unsafe { (Device::<D>::from_raw(dev), (*attr.cast::<File>()).index) };
    let value = D::port_counter(dev, index);
    // SAFETY: sysfs gives a page, and the format takes one `unsigned long long`.
    let len = unsafe { bindings::sysfs_emit(buf, c"%llu\n".as_char_ptr(), value) };
    len as isize
}
