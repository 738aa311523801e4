// SPDX-License-Identifier: GPL-2.0

//! Checks the elements that processes write.

use super::{total, Extra, SendOp, SendWr, Status};
use crate::{
    abi::{flush_types, opcode, wqe_flags, Operations, ATOMIC_SGE, IMM_SGE, MAX_INLINE},
    mem::{Access, Binding},
};
use iwarp::rdmap::{AtomicOp, Flush, ATOMIC_LEN};
use kernel::prelude::*;

impl SendWr {
    //= 5040-8.1.2-1, 5041-8.3.2-2
    /// Checks the element that a process wrote.
    ///
    /// `max_sge` is the limit that the QP was created with. Operations for kernel consumers only
    /// are refused, and those that are not `known`. A refused element completes in error with the
    /// returned status.
    pub(crate) fn check(
        &mut self,
        max_sge: u32,
        signal_all: bool,
        known: Operations,
    ) -> Result<(), Status> {
        let op = match self.sqe.opcode {
            opcode::WRITE => SendOp::Write,
            opcode::READ => SendOp::Read,
            opcode::SEND => SendOp::Send,
            opcode::SEND_REMOTE_INV => SendOp::SendInv,
            _ if known != Operations::Siw => {
                return self.check_extended(max_sge, signal_all, known)
            }
            _ => return Err(Status::QpOp),
        };
        self.accept(op, max_sge, signal_all)
    }

