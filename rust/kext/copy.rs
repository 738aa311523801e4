// SPDX-License-Identifier: GPL-2.0

//! Copies between private memory and memory that others may change meanwhile; checksums.
//!
//! The functions are the kernel's `memcpy()` and `crc32c()`, which choose their code by the
//! processor's features. An emulator claims string and CRC instructions and executes them byte by
//! byte. So guests of the tests have a processor without them (`tools/vm/guest.py`), on which the
//! kernel copies by words, for this driver as for siw and TCP.
//!
//! Rust gives no meaning to a plain access that races with another. So C functions, which the Rust
//! compiler does not see, make the copies, in accesses of any size and order, some perhaps twice.
//! Each byte of the target gets a value that the byte of the source had during the copy. Private
//! copies do not change any more: callers judge those.
//!
//! Bytes to which a slice of [`AtomicU8`] leads may be written by others, too: such a slice
//! promises the compiler that they are there, and nothing about their values.

use core::{ffi::c_void, sync::atomic::AtomicU8};
use kernel::prelude::*;
use rdma_bindings as bindings;

/// Copies `dst.len()` bytes at `src` to `dst`.
///
/// # Safety
///
/// `src` must be valid for reads of that many bytes, which others may change meanwhile.
#[inline]
pub unsafe fn bytes_in(dst: &mut [u8], src: *const u8) {
    // SAFETY: `src` is valid for reads by the contract of this function. `dst` is valid for writes
    // and does not overlap, as it is borrowed mutably.
    unsafe { bindings::copy_bytes(dst.as_mut_ptr().cast(), src.cast(), dst.len()) };
}

/// The number of the `len` bytes at `addr` that are in the last aligned word they reach.
#[inline]
fn in_last_word(addr: usize, len: usize) -> usize {
    const WORD: usize = size_of::<u64>();
    match addr.wrapping_add(len) % WORD {
        0 => len.min(WORD),
        n => len.min(n),
    }
}

/// Copies `src` to `dst`, in any order.
///
/// # Safety
///
/// `dst` must be valid for writes of `src.len()` bytes. Others may read or write there meanwhile,
/// but not through Rust references.
#[inline]
pub unsafe fn bytes_out(dst: *mut u8, src: &[u8]) {
    // SAFETY: `src` is valid for reads. It does not overlap `dst`, as nobody writes to the bytes of
    // a reference. `dst` is valid for writes by the contract of this function.
    unsafe { bindings::copy_bytes(dst.cast(), src.as_ptr().cast(), src.len()) };
}

/// Copies `from` to the front of `to`, in any order, up to the end of the shorter one.
#[inline]
pub fn shared(to: &[AtomicU8], from: &[AtomicU8]) {
    let n = to.len().min(from.len());
    // SAFETY: `to` and `from` have `n` bytes, to which others may write: so may this function, as
    // an `AtomicU8` may be written by a shared reference. They may overlap for `copy_bytes()`.
    unsafe { bindings::copy_bytes(to.as_ptr().cast_mut().cast(), from.as_ptr().cast(), n) };
}

/// As [`bytes_out`], of bytes that others may change meanwhile. They may overlap `dst`.
///
/// # Safety
///
/// As of [`bytes_out`].
#[inline]
pub unsafe fn shared_out(dst: *mut u8, src: &[AtomicU8]) {
    // SAFETY: `src` is valid for reads, `dst` for writes by the contract of this function. They may
    // overlap for `copy_bytes()`.
    unsafe { bindings::copy_bytes(dst.cast(), src.as_ptr().cast(), src.len()) };
}

/// Copies `src` to `dst`, its last word last, and after all earlier copies of this thread.
///
/// Programs look at the last byte, or word, of a buffer to see that an RDMA Write has filled it,
/// although no standard promises that (RFC 5040 section 5.5). The kernel's `memcpy()` may begin at
/// the end, and string instructions may store in any order; later stores are seen after theirs.
///
/// # Safety
///
/// As of [`shared_out`].
#[inline]
pub unsafe fn shared_out_ordered(dst: *mut u8, src: &[AtomicU8]) {
    let last = in_last_word(dst as usize, src.len());
    let (front, last) = src.split_at(src.len() - last);
    // SAFETY: Both parts of `src` are valid for reads, those of `dst` for writes by the contract of
    // this function. They may overlap for both functions.
    unsafe {
        bindings::copy_bytes(dst.cast(), front.as_ptr().cast(), front.len());
        let dst = dst.add(front.len()).cast::<c_void>();
        bindings::copy_last(dst, last.as_ptr().cast::<c_void>(), last.len());
    }
}

/// Continues `crc` over `data`: the kernel's `crc32c()`, without inversion before and after.
/// Context: any.
#[inline]
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: `data` is valid for reads of its length.
    unsafe { bindings::crc32c(crc, data.as_ptr().cast(), data.len()) }
}

