// SPDX-License-Identifier: GPL-2.0

//! The table in which an STag is looked up.

use super::{Access, MemError, Region, ResolvedMr, Rights};
use crate::pd::PdId;
use kernel::{prelude::*, sync::Arc};
use kext::IdTable;

/// The regions of a device, by the indices in their STags.
pub(crate) struct Regions(IdTable<Region>);

impl Regions {
    /// An empty table. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // An STag has 24 bits of index and 8 bits of key. Index 0 names no region.
        IdTable::new(1, (1 << 24) - 1).map(Self)
    }

    /// The table, for entering and removing regions.
    pub(crate) fn table(&self) -> &IdTable<Region> {
        &self.0
    }

    /// The region whose STag is `key`, valid or not. Context: any.
    pub(crate) fn find(&self, key: u32) -> Option<Arc<Region>> {
        self.0.get(key >> 8).filter(|r| r.stag() == key)
    }

    /// Resolves a key: returns its region if a QP in the domain `pd` may use `len` bytes at `addr`
    /// by `rights`. Context: any.
    pub(crate) fn get(
        &self,
        rights: Rights,
        pd: PdId,
        addr: u64,
        len: u32,
    ) -> Result<ResolvedMr, MemError> {
        let region = self.0.get(rights.key >> 8).ok_or(MemError::Invalid)?;
        ResolvedMr::new(region, rights, pd, addr, len)
    }

    /// As [`Self::get`] for the QP's own consumer, but first tries the region in `cached`, and
    /// leaves the result there: most messages use the region of the message before. The region in
    /// `cached` may have been deregistered and its STag given to another one; then `key` is looked
    /// up anew. Context: any.
    pub(crate) fn resolve_cached<'a>(
        &self,
        cached: &'a mut Option<ResolvedMr>,
        key: u32,
        pd: PdId,
        range: (u64, u32),
        need: Access,
    ) -> Result<&'a ResolvedMr, MemError> {
        self.resolve_cached_for(|| 0, cached, key, pd, range, need)
    }

    /// As [`Self::resolve_cached`], for the peer of the QP whose number is `qpn`. `cached` is that
    /// QP's, and for its peer only.
    pub(crate) fn resolve_cached_for<'a>(
        &self,
        qpn: impl FnOnce() -> u32,
        cached: &'a mut Option<ResolvedMr>,
        key: u32,
        pd: PdId,
        range: (u64, u32),
        need: Access,
    ) -> Result<&'a ResolvedMr, MemError> {
        let same = cached
            .as_ref()
            .is_some_and(|mr| mr.covers(key, pd, range, need));
        if !same {
            let rights = Rights {
                key,
                need,
                qpn: qpn(),
            };
            *cached = Some(self.get(rights, pd, range.0, range.1)?);
        }
        cached.as_ref().ok_or(MemError::Invalid)
    }
}
