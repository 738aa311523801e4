// SPDX-License-Identifier: GPL-2.0

//! What a consumer may change of a queue pair: its state, the rights of its peer, and the numbers
//! of Reads that its connection agrees on.

use super::Qp;
use crate::{mem::Access, queue::state::State};
use kernel::prelude::*;
use rdma::{QpModify, QpState};

impl Qp {
    /// Modifies the QP, which the RDMA CM connects. (For others see [`super::rc`].) Other
    /// attributes than those named above have no effect. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a transition that iWARP does not have (only connecting leads to RTS; the table
    /// is in Documentation/reference.md), and for Read limits that exceed the device's or differ
    /// from those agreed on. `EOPNOTSUPP` for rights that iWARP does not know. `EBUSY` and `ENOMEM`
    /// for a reset: see [`Stream::reset`]. Nothing is changed then.
    ///
    /// [`Stream::reset`]: crate::stream::Stream::reset
    pub(crate) fn change(&self, m: &QpModify) -> Result {
        let stream = &self.stream;
        // If another thread resets the QP meanwhile, this call is about the connection before that.
        let life = stream.life();
        let access = m.access.map(Access::of_queue_pair).transpose()?;
        stream.check_limits(m.max_dest_rd_atomic, m.max_rd_atomic)?;
        // Check the limits before the transition: it may end the connection whose limits they are
        // compared with.
        let idle = self.state() == State::Idle;
        let life = match m.state {
            Some(to) => self.change_state(to, life)?,
            None => life,
        };
        stream.in_life(life, || {
            stream.set_limits(m.max_dest_rd_atomic, m.max_rd_atomic);
            match access {
                // If nobody sets a right before the connection begins, the peer gets both. The RDMA
                // CM writes no flags then, as it does not know better (rdma_init_qp_attr()), and
                // librdmacm does not set them when it connects.
                Some(none) if idle && !none.is_remote() => stream.set_access(Access::READ_WRITE),
                Some(access) => stream.set_access(access),
                None => {}
            }
        });
        Ok(())
    }

    /// Returns the QP's life then: a reset begins another one.
    fn change_state(&self, to: QpState, life: u32) -> Result<u32> {
        match (self.state(), to) {
            // There is no connection yet that SQD could close.
            (State::Idle, QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqd) => {}
            // Connecting has brought the QP further already. A program that makes the transitions
            // itself, as InfiniBand wants them, makes them when it learns of the connection.
            (State::Rts, QpState::Init | QpState::Rtr | QpState::Rts) => {}
            (_, QpState::Err) => self.stream.fail(life),
            // The QP may be closing already: both ends disconnect, or the peer's FIN came first.
            (State::Rts | State::Closing, QpState::Sqd) => self.stream.disconnect(life),
            (State::Error, QpState::Reset) => return self.stream.reset(life),
            (State::Terminate | State::Error, QpState::Sqd) => {}
            _ => return Err(EINVAL),
        }
        Ok(life)
    }
}
