// SPDX-License-Identifier: GPL-2.0

//! Operations that a peer must refuse.

use iwarp::TermCode;

/// An operation that must end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// RDMA Write to an STag that does not exist.
    WriteStag,
    /// RDMA Write beyond the end of a region.
    WriteBounds,
    /// RDMA Write to a region without write access.
    WriteAccess,
    /// RDMA Read of an STag that does not exist.
    ReadStag,
    /// RDMA Read beyond the end of a region.
    ReadBounds,
    /// RDMA Read of a region without read access.
    ReadAccess,
    /// Send longer than the receive buffer.
    SendTooLong,
    /// Send without receive buffer.
    SendNoBuffer,
    /// Invalidation of an STag that must stay.
    Invalidate,
    /// Immediate Data without receive buffer.
    ImmediateNoBuffer,
    /// Atomic Operation on an STag that does not exist.
    AtomicStag,
    /// Atomic Operation beyond the end of a region.
    AtomicBounds,
    /// Atomic Operation on a region without that right.
    AtomicAccess,
    /// Atomic Operation on a value that is not aligned.
    AtomicMisaligned,
}

impl Bad {
    pub(super) const ALL: [(Self, TermCode); 14] = [
        (Self::WriteStag, TermCode::TAGGED_INVALID_STAG),
        (Self::WriteBounds, TermCode::TAGGED_BOUNDS),
        (Self::WriteAccess, TermCode::TAGGED_INVALID_STAG),
        (Self::ReadStag, TermCode::READ_INVALID_STAG),
        (Self::ReadBounds, TermCode::READ_BOUNDS),
        (Self::ReadAccess, TermCode::READ_ACCESS),
        (Self::SendTooLong, TermCode::MESSAGE_TOO_LONG),
        (Self::SendNoBuffer, TermCode::NO_BUFFER),
        (Self::Invalidate, TermCode::CANNOT_INVALIDATE),
        (Self::ImmediateNoBuffer, TermCode::NO_BUFFER),
        (Self::AtomicStag, TermCode::READ_INVALID_STAG),
        (Self::AtomicBounds, TermCode::READ_BOUNDS),
        (Self::AtomicAccess, TermCode::READ_ACCESS),
        (Self::AtomicMisaligned, TermCode::CATASTROPHIC_STREAM),
    ];
}
