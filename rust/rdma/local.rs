// SPDX-License-Identifier: GPL-2.0

//! Memory of kernel consumers, which they name by kernel addresses.
//!
//! An address of the kernel is good for a driver only if a kernel consumer has named it. Types tell
//! that:
//!
//! - [`LocalSge`]: an element of a request's list, which knows whose request it is.
//! - [`LocalDmaKey`]: the key by which kernel consumers' elements have kernel addresses.
//! - [`KernelMemory`]: the bytes of such an element. No address outside of them is reachable.
//! - [`AllMemory`]: all addresses, where a consumer has asked for a region of them.
//!
//! The types do not tell how long the memory is the consumer's to give: a driver ends its accesses
//! before it completes the request, or before it has deregistered the region.

use crate::{
    owner::Consumer,
    span::{Memory, Span},
};
use kernel::prelude::*;
use rdma_bindings::ib_sge;

/// The bytes at kernel address `addr`. Errors: `EFAULT` if they are not in the kernel's half of the
/// address space.
///
/// # Safety
///
/// If the bytes are in that half, a kernel consumer must have named them as memory that is its own
/// to give, is not read-only, and stays mapped during `'a`. With virtual DMA its addresses are
/// kernel addresses.
#[inline]
unsafe fn kernel_span<'a>(addr: u64, len: usize) -> Result<Span<'a>> {
    let last = addr.checked_add(len.saturating_sub(1) as u64);
    // The kernel's half is the upper one. So if both ends are in it, the bytes between are, too.
    // User-mode Linux has no halves: its processes have address spaces of their own.
    if (addr >> 63 == 0 && !cfg!(CONFIG_UML)) || last.is_none() {
        return Err(EFAULT);
    }
    // SAFETY: By the contract of this function. The consumer is C code, or has given the memory to
    // it, so there are no Rust references.
    Ok(unsafe { Span::new(addr as usize, len, true) })
}

/// Memory that a kernel consumer has named in a work request, by a kernel address.
///
/// Offsets are those from its first byte. [`LocalSge::memory`] gives it.
#[derive(Clone, Copy)]
pub struct KernelMemory {
    addr: u64,
    len: u32,
}

impl KernelMemory {
    /// The first of the `len` bytes at `offset`, for TCP to send from: up to the end of a page, or
    /// of a compound one. `None` if they are not all inside, or TCP cannot refer to them. They stay
    /// in memory as long as TCP refers to them, but the consumer has them back when its request
    /// completes: the driver completes it only when TCP has [released](net::Released) them.
    /// Context: any.
    pub fn page(&self, offset: u64, len: usize) -> Option<net::PageSpan> {
        let span = self
            .span(offset, len)
            .ok()
            .filter(|span| !span.is_empty())?;
        // SAFETY: The span's bytes are mapped, and the consumer's until its request completes.
        unsafe { net::PageSpan::of_kernel(span.addr(), span.len()) }
    }
}

impl Memory for KernelMemory {
    /// Errors: `EFAULT`, also if the memory is not in the kernel's half of the address space.
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.len.into()) {
            return Err(EFAULT);
        }
        let addr = self.addr.checked_add(offset).ok_or(EFAULT)?;
        // SAFETY: A `KernelMemory` is given out only for an element of a kernel consumer's request,
        // under the local DMA key, and the bytes are inside of that: the consumer has named them as
        // memory for the request to read or write. It keeps them until the request has completed,
        // which the driver does when it has done with them.
        unsafe { kernel_span(addr, len) }
    }
}

/// The local DMA key of a device: by it, and only by it, an element of a kernel consumer's request
/// has a kernel address (but see [`AllMemory`]).
#[derive(Clone, Copy)]
pub struct LocalDmaKey(u32);

impl LocalDmaKey {
    /// The key.
    pub fn lkey(self) -> u32 {
        self.0
    }
}

/// The right to choose the local DMA key of a device that does not exist yet.
pub struct NewLocalDmaKey(());

