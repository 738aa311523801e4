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
    /// `cq` must be a completion queue that is being created during `'a`.
    pub(crate) unsafe fn new(
        cq: *mut bindings::ib_cq,
        object: &'a Arc<CoreObject<bindings::ib_cq>>,
    ) -> Self {
        Self { cq, object }
    }

    /// A way to the consumer, which the driver's object keeps. It does nothing before the queue is
    /// complete.
    pub fn handle(&self) -> CqHandle {
        CqHandle(self.object.clone())
    }

    /// Sets the number of entries that the queue has.
    pub fn set_entries(&mut self, entries: u32) {
        // SAFETY: By the contract of `new` the queue is being created, and nobody uses its size.
        unsafe { (*self.cq).cqe = entries.try_into().unwrap_or(i32::MAX) };
    }
}

/// An event of a completion queue (`enum ib_event_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CqEvent {
    /// It has overflowed, or is otherwise unusable.
    Error,
}

/// A way to the consumer of a completion queue. It may be kept for any time. Before the queue
/// is complete, and when it is gone, its methods do nothing.
#[derive(Clone)]
pub struct CqHandle(Arc<CoreObject<bindings::ib_cq>>);

impl CqHandle {
    /// Calls the consumer's completion handler. The consumer must have armed the queue. Context:
    /// any. The handler may call any verb that is allowed in that context, also for this queue; the
    /// caller should hold no lock of the driver's.
    pub fn notify(&self) {
        let Some(cq) = self.0.try_access() else {
            return;
        };
        let cq = cq.as_ptr();
        // SAFETY: The access keeps the queue. The core has set the context, and mostly the handler,
        // before it calls `create_cq`. `__ib_alloc_cq()` sets the handler when that has returned,
        // by a plain store. Only an armed queue is notified, and the core arms this one, or gives
        // it to a consumer who does, after that store; arming takes the queue's lock, as those do
        // who find it armed. So the store comes before this load.
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
        // SAFETY: The access keeps the queue. The core has set handler and context before it calls
        // `create_cq`, or leaves the handler null.
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
