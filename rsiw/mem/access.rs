// SPDX-License-Identifier: GPL-2.0

//! Rights to memory, and the reasons why it cannot be accessed.

use iwarp::{rx::Refusal, TermCode};
use kernel::prelude::*;

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
    /// Windows may be bound to the region.
    pub(crate) const MW_BIND: Access = Access(16);
    /// The peer may flush what it has written. A region has it for processes only.
    pub(crate) const FLUSH: Access = Access(256);
    /// A right that no region grants.
    pub(crate) const NEVER: Access = Access(1 << 30);
    /// What a consumer can ask for, of a region or of a queue pair.
    const RIGHTS: u32 = 15;
    /// What a region can have.
    const ALL: u32 = Self::RIGHTS | Self::MW_BIND.0 | Self::FLUSH.0;

    /// Converts verbs flags. Hints (relaxed ordering, huge pages) have no effect.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for other flags, whose effect the consumer would rely on.
    pub(crate) fn from_verbs(flags: rdma::Access) -> Result<Self> {
        use rdma::Access as Verbs;
        let hints = Verbs::HUGETLB | Verbs::OPTIONAL;
        let known = Verbs::from_bits(Self::RIGHTS) | hints;
        if flags.exceeds(known) {
            return Err(rdma::errno::unsupported());
        }
        Ok(Self::of_state(flags.bits()))
    }

    /// As [`Self::from_verbs`], for a process' region, which may also have the rights of `more`.
    pub(crate) fn of_region(flags: rdma::Access, more: rdma::Access) -> Result<Self> {
        let access = Self::from_verbs(flags.without(more))?;
        Ok(access.or(Self(flags.bits() & more.bits() & Self::ALL)))
    }

    /// As [`Self::from_verbs`], for a queue pair whose program says so itself.
    pub(crate) fn of_queue_pair(flags: rdma::Access) -> Result<Self> {
        Self::of_region(flags, rdma::Access::FLUSH_GLOBAL)
    }

    /// The rights of a window that a process binds, by verbs flags. `None` for those that a window
    /// cannot have; the one to write locally has no effect.
    pub(crate) fn of_window(bits: u32) -> Option<Self> {
        let known = Self::REMOTE.or(Self::LOCAL_WRITE);
        (bits & !known.0 == 0).then_some(Self(bits).and(Self::REMOTE))
    }

    /// Converts the bits that [`Self::bits`] returns; other bits are ignored.
    pub(super) fn of_state(bits: u32) -> Self {
        Self(bits & Self::ALL)
    }

    /// Whether a peer has any right.
    pub(crate) fn is_remote(self) -> bool {
        self.0 & (Self::REMOTE.0 | Self::FLUSH.0) != 0
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

/// Who uses memory, and by what.
#[derive(Clone, Copy)]
pub(crate) struct Rights {
    /// The STag.
    pub(crate) key: u32,
    /// The right that it has to grant.
    pub(crate) need: Access,
    /// The number of the QP whose peer has named the memory; 0 for requests and receives of its own
    /// consumer, which no window is for.
    pub(crate) qpn: u32,
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
            MemError::Busy => TermCode::OPERATION_UNSPECIFIED,
        }
    }
}

impl From<MemError> for Error {
    fn from(_: MemError) -> Error {
        EFAULT
    }
}