    /// As [`Self::check`], for the operations that the library of siw does not know.
    #[cold]
    fn check_extended(
        &mut self,
        max_sge: u32,
        signal_all: bool,
        known: Operations,
    ) -> Result<(), Status> {
        let sqe = &self.sqe;
        let op = match sqe.opcode {
            opcode::SEND_IMM => SendOp::SendImm,
            opcode::WRITE_IMM => SendOp::WriteImm,
            opcode::FETCH_ADD => SendOp::FetchAdd,
            opcode::CMP_SWAP => SendOp::CmpSwap,
            opcode::INVAL_STAG | opcode::BIND_MW => return self.check_window(max_sge, signal_all),
            opcode::FLUSH | opcode::ATOMIC_WRITE if known == Operations::Placement => {
                return self.check_placement(signal_all)
            }
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

    /// As [`Self::check`], for flushes and atomic Writes, whose answer is placed nowhere.
    fn check_placement(&mut self, signal_all: bool) -> Result<(), Status> {
        let sqe = &self.sqe;
        let only = sqe.sge[0];
        if sqe.flags & wqe_flags::INLINE != 0 || sqe.num_sge != 1 {
            return Err(Status::LocLen);
        }
        let (op, request) = if sqe.opcode == opcode::FLUSH {
            let types = only.length;
            if types & !(flush_types::GLOBAL | flush_types::PERSISTENT) != 0 || types == 0 {
                return Err(Status::QpOp);
            }
            let all = only.lkey != 0;
            let len = if all { 0 } else { only.addr };
            let flush = Flush {
                len: u32::try_from(len).map_err(|_| Status::LocLen)?,
                global: types & flush_types::GLOBAL != 0,
                persistent: types & flush_types::PERSISTENT != 0,
                all,
            };
            (SendOp::Flush, AtomicOp::Flush(flush))
        } else {
            if only.length != ATOMIC_LEN {
                return Err(Status::LocLen);
            }
            let bytes = only.addr.to_ne_bytes();
            (SendOp::AtomicWrite, AtomicOp::Write { bytes })
        };
        self.extra = Extra::Atomic(request);
        self.sqe.as_numbers().num_sge = 0;
        self.accept(op, 0, signal_all)
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

#[kunit_tests(rsiw_wr)]
mod tests {
    use super::*;
    use crate::abi::MAX_SGE;

    /// Checks an element as a process writes it, with `num_sge` elements of `length` bytes.
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
        wr.check(max_sge, false, Operations::Siw).map(|()| wr)
    }

    fn refused(result: Result<SendWr, Status>, status: Status) -> bool {
        result.err() == Some(status)
    }

    /// A request to bind has one element, and rights of peers only; none has inline data.
    #[test]
    fn requests_on_windows_are_checked() {
        let check = |opcode, flags, num_sge, access, extended| {
            let known = Operations::of(u32::from(extended));
            let mut wr = SendWr::new(0, SendOp::Send, 9, 0);
            let sqe = wr.element().as_numbers();
            (sqe.opcode, sqe.flags, sqe.num_sge, sqe.raddr) = (opcode, flags, num_sge, 5);
            (sqe.sge[0].addr, sqe.sge[0].length, sqe.sge[0].lkey) = (6, access, 7);
            wr.check(6, false, known).map(|()| wr)
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
            let known = Operations::of(u32::from(extended));
            let mut wr = SendWr::new(0, SendOp::Send, 0, 0);
            let sqe = wr.element().as_numbers();
            (sqe.opcode, sqe.flags, sqe.num_sge) = (opcode, flags, num_sge);
            (sqe.raddr, sqe.sge[0].lkey, sqe.sge[5].lkey) = (0x1_0000_0007, 9, 8);
            (sqe.sge[0].length, sqe.sge[1].addr, sqe.sge[2].addr) = (length, 5, 6);
            wr.check(6, false, known).map(|()| wr)
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

    /// Flushes and atomic Writes have one element, which has no memory.
    #[test]
    fn placement_extensions_are_checked() {
        let check = |opcode, flags, num_sge, (addr, length, lkey), known| {
            let mut wr = SendWr::new(0, SendOp::Send, 0, 0);
            let sqe = wr.element().as_numbers();
            (sqe.opcode, sqe.flags, sqe.num_sge) = (opcode, flags, num_sge);
            (sqe.sge[0].addr, sqe.sge[0].length, sqe.sge[0].lkey) = (addr, length, lkey);
            wr.check(6, false, known).map(|()| wr)
        };
        let known = Operations::Placement;
        for code in [opcode::FLUSH, opcode::ATOMIC_WRITE] {
            let length = if code == opcode::FLUSH { 1 } else { 8 };
            for unknown in [Operations::Siw, Operations::Extended] {
                let wr = check(code, 0, 1, (5, length, 0), unknown);
                assert!(refused(wr, Status::QpOp));
            }
            for (flags, num_sge) in [(0, 0), (0, 2), (0, u8::MAX), (wqe_flags::INLINE, 1)] {
                let wr = check(code, flags, num_sge, (5, length, 0), known);
                assert!(refused(wr, Status::LocLen));
            }
            assert!(check(code, 0, 1, (5, length, 0), known)
                .is_ok_and(|wr| wr.op.is_answered() && wr.len == 0 && wr.sges().count() == 0));
        }
        for (types, all) in [(1, 0), (2, 1), (3, 0)] {
            let wr = check(opcode::FLUSH, 0, 1, (7, types, all), known);
            let flush = Flush {
                len: 7 * (1 - all),
                global: types & 1 != 0,
                persistent: types & 2 != 0,
                all: all != 0,
            };
            assert!(wr.is_ok_and(
                |wr| matches!(wr.extra, Extra::Atomic(AtomicOp::Flush(f)) if f == flush)
            ));
        }
        for types in [0, 4, u32::MAX] {
            let wr = check(opcode::FLUSH, 0, 1, (7, types, 0), known);
            assert!(refused(wr, Status::QpOp));
        }
        let wr = check(opcode::FLUSH, 0, 1, (1 << 32, 1, 0), known);
        assert!(refused(wr, Status::LocLen));
        assert!(check(opcode::FLUSH, 0, 1, (1 << 32, 1, 1), known).is_ok());
        for length in [0, 7, 9, u32::MAX] {
            let wr = check(opcode::ATOMIC_WRITE, 0, 1, (7, length, 0), known);
            assert!(refused(wr, Status::LocLen));
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
