// SPDX-License-Identifier: GPL-2.0

//! Objects that the core allocates, with the driver's part in them.
//!
//! The core allocates a PD, CQ, QP, SRQ, MW or user context zeroed, with as much room after the C
//! structure as the driver asks for. That room has little more than the `Arc` that the driver's
//! method returned: everything else is in the driver's object, which may live longer.

pub mod cq;
pub mod mr;
pub mod page_list;
pub(crate) mod pd;
pub mod qp;
pub mod srq;
mod vector;

use crate::ring::mem::MmapHandle;
use core::{
    cell::UnsafeCell,
    mem::{align_of, MaybeUninit},
    ops::Deref,
    ptr::NonNull,
    sync::atomic::AtomicU32,
};
use kernel::{prelude::*, sync::Arc, types::Opaque};
use kext::revocable::{OwnedGuard, Revocable};

/// A C structure `C`, followed by the state `S` of an object that was created.
#[repr(C)]
pub(crate) struct Object<C, S> {
    c: Opaque<C>,
    state: UnsafeCell<MaybeUninit<S>>,
}

impl<C, S> Object<C, S> {
    /// The size to ask the core for, in bytes.
    pub(crate) const SIZE: usize = {
        // kmalloc() aligns to 8 at least.
        assert!(align_of::<Self>() <= 8);
        size_of::<Self>()
    };

    /// Stores the state of an object that is being created.
    ///
    /// # Safety
    ///
    /// `c` must be at the start of [`Self::SIZE`] bytes, and being created.
    pub(crate) unsafe fn init(c: *mut C, state: S) {
        // SAFETY: By the contract of this function there is room for it, and nobody else uses it
        // yet.
        unsafe {
            (*c.cast::<Self>())
                .state
                .get()
                .write(MaybeUninit::new(state))
        };
    }

    /// The state of an object.
    ///
    /// # Safety
    ///
    /// `c` must have been given to [`Self::init`], and not to [`Self::take`] before the end of
    /// `'a`.
    pub(crate) unsafe fn state<'a>(c: *mut C) -> &'a S {
        // SAFETY: By the contract of this function the state is initialised. Only `take` changes
        // it.
        unsafe { (*(*c.cast::<Self>()).state.get()).assume_init_ref() }
    }

    /// Takes the state of an object that is being destroyed.
    ///
    /// # Safety
    ///
    /// `c` must have been given to [`Self::init`]. Nobody may use its state now, or later.
    pub(crate) unsafe fn take(c: *mut C) -> S {
        // SAFETY: By the contract of this function the state is initialised, and taken once.
        unsafe { (*(*c.cast::<Self>()).state.get()).assume_init_read() }
    }
}

/// The state of an object that has a part which handles share.
///
/// # Safety
///
/// [`Self::object`] must be that part, and must be revoked before [`Object::take`] takes the state.
pub(crate) unsafe trait Guarded {
    /// The C structure of the object.
    type C;

    /// The part that handles share.
    fn object(&self) -> &Arc<CoreObject<Self::C>>;
}

/// The state of an object that an operation uses. The object's destroy operation waits for the end
/// of this guard.
///
/// Operations have one that query or change the object, and may sleep, as not each caller holds the
/// object to the end. `iw_cm_disconnect()` takes a queue pair from a connection's identifier under
/// a lock, unlocks, and modifies the queue pair. If another thread destroys the queue pair
/// meanwhile, the connection ends, and the connection manager gives back the reference of that
/// identifier.
pub(crate) struct StateGuard<S: Guarded> {
    /// INVARIANT: It is the state of the object that `_access` is an access to.
    state: NonNull<S>,
    /// It owns a reference: when the access has ended, the state may be gone.
    _access: OwnedGuard<CoreObject<S::C>, CorePtr<S::C>>,
}

impl<S: Guarded> Object<S::C, S> {
    /// The state of an object, for an operation that may sleep. Errors: `EINVAL` if the object is
    /// being destroyed.
    ///
    /// # Safety
    ///
    /// As for [`Self::state`], where `'a` is the time of this call.
    pub(crate) unsafe fn guard(c: *mut S::C) -> Result<StateGuard<S>> {
        // SAFETY: By the contract of this function the state is there, and is not taken during
        // this call.
        let state = unsafe { Self::state(c) };
        let access = OwnedGuard::new(state.object().clone(), |object| object).ok_or(EINVAL)?;
        // INVARIANT: By the contract of `Guarded` it is an access to the object of the state.
        Ok(StateGuard {
            state: NonNull::from(state),
            _access: access,
        })
    }
}

impl<S: Guarded> Deref for StateGuard<S> {
    type Target = S;

    fn deref(&self) -> &S {
        // SAFETY: By the type invariant and the contract of `Guarded` the state is not taken before
        // the access has ended, which is when `self` is dropped. There are only shared references
        // to it.
        unsafe { self.state.as_ref() }
    }
}

/// A pointer to an object that the core frees when its destroy operation has returned.
pub(crate) struct CorePtr<C> {
    /// INVARIANT: Valid as long as the [`CoreObject`] that holds this is not revoked.
    c: NonNull<C>,
    /// Only for a queue pair: the connection manager's references that nobody has asked for yet.
    /// See [`qp::CmRefs::add`].
    unclaimed: AtomicU32,
}

// SAFETY: The pointer is used for C functions and fields of the object that any thread may use.
unsafe impl<C> Send for CorePtr<C> {}
// SAFETY: The pointer is used for C functions and fields of the object that any thread may use.
unsafe impl<C> Sync for CorePtr<C> {}

impl<C> CorePtr<C> {
    /// The pointer. The object lives as long as the access through which the caller got here.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut C {
        self.c.as_ptr()
    }
}

/// An object's part that its handles share: the pointer to it, from the end of its create operation
/// until its destroy operation revokes that.
pub(crate) type CoreObject<C> = Revocable<CorePtr<C>>;

/// Makes the part of `c` that its handles share. Handles do nothing until it is opened, which is
/// when the object is complete. Errors: `EINVAL` for null, `ENOMEM`. Context: sleeping.
///
/// # Safety
///
/// `c` must be valid until the result is revoked.
pub(crate) unsafe fn share<C>(c: *mut C) -> Result<Arc<CoreObject<C>>> {
    // INVARIANT: By the contract of this function `c` is valid until the result is revoked.
    let c = CorePtr {
        c: NonNull::new(c).ok_or(EINVAL)?,
        unclaimed: AtomicU32::new(0),
    };
    Arc::pin_init(Revocable::new_closed(c), GFP_KERNEL)
}

/// The most pieces of memory that an object shares with a process.
const MAX_SHARES: usize = 4;

/// The pieces of an object's memory that a process can map.
#[derive(Default)]
pub(crate) struct Shares([Option<MmapHandle>; MAX_SHARES]);

impl Shares {
    /// Adds a piece. Errors: `ENOSPC`.
    pub(crate) fn add(&mut self, handle: MmapHandle) -> Result {
        let place = self.0.iter_mut().find(|place| place.is_none());
        *place.ok_or(ENOSPC)? = Some(handle);
        Ok(())
    }

    /// Whether there is no piece.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