/// As [`crc32c`], over bytes that others may change meanwhile. Context: any.
#[inline]
pub fn crc32c_shared(crc: u32, data: &[AtomicU8]) -> u32 {
    // SAFETY: `data` is valid for reads of its length.
    unsafe { bindings::crc32c(crc, data.as_ptr().cast(), data.len()) }
}

#[kunit_tests(kext_copy)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;

    fn pattern(len: usize) -> Result<KVec<u8>> {
        let mut v = KVec::new();
        for i in 0..len {
            v.push((i * 7 + i / 251) as u8, GFP_KERNEL)?;
        }
        Ok(v)
    }

    fn atomic(bytes: &[u8]) -> Result<KVec<AtomicU8>> {
        let mut v = KVec::with_capacity(bytes.len(), GFP_KERNEL)?;
        for byte in bytes {
            v.push(AtomicU8::new(*byte), GFP_KERNEL)?;
        }
        Ok(v)
    }

    /// Whether `copy` writes `from` at offset `at` of a larger buffer, and nothing beside it.
    fn is_exact(from: &[u8], at: usize, copy: impl FnOnce(*mut u8)) -> Result<bool> {
        let mut to = KVec::from_elem(0xeeu8, 200, GFP_KERNEL)?;
        copy(to[at..at + from.len()].as_mut_ptr());
        let (before, after) = (&to[..at], &to[at + from.len()..]);
        Ok(to[at..at + from.len()] == *from
            && [before, after].iter().all(|o| o.iter().all(|b| *b == 0xee)))
    }

    /// Each length is copied, from and to several offsets in a word.
    #[test]
    fn copies_in_are_exact() -> Result {
        let from = pattern(200)?;
        for len in 0..100 {
            for (at, src) in [(8, 0), (9, 0), (8, 3), (15, 1)] {
                let src = &from[src..src + len];
                // SAFETY: `dst` and `src` have `len` bytes each, of different objects.
                let copy = |dst| unsafe {
                    bytes_in(core::slice::from_raw_parts_mut(dst, len), src.as_ptr())
                };
                assert!(is_exact(src, at, copy)?);
            }
        }
        Ok(())
    }

    /// The last word is known, and no byte beside the buffer is written.
    #[test]
    fn copies_out_are_exact() -> Result {
        for (addr, len, last) in [
            (0, 0, 0),
            (8, 8, 8),
            (8, 9, 1),
            (15, 1, 1),
            (13, 2, 2),
            (13, 100, 1),
        ] {
            assert_eq!(in_last_word(addr, len), last);
        }
        let from = pattern(100)?;
        let shared = atomic(&from)?;
        for len in 0..100 {
            for at in 8..16 {
                let (src, shared) = (&from[..len], &shared[..len]);
                // SAFETY: `dst` has `len` bytes, of another object than `src`.
                assert!(is_exact(src, at, |dst| unsafe { bytes_out(dst, src) })?);
                // SAFETY: As above.
                assert!(is_exact(src, at, |dst| unsafe { shared_out(dst, shared) })?);
                // SAFETY: As above.
                assert!(is_exact(src, at, |dst| unsafe {
                    shared_out_ordered(dst, shared)
                })?);
            }
        }
        Ok(())
    }

    /// Bytes are copied up to the end of the shorter slice, and loaded by words of each size.
    #[test]
    fn copies_of_shared_bytes_are_exact() -> Result {
        let bytes = pattern(100)?;
        let from = atomic(&bytes)?;
        for (at, len) in [(0, 0), (1, 1), (3, 20), (0, 90)] {
            let to = atomic(&[0; 90])?;
            shared(&to, &from[at..at + len]);
            let copied = |(i, to): (usize, &AtomicU8)| {
                if i < len {
                    to.load(Relaxed) == bytes[at + i]
                } else {
                    to.load(Relaxed) == 0
                }
            };
            assert!(to.iter().enumerate().all(copied));
            shared(&to[..1], &from);
            assert_eq!(to[0].load(Relaxed), bytes[0]);
        }
        for at in 0..8 {
            let (bytes, from) = (&bytes[at..], &from[at..]);
            assert!(from.first_chunk().map(crate::load::load::<1>) == bytes.first_chunk().copied());
            assert!(from.first_chunk().map(crate::load::load::<7>) == bytes.first_chunk().copied());
            assert!(
                from.first_chunk().map(crate::load::load::<16>) == bytes.first_chunk().copied()
            );
            assert!(
                from.first_chunk().map(crate::load::load::<20>) == bytes.first_chunk().copied()
            );
        }
        Ok(())
    }

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, B.4: 32 bytes of zeroes, and of ones.
        assert_eq!(!crc32c(!0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(!crc32c(!0, &[0xff; 32]), 0x62a8_ab43);
        let ones = [const { AtomicU8::new(0xff) }; 32];
        assert_eq!(!crc32c_shared(!0, &ones), 0x62a8_ab43);
    }
}
