// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    vector::{call_handler, Vector},
    CoreObject, Guarded, Object, Shares,
};
use crate::{owner::Consumer, types::DriverTypes};
use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};
use rdma_bindings as bindings;

/// A completion queue (`struct ib_cq`).
pub(crate) type CqObject<D> = Object<bindings::ib_cq, CqState<D>>;

pub(crate) struct CqState<D: DriverTypes> {
    pub(crate) data: Arc<D::Cq>,
    pub(crate) handle: CqHandle,
    /// What a process can map. The lock has one resize at a time.
    pub(crate) shares: Pin<KBox<Mutex<Shares>>>,
}

// SAFETY: The handle's `object` is the part that handles share. `destroy_cq` revokes it before it
// takes the state.
unsafe impl<D: DriverTypes> Guarded for CqState<D> {
    type C = bindings::ib_cq;

    fn object(&self) -> &Arc<CoreObject<bindings::ib_cq>> {
        &self.handle.object
    }
}

/// A completion queue that is being created.
pub struct NewCq<'a> {
    cq: *mut bindings::ib_cq,
    handle: &'a CqHandle,
}

impl<'a> NewCq<'a> {
    /// # Safety
    ///
    /// `cq` must be a completion queue that is being created during `'a`.
    pub(crate) unsafe fn new(cq: *mut bindings::ib_cq, handle: &'a CqHandle) -> Self {
        Self { cq, handle }
    }

    /// A way to the consumer, which the driver's object keeps. It does nothing before the queue is
    /// complete.
    pub fn handle(&self) -> CqHandle {
        self.handle.clone()
    }

    /// Whether completions of a process' queue can have events. Without a completion channel
    /// nobody could get them: `ib_uverbs_comp_handler()` then does nothing.
    pub fn has_channel(&self) -> bool {
        // SAFETY: By the contract of `new` the queue is being created. The core has set its
        // context, which is the channel of a process' queue, before it called `create_cq`.
        unsafe { !(*self.cq).cq_context.is_null() }
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
pub struct CqHandle {
    object: Arc<CoreObject<bindings::ib_cq>>,
    /// Of a queue of the kernel's.
    vector: Option<Arc<Vector>>,
}

impl CqHandle {
    /// The way to `object`, on the completion vector `vector`. Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn new(
        object: Arc<CoreObject<bindings::ib_cq>>,
        vector: u32,
        consumer: Consumer,
    ) -> Result<Self> {
        let vector = match consumer {
            Consumer::Kernel => Some(Vector::new(vector, &object)?),
            Consumer::Process => None,
        };
        Ok(Self { object, vector })
    }

    /// The queue is complete: from now on the handles do something.
    pub(crate) fn open(&self) {
        self.object.open();
    }

    /// The queue goes: when this returns, no handler runs, and none will be called. Context:
    /// sleeping.
    pub(crate) fn revoke(&self) {
        self.object.revoke();
        if let Some(vector) = &self.vector {
            vector.end();
        }
    }

    /// Calls the consumer's completion handler, or for a consumer in the kernel has the processor
    /// of the queue's completion vector call it. The consumer must have armed the queue. Context:
    /// any. The handler may call any verb that is allowed in that context, also for this queue; the
    /// caller should hold no lock of the driver's.
    pub fn notify(&self) {
        let Some(cq) = self.object.try_access() else {
            return;
        };
        match &self.vector {
            Some(vector) => vector.call(&cq),
            None => call_handler(&cq),
        }
    }

    /// Waits until the handler has been called for each [`Self::notify`] that has returned.
    /// Context: sleeping.
    pub fn wait(&self) {
        if let Some(vector) = &self.vector {
            vector.wait();
        }
    }

    /// Calls the consumer's event handler. Context: any, as for [`Self::notify`].
    pub fn event(&self, event: CqEvent) {
        let Some(cq) = self.object.try_access() else {
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
