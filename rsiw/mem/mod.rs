// SPDX-License-Identifier: GPL-2.0

//! Memory that an STag or lkey names, and copies into it and out of it.
//!
//! - [`region`]: one registered region: rights, validity, bounds, and its bytes.
//! - [`resolved`]: a region that a key was resolved to, and copies.
//! - [`atomic`]: atomic operations.
//! - [`gather`]: the source of a message that tx sends.
//! - [`scatter`]: the sink of a message that rx places.
//! - [`status`]: what tools show of a region.
//!
//! A key is looked up once for each work request or message. The bounds of each segment and the
//! validity of the region are checked before the segment's first byte is copied.

mod atomic;
pub(crate) mod gather;
pub(crate) mod region;
mod resolved;
pub(crate) mod scatter;
mod status;

pub(crate) use region::{Region, Store};
pub(crate) use resolved::{HeldAccess, ResolvedMr};

use crate::pd::PdId;
use iwarp::{rx::Refusal, TermCode};
use kernel::{prelude::*, sync::Arc};
use kext::IdTable;

/// Rights of a region: those of `enum ib_access_flags` that iWARP knows. Reading locally is always
/// allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    pub(crate) const LOCAL_READ: Access = Access(0);
    pub(crate) const LOCAL_WRITE: Access = Access(1);
    pub(crate) const REMOTE_WRITE: Access = Access(2);
    pub(crate) const REMOTE_READ: Access = Access(4);
    pub(crate) const REMOTE_ATOMIC: Access = Access(8);
    /// The rights that the RDMA CM knows.
    pub(crate) const READ_WRITE: Access = Access(Self::REMOTE_WRITE.0 | Self::REMOTE_READ.0);
    /// All rights that a peer can have.
    pub(crate) const REMOTE: Access = Access(Self::READ_WRITE.0 | Self::REMOTE_ATOMIC.0);
    /// A right that no region grants.
    pub(crate) const NEVER: Access = Access(1 << 30);
    const ALL: u32 = 15;

    /// Converts verbs flags. Hints (relaxed ordering, huge pages) have no effect.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for other flags, whose effect the consumer would rely on.
    pub(crate) fn from_verbs(flags: rdma::Access) -> Result<Self> {
        use rdma::Access as Verbs;
        let hints = Verbs::HUGETLB | Verbs::OPTIONAL;
        let known = Verbs::from_bits(Self::ALL) | hints;
        if flags.exceeds(known) {
            return Err(rdma::errno::unsupported());
        }
        Ok(Self::of_state(flags.bits()))
    }

    /// Converts the bits that [`Self::bits`] returns; other bits are ignored.
    fn of_state(bits: u32) -> Self {
        Self(bits & Self::ALL)
    }

    /// Whether a peer has any right.
    pub(crate) fn is_remote(self) -> bool {
        self.0 & Self::REMOTE.0 != 0
    }

    /// The rights that both grant.
    pub(crate) fn and(self, other: Access) -> Access {
        Self(self.0 & other.0)
    }

    /// The rights that one of them grants.
    pub(crate) fn or(self, other: Access) -> Access {
        Self(self.0 | other.0)
    }

    /// Returns `right` if it is granted, else [`Self::NEVER`], a right that no region grants. The
    /// caller has a region checked for the result: that check then fails for what `self` denies.
    pub(crate) fn admit(self, right: Access) -> Access {
        if self.allows(right) {
            right
        } else {
            Self::NEVER
        }
    }

    /// The verbs flags.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Whether all rights in `need` are granted.
    pub(crate) fn allows(self, need: Access) -> bool {
        self.0 & need.0 == need.0
    }
}

/// The reason why memory cannot be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemError {
    /// No region has this key, or its STag is not valid, or not any more.
    Invalid,
    /// The region belongs to another protection domain.
    Domain,
    /// The region does not grant the right.
    Access,
    /// The range is not inside the region.
    Bounds,
    /// The end of the range exceeds 64 bits.
    Wrap,
    /// The target of an atomic operation is not aligned.
    Misaligned,
    /// Local processors do not leave the target of an atomic operation alone.
    Busy,
}

impl MemError {
    /// The protocol's error for a peer that named the memory.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            MemError::Invalid => Refusal::InvalidStag,
            MemError::Domain => Refusal::NotAssociated,
            MemError::Access => Refusal::Access,
            MemError::Bounds => Refusal::Bounds,
            MemError::Wrap => Refusal::Wrap,
            MemError::Misaligned => Refusal::Misaligned,
            MemError::Busy => Refusal::Local,
        }
    }
}

impl MemError {
    /// The error of a Terminate for a request of the peer, whose memory was there when the request
    /// arrived.
    pub(crate) fn code(self) -> TermCode {
        match self {
            MemError::Invalid => TermCode::READ_INVALID_STAG,
            MemError::Domain => TermCode::READ_NOT_ASSOCIATED,
            MemError::Access => TermCode::READ_ACCESS,
            MemError::Bounds => TermCode::READ_BOUNDS,
            MemError::Wrap => TermCode::READ_TO_WRAP,
            MemError::Misaligned => TermCode::CATASTROPHIC_STREAM,
            MemError::Busy => TermCode::LOCAL_CATASTROPHIC,
        }
    }
}

impl From<MemError> for Error {
    fn from(_: MemError) -> Error {
        EFAULT
    }
}

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

    /// Resolves `key`: returns its region if a QP in the domain `pd` may use `len` bytes at `addr`
    /// for `need`. Context: any.
    pub(crate) fn get(
        &self,
        key: u32,
        pd: PdId,
        addr: u64,
        len: u32,
        need: Access,
    ) -> Result<ResolvedMr, MemError> {
        let region = self.0.get(key >> 8).ok_or(MemError::Invalid)?;
        ResolvedMr::new(region, key, pd, addr, len, need)
    }

    /// As [`Self::get`], but first tries the region in `cached`, and leaves the result there: most
    /// messages use the region of the message before. The region in `cached` may have been
    /// deregistered and its STag given to another one; then `key` is looked up anew. Context: any.
    pub(crate) fn resolve_cached<'a>(
        &self,
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
            *cached = Some(self.get(key, pd, range.0, range.1, need)?);
        }
        cached.as_ref().ok_or(MemError::Invalid)
    }
}
