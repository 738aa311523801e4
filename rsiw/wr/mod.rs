// SPDX-License-Identifier: GPL-2.0

//! Work requests and completions in the driver's own, checked form.
//!
//! A request comes from a kernel consumer's post verb, or is a copy of an element of a mapped send
//! queue; then a process has written all its values, and [`SendWr::check`] ([`check`]) checks them.
//! From here on all values are in range. Keys are looked up when the request starts.

mod check;
mod completion;

pub(crate) use completion::{Completion, Status, Told};

use crate::{
    abi::{opcode, sges_beyond, Sqe},
    mem::{Access, Binding, Region},
};
use iwarp::rdmap::AtomicOp;
use kernel::{prelude::*, sync::Arc};
use rdma::{LocalSge, Wqe};
use zerocopy::IntoBytes;

/// The operation of a send work request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOp {
    Write,
    Read,
    /// RDMA Read whose local STag is invalidated when the data has arrived (kernel consumers only).
    ReadLocalInv,
    Send,
    SendInv,
    /// A Send with immediate data, where the peer takes it.
    SendImm,
    /// A Write, and Immediate Data behind it.
    WriteImm,
    FetchAdd,
    CmpSwap,
    /// Writes 8 bytes at once, where the peer takes it (processes only).
    AtomicWrite,
    /// Waits until what was sent before is placed, where the peer takes it (processes only).
    Flush,
    /// Local invalidate.
    LocalInv,
    /// Fast registration (kernel consumers only).
    RegMr,
    /// Binds a memory window (processes only).
    BindMw,
}

impl SendOp {
    /// The operation code in the ABI.
    pub(crate) fn code(self) -> u8 {
        match self {
            SendOp::Write => opcode::WRITE,
            SendOp::Read => opcode::READ,
            SendOp::ReadLocalInv => opcode::READ_LOCAL_INV,
            SendOp::Send => opcode::SEND,
            SendOp::SendInv => opcode::SEND_REMOTE_INV,
            SendOp::SendImm => opcode::SEND_IMM,
            SendOp::WriteImm => opcode::WRITE_IMM,
            SendOp::FetchAdd => opcode::FETCH_ADD,
            SendOp::CmpSwap => opcode::CMP_SWAP,
            SendOp::AtomicWrite => opcode::ATOMIC_WRITE,
            SendOp::Flush => opcode::FLUSH,
            SendOp::LocalInv => opcode::INVAL_STAG,
            SendOp::RegMr => opcode::REG_MR,
            SendOp::BindMw => opcode::BIND_MW,
        }
    }

    /// Whether the request completes only when the peer has answered. It counts against the ORD
    /// then, and the answer goes to a single element.
    pub(crate) fn is_answered(self) -> bool {
        matches!(self, SendOp::Read | SendOp::ReadLocalInv) || self.is_atomic()
    }

    /// Whether it takes a receive of the peer.
    pub(crate) fn takes_receive(self) -> bool {
        matches!(
            self,
            SendOp::Send | SendOp::SendInv | SendOp::SendImm | SendOp::WriteImm
        )
    }

    /// Whether it sends nothing, and changes what an STag names.
    pub(crate) fn is_local(self) -> bool {
        matches!(self, SendOp::LocalInv | SendOp::RegMr | SendOp::BindMw)
    }

    /// Whether it is an Atomic Request on the wire.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(
            self,
            SendOp::FetchAdd | SendOp::CmpSwap | SendOp::AtomicWrite | SendOp::Flush
        )
    }
}

/// The fast registration that a `RegMr` request carries.
pub(crate) struct Registration {
    pub(crate) region: Arc<Region>,
    pub(crate) key: u32,
    pub(crate) access: Access,
    /// The address of the region's first byte.
    pub(crate) iova: u64,
}

/// What a request has beside its element and its list.
pub(crate) enum Extra {
    None,
    Registration(Registration),
    Binding(Binding),
    Immediate([u8; 4]),
    Atomic(AtomicOp),
}

