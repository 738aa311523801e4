// SPDX-License-Identifier: GPL-2.0

//! Copies into a region and out of it, and atomic operations on its bytes.

use super::{offset_in, FastStore, Region, Store, FAST_PIECE};
use crate::mem::{atomic, MemError, Rights};
use core::ops::Range;
use iwarp::{
    rdmap::{AtomicOp, ATOMIC_LEN},
    SharedByte,
};
use kernel::prelude::*;
use rdma::{Memory, PageList, Reader};

impl Region {
    /// Copies `dst.len()` bytes at `addr` out of `store`, the region's. Context: any.
    ///
    /// Key and right are checked at each access, also in the middle of a message: the STag may have
    /// been invalidated meanwhile, and the region registered anew for others.
    #[inline]
    pub(in crate::mem) fn read(
        &self,
        store: &Store,
        rights: Rights,
        addr: u64,
        dst: &mut [u8],
    ) -> Result<(), MemError> {
        let Store::User { umem, iova, len } = store else {
            return self.read_other(store, rights, addr, dst);
        };
        self.valid(rights.key, rights.need)?;
        let offset = offset_in(*iova, *len, addr, dst.len() as u64)?;
        umem.read(offset, dst).map_err(|_| MemError::Bounds)
    }

    /// As [`Self::read`], of what is no memory of a process.
    #[inline(never)]
    fn read_other(
        &self,
        store: &Store,
        rights: Rights,
        addr: u64,
        dst: &mut [u8],
    ) -> Result<(), MemError> {
        match store {
            Store::Dma(memory) => self.read_from(memory, rights, addr, dst),
            Store::User { .. } | Store::Local(_) => Err(MemError::Bounds),
            Store::Window(window) => window.read(self, rights, addr, dst),
            Store::Fast(fast) => {
                self.each_piece(fast, rights, addr, dst.len(), |pages, offset, piece| {
                    pages.read(offset, dst.get_mut(piece)?).ok()
                })
            }
        }
    }

    /// As [`Self::read`], of the region's `memory`.
    #[inline]
    pub(in crate::mem) fn read_from(
        &self,
        memory: &impl Memory,
        rights: Rights,
        offset: u64,
        dst: &mut [u8],
    ) -> Result<(), MemError> {
        self.valid(rights.key, rights.need)?;
        memory.read(offset, dst).map_err(|_| MemError::Bounds)
    }

