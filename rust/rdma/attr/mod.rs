// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices and objects as plain Rust values, converted from and to C in one place
//! each: [`device`] for devices and ports, [`qp`] for queue pairs, [`path`] for their ways to a
//! peer, the small ones here.

pub mod device;
pub mod path;
pub mod qp;
pub mod qp_state;

use rdma_bindings as bindings;

/// Access rights to memory (`enum ib_access_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(u32);

impl Access {
    /// The device may write for local requests.
    pub const LOCAL_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
    /// A peer may write.
    pub const REMOTE_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE);
    /// A peer may read.
    pub const REMOTE_READ: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_READ);
    /// A peer may use atomics.
    pub const REMOTE_ATOMIC: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);
    /// Memory windows may be bound.
    pub const MW_BIND: Self = Self(bindings::ib_access_flags_IB_ACCESS_MW_BIND);
    /// Addresses begin at 0.
    pub const ZERO_BASED: Self = Self(bindings::ib_access_flags_IB_ZERO_BASED);
    /// Paged on demand.
    pub const ON_DEMAND: Self = Self(bindings::ib_access_flags_IB_ACCESS_ON_DEMAND);
    /// A peer may flush what it has written, so that all processors see it.
    pub const FLUSH_GLOBAL: Self = Self(bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL);
    /// Hint: the memory is made of huge pages.
    pub const HUGETLB: Self = Self(bindings::ib_access_flags_IB_ACCESS_HUGETLB);
    /// Hint: accesses need no order.
    pub const RELAXED_ORDERING: Self = Self(bindings::ib_access_flags_IB_ACCESS_RELAXED_ORDERING);

    /// All flags that a device may ignore, also those that have no name yet (`IB_ACCESS_OPTIONAL`).
    pub const OPTIONAL: Self = Self(0x3ff0_0000);

    /// Makes it from the C flags.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The C flags.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all rights of `other` are there.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is any flag that `known` does not have.
    pub const fn exceeds(self, known: Self) -> bool {
        self.0 & !known.0 != 0
    }

    /// All but the flags of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether memory must be pinned for writing (`ib_access_writable()`).
    pub const fn is_writable(self) -> bool {
        let writing =
            Self::LOCAL_WRITE.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0 | Self::MW_BIND.0;
        self.0 & writing != 0
    }
}

impl core::ops::BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The attributes that a completion queue is created with.
#[derive(Clone, Copy, Debug)]
pub struct CqAttr {
    /// The least number of entries; not 0.
    pub entries: u32,
    /// The completion vector, less than the device's number of vectors.
    pub comp_vector: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub flags: u32,
}

impl CqAttr {
    pub(crate) fn from_c(attr: &bindings::ib_cq_init_attr) -> Self {
        Self {
            entries: attr.cqe,
            comp_vector: attr.comp_vector,
            flags: attr.flags,
        }
    }
}

/// Attributes of a shared receive queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct SrqAttr {
    /// Work requests that fit into the queue.
    pub max_wr: u32,
    /// Scatter elements of each request.
    pub max_sge: u32,
    /// The queue raises an event when it has fewer requests than this; 0: never.
    pub limit: u32,
}

impl SrqAttr {
    pub(crate) fn from_c(attr: &bindings::ib_srq_attr) -> Self {
        Self {
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            limit: attr.srq_limit,
        }
    }

    pub(crate) fn store(&self, attr: &mut bindings::ib_srq_attr) {
        attr.max_wr = self.max_wr;
        attr.max_sge = self.max_sge;
        attr.srq_limit = self.limit;
    }
}

/// When the consumer of a completion queue wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arm {
    /// At the next completion that is solicited or in error.
    Solicited,
    /// At the next completion.
    Next,
}
