// SPDX-License-Identifier: GPL-2.0

//! Work completions that kernel consumers poll.

use core::{marker::PhantomData, mem::MaybeUninit};
use kernel::prelude::*;
use rdma_bindings as bindings;

/// The status of a work completion (`enum ib_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum WcStatus {
    Success = bindings::ib_wc_status_IB_WC_SUCCESS,
    LocLenErr = bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
    LocQpOpErr = bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
    LocProtErr = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
    WrFlushErr = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
    MwBindErr = bindings::ib_wc_status_IB_WC_MW_BIND_ERR,
    BadRespErr = bindings::ib_wc_status_IB_WC_BAD_RESP_ERR,
    LocAccessErr = bindings::ib_wc_status_IB_WC_LOC_ACCESS_ERR,
    RemInvReqErr = bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    RemAccessErr = bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
    RemOpErr = bindings::ib_wc_status_IB_WC_REM_OP_ERR,
    RetryExcErr = bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR,
    RnrRetryExcErr = bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
    RemAbortErr = bindings::ib_wc_status_IB_WC_REM_ABORT_ERR,
    FatalErr = bindings::ib_wc_status_IB_WC_FATAL_ERR,
    RespTimeoutErr = bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR,
    GeneralErr = bindings::ib_wc_status_IB_WC_GENERAL_ERR,
}

/// The operation that has completed (`enum ib_wc_opcode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum WcOpcode {
    Send = bindings::ib_wc_opcode_IB_WC_SEND,
    RdmaWrite = bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
    RdmaRead = bindings::ib_wc_opcode_IB_WC_RDMA_READ,
    CompSwap = bindings::ib_wc_opcode_IB_WC_COMP_SWAP,
    FetchAdd = bindings::ib_wc_opcode_IB_WC_FETCH_ADD,
    LocalInv = bindings::ib_wc_opcode_IB_WC_LOCAL_INV,
    RegMr = bindings::ib_wc_opcode_IB_WC_REG_MR,
    Recv = bindings::ib_wc_opcode_IB_WC_RECV,
    RecvRdmaWithImm = bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
}

/// The name of a queue pair in its completions.
///
/// Consumers get it, and nothing here uses it as a pointer, so it may be kept for any time. A
/// consumer must poll its completions before it destroys the queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpToken(usize);

impl QpToken {
    pub(crate) fn new(qp: *mut bindings::ib_qp) -> Self {
        Self(qp as usize)
    }
}

/// A work completion (`struct ib_wc`).
#[derive(Clone, Copy, Debug)]
pub struct Wc {
    /// The consumer's number of the work request.
    pub wr_id: u64,
    /// How the request ended.
    pub status: WcStatus,
    /// The operation.
    pub opcode: WcOpcode,
    /// The length of the message in bytes, for receives.
    pub byte_len: u32,
    /// The queue pair.
    pub qp: QpToken,
    /// The local key that the peer has invalidated with the message.
    pub invalidated: Option<u32>,
    /// Immediate data of the message.
    pub imm: Option<[u8; 4]>,
    /// A code of the driver's own.
    pub vendor_err: u32,
}

/// Room for completions, which a consumer's poll has.
pub struct WcSlots<'a> {
    next: *mut bindings::ib_wc,
    free: usize,
    filled: usize,
    _array: PhantomData<&'a mut [MaybeUninit<bindings::ib_wc>]>,
}

impl WcSlots<'_> {
    /// # Safety
    ///
    /// `array` must be valid for writes of `num` completions during the lifetime of the result.
    pub(crate) unsafe fn new(array: *mut bindings::ib_wc, num: usize) -> Self {
        Self {
            next: array,
            free: num,
            filled: 0,
            _array: PhantomData,
        }
    }

    /// The number of completions that have room.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The number of completions that were filled in.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Fills in a completion. Errors: `ENOSPC` if there is no room.
    pub fn push(&mut self, wc: &Wc) -> Result {
        self.free = self.free.checked_sub(1).ok_or(ENOSPC)?;
        let mut c: bindings::ib_wc = pin_init::zeroed();
        c.__bindgen_anon_1.wr_id = wc.wr_id;
        c.status = wc.status as u32;
        c.opcode = wc.opcode as u32;
        c.vendor_err = wc.vendor_err;
        c.byte_len = wc.byte_len;
        c.qp = wc.qp.0 as *mut bindings::ib_qp;
        c.port_num = 1;
        if let Some(rkey) = wc.invalidated {
            c.ex.invalidate_rkey = rkey;
            c.wc_flags |= bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32;
        } else if let Some(imm) = wc.imm {
            c.ex.imm_data = u32::from_ne_bytes(imm);
            c.wc_flags |= bindings::ib_wc_flags_IB_WC_WITH_IMM as i32;
        }
        // SAFETY: There is room for a completion, and `next` points to it.
        unsafe {
            self.next.write(c);
            self.next = self.next.add(1);
        }
        self.filled += 1;
        Ok(())
    }
}
