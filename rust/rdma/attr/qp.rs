// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs.

use super::{device::mtu_to_c, path::QpPath, qp_state::QpState, Access};
use crate::{errno::unsupported, netdev::NetDevice, types::DriverTypes};
use kernel::{prelude::*, sync::Arc};
use rdma_bindings as bindings;

/// The transport of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpType {
    /// Reliably connected: the only one that iWARP has.
    Rc,
    /// Unreliably connected.
    Uc,
    /// Another `enum ib_qp_type`.
    Other(u32),
}

impl QpType {
    pub(crate) fn from_c(qp_type: bindings::ib_qp_type) -> Self {
        match qp_type {
            bindings::ib_qp_type_IB_QPT_RC => Self::Rc,
            bindings::ib_qp_type_IB_QPT_UC => Self::Uc,
            other => Self::Other(other),
        }
    }

    fn to_c(self) -> bindings::ib_qp_type {
        match self {
            Self::Rc => bindings::ib_qp_type_IB_QPT_RC,
            Self::Uc => bindings::ib_qp_type_IB_QPT_UC,
            Self::Other(other) => other,
        }
    }
}

/// The sizes of a queue pair (`struct ib_qp_cap`), as counts and bytes.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    /// Transfers at a time that the core makes for a kernel consumer (`rdma_rw_ctx_init()`).
    pub max_rdma_ctxs: u32,
}

impl QpCap {
    pub(crate) fn from_c(cap: &bindings::ib_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
            max_rdma_ctxs: cap.max_rdma_ctxs,
        }
    }

    pub(crate) fn store(&self, cap: &mut bindings::ib_qp_cap) {
        cap.max_send_wr = self.max_send_wr;
        cap.max_recv_wr = self.max_recv_wr;
        cap.max_send_sge = self.max_send_sge;
        cap.max_recv_sge = self.max_recv_sge;
        cap.max_inline_data = self.max_inline_data;
    }
}

/// The attributes that a queue pair is created with (`struct ib_qp_init_attr`).
pub struct QpInitAttr<D: DriverTypes> {
    /// The completion queue of the send queue, if there is one.
    pub send_cq: Option<Arc<D::Cq>>,
    /// The completion queue of the receive queue, if there is one.
    pub recv_cq: Option<Arc<D::Cq>>,
    /// The shared receive queue, in place of a receive queue of its own.
    pub srq: Option<Arc<D::Srq>>,
    /// The sizes that the consumer asks for. The driver leaves here those that it grants.
    pub cap: QpCap,
    /// Every send work request is signaled.
    pub signal_all: bool,
    /// The transport.
    pub qp_type: QpType,
    /// `enum ib_qp_create_flags`.
    pub create_flags: u32,
}

/// The attributes of a queue pair that are to change.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpModify {
    /// The state to move to.
    pub state: Option<QpState>,
    /// Remote rights of the queue pair.
    pub access: Option<Access>,
    /// Outbound RDMA Reads (ORD).
    pub max_rd_atomic: Option<u8>,
    /// Inbound RDMA Reads (IRD).
    pub max_dest_rd_atomic: Option<u8>,
    /// The consumer wants [`QpEvent::SqDrained`](crate::QpEvent::SqDrained) in
    /// [`QpState::Sqd`].
    pub notify_drained: bool,
    /// What the consumer sets who connects the queue pair. iWARP has no use for it, and has
    /// nothing here.
    pub path: QpPath,
    /// All attributes that the consumer asked to change, as `enum ib_qp_attr_mask`.
    pub mask: u32,
}

/// The attributes that every queue pair has. Those of vendors are refused.
const STANDARD_BITS: u32 = bindings::ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS;

impl QpModify {
    /// Converts the C structure. `port` is the network device of a device whose queue pairs have a
    /// [`QpPath`]. Errors: `EOPNOTSUPP` for attributes beyond verbs, `EINVAL` for states that do
    /// not exist, and those of [`QpPath`].
    ///
    /// # Safety
    ///
    /// `attr` must be an argument of `modify_qp`, called with `mask`.
    pub(crate) unsafe fn from_c(
        attr: &bindings::ib_qp_attr,
        mask: u32,
        port: Option<&NetDevice>,
    ) -> Result<Self> {
        if mask & !STANDARD_BITS != 0 {
            return Err(unsupported());
        }
        let has = |bit: bindings::ib_qp_attr_mask| mask & bit != 0;
        let state = if has(bindings::ib_qp_attr_mask_IB_QP_STATE) {
            Some(QpState::from_c(attr.qp_state)?)
        } else {
            None
        };
        Ok(Self {
            state,
            access: has(bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS)
                .then(|| Access::from_bits(attr.qp_access_flags as u32)),
            max_rd_atomic: has(bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC)
                .then_some(attr.max_rd_atomic),
            max_dest_rd_atomic: has(bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC)
                .then_some(attr.max_dest_rd_atomic),
            notify_drained: has(bindings::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY)
                && attr.en_sqd_async_notify != 0,
            path: match port {
                // SAFETY: By the contract of this function.
                Some(port) => unsafe { QpPath::from_c(attr, mask, port) }?,
                None => QpPath::default(),
            },
            mask,
        })
    }

    /// Whether InfiniBand allows this change of a queue pair of `qp_type` in `state`: there is such
    /// a transition, all attributes that it needs are set, and none that it does not have. Wraps
    /// `ib_modify_qp_is_ok()`.
    pub fn is_allowed(&self, state: QpState, qp_type: QpType) -> bool {
        let (from, to) = (state.to_c(), self.state.unwrap_or(state).to_c());
        let believed = self.path.cur_state.is_none_or(|believed| believed == state);
        let exists = qp_type != QpType::Other(qp_type.to_c());
        // SAFETY: The function has no requirements but states and a type that exist.
        let ok = || unsafe { bindings::ib_modify_qp_is_ok(from, to, qp_type.to_c(), self.mask) };
        believed && exists && ok()
    }
}

/// The current attributes of a queue pair (`struct ib_qp_attr`).
#[derive(Clone, Copy, Debug)]
pub struct QpAttr {
    /// The state.
    pub state: QpState,
    /// The sizes.
    pub cap: QpCap,
    /// Remote rights.
    pub access: Access,
    /// The path MTU in bytes.
    pub path_mtu: u32,
    /// Outbound RDMA Reads (ORD).
    pub max_rd_atomic: u8,
    /// Inbound RDMA Reads (IRD).
    pub max_dest_rd_atomic: u8,
    /// Every send work request is signaled.
    pub signal_all: bool,
    /// In [`QpState::Sqd`]: requests that have begun are not done yet.
    pub sq_draining: bool,
    /// What the consumer has set who connected the queue pair.
    pub path: QpPath,
}

impl QpAttr {
    /// Fills the C structures, which must be zeroed.
    pub(crate) fn store(
        &self,
        attr: &mut bindings::ib_qp_attr,
        init: &mut bindings::ib_qp_init_attr,
    ) {
        attr.qp_state = self.state.to_c();
        attr.cur_qp_state = self.state.to_c();
        attr.path_mtu = mtu_to_c(self.path_mtu);
        attr.qp_access_flags = self.access.bits() as i32;
        attr.max_rd_atomic = self.max_rd_atomic;
        attr.max_dest_rd_atomic = self.max_dest_rd_atomic;
        attr.sq_draining = self.sq_draining.into();
        attr.port_num = 1;
        self.path.store(attr);
        self.cap.store(&mut attr.cap);
        self.cap.store(&mut init.cap);
        init.sq_sig_type = if self.signal_all {
            bindings::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            bindings::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }
}
