// SPDX-License-Identifier: GPL-2.0

//! Attributes by which programs connect queue pairs themselves, with
//! [`Protocol::Roce`](crate::Protocol::Roce): the peer, and how patient both ends are.

use super::{
    device::{mtu_from_c, PKEY_TBL_LEN},
    qp_state::QpState,
};
use crate::netdev::NetDevice;
use kernel::prelude::*;
use rdma_bindings as bindings;

/// The way to a peer (`struct rdma_ah_attr` of type RoCE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressVector {
    /// The peer's address: an IPv6 address, or an IPv4 address as IPv6 maps it.
    pub dgid: [u8; 16],
    /// This end's address, in the same form.
    pub sgid: [u8; 16],
    /// The index of `sgid` in the port's table.
    pub sgid_index: u8,
    /// The index of the interface that has `sgid`: the device's own or one on top of it, in the
    /// namespace of the device's.
    pub ifindex: u32,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// The flow label, which has no effect with IPv4.
    pub flow_label: u32,
    /// The service level.
    pub sl: u8,
}

impl AddressVector {
    /// Converts the C structure, whose addresses the core has looked up. Errors: `EINVAL` if it
    /// has no addresses, `EADDRNOTAVAIL` if the interface of `sgid` is not in the namespace of
    /// `port`, or the current task is not. Context: that of the task that wants to connect.
    ///
    /// # Safety
    ///
    /// The core must have filled `ah`, and keep its GID for the time of the call.
    unsafe fn from_c(ah: &bindings::rdma_ah_attr, port: &NetDevice) -> Result<Self> {
        let grh = &ah.grh;
        if grh.sgid_attr.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the contract of this function the entry of the table is there. `port` is
        // alive. Each field of the union of a GID is as long as all of it.
        let (ifindex, sgid, dgid) = unsafe {
            (
                bindings::rdma_gid_ifindex(grh.sgid_attr, port.as_raw()),
                (*grh.sgid_attr).gid.raw,
                grh.dgid.raw,
            )
        };
        Ok(Self {
            dgid,
            sgid,
            sgid_index: grh.sgid_index,
            ifindex: u32::try_from(ifindex).map_err(|_| Error::from_errno(ifindex))?,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
            flow_label: grh.flow_label,
            sl: ah.sl,
        })
    }

    /// Fills the C structure, which must be zeroed, for a query.
    fn store(&self, ah: &mut bindings::rdma_ah_attr) {
        ah.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        ah.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        ah.port_num = 1;
        ah.sl = self.sl;
        ah.grh.dgid.raw = self.dgid;
        ah.grh.sgid_index = self.sgid_index;
        ah.grh.hop_limit = self.hop_limit;
        ah.grh.traffic_class = self.traffic_class;
        ah.grh.flow_label = self.flow_label;
    }
}

/// The attributes that were set, of those that only a program sets that connects by itself.
#[derive(Clone, Copy, Debug)]
pub struct QpPath {
    /// The state in which the program takes the queue pair to be.
    pub cur_state: Option<QpState>,
    /// The index of a P_Key, within the table.
    pub pkey_index: Option<u16>,
    /// The way to the peer.
    pub address: Option<AddressVector>,
    /// The path MTU, in bytes: one that InfiniBand has.
    pub path_mtu: Option<u32>,
    /// The number of the peer's queue pair, of 24 bits.
    pub dest_qpn: Option<u32>,
    /// The number of the first packet that is received.
    pub rq_psn: Option<u32>,
    /// The number of the first packet that is sent.
    pub sq_psn: Option<u32>,
    /// Time to wait for an answer, below 32: 4.096 us times 2 to the power of this; 0: for ever.
    pub timeout: Option<u8>,
    /// How often to send again without an answer, up to 7.
    pub retry_cnt: Option<u8>,
    /// How often to send again to a peer that has no receive posted; 7: without end.
    pub rnr_retry: Option<u8>,
    /// A code for the time between two of these, below 32.
    pub min_rnr_timer: Option<u8>,
}

impl QpPath {
    /// None of them.
    pub const NONE: Self = Self {
        cur_state: None,
        pkey_index: None,
        address: None,
        path_mtu: None,
        dest_qpn: None,
        rq_psn: None,
        sq_psn: None,
        timeout: None,
        retry_cnt: None,
        rnr_retry: None,
        min_rnr_timer: None,
    };

