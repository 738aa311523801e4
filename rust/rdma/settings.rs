// SPDX-License-Identifier: GPL-2.0

//! Settings of a device: numbers, and texts, that an administrator reads and writes while the
//! device is in use.
//!
//! Each is a file in the folder `settings` of the device's folder in sysfs
//! (`/sys/class/infiniband/NAME/settings`), by the `device_group` of the core. The core asks new
//! drivers for netlink instead. But RDMA netlink has no command for a driver's own settings in 7.2
//! and 7.3: its driver attributes are for dumps only. And only the core can add a command.

use crate::{device::Device, Driver};
use core::{marker::PhantomData, mem};
use kernel::{error::to_result, ffi, page::PAGE_SIZE, prelude::*};
use rdma_bindings as bindings;

/// The most settings that a driver can have.
const MAX: usize = 32;

/// A file, and which setting it is.
#[repr(C)]
struct File {
    attr: bindings::device_attribute,
    index: usize,
}

/// The files of driver `D`.
struct Files<D: Driver>(PhantomData<D>);

impl<D: Driver> Files<D> {
    const FILES: &'static [File; MAX] = &{
        assert!(D::SETTINGS.len() + D::TEXTS.len() <= MAX);
        // SAFETY: A file without a name and without functions is all zeroes; it is in no list.
        let mut files: [File; MAX] = unsafe { mem::zeroed() };
        let mut at = 0;
        while at < D::SETTINGS.len() + D::TEXTS.len() {
            let file = &mut files[at];
            let name = if at < D::SETTINGS.len() {
                file.index = at;
                file.attr.__bindgen_anon_1.show = Some(show::<D>);
                file.attr.__bindgen_anon_2.store = Some(store::<D>);
                D::SETTINGS[file.index]
            } else {
                file.index = at - D::SETTINGS.len();
                file.attr.__bindgen_anon_1.show = Some(show_text::<D>);
                file.attr.__bindgen_anon_2.store = Some(store_text::<D>);
                D::TEXTS[file.index]
            };
            file.attr.attr.name = name.to_bytes_with_nul().as_ptr().cast();
            file.attr.attr.mode = 0o644;
            at += 1;
        }
        files
    };

    /// The list ends with null.
    const LIST: &'static [*mut bindings::attribute; MAX + 1] = &{
        let mut list = [core::ptr::null_mut(); MAX + 1];
        let mut index = 0;
        while index < D::SETTINGS.len() + D::TEXTS.len() {
            list[index] = (&raw const Self::FILES[index].attr.attr).cast_mut();
            index += 1;
        }
        list
    };

    const GROUP: &'static bindings::attribute_group = &{
        // SAFETY: A group without a name and without attributes is all zeroes.
        let mut group: bindings::attribute_group = unsafe { mem::zeroed() };
        group.name = c"settings".to_bytes_with_nul().as_ptr().cast();
        group.__bindgen_anon_2.attrs = Self::LIST.as_ptr().cast_mut();
        group
    };
}

/// The group for the core, which does not write to it; null if the driver has no settings.
pub(crate) fn group<D: Driver>() -> *const bindings::attribute_group {
    if D::SETTINGS.is_empty() && D::TEXTS.is_empty() {
        return core::ptr::null();
    }
    Files::<D>::GROUP
}

/// The device of a file, and which setting, or text, it is. In a shared network namespace the file
/// may be that of a second `struct device`, which the core makes for another namespace.
///
/// # Safety
///
/// `dev` must be of a device of driver `D`, which stays registered during `'a`, and `attr` that of
/// an entry of `Files::<D>::FILES`.
unsafe fn target<'a, D: Driver>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
) -> (&'a Device<D>, usize) {
    // SAFETY: By the contract of this function `attr` begins a `File` (`repr(C)`), which nobody
    // changes, and `dev` belongs to a device of driver `D`, which has its state as long as it is
    // registered.
    unsafe {
        let ib = bindings::rdma_device_to_ibdev(dev);
        (Device::from_raw(ib), (*attr.cast::<File>()).index)
    }
}

/// A file is read: prints the value as a decimal number. Context: sleeping.
///
/// # Safety
///
/// Only sysfs may call this, for a file of [`Files`]. It removes the files before the device loses
/// its state, and waits for calls.
unsafe extern "C" fn show<D: Driver>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *mut ffi::c_char,
) -> isize {
    // SAFETY: By the contract of this function the device is registered, and the file is one of its
    // driver.
    let (dev, index) = unsafe { target::<D>(dev, attr) };
    let value = D::setting(dev, index);
    // SAFETY: sysfs gives a page, and the format takes one `unsigned int`.
    let len = unsafe { bindings::sysfs_emit(buf, c"%u\n".as_char_ptr(), value) };
    len as isize
}

/// A file is written: takes a number as C writes it. The right to do so is that of RDMA netlink's
/// commands, `CAP_NET_ADMIN` in the first user namespace. Context: sleeping.
///
/// # Safety
///
/// As for [`show`].
unsafe extern "C" fn store<D: Driver>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *const ffi::c_char,
    count: usize,
) -> isize {
    // SAFETY: By the contract of this function the device is registered, and the file is one of its
    // driver.
    let (dev, index) = unsafe { target::<D>(dev, attr) };
    let set = || -> Result {
        may_set()?;
        let mut value = 0;
        // SAFETY: sysfs gives a string, and the result is valid for writes.
        to_result(unsafe { bindings::kstrtouint(buf, 0, &mut value) })?;
        D::set_setting(dev, index, value)
    };
    written(set(), count)
}

/// What sysfs is told of `count` bytes that were written.
fn written(result: Result, count: usize) -> isize {
    match result {
        Ok(()) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

fn may_set() -> Result {
    // SAFETY: The function looks at the current task only.
    let is_admin = unsafe { bindings::capable(bindings::CAP_NET_ADMIN as i32) };
    is_admin.then_some(()).ok_or(EPERM)
}

/// The file of a text is read: prints it as a line. Context: sleeping.
///
/// # Safety
///
/// As for [`show`].
unsafe extern "C" fn show_text<D: Driver>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *mut ffi::c_char,
) -> isize {
    // SAFETY: By the contract of this function the device is registered, and the file is one of its
    // driver.
    let (dev, index) = unsafe { target::<D>(dev, attr) };
    // SAFETY: sysfs gives a page of zeroes that nobody else uses during the call.
    let page = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE) };
    // Room for the newline.
    let Some((_, room)) = page.split_last_mut() else {
        return 0;
    };
    let len = D::text(dev, index, room).min(PAGE_SIZE - 1);
    if let Some(end) = page.get_mut(len) {
        *end = b'\n';
    }
    (len + 1) as isize
}

/// The file of a text is written, by somebody who could write a number. Context: sleeping.
///
/// # Safety
///
/// As for [`show`].
unsafe extern "C" fn store_text<D: Driver>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *const ffi::c_char,
    count: usize,
) -> isize {
    // SAFETY: By the contract of this function the device is registered, and the file is one of its
    // driver.
    let (dev, index) = unsafe { target::<D>(dev, attr) };
    // SAFETY: sysfs gives so many bytes, which nobody changes during the call.
    let value = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };
    written(
        may_set().and_then(|()| D::set_text(dev, index, value)),
        count,
    )
}
