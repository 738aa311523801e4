// SPDX-License-Identifier: GPL-2.0

//! Raw copies between memory of one's own and memory that others may change meanwhile; checksums.
//!
//! Rust gives no meaning to a plain access that races with another. The copies are therefore made
//! by C functions that the Rust compiler does not see into: whatever bytes arrive are the bytes of
//! the private buffer, and no access is repeated, split or left out. Checksums are always computed
//! over the private side.
//!
//! The kernel copies by string instructions and computes CRC32c by vector instructions where a
//! processor claims to be fast at them. Emulated processors claim so too, and do them octet by octet,
//! if not bit by bit. So [`choose`] has a look, as the kernel itself does for its RAID functions.

use crate::crc;
use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};
use kernel::{
    prelude::*,
    time::{Instant, Monotonic},
};
use rdma_bindings as bindings;

/// Copying by words is faster here than what the kernel does.
static WORDS: AtomicBool = AtomicBool::new(false);

/// So are shifts and tables for a CRC.
static SHIFTS: AtomicBool = AtomicBool::new(false);

/// Copies `dst.len()` bytes at `src` to `dst`.
///
/// # Safety
///
/// `src` is valid for reads of that many bytes, though not necessarily stable.
#[inline]
pub(crate) unsafe fn bytes_in(dst: &mut [u8], src: *const u8) {
    // SAFETY: `dst` is valid for writes and does not overlap, as it is borrowed mutably.
    unsafe {
        bytes(
            dst.as_mut_ptr(),
            src,
            dst.len(),
            WORDS.load(Ordering::Relaxed),
        )
    };
}

/// How many of `len` bytes at `addr` are in the last aligned word that they reach.
fn in_last_word(addr: usize, len: usize) -> usize {
    const WORD: usize = size_of::<u64>();
    match addr.wrapping_add(len) % WORD {
        0 => len.min(WORD),
        n => len.min(n),
    }
}

/// Copies `src` to `dst`, the last of it last.
///
/// Programs look at the last byte, or word, of a buffer to see that an RDMA Write has filled it, although
/// no standard promises that (RFC 5040 section 5.5). The kernel's `memcpy()` may begin at the end, and string
/// instructions may store in any order; what is stored behind them is seen behind them.
///
/// # Safety
///
/// `dst` is valid for writes of `src.len()` bytes; others may read or write there meanwhile, but
/// not through Rust references.
#[inline]
pub(crate) unsafe fn bytes_out(dst: *mut u8, src: &[u8]) {
    let last = in_last_word(dst as usize, src.len());
    let (front, last) = src.split_at(src.len() - last);
    let by_words = WORDS.load(Ordering::Relaxed);
    // SAFETY: Both parts of `src` are valid for reads; an overlap would mean that it is not a valid reference.
    // Those of `dst` are valid for writes by the contract of this function.
    unsafe {
        bytes(dst, front.as_ptr(), front.len(), by_words);
        let dst = dst.add(front.len()).cast::<c_void>();
        bindings::copy_last(dst, last.as_ptr().cast::<c_void>(), last.len());
    }
}

/// # Safety
///
/// `src` is valid for reads of `len` bytes, `dst` for writes; they do not overlap.
#[inline]
unsafe fn bytes(dst: *mut u8, src: *const u8, len: usize, by_words: bool) {
    let (dst, src) = (dst.cast::<c_void>(), src.cast::<c_void>());
    if by_words {
        // SAFETY: By the contract of this function.
        unsafe { bindings::copy_words(dst, src, len) };
    } else {
        // SAFETY: By the contract of this function.
        unsafe { bindings::copy_bytes(dst, src, len) };
    }
}

/// Continues `crc` over `data`: the kernel's `crc32c()`, that is, without inversion before and
/// after. Context: any.
#[inline]
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    if SHIFTS.load(Ordering::Relaxed) {
        return crc::by_shifts(crc, data);
    }
    kernel_crc32c(crc, data)
}

#[inline]
fn kernel_crc32c(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: `data` is valid for reads.
    unsafe { bindings::crc32c(crc, data.as_ptr().cast(), data.len()) }
}

