// SPDX-License-Identifier: GPL-2.0

//! Memory that RDMA moves bytes in and out of.
//!
//! A region is made of pieces that are contiguous in the kernel's address space. [`Memory`] finds
//! the piece that an offset is in, and a [`Span`] is one such piece, borrowed from what keeps the
//! memory in place. Nothing here is a Rust reference to the bytes: processes and devices change
//! them at any time.

use crate::copy;
use core::marker::PhantomData;
use kernel::prelude::*;

/// A contiguous piece of memory that others may access at the same time.
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
    /// During `'a`, the `len` bytes at kernel address `addr` are mapped and valid for reads, and
    /// for writes if `writable`. There are no Rust references to them.
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

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `n` bytes, or all if there are less, and the rest.
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
        // SAFETY: By the type's invariant the bytes are valid for reads.
        unsafe { copy::bytes_in(&mut dst[..n], self.addr as *const u8) };
        n
    }

    /// Copies the first bytes of `src` here and returns how many: the length of the shorter one.
    /// Fails with `EACCES` if the memory is pinned for reading only. Context: any.
    #[inline]
    pub fn write(&self, src: &[u8]) -> Result<usize> {
        if !self.writable {
            return Err(EACCES);
        }
        let n = self.len.min(src.len());
        // SAFETY: By the type's invariant the bytes are valid for writes.
        unsafe { copy::bytes_out(self.addr as *mut u8, &src[..n]) };
        Ok(n)
    }
}

/// Memory that is addressed by offsets (or, for [`KernelMemory`], by addresses).
///
/// All of this may be called in any context and is bounded by the length of the copy.
pub trait Memory {
    /// The contiguous piece at `offset`, `len` bytes of it or less, but not none unless `len` is
    /// 0. Fails with `EFAULT` if the range is not all in the memory.
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>>;

    /// Copies the bytes at `offset` to all of `dst`. Fails with `EFAULT`, and then has copied
    /// nothing.
    #[inline]
    fn read(&self, offset: u64, dst: &mut [u8]) -> Result {
        let mut done = 0;
        while done < dst.len() {
            let left = &mut dst[done..];
            done += self.span(offset + done as u64, left.len())?.read(left);
        }
        Ok(())
    }

    /// Copies all of `src` to `offset`. Fails with `EFAULT`, or `EACCES` if the memory is pinned
    /// for reading only, and then has copied nothing.
    #[inline]
    fn write(&self, offset: u64, src: &[u8]) -> Result {
        let mut done = 0;
        while done < src.len() {
            let left = &src[done..];
            done += self.span(offset + done as u64, left.len())?.write(left)?;
        }
        Ok(())
    }
}

/// The right to use any kernel address that a kernel consumer names.
///
/// A consumer inside the kernel hands out memory by address, be it by the PD's local DMA key or by
/// a DMA memory region, and is trusted to name memory of its own: its work requests could write to
/// it as well as it could itself. Drivers get this token for kernel PDs only and must not use it
/// for addresses that come from a process; nor for those that come from a peer, unless the
/// consumer has asked for just that by a region with remote rights.
#[derive(Clone, Copy)]
pub struct KernelMemory(());

impl KernelMemory {
    /// # Safety
    ///
    /// The token is for the use of a kernel consumer's PD.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl Memory for KernelMemory {
    /// `offset` is a kernel address. Fails with `EFAULT` if the range is not in the kernel's half
    /// of the address space.
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        let last = offset.checked_add(len.saturating_sub(1) as u64);
        // Kernel addresses are in the upper half of the address space; so both ends are, and what
        // lies between.
        if offset >> 63 == 0 || last.is_none() {
            return Err(EFAULT);
        }
        // SAFETY: The kernel consumer names memory that it owns, which stays mapped until its
        // request has completed: this is what the token stands for.
        Ok(unsafe { Span::new(offset as usize, len, true) })
    }
}

#[kunit_tests(rdma_span)]
mod tests {
    use super::*;

    /// The token, for memory of the test's own.
    fn memory() -> KernelMemory {
        // SAFETY: The tests are a kernel consumer.
        unsafe { KernelMemory::new() }
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
            to.iter_mut().for_each(|byte| *byte = 0);
            let addr = to.as_ptr() as u64;
            assert!(memory().write(addr, &from).is_ok());
            assert!(to[..] == from[..]);
        }
        Ok(())
    }

    #[test]
    fn user_addresses_are_refused() {
        let mut byte = [0];
        assert!(memory().read(0, &mut byte).is_err());
        assert!(memory().read(0x7fff_ffff_f000, &mut byte).is_err());
        assert!(memory().span(u64::MAX, 2).is_err());
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
        assert_eq!(read_only.write(&[1]), Err(EACCES));
        Ok(())
    }
}
