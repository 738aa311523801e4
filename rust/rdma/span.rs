// SPDX-License-Identifier: GPL-2.0

//! Memory that RDMA copies bytes to and from.
//!
//! A region consists of pieces that are contiguous in the kernel's address space. [`Memory`] finds
//! the piece at an offset. A [`Span`] is such a piece, borrowed from the object that keeps the
//! memory in place. There are no Rust references to the bytes, as processes and devices change them
//! at any time.

use crate::ring::Word;
use core::{marker::PhantomData, sync::atomic::AtomicU8};
use kernel::prelude::*;
use kext::copy;

/// A contiguous piece of memory, which others may access at the same time.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    addr: usize,
    len: usize,
    writable: bool,
    _memory: PhantomData<&'a ()>,
}

impl<'a> Span<'a> {
    /// # Safety
    ///
    /// During `'a`, the `len` bytes at kernel address `addr` must be mapped and valid for reads,
    /// and for writes if `writable`. There must be no Rust references to them.
    #[inline]
    pub(crate) unsafe fn new(addr: usize, len: usize, writable: bool) -> Self {
        Self {
            addr,
            len,
            writable,
            _memory: PhantomData,
        }
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The kernel address of the first byte.
    #[inline]
    pub(crate) fn addr(&self) -> usize {
        self.addr
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Splits off the first `n` bytes, or all if there are fewer. Returns them and the rest.
    #[inline]
    pub fn split_at(self, n: usize) -> (Span<'a>, Span<'a>) {
        let n = n.min(self.len);
        let head = Span { len: n, ..self };
        let tail = Span {
            addr: self.addr + n,
            len: self.len - n,
            ..self
        };
        (head, tail)
    }

    /// Copies the first bytes to `dst` and returns how many: the length of the shorter one.
    /// Context: any.
    #[inline]
    pub fn read(&self, dst: &mut [u8]) -> usize {
        let n = self.len.min(dst.len());
        // SAFETY: By the contract of `new` the bytes are valid for reads.
        unsafe { copy::bytes_in(&mut dst[..n], self.addr as *const u8) };
        n
    }

    /// Copies the first bytes of `src`, which others may change meanwhile, here and returns how
    /// many: the length of the shorter one. If `ends`, the last word of them is seen only after all
    /// that this thread has written before. Errors: `EACCES` if the memory is pinned for reading
    /// only. Context: any.
    #[inline]
    pub fn write(&self, src: &[AtomicU8], ends: bool) -> Result<usize> {
        if !self.writable {
            return Err(EACCES);
        }
        let (dst, n) = (self.addr as *mut u8, self.len.min(src.len()));
        // SAFETY: By the contract of `new` the bytes are valid for writes.
        unsafe {
            if ends {
                copy::shared_out_ordered(dst, &src[..n])
            } else {
                copy::shared_out(dst, &src[..n])
            }
        }
        Ok(n)
    }
}

impl<'a> Span<'a> {
    /// The first 8 bytes, as a word. Errors: `EFAULT` if there are fewer, `EINVAL` if they are not
    /// aligned, `EACCES` if the memory is pinned for reading only. Context: any.
    pub fn word(&self) -> Result<Word<'a, u64>> {
        let ptr = self.addr as *mut u64;
        if self.len < size_of::<u64>() {
            return Err(EFAULT);
        }
        if !ptr.is_aligned() {
            return Err(EINVAL);
        }
        if !self.writable {
            return Err(EACCES);
        }
        // SAFETY: The word is aligned, and by the contract of `Span::new` valid for reads and
        // writes during `'a`. By the same contract there are no Rust references to it: this crate
        // accesses the bytes of spans by words and by the functions of `copy`.
        Ok(unsafe { Word::new(ptr) })
    }
}

/// Memory whose bytes have offsets (or, for [`AllMemory`](crate::AllMemory), addresses).
///
/// Context: any. Each call takes at most as long as the copy of its bytes.
pub trait Memory {
    /// The contiguous piece at `offset`, of at most `len` bytes. It is empty only if `len` is 0.
    /// Errors: `EFAULT` if not all of the `len` bytes are in the memory.
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>>;

