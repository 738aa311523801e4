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
    queue::{self, sq::SendQueue, state::State, Queues},
    quota::Held,
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

impl Qp {
    /// Makes a QP in IDLE of `queues`. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        number: QpNumber,
        queues: queue::Parts<impl PinInit<SendQueue>>,
        handle: QpHandle,
        consumer: Consumer,
        held: Held,
    ) -> Result<Arc<Self>> {
        let rc = if queues.dev.is_rc() {
            Some(KBox::pin_init(
                new_mutex!(Attributes::new(), "rsiw_qp_rc"),
                consumer.flags(),
            )?)
        } else {
            None
        };
        let qp = Self {
            rc,
            stream: Stream::new(queues, handle, consumer, held)?,
            number,
        };
        Ok(Arc::new(qp, consumer.flags())?)
    }

    /// The number.
    pub(crate) fn number(&self) -> u32 {
        self.number.id()
    }

    /// The queues.
    pub(crate) fn queues(&self) -> &Queues {
        &self.stream.queues
    }

    /// The state. It is CLOSING from the moment at which the consumer asks for an orderly close,
    /// which ends the send queue, although the connection's worker begins the close.
    pub(crate) fn state(&self) -> State {
        match self.queues().state() {
            State::Rts if self.queues().sq.has_end() => State::Closing,
            state => state,
        }
    }

    /// Serves the doorbell of a process: flushes its requests in ERROR, else runs tx and looks for
    /// a late receive. Context: sleeping.
    pub(crate) fn ring_doorbell(&self) {
        match self.queues().state() {
            State::Error => self.stream.flush_requests(),
            _ => {
                self.stream.run_tx();
                self.stream.look_for_receive();
            }
        }
    }
}