impl NewLocalDmaKey {
    /// # Safety
    ///
    /// The device must get the key that the driver chooses by this as its `local_dma_lkey`.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }

    /// Chooses `lkey`, which no other region of the device may have.
    pub fn choose(self, lkey: u32) -> LocalDmaKey {
        LocalDmaKey(lkey)
    }
}

/// A scatter/gather element of a request: numbers, which a process or a peer may have written, or
/// those of a kernel consumer.
#[derive(Clone, Copy)]
pub struct LocalSge {
    memory: KernelMemory,
    lkey: u32,
    /// INVARIANT: The kernel only if a consumer there has posted the element, or several of which
    /// it is made up, or if it has no bytes.
    consumer: Consumer,
}

impl LocalSge {
    /// No bytes.
    pub const NONE: Self = Self::new(0, 0, 0);

    /// An element of numbers, by which no [`KernelMemory`] is reachable.
    #[inline]
    pub const fn new(addr: u64, length: u32, lkey: u32) -> Self {
        Self {
            memory: KernelMemory { addr, len: length },
            lkey,
            consumer: Consumer::Process,
        }
    }

    /// An element of a list of `consumer`'s.
    ///
    /// # Safety
    ///
    /// If `consumer` is the kernel, a consumer there must have posted `sge`, or it is all zero.
    #[inline]
    pub(crate) unsafe fn of(sge: ib_sge, consumer: Consumer) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            consumer,
            ..Self::new(sge.addr, sge.length, sge.lkey)
        }
    }

    /// The address.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.memory.addr
    }

    /// The number of bytes.
    #[inline]
    pub fn length(&self) -> u32 {
        self.memory.len
    }

    /// The local key of the memory region.
    #[inline]
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Both elements as one, if `next` is of the same consumer and region and continues this one.
    #[inline]
    pub fn join(&self, next: &Self) -> Option<Self> {
        let end = self.addr().checked_add(self.length().into());
        if next.lkey != self.lkey || end != Some(next.addr()) || next.consumer != self.consumer {
            return None;
        }
        let len = self.length().checked_add(next.length())?;
        // INVARIANT: If they are a kernel consumer's, it has posted both, and its memory is that of
        // both.
        Some(Self {
            memory: KernelMemory {
                addr: self.addr(),
                len,
            },
            ..*self
        })
    }

    /// The memory, if a kernel consumer has posted the element under `key`, the local DMA key of
    /// the queue pair's device.
    #[inline]
    pub fn memory(&self, key: LocalDmaKey) -> Option<&KernelMemory> {
        (self.consumer == Consumer::Kernel && self.lkey == key.0).then_some(&self.memory)
    }
}

/// All kernel memory, for a region of a kernel consumer that has asked for all of it
/// (`IB_PD_UNSAFE_GLOBAL_RKEY`).
///
/// Offsets are kernel addresses. The consumer answers for all that its requests name by the
/// region's key, and, if the region has remote rights, for what peers name by it: "unsafe" is the
/// core's word for that. A driver uses it for nothing else.
pub struct AllMemory(());

impl AllMemory {
    /// # Safety
    ///
    /// A kernel consumer must have asked for a region of all memory.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl Memory for AllMemory {
    /// Errors: `EFAULT` if the range is not in the kernel's half of the address space.
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        // SAFETY: By the contract of `new` a kernel consumer has given all memory, and has taken it
        // upon itself that what is named by the region's key is mapped and its own.
        unsafe { kernel_span(offset, len) }
    }
}

#[kunit_tests(rdma_local)]
mod tests {
    use super::*;

    const KEY: LocalDmaKey = LocalDmaKey(0x1234_5678);

    /// A kernel consumer's element under the local DMA key.
    ///
    /// # Safety
    ///
    /// The bytes must be the test's own while it uses the element.
    unsafe fn posted(addr: u64, length: u32, lkey: u32) -> LocalSge {
        // SAFETY: The tests are a kernel consumer, and name memory of their own.
        unsafe { LocalSge::of(ib_sge { addr, length, lkey }, Consumer::Kernel) }
    }

