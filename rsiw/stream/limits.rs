// SPDX-License-Identifier: GPL-2.0

//! A consumer's limits for a QP: the peer's rights, and the number of RDMA Reads.
//!
//! Access flags limit the peer from the moment that modify sets them: rx then asks the region for a
//! right that none grants, so the limit costs no check of its own. A QP that was not connected and
//! is given no right at all has both. The RDMA CM writes 0 before a connection begins, as it knows
//! no better, and librdmacm does not write the flags again when it connects. For a responder, and
//! for a kernel consumer, the RDMA CM sets both rights when it accepts or connects. So flags that
//! are set before count for initiators of librdmacm only.
//!
//! Limits of Reads that are set before bound what the connection agrees on; afterwards only the
//! agreed numbers are accepted.

use super::Stream;
use crate::{
    cm::StreamParams,
    device::{max, Device},
    mem::Access,
    queue::{sq::SendQueue, state::State},
};
use kernel::prelude::*;

/// What the two ends of a connection have agreed on.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// RDMA Reads that the peer may have under way.
    pub(crate) ird: u32,
    /// RDMA Reads that this end may have under way.
    pub(crate) ord: u32,
    /// FPDUs carry a CRC.
    pub(crate) crc: bool,
    /// FPDUs may be longer than a TCP segment.
    pub(crate) large_fpdu: bool,
    /// Both ends take Sends with immediate data.
    pub(crate) send_immediate: bool,
}

/// See the module's documentation.
pub(super) struct Limits {
    /// The terms of the connection. Before there is one, nothing is agreed.
    agreed: Terms,
    /// The highest IRD and ORD that a connection may agree on.
    pub(super) most: (u32, u32),
    /// The peer's rights; a region has to grant them, too.
    access: Access,
    /// Milliseconds for which a request waits for a peer that is not there; `None`: for ever.
    pub(super) retry_ms: Option<u32>,
    /// See [`Stream::is_reliable`].
    reliable: bool,
}

impl Limits {
    /// The limits of a new queue pair of `dev`, of type RC or UC.
    pub(super) fn new(dev: &Device, reliable: bool) -> Self {
        Self {
            agreed: Terms {
                ird: 0,
                ord: 0,
                crc: false,
                large_fpdu: false,
                send_immediate: false,
            },
            most: if reliable {
                (max::READS, max::READS)
            } else {
                (0, 0)
            },
            // A program that connects a queue pair itself says what the peer may do.
            access: if dev.is_rc() {
                Access::LOCAL_READ
            } else {
                Access::READ_WRITE
            },
            retry_ms: (!reliable).then_some(UNRELIABLE_MS),
            reliable,
        }
    }

    /// With the lock of the limits held: of two that limit the ORD, the later one has the last
    /// word.
    fn limit_ord(&self, sq: &SendQueue) {
        sq.limit_ord(self.most.1);
    }
}

/// Milliseconds for which a request of an unreliable queue pair waits for a peer that is not there:
/// its program cannot say. The time that most programs choose for reliable ones (a `timeout` of 14,
/// a `retry_cnt` of 7).
const UNRELIABLE_MS: u32 = 536;

impl Stream {
    /// The queue pair is of type UC: it has no Reads and atomic operations, and its Writes are not
    /// confirmed. Context: any; the queue pair is new.
    pub(crate) fn set_unreliable(&self) {
        *self.limits.lock() = Limits::new(self.dev(), false);
    }

    /// Whether the queue pair is of type RC, not UC. Context: any.
    pub(crate) fn is_reliable(&self) -> bool {
        self.limits.lock().reliable
    }

    /// The terms of the connection, also after its end. All are 0 before there is one.
    pub(crate) fn terms(&self) -> Terms {
        self.limits.lock().agreed
    }

    /// Notes what a connection has agreed on. Context: any.
    pub(super) fn agree(&self, p: &StreamParams) {
        self.limits.lock().agreed = Terms {
            ird: p.ird.into(),
            ord: p.ord.into(),
            crc: p.crc,
            large_fpdu: p.large_fpdu,
            send_immediate: p.send_immediate,
        };
    }

    /// Whether the consumer may set IRD and ORD to these. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL`: before a connection, if the device has not as much; afterwards, if the connection
    /// has agreed on other values.
    pub(crate) fn check_limits(&self, ird: Option<u8>, ord: Option<u8>) -> Result {
        let idle = self.queues.state() == State::Idle;
        let agreed = self.terms();
        for (asked, agreed) in [(ird, agreed.ird), (ord, agreed.ord)] {
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

    /// Limits the values that a connection may agree on; the ORD also of one that has agreed.
    /// Context: any.
    pub(crate) fn set_limits(&self, ird: Option<u8>, ord: Option<u8>) {
        let limits = &mut *self.limits.lock();
        let most = &mut limits.most;
        // An IRD is a power of two ([`crate::cm`]). Programs that connect queue pairs get no fewer
        // than they ask for, as their peers count on these.
        most.0 = ird.map_or(most.0, |ird| match (ird, self.dev().is_rc()) {
            (1.., true) => u32::from(ird).next_power_of_two(),
            _ => u32::from(ird),
        });
        most.1 = ord.map_or(most.1, u32::from);
        if ord.is_some() {
            limits.limit_ord(&self.queues.sq);
        }
    }

    /// Limits the ORD of a connection to what the consumer has set, maybe while the terms were
    /// agreed on. Context: any.
    pub(super) fn limit_ord(&self) {
        self.limits.lock().limit_ord(&self.queues.sq);
    }

    /// The peer's rights, as the consumer has set them; a region has to grant them, too.
    pub(crate) fn access(&self) -> Access {
        let granted = self.limits.lock().access;
        Access::REMOTE.or(Access::FLUSH).and(granted)
    }

    /// As [`Self::access`], with those to atomic operations and flushes. The RDMA CM, and programs
    /// that use it with iWARP, know no such rights of a queue pair: whoever may read and write has
    /// them.
    pub(super) fn peer_rights(&self) -> Access {
        let granted = self.access();
        if !self.dev().is_rc() && granted.allows(Access::READ_WRITE) {
            granted.or(Access::REMOTE_ATOMIC).or(Access::FLUSH)
        } else {
            granted
        }
    }

    /// Limits the peer's rights from now on. Context: sleeping.
    pub(crate) fn set_access(&self, access: Access) {
        self.limits.lock().access = access;
        let Some(conn) = self.conn() else {
            return;
        };
        // If there is no rx yet, `established` gives it the rights that were set above: it reads
        // them under this lock, too.
        let mut sk = conn.socket().lock();
        if let Some(rx) = self.rx.get_mut(&mut sk).and_then(Option::as_mut) {
            rx.admit(self.peer_rights());
        }
    }
}