    /// A reader of `len` bytes at `addr` of `store`, the region's, with the checks of
    /// [`Self::read`], which are then made once for all of these bytes. `None` for a fast
    /// registration or a window: its bytes are copied under a lock. Context: any.
    #[inline]
    pub(in crate::mem) fn reader<'a>(
        &self,
        store: &'a Store,
        rights: Rights,
        addr: u64,
        len: usize,
    ) -> Result<Option<Reader<'a>>, MemError> {
        match store {
            Store::User { umem, .. } => {
                let offset = store.bound(addr, len as u64)?;
                self.reader_of(umem, rights, offset, len).map(Some)
            }
            Store::Dma(memory) => self.reader_of(memory, rights, addr, len).map(Some),
            Store::Local(_) => Err(MemError::Bounds),
            Store::Fast(_) | Store::Window(_) => Ok(None),
        }
    }

    /// As [`Self::reader`], of the region's `memory`.
    #[inline]
    pub(in crate::mem) fn reader_of<'a>(
        &self,
        memory: &'a dyn Memory,
        rights: Rights,
        offset: u64,
        len: usize,
    ) -> Result<Reader<'a>, MemError> {
        self.valid(rights.key, rights.need)?;
        Reader::new(memory, offset, len).map_err(|_| MemError::Bounds)
    }

    //= 5041-5.2-4
    /// Copies `src` to `addr` of `store`, the region's, with the checks of [`Self::read`]. `ends`:
    /// as of [`Memory::write`]. Context: any.
    #[inline]
    pub(in crate::mem) fn write(
        &self,
        store: &Store,
        rights: Rights,
        addr: u64,
        src: &[SharedByte],
        ends: bool,
    ) -> Result<(), MemError> {
        let Store::User { umem, iova, len } = store else {
            return self.write_other(store, rights, addr, src, ends);
        };
        self.valid(rights.key, rights.need)?;
        let offset = offset_in(*iova, *len, addr, src.len() as u64)?;
        umem.write(offset, src, ends).map_err(|_| MemError::Bounds)
    }

    /// As [`Self::write`], to what is no memory of a process.
    #[inline(never)]
    fn write_other(
        &self,
        store: &Store,
        rights: Rights,
        addr: u64,
        src: &[SharedByte],
        ends: bool,
    ) -> Result<(), MemError> {
        match store {
            Store::Dma(memory) => self.write_to(memory, rights, addr, src, ends),
            Store::User { .. } | Store::Local(_) => Err(MemError::Bounds),
            Store::Window(window) => window.write(self, rights, addr, src, ends),
            Store::Fast(fast) => {
                self.each_piece(fast, rights, addr, src.len(), |pages, offset, piece| {
                    let last = ends && piece.end == src.len();
                    pages.write(offset, src.get(piece)?, last).ok()
                })
            }
        }
    }

    /// As [`Self::write`], to the region's `memory`.
    #[inline]
    pub(in crate::mem) fn write_to(
        &self,
        memory: &impl Memory,
        rights: Rights,
        offset: u64,
        src: &[SharedByte],
        ends: bool,
    ) -> Result<(), MemError> {
        self.valid(rights.key, rights.need)?;
        memory
            .write(offset, src, ends)
            .map_err(|_| MemError::Bounds)
    }

    /// Copies `len` bytes at `addr` of a fast registration in pieces, each with the checks of
    /// [`Self::read`] under the lock of the page list. `copy` gets the list, the piece's offset in
    /// it, and its place among the bytes.
    fn each_piece(
        &self,
        fast: &FastStore,
        rights: Rights,
        addr: u64,
        len: usize,
        mut copy: impl FnMut(&PageList, u64, Range<usize>) -> Option<()>,
    ) -> Result<(), MemError> {
        for at in (0..len).step_by(FAST_PIECE) {
            let piece = at..len.min(at.saturating_add(FAST_PIECE));
            let pages = fast.pages.lock();
            self.valid(rights.key, rights.need)?;
            let addr = addr.wrapping_add(at as u64);
            let offset = list_offset(&pages, addr, piece.len() as u64)?;
            copy(&pages, offset, piece).ok_or(MemError::Bounds)?;
        }
        Ok(())
    }

    /// Executes `op` on the 8 bytes at `addr` of `store`, the region's, with the checks of
    /// [`Self::read`]. Returns the value before. Errors also: as of [`atomic::execute`]. Context:
    /// any.
    pub(in crate::mem) fn atomic(
        &self,
        store: &Store,
        rights: Rights,
        addr: u64,
        op: AtomicOp,
    ) -> Result<u64, MemError> {
        let len = ATOMIC_LEN.into();
        match store {
            // A dma-buf may be mapped without a cache, where processors have no atomic accesses.
            Store::User { umem, .. } if umem.address().is_none() => Err(MemError::Access),
            Store::User { umem, .. } => {
                self.valid(rights.key, rights.need)?;
                atomic::execute(umem, store.bound(addr, len)?, op)
            }
            Store::Dma(memory) => {
                self.valid(rights.key, rights.need)?;
                atomic::execute(memory, addr, op)
            }
            Store::Local(_) => Err(MemError::Bounds),
            Store::Window(window) => window.atomic(self, rights, addr, op),
            Store::Fast(fast) => {
                let pages = fast.pages.lock();
                self.valid(rights.key, rights.need)?;
                atomic::execute(&*pages, list_offset(&pages, addr, len)?, op)
            }
        }
    }
}

/// Returns the offset in a page list of `len` bytes at `addr`, if they are inside.
fn list_offset(list: &PageList, addr: u64, len: u64) -> Result<u64, MemError> {
    offset_in(list.iova(), list.len(), addr, len)
}