    #[test]
    fn no_span_leaves_the_element() -> Result {
        let bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
        // SAFETY: The bytes are this function's.
        let sge = unsafe { posted(bytes.as_ptr() as u64 + 8, 48, KEY.lkey()) };
        let memory = sge.memory(KEY).ok_or(EINVAL)?;
        for (offset, len) in [(0, 48), (0, 0), (48, 0), (47, 1), (20, 10)] {
            assert_eq!(memory.span(offset, len)?.len(), len);
        }
        let mut to = [0; 10];
        memory.read(20, &mut to)?;
        assert!(to[..] == bytes[28..38]);
        let top = u64::MAX;
        for (offset, len) in [
            (0, 49),
            (47, 2),
            (48, 1),
            (49, 0),
            (1 << 32, 1),
            (top, 0),
            (top, 1),
            (top, 2),
            (top - 7, 8),
            // The byte in front of the element.
            (top - 7, 16),
            (1, usize::MAX),
        ] {
            assert!(memory.span(offset, len).is_err());
        }
        Ok(())
    }

    #[test]
    fn memory_is_for_kernel_consumers_with_the_key() {
        let (addr, lkey) = (u64::MAX - 100, KEY.lkey());
        // SAFETY: Nothing is read or written by the elements of this test.
        let posted = |lkey| unsafe { posted(addr, 10, lkey) };
        assert!(posted(lkey).memory(KEY).is_some());
        assert!(posted(lkey ^ 1).memory(KEY).is_none());
        assert!(LocalSge::new(addr, 10, lkey).memory(KEY).is_none());
        assert!(LocalSge::NONE.memory(LocalDmaKey(0)).is_none());
    }

    #[test]
    fn elements_join() {
        // SAFETY: Nothing is read or written by the elements of this test.
        let posted = |addr, len| unsafe { posted(addr, len, 1) };
        let first = posted(1000, 100);
        let both = first.join(&posted(1100, 50));
        assert!(both.is_some_and(|both| (both.addr(), both.length()) == (1000, 150)));
        assert!(both.is_some_and(|both| both.memory(LocalDmaKey(1)).is_some()));
        assert!(first.join(&posted(1101, 50)).is_none());
        assert!(first.join(&posted(1099, 50)).is_none());
        assert!(first.join(&posted(1100, u32::MAX)).is_none());
        assert!(posted(u64::MAX, 1).join(&posted(0, 1)).is_none());
        // Numbers do not become a kernel consumer's.
        let numbers = LocalSge::new(1100, 50, 1);
        assert!(first.join(&numbers).is_none() && numbers.join(&posted(1150, 1)).is_none());
        assert!(first.join(&LocalSge::new(1100, 50, 2)).is_none());
    }

    #[test]
    #[cfg(not(CONFIG_UML))]
    fn user_addresses_are_refused() {
        let mut byte = [0];
        // SAFETY: The tests are a kernel consumer. They access nothing by this.
        let all = unsafe { AllMemory::new() };
        for addr in [0, 0x7fff_ffff_f000] {
            assert!(all.read(addr, &mut byte).is_err());
            // SAFETY: Nothing is read or written by the element.
            let sge = unsafe { posted(addr, 1, KEY.lkey()) };
            assert!(sge.memory(KEY).is_some_and(|m| m.span(0, 1).is_err()));
        }
    }

    #[test]
    fn ranges_that_wrap_are_refused() {
        // SAFETY: The tests are a kernel consumer. They access nothing by this.
        let all = unsafe { AllMemory::new() };
        assert!(all.span(u64::MAX, 2).is_err());
        // SAFETY: Nothing is read or written by the element.
        let sge = unsafe { posted(u64::MAX, 2, KEY.lkey()) };
        let memory = sge.memory(KEY);
        assert!(memory.is_some_and(|m| m.span(0, 2).is_err() && m.span(1, 1).is_err()));
    }
}