/// How often each way is tried; the shortest time counts, as interrupts make others longer.
const TRIES: u32 = 12;

/// Nanoseconds that `f` takes at the least.
fn time(mut f: impl FnMut()) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..TRIES {
        let start = Instant::<Monotonic>::now();
        f();
        least = least.min(start.elapsed().as_nanos());
    }
    least
}

/// Whether `ours` is so much faster than the kernel's way that it is not by chance.
fn is_better(ours: i64, theirs: i64) -> bool {
    ours < theirs / 4 * 3
}

/// Finds out how this processor copies and checks best: takes a few milliseconds, if it is slow.
/// Context: sleeping. Errors: `ENOMEM`.
pub(crate) fn choose() -> Result {
    const LEN: usize = 4096;
    let mut from = KVec::from_elem(0x5au8, LEN, GFP_KERNEL)?;
    let mut to = KVec::from_elem(0u8, LEN, GFP_KERNEL)?;
    let mut copy = |by_words| {
        // SAFETY: Both have as many bytes, and they are different objects.
        time(|| unsafe { bytes(to.as_mut_ptr(), from.as_ptr(), LEN, by_words) })
    };
    let (by_words, by_kernel) = (copy(true), copy(false));
    WORDS.store(is_better(by_words, by_kernel), Ordering::Relaxed);
    // Each sum becomes a part of the data, or it might not be computed.
    let shifts = time(|| from[0] ^= crc::by_shifts(!0, &from) as u8);
    let kernel = time(|| from[0] ^= kernel_crc32c(!0, &from) as u8);
    SHIFTS.store(is_better(shifts, kernel), Ordering::Relaxed);
    pr_info!(
        "4 KiB: copied in {by_kernel} ns, by words in {by_words}; CRC32c in {kernel} ns, by shifts in {shifts}\n"
    );
    Ok(())
}

#[kunit_tests(rdma_copy)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Result<KVec<u8>> {
        let mut v = KVec::new();
        for i in 0..len {
            v.push((i * 7 + i / 251) as u8, GFP_KERNEL)?;
        }
        Ok(v)
    }

    /// `copy` writes `from` at offset `at` of something larger, and nothing beside it.
    fn is_exact(from: &[u8], at: usize, copy: impl FnOnce(*mut u8)) -> Result<bool> {
        let mut to = KVec::from_elem(0xeeu8, 200, GFP_KERNEL)?;
        copy(to[at..at + from.len()].as_mut_ptr());
        let (before, after) = (&to[..at], &to[at + from.len()..]);
        Ok(to[at..at + from.len()] == *from
            && [before, after].iter().all(|o| o.iter().all(|b| *b == 0xee)))
    }

    /// Every length and offset to a word.
    #[test]
    fn both_copies_are_exact() -> Result {
        let from = pattern(200)?;
        for by_words in [false, true] {
            for len in 0..100 {
                for (at, src) in [(8, 0), (9, 0), (8, 3), (15, 1)] {
                    let src = &from[src..src + len];
                    // SAFETY: Both have `len` bytes, of different objects.
                    let copy = |dst| unsafe { bytes(dst, src.as_ptr(), len, by_words) };
                    assert!(is_exact(src, at, copy)?);
                }
            }
        }
        Ok(())
    }

    /// What is written last is what is in the last word, and nothing beside the bytes is.
    #[test]
    fn the_last_word_comes_last() -> Result {
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
        for len in 0..100 {
            for at in 8..16 {
                let src = &from[..len];
                // SAFETY: There are `len` bytes, of another object.
                assert!(is_exact(src, at, |dst| unsafe { bytes_out(dst, src) })?);
            }
        }
        Ok(())
    }

    #[test]
    fn both_checksums_are_the_usual_one() -> Result {
        // RFC 3720, B.4: 32 bytes of zeroes.
        assert_eq!(!crc32c(!0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(!crc::by_shifts(!0, &[0; 32]), 0x8a91_36aa);
        let data = pattern(600)?;
        for from in 0..9 {
            for to in from..600 {
                let data = &data[from..to];
                assert_eq!(crc::by_shifts(!7, data), kernel_crc32c(!7, data));
            }
        }
        Ok(())
    }
}
