// SPDX-License-Identifier: GPL-2.0

//! Memory: what an STag or lkey names, and moving bytes in and out of it.
//!
//! - [`region`]: one registered region: rights, validity, bounds, the bytes behind it.
//! - [`gather`]: the source of a message that tx sends.
//! - [`scatter`]: the sink of a message that rx places.
//!
//! A key is looked up once per work request or message; each segment's bounds and the region's
//! validity are checked before its first byte moves.

pub(crate) mod gather;
pub(crate) mod region;
pub(crate) mod scatter;

pub(crate) use region::{Region, ResolvedMr, Store};

use crate::pd::PdId;
use iwarp::rx::Refusal;
use kernel::{prelude::*, sync::Arc};
use kext::IdTable;

/// Rights of a region: `enum ib_access_flags`, as far as iWARP knows them. Reading locally is
/// always allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    pub(crate) const LOCAL_READ: Access = Access(0);
    pub(crate) const LOCAL_WRITE: Access = Access(1);
    pub(crate) const REMOTE_WRITE: Access = Access(2);
    pub(crate) const REMOTE_READ: Access = Access(4);
    /// Both rights that a peer can have.
    pub(crate) const REMOTE: Access = Access(Self::REMOTE_WRITE.0 | Self::REMOTE_READ.0);
    /// What no region grants.
    pub(crate) const NEVER: Access = Access(8);
    const ALL: u32 = 7;

    /// From verbs flags. Hints (relaxed ordering, huge pages) have no effect. Nor has the right to
    /// atomics, which the flag gives "if supported": no operation asks for it. Programs that do not
    /// look first give it (libfabric, qperf).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for other flags: the consumer would rely on what they do.
    pub(crate) fn from_verbs(flags: rdma::Access) -> Result<Self> {
        use rdma::Access as Verbs;
        let hints = Verbs::HUGETLB | Verbs::OPTIONAL;
        let known = Verbs::from_bits(Self::ALL) | Verbs::REMOTE_ATOMIC | hints;
        if flags.exceeds(known) {
            return Err(rdma::errno::unsupported());
        }
        Ok(Self::of_state(flags.bits()))
    }

    /// From bits as [`Self::bits`] gives them; others do not count.
    fn of_state(bits: u32) -> Self {
        Self(bits & Self::ALL)
    }

    /// Whether a peer has any right.
    pub(crate) fn is_remote(self) -> bool {
        self.0 & Self::REMOTE.0 != 0
    }

    /// What both grant.
    pub(crate) fn and(self, other: Access) -> Access {
        Self(self.0 & other.0)
    }

    /// `right`, if that is granted, and otherwise one that no region grants: what to ask of a
    /// region for who is limited to this.
    pub(crate) fn admit(self, right: Access) -> Access {
        match self.allows(right) {
            true => right,
            false => Self::NEVER,
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

/// Why memory cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemError {
    /// No region has this key, or it is not valid (any more).
    Invalid,
    /// The region belongs to another protection domain.
    Domain,
    /// The region does not grant the right.
    Access,
    /// Outside of the region.
    Bounds,
    /// The address wraps.
    Wrap,
}

impl MemError {
    /// What the protocol tells a peer who named it.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            MemError::Invalid => Refusal::InvalidStag,
            MemError::Domain => Refusal::NotAssociated,
            MemError::Access => Refusal::Access,
            MemError::Bounds => Refusal::Bounds,
            MemError::Wrap => Refusal::Wrap,
        }
    }
}

impl From<MemError> for Error {
    fn from(_: MemError) -> Error {
        EFAULT
    }
}

/// The regions of a device, by the index in their STag.
pub(crate) struct Regions(IdTable<Region>);

impl Regions {
    /// No region. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // An STag has 24 bits of index and 8 of key; index 0 names nothing.
        IdTable::new(1, (1 << 24) - 1).map(Self)
    }

    /// The table, to enter regions and to take them out.
    pub(crate) fn table(&self) -> &IdTable<Region> {
        &self.0
    }

    /// The region whose STag is `key`, valid or not. Context: any.
    pub(crate) fn find(&self, key: u32) -> Option<Arc<Region>> {
        self.0.get(key >> 8).filter(|r| r.stag() == key)
    }

    /// The region that `key` names, if `len` bytes at `addr` may be used for `need` by a QP in
    /// domain `pd`. Context: any.
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

    /// As [`Self::get`], to a place that keeps what it has if that will do: most messages use the
    /// region of the one before. If it does not do, that may be because the region is gone and
    /// another one has the STag. Context: any.
    pub(crate) fn resolve_cached<'a>(
        &self,
        place: &'a mut Option<ResolvedMr>,
        key: u32,
        pd: PdId,
        range: (u64, u32),
        need: Access,
    ) -> Result<&'a ResolvedMr, MemError> {
        let same = place
            .as_ref()
            .is_some_and(|g| g.covers(key, pd, range, need));
        if !same {
            *place = Some(self.get(key, pd, range.0, range.1, need)?);
        }
        place.as_ref().ok_or(MemError::Invalid)
    }
}
