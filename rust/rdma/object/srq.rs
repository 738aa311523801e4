// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{CoreObject, Object, Shares};
use crate::Driver;
use kernel::sync::Arc;
use rdma_bindings as bindings;

/// A shared receive queue (`struct ib_srq`).
pub(crate) type SrqObject<D> = Object<bindings::ib_srq, SrqState<D>>;

pub(crate) struct SrqState<D: Driver> {
    pub(crate) data: Arc<D::Srq>,
    pub(crate) object: Arc<CoreObject<bindings::ib_srq>>,
    /// It belongs to a process, which posts through a mapped ring.
    pub(crate) user: bool,
    pub(crate) _shares: Shares,
}

/// A shared receive queue that is being created.
pub struct NewSrq<'a> {
    object: &'a Arc<CoreObject<bindings::ib_srq>>,
}

impl<'a> NewSrq<'a> {
    pub(crate) fn new(object: &'a Arc<CoreObject<bindings::ib_srq>>) -> Self {
        Self { object }
    }

    /// What the driver's object keeps to reach the consumer.
    pub fn handle(&self) -> SrqHandle {
        SrqHandle(self.object.clone())
    }
}

/// What can happen to a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SrqEvent {
    /// Fewer requests are left than the limit.
    LimitReached,
    /// It is unusable.
    Error,
}

/// A way to the consumer of a shared receive queue. It may be kept for any time; when the queue is
/// gone it does nothing.
#[derive(Clone)]
pub struct SrqHandle(Arc<CoreObject<bindings::ib_srq>>);

impl SrqHandle {
    /// Calls the consumer's event handler. Context: any. The consumer's handler may take its own
    /// locks; no lock of the driver's should be held.
    pub fn event(&self, event: SrqEvent) {
        let Some(srq) = self.0.try_access() else {
            return;
        };
        let srq = srq.as_ptr();
        let event = match event {
            SrqEvent::LimitReached => bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
            SrqEvent::Error => bindings::ib_event_type_IB_EVENT_SRQ_ERR,
        };
        // SAFETY: The queue is kept; handler and context are set before creation.
        unsafe {
            let mut event = bindings::ib_event {
                device: (*srq).device,
                element: bindings::ib_event__bindgen_ty_1 { srq },
                event,
            };
            if let Some(handler) = (*srq).event_handler {
                handler(&mut event, (*srq).srq_context);
            }
        }
    }
}
