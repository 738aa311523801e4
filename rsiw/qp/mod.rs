// SPDX-License-Identifier: GPL-2.0

//! The queue pair, as the consumer sees it: its number, its attributes and states, its posts. The
//! [stream](crate::stream) carries out the posted requests.
//!
//! - [`number`]: the queue pairs of a device, by number.
//! - [`modify`]: what a consumer may change.
//! - [`rc`]: the same, where the program connects the queue pair itself.
//! - [`statistics`]: what the queue pairs count, added up.

mod modify;
pub(crate) mod number;
mod rc;
pub(crate) mod statistics;

use crate::{
    cq::{Cq, Tag},
    device::Device,
    limit::Held,
    pd::Pd,
    queue::{self, rq::RecvQueue, sq::SendQueue, state::State, Queues},
    stream::Stream,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use number::QpNumber;
use rc::Attributes;
use rdma::{Consumer, QpHandle};

/// A reliable connected queue pair.
pub(crate) struct Qp {
    pub(crate) stream: Arc<Stream>,
    number: QpNumber,
    /// The queue pair as InfiniBand has it, if its program connects it.
    rc: Option<Pin<KBox<Mutex<Attributes>>>>,
}

/// The parts that a QP is made of.
pub(crate) struct Parts<S> {
    pub(crate) dev: Arc<Device>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) number: QpNumber,
    pub(crate) handle: QpHandle,
    pub(crate) scq: Arc<Cq>,
    pub(crate) rcq: Arc<Cq>,
    pub(crate) sq: S,
    pub(crate) rq: Arc<RecvQueue>,
    pub(crate) rq_is_shared: bool,
    pub(crate) consumer: Consumer,
    pub(crate) held: Held,
}

impl Qp {
    /// Makes a QP in IDLE. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(p: Parts<impl PinInit<SendQueue>>) -> Result<Arc<Self>> {
        let tag = Tag {
            number: p.number.id(),
            token: p.handle.token(),
        };
        let queues = queue::Parts {
            dev: p.dev,
            pd: p.pd,
            tag,
            scq: p.scq,
            rcq: p.rcq,
            sq: p.sq,
            rq: p.rq,
            rq_is_shared: p.rq_is_shared,
        };
        let rc = if queues.dev.is_rc() {
            Some(KBox::pin_init(
                new_mutex!(Attributes::new(), "rsiw_qp_rc"),
                p.consumer.flags(),
            )?)
        } else {
            None
        };
        let qp = Self {
            rc,
            stream: Stream::new(queues, p.handle, p.consumer, p.held)?,
            number: p.number,
        };
        Ok(Arc::new(qp, p.consumer.flags())?)
    }

    /// The number.
    pub(crate) fn number(&self) -> u32 {
        self.number.id()
    }

    /// The queues.
    pub(crate) fn queues(&self) -> &Queues {
        &self.stream.queues
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.queues().state()
    }

    /// Serves the doorbell of a process: flushes its requests in ERROR, else runs tx and looks for
    /// a late receive. Context: sleeping.
    pub(crate) fn ring_doorbell(&self) {
        match self.state() {
            State::Error => {
                let queues = self.queues();
                let flushed = queues.sq.flush_ring(None, queues.send_out());
                self.stream.after_send(flushed);
            }
            _ => {
                self.stream.run_tx();
                self.stream.look_for_receive();
            }
        }
    }
}
