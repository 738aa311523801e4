// SPDX-License-Identifier: GPL-2.0

//! An identifier of a connection manager that is a test.

use super::CmId;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    types::Opaque,
};
use rdma_bindings as bindings;

/// An event that a driver has reported, with its status as a negative errno, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum TestEvent {
    ConnectReply(i32),
    ConnectRequest,
    Established,
    Disconnect,
    Close(i32),
    Other,
}

/// The test's side of an identifier: keeps the events that are reported.
#[repr(C)]
#[pin_data]
pub struct TestId {
    /// INVARIANT: The first field, so that a pointer to it is one to the object.
    c: Opaque<bindings::iw_cm_id>,
    #[pin]
    events: Mutex<KVec<TestEvent>>,
}

// SAFETY: The C structure is not changed once it is made; the rest is behind a lock.
unsafe impl Send for TestId {}
// SAFETY: As above.
unsafe impl Sync for TestId {}

impl TestId {
    /// A new identifier, without addresses. Context: sleeping. Errors: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let c: Opaque<bindings::iw_cm_id> = pin_init::zeroed();
        // SAFETY: Zeroes are a valid value of the structure, which is not shared yet.
        unsafe {
            (*c.get()).add_ref = Some(Self::add_ref);
            (*c.get()).rem_ref = Some(Self::rem_ref);
            (*c.get()).event_handler = Some(Self::event);
        }
        Arc::pin_init(
            pin_init!(Self {
                c,
                events <- new_mutex!(KVec::new(), "rdma_test_id"),
            }),
            GFP_KERNEL,
        )
    }

    /// What a driver gets.
    pub fn id(self: &Arc<Self>) -> CmId {
        // SAFETY: `self` keeps the identifier; `add_ref` takes a reference for the driver.
        unsafe { CmId::new(self.c.get()) }
    }

    /// The events so far. Context: sleeping. Errors: `ENOMEM`.
    pub fn events(&self) -> Result<KVec<TestEvent>> {
        let mut events = KVec::new();
        events.extend_from_slice(&self.events.lock(), GFP_KERNEL)?;
        Ok(events)
    }

    /// # Safety
    ///
    /// `id` is the first field of a [`TestId`] in an `Arc`, which has a reference.
    unsafe extern "C" fn add_ref(id: *mut bindings::iw_cm_id) {
        // SAFETY: By the contract of this function and the type invariant this is the pointer that
        // `Arc::into_raw` gives. The reference that is made of it here is forgotten again, so the
        // count goes up by one.
        let this = unsafe { Arc::from_raw(id.cast::<Self>().cast_const()) };
        core::mem::forget(this.clone());
        core::mem::forget(this);
    }

    /// # Safety
    ///
    /// As for [`Self::add_ref`], and the reference is given back.
    unsafe extern "C" fn rem_ref(id: *mut bindings::iw_cm_id) {
        // SAFETY: By the contract of this function; the reference is one that `add_ref` has made.
        drop(unsafe { Arc::from_raw(id.cast::<Self>().cast_const()) });
    }

    /// # Safety
    ///
    /// As for [`Self::add_ref`]; `event` is valid.
    unsafe extern "C" fn event(
        id: *mut bindings::iw_cm_id,
        event: *mut bindings::iw_cm_event,
    ) -> i32 {
        // SAFETY: By the contract of this function; the caller's reference keeps the object.
        let (this, event) = unsafe { (&*id.cast::<Self>(), &*event) };
        let event = match event.event {
            // Consumers take any pointer but null for one to private data.
            _ if event.private_data_len == 0 && !event.private_data.is_null() => TestEvent::Other,
            bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY => {
                TestEvent::ConnectReply(event.status)
            }
            bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST => TestEvent::ConnectRequest,
            bindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED => TestEvent::Established,
            bindings::iw_cm_event_type_IW_CM_EVENT_DISCONNECT => TestEvent::Disconnect,
            bindings::iw_cm_event_type_IW_CM_EVENT_CLOSE => TestEvent::Close(event.status),
            _ => TestEvent::Other,
        };
        match this.events.lock().push(event, GFP_KERNEL) {
            Ok(()) => 0,
            Err(_) => ENOMEM.to_errno(),
        }
    }
}