    /// Copies the bytes at `offset` to all of `dst`. Errors: `EFAULT`; nothing was copied then.
    #[inline]
    fn read(&self, offset: u64, dst: &mut [u8]) -> Result
    where
        Self: Sized,
    {
        let done = self.span(offset, dst.len())?.read(dst);
        if done < dst.len() {
            return self.read_on(offset, dst, done);
        }
        Ok(())
    }

    /// As [`Self::read`], for bytes in several pieces, of which the first `done` were copied.
    #[inline(never)]
    fn read_on(&self, offset: u64, dst: &mut [u8], mut done: usize) -> Result
    where
        Self: Sized,
    {
        while done < dst.len() {
            let left = &mut dst[done..];
            done += self.span(offset + done as u64, left.len())?.read(left);
        }
        Ok(())
    }

    /// Copies all of `src`, which others may change meanwhile, to `offset`. If `ends`, its last
    /// word is seen only after all that this thread has written before. Errors: `EFAULT`, or
    /// `EACCES` if the memory is pinned for reading only; nothing was copied then.
    #[inline]
    fn write(&self, offset: u64, src: &[AtomicU8], ends: bool) -> Result
    where
        Self: Sized,
    {
        let span = self.span(offset, src.len())?;
        let done = span.write(src, ends && span.len() == src.len())?;
        if done < src.len() {
            return self.write_on(offset, src, ends, done);
        }
        Ok(())
    }

    /// As [`Self::write`], for bytes in several pieces, of which the first `done` were copied.
    #[inline(never)]
    fn write_on(&self, offset: u64, src: &[AtomicU8], ends: bool, mut done: usize) -> Result
    where
        Self: Sized,
    {
        while done < src.len() {
            let left = &src[done..];
            let span = self.span(offset + done as u64, left.len())?;
            done += span.write(left, ends && span.len() == left.len())?;
        }
        Ok(())
    }
}

/// Bytes of a memory, which are read in order.
///
/// Copies that follow each other look up a contiguous piece of the memory once, not each for
/// itself.
pub struct Reader<'a> {
    memory: &'a dyn Memory,
    /// Of the next byte.
    offset: u64,
    left: usize,
    /// The rest of the contiguous piece that the next byte is in; empty if it has to be looked up.
    piece: Span<'a>,
}

impl<'a> Reader<'a> {
    /// A reader of the `len` bytes at `offset`. Errors: `EFAULT` if not all of them are in the
    /// memory.
    #[inline]
    pub fn new(memory: &'a dyn Memory, offset: u64, len: usize) -> Result<Self> {
        Ok(Self {
            memory,
            offset,
            left: len,
            piece: memory.span(offset, len)?,
        })
    }

    /// Copies the next bytes to all of `dst`. Errors: `EFAULT` if fewer are left,
    /// and nothing was copied. Context: any.
    #[inline]
    pub fn read(&mut self, mut dst: &mut [u8]) -> Result {
        if dst.len() > self.left {
            return Err(EFAULT);
        }
        while !dst.is_empty() {
            if self.piece.is_empty() {
                self.piece = self.memory.span(self.offset, self.left)?;
            }
            let n = self.piece.read(dst);
            self.piece = self.piece.split_at(n).1;
            self.offset += n as u64;
            self.left -= n;
            dst = &mut dst[n..];
        }
        Ok(())
    }
}

#[kunit_tests(rdma_span)]
mod tests {
    use super::*;
    use crate::AllMemory;

    /// All memory, of which these tests use their own.
    fn memory() -> AllMemory {
        // SAFETY: The tests are a kernel consumer, and name memory of their own.
        unsafe { AllMemory::new() }
    }

    fn pattern(len: usize) -> Result<KVec<u8>> {
        let mut v = KVec::new();
        for i in 0..len {
            v.push((i * 7 + i / 251) as u8, GFP_KERNEL)?;
        }
        Ok(v)
    }

