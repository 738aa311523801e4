// SPDX-License-Identifier: GPL-2.0

//! Work requests and completions in the driver's own, checked form.
//!
//! A request comes from a kernel consumer's post verb, or is a copy of an element of a mapped send
//! queue; then a process has written all its values, and [`SendWr::check`] checks them. From here
//! on all values are in range. Keys are looked up when the request starts.

use crate::{
    abi::{self, opcode, sges_beyond, wqe_flags, Sqe, ATOMIC_SGE, IMM_SGE, MAX_INLINE},
    mem::{Access, Binding, MemError, Region},
};
use iwarp::rdmap::{AtomicOp, ATOMIC_LEN};
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

    /// Whether it is an Atomic Operation.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, SendOp::FetchAdd | SendOp::CmpSwap)
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

/// A process' atomic operation, which has no masks: what is added, or compared with `first` and
/// replaced by `second`.
fn atomic(op: SendOp, first: u64, second: u64) -> Extra {
    Extra::Atomic(match op {
        SendOp::FetchAdd => AtomicOp::FetchAdd {
            add: first,
            mask: 0,
        },
        _ => AtomicOp::CmpSwap {
            compare: first,
            compare_mask: u64::MAX,
            swap: second,
            swap_mask: u64::MAX,
        },
    })
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

    /// Checks the element that a process wrote.
    ///
    /// `max_sge` is the limit that the QP was created with. Operations for kernel consumers only
    /// are refused, and if not `extended`, so are those that the library of siw does not know. A
    /// refused element completes in error with the returned status.
    pub(crate) fn check(
        &mut self,
        max_sge: u32,
        signal_all: bool,
        extended: bool,
    ) -> Result<(), Status> {
        let op = match self.sqe.opcode {
            opcode::WRITE => SendOp::Write,
            opcode::READ => SendOp::Read,
            opcode::SEND => SendOp::Send,
            opcode::SEND_REMOTE_INV => SendOp::SendInv,
            _ if extended => return self.check_extended(max_sge, signal_all),
            _ => return Err(Status::QpOp),
        };
        self.accept(op, max_sge, signal_all)
    }

    /// As [`Self::check`], for the operations that the library of siw does not know.
    #[cold]
    fn check_extended(&mut self, max_sge: u32, signal_all: bool) -> Result<(), Status> {
        let sqe = &self.sqe;
        let op = match sqe.opcode {
            opcode::SEND_IMM => SendOp::SendImm,
            opcode::WRITE_IMM => SendOp::WriteImm,
            opcode::FETCH_ADD => SendOp::FetchAdd,
            opcode::CMP_SWAP => SendOp::CmpSwap,
            opcode::INVAL_STAG | opcode::BIND_MW => return self.check_window(max_sge, signal_all),
            _ => return Err(Status::QpOp),
        };
        let (most, extra) = match op {
            // The immediate data have the place of the last element, or, with inline data, that of
            // the first one's key.
            SendOp::WriteImm => {
                let inline = sqe.flags & wqe_flags::INLINE != 0;
                let sge = if inline {
                    &sqe.sge[0]
                } else {
                    &sqe.sge[IMM_SGE]
                };
                (
                    max_sge.min(IMM_SGE as u32),
                    Extra::Immediate(sge.lkey.to_ne_bytes()),
                )
            }
            // CAST: The data are the lower half.
            SendOp::SendImm => (max_sge, Extra::Immediate((sqe.raddr as u32).to_ne_bytes())),
            _ => {
                // The operands are in the list, too.
                if sqe.num_sge != ATOMIC_SGE || sqe.sge[0].length != ATOMIC_LEN {
                    return Err(Status::LocLen);
                }
                let (first, second) = (sqe.sge[1].addr, sqe.sge[2].addr);
                self.sqe.as_numbers().num_sge = 1;
                (1, atomic(op, first, second))
            }
        };
        self.extra = extra;
        self.accept(op, most, signal_all)
    }

    /// As [`Self::check`], for the operations on memory windows, which send nothing.
    fn check_window(&mut self, max_sge: u32, signal_all: bool) -> Result<(), Status> {
        let sqe = &self.sqe;
        if sqe.flags & wqe_flags::INLINE != 0 {
            return Err(Status::LocLen);
        }
        let op = if sqe.opcode == opcode::INVAL_STAG {
            SendOp::LocalInv
        } else {
            if sqe.num_sge != 1 {
                return Err(Status::LocLen);
            }
            let (first, region) = (sqe.raddr, sqe.sge[0]);
            self.extra = Extra::Binding(Binding {
                key: region.lkey,
                first,
                len: region.addr,
                access: Access::of_window(region.length).ok_or(Status::MemOp)?,
            });
            SendOp::BindMw
        };
        // What is left has no payload.
        self.sqe.as_numbers().num_sge = 0;
        self.accept(op, max_sge, signal_all)
    }

    /// The rest of [`Self::check`], for an operation whose requests have up to `max_sge` elements.
    #[inline]
    fn accept(&mut self, op: SendOp, max_sge: u32, signal_all: bool) -> Result<(), Status> {
        let sqe = &self.sqe;
        let flags = sqe.flags;
        let has = |bit| flags & bit != 0;
        let inline = has(wqe_flags::INLINE);
        let (num_sge, len) = if inline {
            if op.is_answered() || sqe.sge[0].length > MAX_INLINE {
                return Err(Status::LocLen);
            }
            (1, sqe.sge[0].length)
        } else {
            if u32::from(sqe.num_sge) > max_sge {
                return Err(Status::QpOp);
            }
            let sges = sqe
                .sge
                .get(..usize::from(sqe.num_sge))
                .ok_or(Status::QpOp)?;
            let len = total(sges.iter().map(|s| s.length));
            (sqe.num_sge, len.ok_or(Status::LocLen)?)
        };
        // The sink of an answer is one STag and one offset on the wire.
        if op.is_answered() && num_sge > 1 {
            return Err(Status::QpOp);
        }
        self.op = op;
        self.signalled = signal_all || has(wqe_flags::SIGNALLED);
        self.solicited = has(wqe_flags::SOLICITED);
        self.fence = has(wqe_flags::READ_FENCE);
        self.inline = inline;
        self.num_sge = num_sge;
        self.len = len;
        Ok(())
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
    /// `EINVAL` if the payload exceeds [`MAX_INLINE`].
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

/// Completion status. The values are those of the ABI's `enum siw_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Status {
    Success = 0,
    LocLen = 1,
    LocProt = 2,
    QpOp = 3,
    Flush = 4,
    LocAccess = 6,
    RemAccess = 7,
    /// The peer does not know the request, or its target is not aligned.
    RemInvReq = 8,
    General = 9,
    /// The registration, or the binding of a window, is not possible. siw has no such status, as
    /// its processes have neither.
    MemOp = 10,
}

impl From<MemError> for Status {
    /// The status of a request that names memory which it may not use.
    fn from(e: MemError) -> Self {
        match e {
            MemError::Access => Status::LocAccess,
            _ => Status::LocProt,
        }
    }
}

/// What a receive tells beside its length, in the form in which a process is told.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) value: u32,
    /// What that is, a flag of `abi::Cqe`, or 0: nothing.
    pub(crate) flag: u8,
}

