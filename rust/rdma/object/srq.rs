// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{CoreObject, Guarded, Object, Shares};
use crate::types::DriverTypes;
use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};
use rdma_bindings as bindings;

/// A shared receive queue (`struct ib_srq`).
pub(crate) type SrqObject<D> = Object<bindings::ib_srq, SrqState<D>>;

pub(crate) struct SrqState<D: DriverTypes> {
    pub(crate) data: Arc<D::Srq>,
    pub(crate) object: Arc<CoreObject<bindings::ib_srq>>,
    /// It belongs to a process, which posts through a mapped ring.
    pub(crate) user: bool,
    /// What a process can map. The lock has one resize at a time.
    pub(crate) shares: Pin<KBox<Mutex<SrqShares>>>,
}

/// What a process can map of a shared receive queue.
#[derive(Default)]
pub(crate) struct SrqShares {
    pub(crate) used: Shares,
    /// What the queue is going to use in place of that.
    pub(crate) prepared: Shares,
}

// SAFETY: `object` is the part that handles share. `destroy_srq` revokes it before it takes the
// state.
unsafe impl<D: DriverTypes> Guarded for SrqState<D> {
    type C = bindings::ib_srq;

    fn object(&self) -> &Arc<CoreObject<bindings::ib_srq>> {
        &self.object
    }
}

/// A shared receive queue that is being created.
pub struct NewSrq<'a> {
    object: &'a Arc<CoreObject<bindings::ib_srq>>,
}

impl<'a> NewSrq<'a> {
    pub(crate) fn new(object: &'a Arc<CoreObject<bindings::ib_srq>>) -> Self {
        Self { object }
    }

    /// A way to the consumer, which the driver's object keeps. It does nothing before the queue is
    /// complete.
    pub fn handle(&self) -> SrqHandle {
        SrqHandle(self.object.clone())
    }
}

/// An event of a shared receive queue (`enum ib_event_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SrqEvent {
    /// The queue has fewer requests than its limit.
    LimitReached,
    /// The queue is unusable.
    Error,
}

/// A way to the consumer of a shared receive queue. It may be kept for any time. When the queue is
/// gone, its methods do nothing.
#[derive(Clone)]
pub struct SrqHandle(Arc<CoreObject<bindings::ib_srq>>);

impl SrqHandle {
    /// Calls the consumer's event handler. Context: any. The handler may take locks of the
    /// consumer; the caller should hold no lock of the driver's.
    pub fn event(&self, event: SrqEvent) {
        let Some(srq) = self.0.try_access() else {
            return;
        };
        let srq = srq.as_ptr();
        let event = match event {
            SrqEvent::LimitReached => bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
            SrqEvent::Error => bindings::ib_event_type_IB_EVENT_SRQ_ERR,
        };
        // SAFETY: The access keeps the queue. The core sets handler and context before it calls
        // `create_srq`.
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
