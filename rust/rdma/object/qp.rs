// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{CoreObject, Object, Shares};
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

/// A queue pair that is being created.
pub struct NewQp<'a> {
    qp: *mut bindings::ib_qp,
    object: &'a Arc<CoreObject<bindings::ib_qp>>,
}

impl<'a> NewQp<'a> {
    /// # Safety
    ///
    /// `qp` is being created during `'a`.
    pub(crate) unsafe fn new(
        qp: *mut bindings::ib_qp,
        object: &'a Arc<CoreObject<bindings::ib_qp>>,
    ) -> Self {
        Self { qp, object }
    }

    /// What the driver's object keeps to reach the consumer.
    pub fn handle(&self) -> QpHandle {
        QpHandle {
            object: self.object.clone(),
            token: QpToken::new(self.qp),
        }
    }

    /// Sets the queue pair's number.
    pub fn set_number(&mut self, qpn: u32) {
        // SAFETY: The queue pair is being created.
        unsafe { (*self.qp).qp_num = qpn };
    }
}

/// What can happen to a queue pair.
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

/// A way to the consumer of a queue pair. It may be kept for any time; when the queue pair is gone
/// it does nothing.
#[derive(Clone)]
pub struct QpHandle {
    object: Arc<CoreObject<bindings::ib_qp>>,
    token: QpToken,
}

impl QpHandle {
    /// What completions of the queue pair carry.
    pub fn token(&self) -> QpToken {
        self.token
    }

    /// Calls the consumer's event handler. Context: any. The consumer's handler may take its own
    /// locks; no lock of the driver's should be held.
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
        // SAFETY: The queue pair is kept; handler and context are set before creation.
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

    /// A counted pointer to the queue pair, for the connection manager: destroying the queue pair
    /// waits until it is given back (`iw_rem_ref`). Null if the queue pair is going away, or
    /// of another device.
    pub(crate) fn get_raw(&self, device: *mut bindings::ib_device) -> *mut bindings::ib_qp {
        let Some(guard) = self.object.try_access() else {
            return core::ptr::null_mut();
        };
        let qp = guard.as_ptr();
        // SAFETY: The queue pair is kept; its device does not change.
        if unsafe { (*qp).device } != device {
            return core::ptr::null_mut();
        }
        core::mem::forget(guard);
        qp
    }
}