    /// Converts those attributes of the C structure that are in `mask`. Errors: `EINVAL` for a
    /// value that no queue pair has, and those of [`AddressVector::from_c`].
    ///
    /// # Safety
    ///
    /// `attr` must be an argument of `modify_qp`, called with `mask`.
    pub(super) unsafe fn from_c(
        attr: &bindings::ib_qp_attr,
        mask: u32,
        port: &NetDevice,
    ) -> Result<Self> {
        use bindings as b;
        let has = |bit: b::ib_qp_attr_mask| mask & bit != 0;
        let below = |bit, value: u8, end: u8| {
            if has(bit) && value >= end {
                return Err(EINVAL);
            }
            Ok(has(bit).then_some(value))
        };
        let number = |bit, value: u32| {
            if has(bit) && value >> 24 != 0 {
                return Err(EINVAL);
            }
            Ok(has(bit).then_some(value))
        };
        let pkey = has(b::ib_qp_attr_mask_IB_QP_PKEY_INDEX);
        if pkey && attr.pkey_index >= PKEY_TBL_LEN {
            return Err(EINVAL);
        }
        Ok(Self {
            cur_state: has(b::ib_qp_attr_mask_IB_QP_CUR_STATE)
                .then(|| QpState::from_c(attr.cur_qp_state))
                .transpose()?,
            pkey_index: pkey.then_some(attr.pkey_index),
            address: has(b::ib_qp_attr_mask_IB_QP_AV)
                // SAFETY: The core fills it before it calls `modify_qp`, and keeps the GID for the
                // time of that call.
                .then(|| unsafe { AddressVector::from_c(&attr.ah_attr, port) })
                .transpose()?,
            path_mtu: has(b::ib_qp_attr_mask_IB_QP_PATH_MTU)
                .then(|| mtu_from_c(attr.path_mtu))
                .transpose()?,
            dest_qpn: number(b::ib_qp_attr_mask_IB_QP_DEST_QPN, attr.dest_qp_num)?,
            rq_psn: number(b::ib_qp_attr_mask_IB_QP_RQ_PSN, attr.rq_psn)?,
            sq_psn: number(b::ib_qp_attr_mask_IB_QP_SQ_PSN, attr.sq_psn)?,
            timeout: below(b::ib_qp_attr_mask_IB_QP_TIMEOUT, attr.timeout, 32)?,
            retry_cnt: below(b::ib_qp_attr_mask_IB_QP_RETRY_CNT, attr.retry_cnt, 8)?,
            rnr_retry: below(b::ib_qp_attr_mask_IB_QP_RNR_RETRY, attr.rnr_retry, 8)?,
            min_rnr_timer: below(
                b::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
                attr.min_rnr_timer,
                32,
            )?,
        })
    }

    /// Takes those attributes over that `newer` has.
    pub fn update(&mut self, newer: &Self) {
        *self = Self {
            cur_state: None,
            pkey_index: newer.pkey_index.or(self.pkey_index),
            address: newer.address.or(self.address),
            path_mtu: newer.path_mtu.or(self.path_mtu),
            dest_qpn: newer.dest_qpn.or(self.dest_qpn),
            rq_psn: newer.rq_psn.or(self.rq_psn),
            sq_psn: newer.sq_psn.or(self.sq_psn),
            timeout: newer.timeout.or(self.timeout),
            retry_cnt: newer.retry_cnt.or(self.retry_cnt),
            rnr_retry: newer.rnr_retry.or(self.rnr_retry),
            min_rnr_timer: newer.min_rnr_timer.or(self.min_rnr_timer),
        };
    }

    /// Fills the C structure, which must be zeroed, for a query. The path MTU is not among this.
    pub(super) fn store(&self, attr: &mut bindings::ib_qp_attr) {
        if let Some(address) = &self.address {
            address.store(&mut attr.ah_attr);
        }
        attr.pkey_index = self.pkey_index.unwrap_or(0);
        attr.dest_qp_num = self.dest_qpn.unwrap_or(0);
        attr.rq_psn = self.rq_psn.unwrap_or(0);
        attr.sq_psn = self.sq_psn.unwrap_or(0);
        attr.timeout = self.timeout.unwrap_or(0);
        attr.retry_cnt = self.retry_cnt.unwrap_or(0);
        attr.rnr_retry = self.rnr_retry.unwrap_or(0);
        attr.min_rnr_timer = self.min_rnr_timer.unwrap_or(0);
    }
}

impl Default for QpPath {
    fn default() -> Self {
        Self::NONE
    }
}
