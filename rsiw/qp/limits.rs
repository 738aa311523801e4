// SPDX-License-Identifier: GPL-2.0

//! What the consumer allows on a QP: the peer's rights, and how many RDMA Reads.

use super::{Qp, State};
use crate::{cm::StreamParams, device::max, mem::Access};
use kernel::prelude::*;

/// See the module's documentation.
pub(super) struct Limits {
    /// IRD and ORD in use (before connecting: 0).
    agreed: (u32, u32),
    /// IRD and ORD to agree on at the most.
    pub(super) most: (u32, u32),
    /// What the peer may do where a region grants it, too.
    access: Access,
}

impl Limits {
    /// The device's.
    pub(super) const fn new() -> Self {
        Self {
            agreed: (0, 0),
            most: (max::READS, max::READS),
            access: Access::REMOTE,
        }
    }
}

impl Qp {
    /// IRD and ORD in use.
    pub(crate) fn read_limits(&self) -> (u32, u32) {
        self.limits.lock().agreed
    }

    /// A connection has agreed on these. Context: any.
    pub(super) fn agree(&self, p: &StreamParams) {
        self.limits.lock().agreed = (p.ird.into(), p.ord.into());
    }

    /// Whether the consumer may set IRD and ORD to these. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL`: more than the device has. When there has been a connection: not what it agreed on.
    pub(crate) fn check_limits(&self, ird: Option<u8>, ord: Option<u8>) -> Result {
        let idle = self.state() == State::Idle;
        let agreed = self.read_limits();
        for (asked, agreed) in [(ird, agreed.0), (ord, agreed.1)] {
            let Some(asked) = asked.map(u32::from) else {
                continue;
            };
            let possible = if idle {
                asked <= max::READS
            } else {
                asked == agreed
            };
            if !possible {
                return Err(EINVAL);
            }
        }
        Ok(())
    }

    /// Has connections agree on so much at the most. Context: any.
    pub(crate) fn set_limits(&self, ird: Option<u8>, ord: Option<u8>) {
        let most = &mut self.limits.lock().most;
        most.0 = ird.map_or(most.0, u32::from);
        most.1 = ord.map_or(most.1, u32::from);
    }

    /// What the peer may do where a region grants it, too.
    pub(crate) fn access(&self) -> Access {
        let granted = self.limits.lock().access;
        Access::REMOTE.and(granted)
    }

    /// Limits what the peer may do from now on. Context: sleeping.
    pub(crate) fn set_access(&self, access: Access) {
        self.limits.lock().access = access;
        let Some(conn) = self.shared.lock().conn.clone() else {
            return;
        };
        // If rx is not there yet, it will be told what was set above: both look under this lock.
        let mut sk = conn.socket().lock();
        if let Some(rx) = self.rx.get_mut(&mut sk).and_then(Option::as_mut) {
            rx.admit(self.access());
        }
    }
}
