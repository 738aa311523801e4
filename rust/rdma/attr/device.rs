// SPDX-License-Identifier: GPL-2.0

//! The limits and attributes of a device and its port.

use crate::{compat::limit, protocol::Protocol};
use kernel::prelude::*;
use rdma_bindings as bindings;

/// The limits of a device (`struct ib_device_attr`).
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct DeviceLimits {
    pub fw_ver: u64,
    pub sys_image_guid: [u8; 8],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_sge_rd: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    /// Completions that may share an event, and microseconds that an event may be put off.
    pub max_cq_moderation: (u16, u16),
    pub max_mr: u32,
    pub max_pd: u32,
    /// Inbound RDMA Reads per queue pair (IRD).
    pub max_qp_rd_atom: u32,
    /// Inbound RDMA Reads of the device.
    pub max_res_rd_atom: u32,
    /// Outbound RDMA Reads per queue pair (ORD).
    pub max_qp_init_rd_atom: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    /// Pages of a fast registration.
    pub max_fast_reg_page_list_len: u32,
    /// Fast registration, local invalidate, Send with Invalidate (`IB_DEVICE_MEM_MGT_EXTENSIONS`).
    pub mem_mgt_extensions: bool,
    /// Fast registration of scatterlists with gaps (`IBK_SG_GAPS_REG`).
    pub sg_gaps: bool,
    /// Regions may have [`Access::FLUSH_GLOBAL`](crate::Access::FLUSH_GLOBAL)
    /// (`IB_DEVICE_FLUSH_GLOBAL`).
    pub flush: bool,
    /// `rdma link del` may remove the device (`IBK_ALLOW_USER_UNREG`).
    pub allow_user_unreg: bool,
}

impl DeviceLimits {
    /// Fills the C structure of a device of `protocol`, and zeroes the rest of it. If `of_core`,
    /// that by which the core checks what consumers ask for, else one for a program.
    pub(crate) fn store(
        &self,
        protocol: Protocol,
        of_core: bool,
        attr: &mut bindings::ib_device_attr,
    ) {
        *attr = pin_init::zeroed();
        attr.fw_ver = self.fw_ver;
        attr.sys_image_guid = u64::from_ne_bytes(self.sys_image_guid);
        attr.max_mr_size = self.max_mr_size;
        attr.page_size_cap = self.page_size_cap;
        attr.vendor_id = self.vendor_id;
        attr.vendor_part_id = self.vendor_part_id;
        attr.hw_ver = self.hw_ver;
        attr.max_qp = limit(self.max_qp);
        attr.max_qp_wr = limit(self.max_qp_wr);
        attr.max_send_sge = limit(self.max_send_sge);
        attr.max_recv_sge = limit(self.max_recv_sge);
        attr.max_sge_rd = limit(self.max_sge_rd);
        attr.max_cq = limit(self.max_cq);
        attr.max_cqe = limit(self.max_cqe);
        (
            attr.cq_caps.max_cq_moderation_count,
            attr.cq_caps.max_cq_moderation_period,
        ) = self.max_cq_moderation;
        attr.max_mr = limit(self.max_mr);
        attr.max_pd = limit(self.max_pd);
        attr.max_qp_rd_atom = limit(self.max_qp_rd_atom);
        attr.max_res_rd_atom = limit(self.max_res_rd_atom);
        attr.max_qp_init_rd_atom = limit(self.max_qp_init_rd_atom);
        attr.max_srq = limit(self.max_srq);
        attr.max_srq_wr = limit(self.max_srq_wr);
        attr.max_srq_sge = limit(self.max_srq_sge);
        attr.max_fast_reg_page_list_len = self.max_fast_reg_page_list_len;
        if protocol == Protocol::Roce {
            attr.max_pkeys = PKEY_TBL_LEN;
        }
        // Also where there are atomics: any library passes it on to programs, which then use what
        // it may not know. One that does says more.
        attr.atomic_cap = bindings::ib_atomic_cap_IB_ATOMIC_NONE;
        // Kernel consumers only use these.
        if self.mem_mgt_extensions && protocol.serves_kernel() {
            attr.device_cap_flags |=
                bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
        }
        // As of atomics, the library that knows it tells programs.
        if self.flush && of_core {
            attr.device_cap_flags |= bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL as u64;
        }
        if self.sg_gaps {
            attr.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_SG_GAPS_REG);
        }
        // `Driver::local_dma_key` makes it. So the core asks for no DMA region for each PD.
        attr.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY);
        if self.allow_user_unreg {
            attr.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
        }
    }
}