impl Told {
    pub(crate) const NOTHING: Self = Self { value: 0, flag: 0 };

    /// The local STag that the peer's Send with Invalidate has invalidated.
    pub(crate) fn invalidated(stag: u32) -> Self {
        Self {
            value: stag,
            flag: abi::CQE_INVALIDATED,
        }
    }

    /// Immediate data, as they were sent.
    pub(crate) fn immediate(data: [u8; 4]) -> Self {
        Self {
            value: u32::from_ne_bytes(data),
            flag: abi::CQE_IMMEDIATE,
        }
    }
}

/// One work completion on its way to a CQ.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) id: u64,
    /// An `abi::opcode` value.
    pub(crate) opcode: u8,
    pub(crate) status: Status,
    pub(crate) bytes: u32,
    pub(crate) told: Told,
    pub(crate) solicited: bool,
}

impl Completion {
    /// The completion of a receive.
    pub(crate) fn recv(id: u64, status: Status, bytes: u32) -> Self {
        Self {
            id,
            opcode: abi::opcode::RECEIVE,
            status,
            bytes,
            told: Told::NOTHING,
            solicited: false,
        }
    }
}

#[kunit_tests(rsiw_wr)]
mod tests {
    use super::*;
    use crate::abi::MAX_SGE;

    /// Checks an element as a process writes it, with `num_sge` elements of `length` octets.
    fn checked(
        opcode: u8,
        flags: u16,
        num_sge: u8,
        length: u32,
        max_sge: u32,
    ) -> Result<SendWr, Status> {
        let mut wr = SendWr::new(0, SendOp::Send, 0, 0);
        let sqe = wr.element().as_numbers();
        (sqe.opcode, sqe.flags, sqe.num_sge) = (opcode, flags, num_sge);
        for sge in &mut sqe.sge {
            sge.length = length;
        }
        wr.check(max_sge, false, false).map(|()| wr)
    }

