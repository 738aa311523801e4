// SPDX-License-Identifier: GPL-2.0

//! Raw copies between memory of one's own and memory that others may change meanwhile.
//!
//! Rust gives no meaning to a plain access that races with another. The copies are therefore made
//! by C functions that the Rust compiler does not see into: whatever bytes arrive are the bytes of
//! the private buffer, and no access is repeated, split or left out. Checksums are always computed
//! over the private side.

use core::ffi::c_void;
use rdma_bindings as bindings;

/// Copies `dst.len()` bytes at `src` to `dst`.
///
/// # Safety
///
/// `src` is valid for reads of that many bytes, though not necessarily stable.
#[inline]
pub(crate) unsafe fn bytes_in(dst: &mut [u8], src: *const u8) {
    // SAFETY: `dst` is valid for writes and does not overlap, as it is borrowed mutably.
    unsafe { bindings::copy_bytes(dst.as_mut_ptr().cast::<c_void>(), src.cast(), dst.len()) };
}

/// Copies `src` to `dst`.
///
/// # Safety
///
/// `dst` is valid for writes of `src.len()` bytes; others may read or write there meanwhile, but
/// not through Rust references.
#[inline]
pub(crate) unsafe fn bytes_out(dst: *mut u8, src: &[u8]) {
    // SAFETY: `src` is valid for reads; an overlap would mean that it is not a valid reference.
    unsafe { bindings::copy_bytes(dst.cast::<c_void>(), src.as_ptr().cast(), src.len()) };
}

/// [`bytes_in`], and the CRC32c of what arrived, continued from `crc`.
///
/// # Safety
///
/// As for [`bytes_in`].
#[inline]
pub(crate) unsafe fn bytes_in_crc(dst: &mut [u8], src: *const u8, crc: u32) -> u32 {
    // SAFETY: As in `bytes_in`.
    unsafe {
        bindings::copy_in_crc32c(
            dst.as_mut_ptr().cast::<c_void>(),
            src.cast(),
            dst.len(),
            crc,
        )
    }
}

/// [`bytes_out`], and the CRC32c of what was sent, continued from `crc`.
///
/// # Safety
///
/// As for [`bytes_out`].
#[inline]
pub(crate) unsafe fn bytes_out_crc(dst: *mut u8, src: &[u8], crc: u32) -> u32 {
    // SAFETY: As in `bytes_out`.
    unsafe { bindings::copy_out_crc32c(dst.cast::<c_void>(), src.as_ptr().cast(), src.len(), crc) }
}

/// Continues `crc` over `data`: the kernel's `crc32c()`, that is, without inversion before and
/// after. Context: any.
#[inline]
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: `data` is valid for reads.
    unsafe { bindings::crc32c(crc, data.as_ptr().cast(), data.len()) }
}
