// SPDX-License-Identifier: GPL-2.0

//! Rings that the kernel and a process share.
//!
//! - [`SharedMem`] ([`mem`]): the memory, how it is mapped and how long it lives.
//! - [`Word`] ([`word`]): one word of it, accessed with the ordering that the protocol needs.
//! - [`Ring`]: an array of entries in it, with an optional tail.
//! - [`WqeRing`] ([`wqe`]): a ring of requests, also of a kernel consumer.
//!
//! The process may change every byte at any time. So the kernel copies an entry out once and judges
//! the copy. Indices are masked, so that no value leads outside of the memory.

pub mod mem;
pub mod word;
pub mod wqe;

pub use mem::SharedMem;
pub use word::{mb, Word, WordType};
pub use wqe::{Wqe, WqeLayout, WqeRing};

use crate::owner::Consumer;
use core::{marker::PhantomData, ops::Range};
use kernel::prelude::*;
use kext::copy;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// An entry of a [`Ring`]: plain data, for which any bytes are a value.
pub trait Entry: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static> Entry for T {}

/// An array of entries in [`SharedMem`], whose number is a power of two.
///
/// It serialises nothing: the protocol between its two sides says which side stores a word, and
/// when. A clone is the same ring.
#[derive(Clone)]
pub struct Ring<T: Entry> {
    mem: SharedMem,
    mask: u32,
    tail: usize,
    _entries: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    /// Whether entries consist of whole, aligned 64-bit words.
    const WORDS: bool = size_of::<T>() % 8 == 0 && align_of::<T>() == 8;

    /// Makes a zeroed ring. `entries` must be a power of two. Errors: `EINVAL`, and those of
    /// [`SharedMem::new`]. Context: sleeping.
    pub fn new(entries: u32, consumer: Consumer) -> Result<Self> {
        Self::with_tail(entries, 0, consumer)
    }

    /// As [`Self::new`], with `tail` bytes after the last entry, for control words.
    pub fn with_tail(entries: u32, tail: usize, consumer: Consumer) -> Result<Self> {
        if !entries.is_power_of_two() || size_of::<T>() == 0 || align_of::<T>() > 8 {
            return Err(EINVAL);
        }
        let len = size_of::<T>()
            .checked_mul(entries as usize)
            .and_then(|n| n.checked_add(tail))
            .ok_or(EINVAL)?;
        Ok(Self {
            mem: SharedMem::new(len, consumer)?,
            mask: entries - 1,
            tail,
            _entries: PhantomData,
        })
    }

    /// The memory, which can be made mappable.
    pub fn mem(&self) -> &SharedMem {
        &self.mem
    }

    /// The number of entries.
    pub fn entries(&self) -> u32 {
        self.mask + 1
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut u8 {
        let offset = (index & self.mask) as usize * size_of::<T>();
        // SAFETY: The masked index is below the number of entries, all of which are in the memory.
        unsafe { self.mem.as_ptr().add(offset) }
    }

    /// Copies the entry at `index` (modulo the number of entries), once. Context: any.
    #[inline]
    pub fn load(&self, index: u32) -> T {
        let mut value = T::new_zeroed();
        self.load_into(index, &mut value);
        value
    }

    /// As [`Self::load`], directly to `value`.
    ///
    /// Most entries are a few words, for which a call of `memcpy()` costs more than the copy
    /// itself.
    #[inline]
    pub fn load_into(&self, index: u32, value: &mut T) {
        if Self::WORDS {
            return self.words(index, value, 0..size_of::<T>() / 8);
        }
        // SAFETY: The entry is in the memory. It may change meanwhile, which `copy` allows.
        unsafe { copy::bytes_in(value.as_mut_bytes(), self.entry(index)) };
    }

    /// Copies some 64-bit words of the entry at `index` (modulo the number of entries), if it has
    /// them: for entries whose beginning tells how much of them is in use. Does not compile for
    /// entries that do not consist of such words. Context: any.
    #[inline]
    pub fn load_words(&self, index: u32, value: &mut T, words: Range<usize>) {
        const { assert!(Self::WORDS) };
        self.words(index, value, words);
    }

    #[inline(always)]
    fn words(&self, index: u32, value: &mut T, words: Range<usize>) {
        // It never fails, as `WORDS` says.
        let Ok(copy) = <[u64]>::mut_from_bytes(value.as_mut_bytes()) else {
            return;
        };
        let (start, end) = (words.start, words.end.min(copy.len()));
        let mut from = self.entry(index).cast::<u64>().wrapping_add(start);
        for word in copy.get_mut(start..end).unwrap_or_default() {
            // SAFETY: `copy` is as long as the entry, so the word is in the entry. Both are aligned
            // to such words, as `WORDS` says. The memory is borrowed.
            *word = unsafe { Word::new(from) }.load_relaxed();
            from = from.wrapping_add(1);
        }
    }

    /// Stores `value` in the entry at `index` (modulo the number of entries). Context: any.
    #[inline]
    pub fn store(&self, index: u32, value: &T) {
        if Self::WORDS {
            for (i, bytes) in value.as_bytes().chunks_exact(8).enumerate() {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                let word = u64::from_ne_bytes(word);
                self.word::<u64>(index, 8 * i).store_relaxed(word);
            }
            return;
        }
        // SAFETY: The entry is in the memory. The process may access it meanwhile, which `copy`
        // allows.
        unsafe { copy::bytes_out(self.entry(index), value.as_bytes()) };
    }

    /// Stores `value` in the entry at `index`, except for the bytes `keep..keep + n`: for entries
    /// whose flags are stored afterwards. Panics if these bytes are not in the entry. Context: any.
    #[inline]
    pub fn store_except(&self, index: u32, value: &T, keep: usize, n: usize) {
        let (head, rest) = value.as_bytes().split_at(keep);
        let (_, rest) = rest.split_at(n);
        let entry = self.entry(index);
        // SAFETY: `head` goes to the start of the entry, and `rest` to its end: both splits have
        // checked that `keep + n` is in the entry.
        unsafe {
            copy::bytes_out(entry, head);
            copy::bytes_out(entry.add(keep + n), rest);
        }
    }

    /// The word at byte `offset` of the entry at `index` (modulo the number of entries). Panics if
    /// it is not in the entry or not aligned. The compiler decides that for a constant offset.
    #[inline]
    pub fn word<W: WordType>(&self, index: u32, offset: usize) -> Word<'_, W> {
        assert!(offset % size_of::<W>() == 0 && align_of::<T>() >= align_of::<W>());
        assert!(offset <= size_of::<T>() && size_of::<T>() - offset >= size_of::<W>());
        // SAFETY: The word is in the entry and aligned, as checked above. The entry is in the
        // memory, which is borrowed and aligned to a page.
        unsafe { Word::new(self.entry(index).add(offset).cast()) }
    }