    fn refused(result: Result<SendWr, Status>, status: Status) -> bool {
        result.err() == Some(status)
    }

    /// A request to bind has one element, and rights of peers only; none has inline data.
    #[test]
    fn requests_on_windows_are_checked() {
        let check = |opcode, flags, num_sge, access, extended| {
            let mut wr = SendWr::new(0, SendOp::Send, 9, 0);
            let sqe = wr.element().as_numbers();
            (sqe.opcode, sqe.flags, sqe.num_sge, sqe.raddr) = (opcode, flags, num_sge, 5);
            (sqe.sge[0].addr, sqe.sge[0].length, sqe.sge[0].lkey) = (6, access, 7);
            wr.check(6, false, extended).map(|()| wr)
        };
        let rights = Access::REMOTE.bits();
        for code in [opcode::BIND_MW, opcode::INVAL_STAG] {
            assert!(refused(check(code, 0, 1, rights, false), Status::QpOp));
            let inline = wqe_flags::INLINE;
            assert!(refused(
                check(code, inline, 1, rights, true),
                Status::LocLen
            ));
        }
        for access in [rights, 0, rights | Access::LOCAL_WRITE.bits()] {
            let granted = Access::of_window(access & rights);
            assert!(check(opcode::BIND_MW, 0, 1, access, true).is_ok_and(|wr| {
                let is = |b: &Binding| (b.key, b.first, b.len) == (7, 5, 6);
                wr.len == 0
                    && wr.sges().count() == 0
                    && matches!(&wr.extra, Extra::Binding(b) if is(b) && Some(b.access) == granted)
            }));
        }
        for num_sge in [0, 2, u8::MAX] {
            let wr = check(opcode::BIND_MW, 0, num_sge, rights, true);
            assert!(refused(wr, Status::LocLen));
        }
        for access in [16, 32, 1 << 31, rights | 64] {
            assert!(refused(
                check(opcode::BIND_MW, 0, 1, access, true),
                Status::MemOp
            ));
        }
        let wr = check(opcode::INVAL_STAG, 0, u8::MAX, rights, true);
        assert!(wr.is_ok_and(|wr| wr.op == SendOp::LocalInv && wr.rkey() == 9 && wr.len == 0));
    }

