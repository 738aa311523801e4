// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{CoreObject, Guarded, Object, Shares};
use crate::{wc::QpToken, Driver};
use kernel::sync::Arc;
use rdma_bindings as bindings;

/// A queue pair (`struct ib_qp`).
pub(crate) type QpObject<D> = Object<bindings::ib_qp, QpObjectState<D>>;

pub(crate) struct QpObjectState<D: Driver> {
    pub(crate) data: Arc<D::Qp>,
    pub(crate) object: Arc<CoreObject<bindings::ib_qp>>,
    /// It belongs to a process, which posts through mapped rings.
    pub(crate) user: bool,
    pub(crate) _shares: Shares,
}

// SAFETY: `object` is the part that handles share. `create_qp` and `destroy_qp` revoke it before
// they take the state.
unsafe impl<D: Driver> Guarded for QpObjectState<D> {
    type C = bindings::ib_qp;

    fn object(&self) -> &Arc<CoreObject<bindings::ib_qp>> {
        &self.object
    }
}

/// A queue pair that is being created.
pub struct NewQp<'a> {
    qp: *mut bindings::ib_qp,
    object: &'a Arc<CoreObject<bindings::ib_qp>>,
}

impl<'a> NewQp<'a> {
    /// # Safety
    ///
    /// `qp` must be a queue pair that is being created during `'a`.
    pub(crate) unsafe fn new(
        qp: *mut bindings::ib_qp,
        object: &'a Arc<CoreObject<bindings::ib_qp>>,
    ) -> Self {
        Self { qp, object }
    }

    /// A way to the consumer, which the driver's object keeps. It does nothing before the queue
    /// pair is complete.
    pub fn handle(&self) -> QpHandle {
        QpHandle {
            object: self.object.clone(),
            token: QpToken::new(self.qp),
        }
    }

    /// Sets the queue pair's number.
    pub fn set_number(&mut self, qpn: u32) {
        // SAFETY: By the contract of `new` the queue pair is being created, and nobody uses its
        // number.
        unsafe { (*self.qp).qp_num = qpn };
    }
}

/// An event of a queue pair (`enum ib_event_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpEvent {
    /// An error that no work request can report.
    Fatal,
    /// The peer's request was in error.
    RequestError,
    /// The peer's request was not allowed.
    AccessError,
    /// Data has arrived before the consumer knew of the connection.
    CommEstablished,
    /// The send queue has drained.
    SqDrained,
    /// No more receives will be taken from the shared receive queue.
    LastWqeReached,
}

/// A way to the consumer of a queue pair. It may be kept for any time. Before the queue pair is
/// complete, and when it is gone, its methods do nothing.
#[derive(Clone)]
pub struct QpHandle {
    object: Arc<CoreObject<bindings::ib_qp>>,
    token: QpToken,
}

impl QpHandle {
    /// The name of the queue pair in its completions.
    pub fn token(&self) -> QpToken {
        self.token
    }

    /// Calls the consumer's event handler. Context: any. The handler may take locks of the
    /// consumer; the caller should hold no lock of the driver's.
    pub fn event(&self, event: QpEvent) {
        let Some(qp) = self.object.try_access() else {
            return;
        };
        let qp = qp.as_ptr();
        let event = match event {
            QpEvent::Fatal => bindings::ib_event_type_IB_EVENT_QP_FATAL,
            QpEvent::RequestError => bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            QpEvent::AccessError => bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            QpEvent::CommEstablished => bindings::ib_event_type_IB_EVENT_COMM_EST,
            QpEvent::SqDrained => bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
            QpEvent::LastWqeReached => bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        };
        // SAFETY: The access keeps the queue pair, which is complete: accesses begin when its
        // create operation is over. The core has set handler and context before that.
        unsafe {
            let mut event = bindings::ib_event {
                device: (*qp).device,
                element: bindings::ib_event__bindgen_ty_1 { qp },
                event,
            };
            if let Some(handler) = (*qp).event_handler {
                handler(&mut event, (*qp).qp_context);
            }
        }
    }

    /// A counted pointer to the queue pair, for the connection manager. Destroying the queue pair
    /// waits until that gives it back (`iw_rem_ref`). Null if the queue pair is being destroyed, or
    /// is of another device.
    pub(crate) fn get_raw(&self, device: *mut bindings::ib_device) -> *mut bindings::ib_qp {
        let Some(guard) = self.object.try_access() else {
            return core::ptr::null_mut();
        };
        let qp = guard.as_ptr();
        // SAFETY: The access keeps the queue pair, and its device does not change.
        if unsafe { (*qp).device } != device {
            return core::ptr::null_mut();
        }
        core::mem::forget(guard);
        qp
    }
}
