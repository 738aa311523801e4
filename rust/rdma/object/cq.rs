// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{CoreObject, Object, Shares};
use crate::Driver;
use kernel::sync::Arc;
use rdma_bindings as bindings;

/// A completion queue (`struct ib_cq`).
pub(crate) type CqObject<D> = Object<bindings::ib_cq, CqState<D>>;

pub(crate) struct CqState<D: Driver> {
    pub(crate) data: Arc<D::Cq>,
    pub(crate) object: Arc<CoreObject<bindings::ib_cq>>,
    pub(crate) _shares: Shares,
}

/// A completion queue that is being created.
pub struct NewCq<'a> {
    cq: *mut bindings::ib_cq,
    object: &'a Arc<CoreObject<bindings::ib_cq>>,
}

impl<'a> NewCq<'a> {
    /// # Safety
    ///
    /// `cq` is being created during `'a`.
    pub(crate) unsafe fn new(
        cq: *mut bindings::ib_cq,
        object: &'a Arc<CoreObject<bindings::ib_cq>>,
    ) -> Self {
        Self { cq, object }
    }

    /// What the driver's object keeps to call the consumer.
    pub fn handle(&self) -> CqHandle {
        CqHandle(self.object.clone())
    }

    /// Sets the number of entries that the queue has.
    pub fn set_entries(&mut self, entries: u32) {
        // SAFETY: The queue is being created.
        unsafe { (*self.cq).cqe = entries.try_into().unwrap_or(i32::MAX) };
    }
}

/// What can happen to a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CqEvent {
    /// It has overflowed, or is otherwise unusable.
    Error,
}

/// A way to the consumer of a completion queue. It may be kept for any time; when the queue is
/// gone it does nothing.
#[derive(Clone)]
pub struct CqHandle(Arc<CoreObject<bindings::ib_cq>>);

impl CqHandle {
    /// Calls the consumer's completion handler. Context: any. The handler may call any verb that
    /// is allowed in that context, also for this queue; so no lock of the driver's should be held.
    pub fn notify(&self) {
        let Some(cq) = self.0.try_access() else {
            return;
        };
        let cq = cq.as_ptr();
        // SAFETY: The queue is kept; handler and context are set before creation.
        unsafe {
            if let Some(handler) = (*cq).comp_handler {
                handler(cq, (*cq).cq_context);
            }
        }
    }

    /// Calls the consumer's event handler. Context: any, as for [`Self::notify`].
    pub fn event(&self, event: CqEvent) {
        let Some(cq) = self.0.try_access() else {
            return;
        };
        let cq = cq.as_ptr();
        let event = match event {
            CqEvent::Error => bindings::ib_event_type_IB_EVENT_CQ_ERR,
        };
        // SAFETY: The queue is kept; handler and context are set before creation.
        unsafe {
            let mut event = bindings::ib_event {
                device: (*cq).device,
                element: bindings::ib_event__bindgen_ty_1 { cq },
                event,
            };
            if let Some(handler) = (*cq).event_handler {
                handler(&mut event, (*cq).cq_context);
            }
        }
    }
}
