// SPDX-License-Identifier: GPL-2.0

//! States of queue pairs.

use kernel::prelude::*;
use rdma_bindings as bindings;

/// The state of a queue pair, with the names that verbs have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpState {
    /// Just created.
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send: connected.
    Rts,
    /// Send queue drained, or draining; iWARP's CLOSING.
    Sqd,
    /// Send queue error; iWARP's TERMINATE.
    Sqe,
    /// In error.
    Err,
}

impl QpState {
    /// Converts the C value, which may come from a process. Errors: `EINVAL`.
    pub(crate) fn from_c(state: bindings::ib_qp_state) -> Result<Self> {
        Ok(match state {
            bindings::ib_qp_state_IB_QPS_RESET => Self::Reset,
            bindings::ib_qp_state_IB_QPS_INIT => Self::Init,
            bindings::ib_qp_state_IB_QPS_RTR => Self::Rtr,
            bindings::ib_qp_state_IB_QPS_RTS => Self::Rts,
            bindings::ib_qp_state_IB_QPS_SQD => Self::Sqd,
            bindings::ib_qp_state_IB_QPS_SQE => Self::Sqe,
            bindings::ib_qp_state_IB_QPS_ERR => Self::Err,
            _ => return Err(EINVAL),
        })
    }

    pub(crate) fn to_c(self) -> bindings::ib_qp_state {
        match self {
            Self::Reset => bindings::ib_qp_state_IB_QPS_RESET,
            Self::Init => bindings::ib_qp_state_IB_QPS_INIT,
            Self::Rtr => bindings::ib_qp_state_IB_QPS_RTR,
            Self::Rts => bindings::ib_qp_state_IB_QPS_RTS,
            Self::Sqd => bindings::ib_qp_state_IB_QPS_SQD,
            Self::Sqe => bindings::ib_qp_state_IB_QPS_SQE,
            Self::Err => bindings::ib_qp_state_IB_QPS_ERR,
        }
    }
}
