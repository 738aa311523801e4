// SPDX-License-Identifier: GPL-2.0

//! A queue pair that its program connects itself: its states and attributes are those of
//! InfiniBand.
//!
//! ```text
//!   RESET --> INIT --> RTR --> RTS <--> SQD      any state --> RESET, ERR
//! ```
//!
//! The stream below has states of its own ([`crate::queue::state`]), as a connection comes and goes
//! when the peer wants it to: it is in IDLE until there is one, and then in RTS, whichever of RTR
//! and RTS the program is in. What fails in the stream leads to ERR. The end of a connection alone
//! does not ([`crate::stream::absent_peer`]).
//!
//! In SQD the send queue drains ([`crate::stream`], `hold`).
//!
//! The core's table says which attributes a transition needs and which it may have. All are kept
//! and told; those that mean nothing to TCP (packet numbers, path MTU, service level, flow label)
//! have no other effect. The hop limit is the route's, whatever the program says, as the core has
//! it.
//!
//! One of type UC is connected in the same way, by TCP. It has no Reads and atomic operations, in
//! either direction, and its Writes complete when they are sent. In what InfiniBand leaves to
//! chance it is as one of type RC: nothing is lost, a Send waits for its receive, and what the peer
//! refuses, or a peer that is not there, ends it.

mod attributes;

use super::Qp;
use crate::{
    device::{max, Rsiw},
    mem::Access,
    stream::{time_to_retry, Doors, Endpoint, Way},
};
use core::net::Ipv6Addr;
use iwarp::conn::names::{Names, QpName};
use kernel::{prelude::*, sync::Arc};
use rdma::{errno, Device, QpAttr, QpModify, QpPath, QpState, QpType};

pub(super) use attributes::Attributes;

/// Whether an address can be a peer's.
fn is_unicast(gid: &[u8; 16]) -> bool {
    let ip = Ipv6Addr::from(*gid);
    match ip.to_ipv4_mapped() {
        Some(ip) => !(ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified()),
        None => !(ip.is_multicast() || ip.is_unspecified()),
    }
}

impl Qp {
    /// Modifies a QP that its program connects. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a transition that InfiniBand does not have, for attributes that it lacks or
    /// that do not belong to it, and for values that no queue pair has. `EOPNOTSUPP` for another
    /// way to the peer than that of the connection, and for unknown rights. Those of
    /// [`Stream::reset`] and [`Endpoint::open`]. The state is as before then.
    pub(crate) fn change_rc(&self, dev: &Device<Rsiw>, doors: &Arc<Doors>, m: &QpModify) -> Result {
        let rc = self.rc.as_ref().ok_or(EINVAL)?;
        let mut guard = rc.lock();
        let rc = &mut *guard;
        let stream = &self.stream;
        let life = stream.life();
        let from = rc.state(stream);
        if rc.destroyed || !m.is_allowed(from, self.qp_type()) {
            return Err(EINVAL);
        }
        let to = m.state.unwrap_or(from);
        let access = m.access.map(Access::of_queue_pair).transpose()?;
        let reads = [m.max_dest_rd_atomic, m.max_rd_atomic];
        if reads.iter().flatten().any(|&n| u32::from(n) > max::READS) {
            return Err(EINVAL);
        }
        match to {
            QpState::Reset => {
                rc.close();
                stream.reset(life)?;
                *rc = Attributes::new();
                return Ok(());
            }
            QpState::Err => {
                rc.close();
                stream.fail(life);
                rc.state = to;
                return Ok(());
            }
            QpState::Sqe => return Err(errno::unsupported()),
            QpState::Init | QpState::Rtr | QpState::Rts | QpState::Sqd => {}
        }
        let mut path = rc.path;
        path.update(&m.path);
        let meet = match to {
            QpState::Rtr => Some(self.peer(&path)?),
            QpState::Sqd if self.peer(&path)? != self.peer(&rc.path)? => {
                return Err(errno::unsupported());
            }
            _ => None,
        };
        stream.in_life(life, || {
            stream.set_limits(m.max_dest_rd_atomic, m.max_rd_atomic);
            if let Some(access) = access {
                stream.set_access(access);
            }
            self.queues().rnr.set(path.rnr_retry, path.min_rnr_timer);
            if let (Some(timeout), Some(retry_cnt)) = (path.timeout, path.retry_cnt) {
                stream.set_retry_time(time_to_retry(timeout, retry_cnt));
            }
        });
        // Last, as the connection may be there at once.
        if let Some((names, way)) = meet {
            rc.endpoint = Some(Endpoint::open(doors, dev, stream, names, way)?);
        }
        match (from, to) {
            (QpState::Rts, QpState::Sqd) => stream.hold(life, m.notify_drained),
            (QpState::Sqd, QpState::Rts) => stream.release(life),
            _ => {}
        }
        rc.path = path;
        rc.access = m.access.unwrap_or(rc.access);
        rc.reads.0 = m.max_dest_rd_atomic.unwrap_or(rc.reads.0);
        rc.reads.1 = m.max_rd_atomic.unwrap_or(rc.reads.1);
        rc.state = to;
        Ok(())
    }

    /// The peer that `path` names, and the way there.
    fn peer(&self, path: &QpPath) -> Result<(Names, Way)> {
        let address = path.address.ok_or(EINVAL)?;
        if !is_unicast(&address.dgid) {
            return Err(EINVAL);
        }
        let names = Names {
            ours: QpName {
                gid: address.sgid,
                qpn: self.number(),
            },
            theirs: QpName {
                gid: address.dgid,
                qpn: path.dest_qpn.ok_or(EINVAL)?,
            },
        };
        let way = Way {
            ifindex: address.ifindex,
            tos: address.traffic_class,
        };
        Ok((names, way))
    }

    /// RC, or UC.
    fn qp_type(&self) -> QpType {
        if self.stream.is_reliable() {
            QpType::Rc
        } else {
            QpType::Uc
        }
    }

    /// Whether its program connects the QP.
    pub(crate) fn is_rc(&self) -> bool {
        self.rc.is_some()
    }

    /// Replaces those attributes by what the program has set, if it connects the QP. Context:
    /// sleeping.
    pub(crate) fn tell_rc(&self, attr: &mut QpAttr) {
        let Some(rc) = &self.rc else {
            return;
        };
        let rc = rc.lock();
        attr.state = rc.state(&self.stream);
        attr.sq_draining = attr.state == QpState::Sqd && !self.queues().sq.is_idle();
        attr.access = rc.access;
        (attr.max_dest_rd_atomic, attr.max_rd_atomic) = rc.reads;
        attr.path_mtu = rc.path.path_mtu.unwrap_or(attr.path_mtu);
        attr.path = rc.path;
    }

    /// The QP is destroyed: it does not connect any more. Context: sleeping.
    pub(crate) fn end_rc(&self) {
        if let Some(rc) = &self.rc {
            let rc = &mut *rc.lock();
            rc.destroyed = true;
            rc.close();
        }
    }
}