/// The state of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortState {
    /// Nothing can be sent.
    Down,
    /// The link is up.
    Active,
}

/// Attributes of a port (`struct ib_port_attr`).
#[derive(Clone, Debug)]
pub struct PortAttr {
    /// The state.
    pub state: PortState,
    /// The longest message, in bytes.
    pub max_msg_sz: u32,
    /// The largest MTU, in bytes. The core gets the next smaller one that verbs have.
    pub max_mtu: u32,
    /// The current MTU, in bytes. The core gets the next smaller one that verbs have.
    pub active_mtu: u32,
    /// The link speed, by `ib_get_eth_speed()`.
    pub active_speed: u16,
    /// The link width, by `ib_get_eth_speed()`.
    pub active_width: u8,
}

/// The largest MTU of verbs that is not more than `bytes` (`ib_mtu_int_to_enum()`).
pub(crate) fn mtu_to_c(bytes: u32) -> bindings::ib_mtu {
    match bytes {
        4096.. => bindings::ib_mtu_IB_MTU_4096,
        2048.. => bindings::ib_mtu_IB_MTU_2048,
        1024.. => bindings::ib_mtu_IB_MTU_1024,
        512.. => bindings::ib_mtu_IB_MTU_512,
        _ => bindings::ib_mtu_IB_MTU_256,
    }
}

/// The bytes of an MTU of verbs (`ib_mtu_enum_to_int()`), which may come from a process. Errors:
/// `EINVAL`.
pub(crate) fn mtu_from_c(mtu: bindings::ib_mtu) -> Result<u32> {
    match mtu {
        bindings::ib_mtu_IB_MTU_256 => Ok(256),
        bindings::ib_mtu_IB_MTU_512 => Ok(512),
        bindings::ib_mtu_IB_MTU_1024 => Ok(1024),
        bindings::ib_mtu_IB_MTU_2048 => Ok(2048),
        bindings::ib_mtu_IB_MTU_4096 => Ok(4096),
        _ => Err(EINVAL),
    }
}

/// Entries of the P_Key table. Ethernet knows no partitions, but programs name a key's index, and
/// the RDMA CM asks for the first key when a consumer connects to a loopback address, and fails
/// without (`cma_bind_loopback()`).
pub(crate) const PKEY_TBL_LEN: u16 = 1;
/// The key of the default partition, of a full member.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// `enum ib_port_phys_state`: link up, and disabled.
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;

impl PortAttr {
    /// Fills the C structure of a port of `protocol`, and zeroes the rest of it.
    pub(crate) fn store(&self, protocol: Protocol, attr: &mut bindings::ib_port_attr) {
        *attr = pin_init::zeroed();
        (attr.state, attr.phys_state) = match self.state {
            PortState::Down => (bindings::ib_port_state_IB_PORT_DOWN, PHYS_DISABLED),
            PortState::Active => (bindings::ib_port_state_IB_PORT_ACTIVE, PHYS_LINK_UP),
        };
        attr.max_mtu = mtu_to_c(self.max_mtu);
        attr.active_mtu = mtu_to_c(self.active_mtu);
        attr.phys_mtu = self.active_mtu;
        attr.gid_tbl_len = protocol.gids().into();
        attr.pkey_tbl_len = PKEY_TBL_LEN;
        attr.max_msg_sz = self.max_msg_sz;
        attr.active_speed = self.active_speed;
        attr.active_width = self.active_width;
        match protocol {
            Protocol::Iwarp => {
                attr.port_cap_flags = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP
                    | bindings::ib_port_capability_mask_bits_IB_PORT_DEVICE_MGMT_SUP;
            }
            Protocol::Roce => {
                // One virtual lane.
                attr.max_vl_num = 1;
                attr.set_ip_gids(true.into());
            }
        }
    }
}

