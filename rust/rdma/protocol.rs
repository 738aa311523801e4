// SPDX-License-Identifier: GPL-2.0

//! What a device tells programs that it is, and all that follows from it for the RDMA core.
//!
//! A driver says which protocol a device has ([`Driver::protocol`](crate::Driver::protocol)), and
//! nothing else of it: node type, capabilities of the port, sizes of its tables and the set of
//! operations come from here. So no device is half of the one and half of the other.

use rdma_bindings as bindings;

/// The protocol of a device, as programs see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// iWARP. The RDMA CM connects queue pairs, by the driver's
    /// [`ConnOps`](crate::ConnOps) and [`ListenerOps`](crate::ListenerOps).
    Iwarp,
    /// The verbs of InfiniBand on Ethernet, with the addresses of RoCE v2: the core keeps a table
    /// of GIDs, one for each IP address of the port. Programs connect queue pairs by
    /// [`QpOps::modify`](crate::QpOps::modify). The RDMA CM does not use the device, and no kernel
    /// consumer does: the core offers a device to these only if it has all operations that it
    /// takes for mandatory, and here it has no `get_dma_mr`.
    Roce,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 2] = [Self::Iwarp, Self::Roce];

    /// `ib_device::node_type`.
    pub(crate) const fn node_type(self) -> u8 {
        match self {
            Self::Iwarp => bindings::RDMA_NODE_RNIC as u8,
            Self::Roce => bindings::RDMA_NODE_IB_CA as u8,
        }
    }

    /// `ib_port_immutable::core_cap_flags`. Without the capabilities for management datagrams and
    /// for InfiniBand's connection manager, neither of them uses the port.
    pub(crate) const fn port_flags(self) -> u32 {
        match self {
            Self::Iwarp => bindings::RDMA_CORE_PORT_IWARP,
            Self::Roce => bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP,
        }
    }

    /// Entries of the GID table. The one of an iWARP device is the driver's
    /// ([`Driver::query_gid`](crate::Driver::query_gid)). The others are the core's; verbs have 8
    /// bits for an index.
    pub(crate) const fn gids(self) -> u16 {
        match self {
            Self::Iwarp => 1,
            Self::Roce => 256,
        }
    }

    /// The longest message, in bytes. InfiniBand has a limit.
    pub(crate) const fn max_message(self) -> u32 {
        match self {
            Self::Iwarp => u32::MAX,
            Self::Roce => 1 << 31,
        }
    }

    /// Whether the RDMA CM connects queue pairs, by the operations that begin with `iw_`.
    pub(crate) const fn has_iwcm(self) -> bool {
        matches!(self, Self::Iwarp)
    }

    /// Whether kernel consumers may use the device.
    pub(crate) const fn serves_kernel(self) -> bool {
        matches!(self, Self::Iwarp)
    }

    /// Whether the core keeps the GID table.
    pub(crate) const fn core_keeps_gids(self) -> bool {
        matches!(self, Self::Roce)
    }
}
