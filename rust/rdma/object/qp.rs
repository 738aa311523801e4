// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{CoreObject, Guarded, Object, Shares};
use crate::{types::DriverTypes, wc::QpToken};
use core::{mem::forget, ptr, sync::atomic::Ordering};
use kernel::{prelude::*, sync::Arc};
use rdma_bindings as bindings;

/// A queue pair (`struct ib_qp`).
pub(crate) type QpObject<D> = Object<bindings::ib_qp, QpObjectState<D>>;

pub(crate) struct QpObjectState<D: DriverTypes> {
    pub(crate) data: Arc<D::Qp>,
    pub(crate) object: Arc<CoreObject<bindings::ib_qp>>,
    /// It belongs to a process, which posts through mapped rings.
    pub(crate) user: bool,
    pub(crate) _shares: Shares,
}

// SAFETY: `object` is the part that handles share. `create_qp` and `destroy_qp` revoke it before
// they take the state.
unsafe impl<D: DriverTypes> Guarded for QpObjectState<D> {
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

    /// Finds the queue pair for the connection manager, as [`CmRefs::add`] tells. Null if the queue
    /// pair is being destroyed, or is of another device. Context: any.
    pub(crate) fn find_raw(&self, device: *mut bindings::ib_device) -> *mut bindings::ib_qp {
        let Some(guard) = self.object.try_access() else {
            return ptr::null_mut();
        };
        let qp = guard.as_ptr();
        // SAFETY: The access keeps the queue pair, and its device does not change.
        if unsafe { (*qp).device } != device {
            return ptr::null_mut();
        }
        guard.unclaimed.fetch_add(1, Ordering::Relaxed);
        forget(guard);
        qp
    }
}

/// The connection manager's references to a queue pair: accesses whose guards were forgotten.
pub(crate) struct CmRefs<'a>(&'a CoreObject<bindings::ib_qp>);

impl<'a> CmRefs<'a> {
    /// The references to the queue pair that `object` is the part of.
    pub(crate) fn to(object: &'a CoreObject<bindings::ib_qp>) -> Self {
        Self(object)
    }

    /// Takes a reference. Context: any.
    ///
    /// To get its first reference, the connection manager finds the queue pair (`iw_get_qp`) and
    /// then asks for the reference (`iw_add_ref`). In between nothing else would keep the queue
    /// pair. So [`QpHandle::find_raw`] takes the reference already, and counts it as one that
    /// nobody has asked for yet. A call gets such a reference if there is one, else it takes one
    /// more. It does not matter whose reference that is: as many calls follow as were counted. If
    /// one did not, the queue pair would never be destroyed.
    ///
    /// # Safety
    ///
    /// The caller must have found the queue pair just now, or have a reference that is not given
    /// back during the call.
    pub(crate) unsafe fn add(&self) {
        // SAFETY: By the contract of this function there is an access whose guard was forgotten,
        // and which does not end meanwhile. It is forgotten again below.
        let guard = unsafe { self.0.from_forgotten() };
        let one_less = |n: u32| n.checked_sub(1);
        let claimed = guard
            .unclaimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        if claimed.is_err() {
            forget(guard.clone());
        }
        forget(guard);
    }

    /// Gives a reference back; the queue pair may be destroyed at once. Context: any.
    ///
    /// # Safety
    ///
    /// The caller must have a reference, which it does not use any more.
    pub(crate) unsafe fn put(&self) {
        // SAFETY: By the contract of this function there is an access whose guard was forgotten,
        // and nobody else takes that back.
        drop(unsafe { self.0.from_forgotten() });
    }
}

#[kunit_tests(rdma_qp)]
mod tests {
    use super::*;
    use crate::object::share;
    use kernel::types::Opaque;

    #[test]
    fn each_reference_of_the_connection_manager_counts() -> Result {
        let qp: Opaque<bindings::ib_qp> = pin_init::zeroed();
        // SAFETY: `qp` is valid up to the end of the test, which revokes the result.
        let object = unsafe { share(qp.get()) }?;
        object.open();
        let handle = QpHandle {
            object: object.clone(),
            token: QpToken::new(qp.get()),
        };
        let refs = CmRefs::to(&object);
        // Two threads find it before either has asked for its reference; then there is one more
        // call.
        for _ in 0..2 {
            assert!(handle.find_raw(ptr::null_mut()) == qp.get());
        }
        // SAFETY: The queue pair was found just now. Then there are references.
        unsafe {
            refs.add();
            refs.add();
            refs.add();
        }
        // SAFETY: There are three references.
        unsafe {
            refs.put();
            refs.put();
            refs.put();
        }
        // With fewer than none this would fail, and the next line would wait for another one.
        assert!(object.try_access().is_some());
        assert!(object.revoke().is_some());
        Ok(())
    }
}