/// A counter (`struct rdma_stat_desc`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct StatDesc(bindings::rdma_stat_desc);

// SAFETY: Its pointers are to constants.
unsafe impl Sync for StatDesc {}

impl StatDesc {
    /// Makes a counter of that name, which everybody sees.
    pub const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: name.to_bytes_with_nul().as_ptr(),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }

    /// Makes an optional counter of that name. The core shows it once an administrator has enabled
    /// it (`rdma statistic set link ... optional-counters`), and neither in sysfs nor in a counter
    /// set. Optional counters come behind the others: sysfs takes a counter's place among those
    /// that it shows for its index.
    pub const fn optional(name: &'static CStr) -> Self {
        let mut desc = Self::new(name);
        desc.0.flags = bindings::ib_stat_flag_IB_STAT_FLAG_OPTIONAL;
        desc
    }

    /// Whether it is an optional counter.
    pub(crate) const fn is_optional(&self) -> bool {
        self.0.flags & bindings::ib_stat_flag_IB_STAT_FLAG_OPTIONAL != 0
    }

    /// Bytes of the name as a netlink attribute, in an entry of a table.
    const fn entry(&self) -> usize {
        let mut len = 0;
        // SAFETY: `new` was given a string, which is static, and ends with a zero.
        while unsafe { *self.0.name.add(len) } != 0 {
            len += 1;
        }
        attr::NEST + attr::string(len)
    }

    /// Whether the core can show these counters, and optional ones come last. It puts all of them
    /// into one netlink message (drivers/infiniband/core/nldev.c): their values
    /// (`RDMA_NLDEV_CMD_STAT_GET`), if all are enabled; which of them are enabled
    /// (`RDMA_NLDEV_CMD_STAT_GET_STATUS`); and the values of those that are not optional with the
    /// queue pairs of a counter set. If there is too little room, the first two fail, and a list of
    /// sets does not come to its end.
    pub(crate) const fn fit(all: &[Self]) -> bool {
        /// Queue pairs of a set for which there has to be room.
        const QPS: usize = 100;
        const NAME: usize = bindings::IB_DEVICE_NAME_MAX as usize - 1;
        // Index and name of the device, its port, and the table.
        const HEAD: usize = attr::U32 + attr::string(NAME) + attr::U32 + attr::NEST;
        // The set's entry, number, mode, type or process, and table of queue pairs.
        const SET: usize =
            2 * attr::NEST + 4 * attr::U32 + attr::NEST + QPS * (attr::NEST + attr::U32);
        let (mut values, mut states, mut of_set, mut i) = (HEAD, HEAD, HEAD + SET, 0);
        let mut in_order = true;
        while i < all.len() {
            let entry = all[i].entry();
            values += entry + attr::U64;
            states += entry + attr::U32;
            if all[i].is_optional() {
                states += attr::U8;
            } else {
                of_set += entry + attr::U64;
                in_order = in_order && (i == 0 || !all[i - 1].is_optional());
            }
            i += 1;
        }
        let room = bindings::NLMSG_DEFAULT_SIZE;
        in_order && values <= room && states <= room && of_set <= room
    }
}

/// Bytes of netlink attributes: a header of 4, and the value, filled up to a multiple of 4.
mod attr {
    pub(super) const NEST: usize = 4;
    pub(super) const U8: usize = 4 + 4;
    pub(super) const U32: usize = 4 + 4;
    /// On processors that can load 8 bytes from any address, as those with Rust can. Others align
    /// it.
    pub(super) const U64: usize = 4 + 8;

    /// A string of that length, with its zero.
    pub(super) const fn string(len: usize) -> usize {
        4 + (len + 1).next_multiple_of(4)
    }
}
