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

pub(crate) use region::{Region, Store};

use crate::wr::Status;
use iwarp::rx::Refusal;
use kernel::prelude::*;

/// Rights of a region: `enum ib_access_flags`, as far as iWARP knows them. Reading locally is
/// always allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    pub(crate) const LOCAL_READ: Access = Access(0);
    pub(crate) const LOCAL_WRITE: Access = Access(1);
    pub(crate) const REMOTE_WRITE: Access = Access(2);
    pub(crate) const REMOTE_READ: Access = Access(4);
    const ALL: u32 = 7;

    /// From verbs flags; what iWARP does not know (relaxed ordering, huge pages and so on) is a
    /// hint and dropped.
    pub(crate) fn from_verbs(flags: u32) -> Self {
        Self(flags & Self::ALL)
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
    /// The completion status when a local request named the memory.
    pub(crate) fn status(self) -> Status {
        match self {
            MemError::Access => Status::LocAccess,
            _ => Status::LocProt,
        }
    }

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