/// One send work request. Its total length fits `u32`.
///
/// It is kept in the form in which a process writes it, so that it is copied out of the ring once
/// and checked in place.
pub(crate) struct SendWr {
    sqe: Wqe<Sqe>,
    pub(crate) op: SendOp,
    pub(crate) signalled: bool,
    pub(crate) solicited: bool,
    /// The request waits until all RDMA Reads before it have completed.
    pub(crate) fence: bool,
    /// The payload is in the request: `sge[0].length` bytes from `sge[1]` on.
    pub(crate) inline: bool,
    /// Elements of the list, including those that have no room here.
    num_sge: u8,
    /// Bytes of payload.
    pub(crate) len: u32,
    pub(crate) extra: Extra,
}

/// The sum of `lengths`, if a message can have so many bytes: at most 2^32 - 1.
fn total(mut lengths: impl Iterator<Item = u32>) -> Option<u32> {
    lengths.try_fold(0u32, u32::checked_add)
}

impl SendWr {
    /// Makes a request without payload.
    pub(crate) fn new(id: u64, op: SendOp, rkey: u32, raddr: u64) -> Self {
        Self {
            sqe: Wqe::new(Sqe {
                id,
                rkey,
                raddr,
                opcode: op.code(),
                ..Default::default()
            }),
            op,
            signalled: false,
            solicited: false,
            fence: false,
            inline: false,
            num_sge: 0,
            len: 0,
            extra: Extra::None,
        }
    }

    /// The consumer's identifier of the request.
    pub(crate) fn id(&self) -> u64 {
        self.sqe.id
    }

    /// The operation code as the consumer wrote it, even if it is not valid.
    pub(crate) fn opcode(&self) -> u8 {
        self.sqe.opcode
    }

    /// Remote STag, or the STag to invalidate.
    pub(crate) fn rkey(&self) -> u32 {
        self.sqe.rkey
    }

    /// Remote address.
    pub(crate) fn raddr(&self) -> u64 {
        self.sqe.raddr
    }

    /// The room for the copy of an element that a process wrote. [`Self::check`] must follow.
    pub(crate) fn element(&mut self) -> &mut Wqe<Sqe> {
        &mut self.sqe
    }

    /// Sets the request's gather list (for a Read, scatter list). Keeps the elements that have
    /// room, and returns the others.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are too many elements, or more bytes than a message can have.
    pub(crate) fn set_sges<'a>(&mut self, sges: &'a [rdma::Sge]) -> Result<&'a [rdma::Sge]> {
        self.num_sge = u8::try_from(sges.len()).map_err(|_| EINVAL)?;
        self.len = total(sges.iter().map(rdma::Sge::length)).ok_or(EINVAL)?;
        Ok(self.sqe.set_sges(sges))
    }

    /// Appends `data` to the request's inline payload.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the payload exceeds [`MAX_INLINE`](crate::abi::MAX_INLINE).
    pub(crate) fn push_inline(&mut self, data: &[u8]) -> Result {
        let at = self.len as usize;
        let end = at.checked_add(data.len()).ok_or(EINVAL)?;
        self.sqe.as_numbers().sge[1..]
            .as_mut_bytes()
            .get_mut(at..end)
            .ok_or(EINVAL)?
            .copy_from_slice(data);
        self.inline = true;
        self.num_sge = 1;
        self.len = end as u32;
        Ok(())
    }

    /// The elements of the gather or scatter list that have room here; none for an inline request.
    pub(crate) fn sges(&self) -> impl Iterator<Item = LocalSge> + '_ {
        let n = if self.inline { 0 } else { self.num_sge };
        self.sqe.sges(n)
    }

    /// The only element of the list, if it has one; none for an inline request.
    #[inline]
    pub(crate) fn only_sge(&self) -> Option<LocalSge> {
        match self.num_sge {
            1 => self.sges().next(),
            _ => None,
        }
    }

    /// The number of elements that have no room here.
    pub(crate) fn more_sges(&self) -> usize {
        sges_beyond(self.num_sge.into())
    }

    /// The inline payload.
    pub(crate) fn inline_data(&self) -> &[u8] {
        self.sqe.sge[1..]
            .as_bytes()
            .get(..self.len as usize)
            .unwrap_or(&[])
    }
}