    #[test]
    fn copies() -> Result {
        for len in [1, 3, 63, 64, 4999, 5000] {
            let from = pattern(len)?;
            let mut to = KVec::from_elem(0u8, len, GFP_KERNEL)?;
            assert!(memory().read(from.as_ptr() as u64, &mut to).is_ok());
            assert!(to[..] == from[..]);
            let addr = to.as_ptr() as u64;
            let mut shared = KVec::new();
            for byte in &from {
                shared.push(AtomicU8::new(*byte), GFP_KERNEL)?;
            }
            for ends in [false, true] {
                to.iter_mut().for_each(|byte| *byte = 0);
                assert!(memory().write(addr, &shared, ends).is_ok());
                assert!(to[..] == from[..]);
            }
        }
        Ok(())
    }

    /// Bytes of a test, from an address on, of which no more than 7 are contiguous.
    struct Cut(usize, usize);

    impl Memory for Cut {
        fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
            let offset = offset as usize;
            if self.1.checked_sub(len).is_none_or(|most| offset > most) {
                return Err(EFAULT);
            }
            // SAFETY: The test's bytes outlive this object, and the test has no references to them
            // while it reads by the spans.
            Ok(unsafe { Span::new(self.0 + offset, len.min(7 - offset % 7), false) })
        }
    }

    #[test]
    fn readers_go_on_across_pieces() -> Result {
        let from = pattern(100)?;
        let memory = Cut(from.as_ptr() as usize, from.len());
        for step in [1, 6, 7, 8, 30] {
            let (mut to, mut reader) = ([0; 100], Reader::new(&memory, 5, 90)?);
            for to in to[..90].chunks_mut(step) {
                reader.read(to)?;
            }
            assert!(to[..90] == from[5..95]);
            assert!(reader.read(&mut to[..1]).is_err());
            assert!(reader.read(&mut []).is_ok());
        }
        // Nothing is copied if there is less than asked for.
        let (mut to, mut reader) = ([0; 20], Reader::new(&memory, 0, 19)?);
        assert!(reader.read(&mut to).is_err() && to == [0; 20]);
        assert!(Reader::new(&memory, 10, 91).is_err());
        assert!(Reader::new(&memory, u64::MAX, 1).is_err());
        Ok(())
    }

    #[test]
    fn words_are_aligned_and_writable() -> Result {
        let mut room = [5u64, 6, 7];
        let addr = room.as_mut_ptr() as u64;
        let memory = memory();
        let word = |offset, len| memory.span(addr + offset, len)?.word();
        assert_eq!(word(8, 8)?.compare_exchange(6, 60), Ok(6));
        assert_eq!(word(8, 16)?.compare_exchange(6, 61), Err(60));
        assert_eq!(word(8, 7).err(), Some(EFAULT));
        assert_eq!(word(4, 8).err(), Some(EINVAL));
        // SAFETY: The bytes are those of `room`.
        let read_only = unsafe { Span::new(addr as usize, 8, false) };
        assert_eq!(read_only.word().err(), Some(EACCES));
        // SAFETY: `room` is alive.
        assert!(unsafe { room.as_ptr().read_volatile() } == 5 && word(8, 8)?.load_relaxed() == 60);
        Ok(())
    }

    #[test]
    fn spans_split() -> Result {
        let from = pattern(100)?;
        let mem = memory();
        let span = mem.span(from.as_ptr() as u64, 100)?;
        let (head, tail) = span.split_at(30);
        let mut to = [0; 200];
        assert_eq!(head.read(&mut to), 30);
        assert_eq!(tail.read(&mut to[30..]), 70);
        assert!(to[..100] == from[..]);
        let (all, none) = span.split_at(1000);
        assert_eq!((all.len(), none.len()), (100, 0));
        // SAFETY: The bytes are those of `from`.
        let read_only = unsafe { Span::new(from.as_ptr() as usize, 100, false) };
        assert_eq!(read_only.write(&[AtomicU8::new(1)], false), Err(EACCES));
        Ok(())
    }
}