    /// What the library of siw does not know needs a provider that does, and has a form.
    #[test]
    fn extended_requests_are_checked() {
        let check = |opcode, flags, num_sge, length, extended| {
            let mut wr = SendWr::new(0, SendOp::Send, 0, 0);
            let sqe = wr.element().as_numbers();
            (sqe.opcode, sqe.flags, sqe.num_sge) = (opcode, flags, num_sge);
            (sqe.raddr, sqe.sge[0].lkey, sqe.sge[5].lkey) = (0x1_0000_0007, 9, 8);
            (sqe.sge[0].length, sqe.sge[1].addr, sqe.sge[2].addr) = (length, 5, 6);
            wr.check(6, false, extended).map(|()| wr)
        };
        let inline = wqe_flags::INLINE;
        let most = MAX_INLINE;
        for (code, flags, num_sge, length, data) in [
            (opcode::SEND_IMM, 0, 5, 8, 7),
            (opcode::SEND_IMM, inline, 1, most, 7),
            (opcode::WRITE_IMM, 0, 5, 8, 8),
            (opcode::WRITE_IMM, inline, 1, most, 9u32),
        ] {
            assert!(refused(
                check(code, flags, num_sge, length, false),
                Status::QpOp
            ));
            assert!(
                check(code, flags, num_sge, length, true).is_ok_and(|wr| matches!(
                    wr.extra,
                    Extra::Immediate(d) if d == data.to_ne_bytes()
                ))
            );
            let wr = check(code, inline, 1, most + 1, true);
            assert!(refused(wr, Status::LocLen));
        }
        assert!(check(opcode::SEND_IMM, 0, 6, 8, true).is_ok());
        assert!(refused(
            check(opcode::WRITE_IMM, 0, 6, 8, true),
            Status::QpOp
        ));
        for code in [opcode::FETCH_ADD, opcode::CMP_SWAP] {
            assert!(refused(check(code, 0, 3, 8, false), Status::QpOp));
            for (num_sge, length) in [(1, 8), (2, 8), (4, 8), (u8::MAX, 8), (3, 7), (3, 9), (3, 0)]
            {
                let wr = check(code, 0, num_sge, length, true);
                assert!(refused(wr, Status::LocLen));
            }
            assert!(refused(check(code, inline, 3, 8, true), Status::LocLen));
            assert!(check(code, 0, 3, 8, true).is_ok_and(|wr| {
                wr.len == 8 && wr.sges().count() == 1 && matches!(wr.extra, Extra::Atomic(_))
            }));
        }
        for code in (opcode::RECEIVE_IMM..=u8::MAX).filter(|&code| code != opcode::BIND_MW) {
            assert!(refused(check(code, 0, 1, 8, true), Status::QpOp));
        }
    }

    /// A process cannot ask for a kernel consumer's operation, nor by an unknown code.
    #[test]
    fn processes_have_four_operations() {
        for code in 0..=u8::MAX {
            let known = matches!(
                code,
                opcode::WRITE | opcode::READ | opcode::SEND | opcode::SEND_REMOTE_INV
            );
            match checked(code, 0, 1, 10, 6) {
                Ok(wr) => assert!(known && wr.op.code() == code),
                Err(status) => assert!(!known && status == Status::QpOp),
            }
        }
    }

    #[test]
    fn lists_are_bounded() {
        let most = MAX_SGE as u8;
        assert!(checked(opcode::SEND, 0, 0, 10, 6)
            .is_ok_and(|wr| wr.len == 0 && wr.sges().next().is_none()));
        assert!(checked(opcode::SEND, 0, most, 10, 6).is_ok_and(|wr| wr.len == 60));
        assert!(refused(checked(opcode::SEND, 0, 3, 10, 2), Status::QpOp));
        assert!(refused(
            checked(opcode::SEND, 0, most + 1, 10, 255),
            Status::QpOp
        ));
        assert!(refused(
            checked(opcode::SEND, 0, u8::MAX, 10, 255),
            Status::QpOp
        ));
        // The sink of a Read is one element.
        assert!(checked(opcode::READ, 0, 1, 10, 6).is_ok());
        assert!(refused(checked(opcode::READ, 0, 2, 10, 6), Status::QpOp));
    }

    #[test]
    fn lengths_are_those_of_a_message() {
        let half = 1 << 31;
        assert!(checked(opcode::WRITE, 0, 1, u32::MAX, 6).is_ok_and(|wr| wr.len == u32::MAX));
        assert!(refused(
            checked(opcode::WRITE, 0, 2, half, 6),
            Status::LocLen
        ));
        assert!(refused(
            checked(opcode::SEND, 0, 6, u32::MAX, 6),
            Status::LocLen
        ));
    }

    #[test]
    fn inline_data_have_room() {
        let inline = wqe_flags::INLINE;
        // The number of elements has no meaning for inline data.
        for num_sge in [0, 1, u8::MAX] {
            let wr = checked(opcode::SEND, inline, num_sge, MAX_INLINE, 1);
            assert!(wr.is_ok_and(|wr| {
                wr.inline_data().len() == MAX_INLINE as usize && wr.sges().next().is_none()
            }));
        }
        assert!(refused(
            checked(opcode::SEND, inline, 1, MAX_INLINE + 1, 1),
            Status::LocLen
        ));
        assert!(refused(
            checked(opcode::WRITE, inline, 1, u32::MAX, 1),
            Status::LocLen
        ));
        assert!(refused(
            checked(opcode::READ, inline, 1, 8, 1),
            Status::LocLen
        ));
    }
}