    /// The 16-bit word at byte `offset` of an entry; see [`Self::word`].
    #[inline]
    pub fn word16(&self, index: u32, offset: usize) -> Word<'_, u16> {
        self.word(index, offset)
    }

    /// The 32-bit word at byte `offset` of an entry; see [`Self::word`].
    #[inline]
    pub fn word32(&self, index: u32, offset: usize) -> Word<'_, u32> {
        self.word(index, offset)
    }

    /// The 32-bit word at byte `offset` of the tail. Panics if it is not in the tail or not
    /// aligned.
    #[inline]
    pub fn tail32(&self, offset: usize) -> Word<'_, u32> {
        let start = self.entries() as usize * size_of::<T>();
        assert!((start + offset) % 4 == 0);
        assert!(offset <= self.tail && self.tail - offset >= 4);
        // SAFETY: The word is in the tail and aligned, as checked above. The tail is in the memory,
        // after the entries, and the memory is borrowed.
        unsafe { Word::new(self.mem.as_ptr().add(start + offset).cast()) }
    }
}

#[kunit_tests(rdma_ring)]
mod tests {
    use super::*;

    #[test]
    fn entries_wrap() -> Result {
        let ring = Ring::<[u32; 3]>::with_tail(4, 8, Consumer::Kernel)?;
        assert_eq!(ring.entries(), 4);
        assert_eq!(ring.mem().len(), 4 * 12 + 8);
        for i in 0..8 {
            ring.store(i, &[i, i + 1, i + 2]);
        }
        assert_eq!(ring.load(1), [5, 6, 7]);
        assert_eq!(ring.load(u32::MAX), [7, 8, 9]);
        ring.store_except(3, &[1, 2, 3], 4, 4);
        assert_eq!(ring.load(3), [1, 8, 3]);
        Ok(())
    }

    #[test]
    fn words() -> Result {
        let ring = Ring::<[u32; 2]>::with_tail(2, 8, Consumer::Kernel)?;
        let word = ring.word32(1, 4);
        word.store_release(7);
        assert_eq!(ring.load(1), [0, 7]);
        assert_eq!(word.swap(9), 7);
        assert_eq!(word.compare_exchange(7, 1), Err(9));
        assert_eq!(word.compare_exchange(9, 1), Ok(9));
        assert_eq!(word.load_acquire(), 1);
        ring.word16(0, 2).store_mb(0x1234);
        assert_eq!(ring.load(0)[0].to_ne_bytes()[2..], 0x1234u16.to_ne_bytes());
        ring.tail32(4).store_relaxed(5);
        assert_eq!(ring.tail32(4).load_relaxed(), 5);
        assert_eq!(ring.tail32(0).load_relaxed(), 0);
        Ok(())
    }

    #[test]
    fn sizes() {
        assert!(Ring::<u64>::new(3, Consumer::Kernel).is_err());
        assert!(Ring::<u64>::new(0, Consumer::Kernel).is_err());
        assert!(Ring::<[u8; 4096]>::new(1 << 31, Consumer::Kernel).is_err());
        assert!(Ring::<()>::new(1, Consumer::Kernel).is_err());
    }

    #[test]
    fn parts() -> Result {
        let ring = Ring::<[u64; 3]>::new(2, Consumer::Kernel)?;
        ring.store(1, &[1, 2, 3]);
        let mut value = [0; 3];
        ring.load_words(3, &mut value, 1..2);
        assert_eq!(value, [0, 2, 0]);
        ring.load_words(1, &mut value, 2..9);
        assert_eq!(value, [0, 2, 3]);
        assert_eq!(ring.load(1), [1, 2, 3]);
        Ok(())
    }
}
