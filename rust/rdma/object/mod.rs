// SPDX-License-Identifier: GPL-2.0

//! The objects that the core allocates, with the driver's part in them.
//!
//! The core allocates a PD, CQ, QP, SRQ or user context zeroed, with as much room behind the C
//! structure as the driver asks for. In it is little more than the `Arc` that the driver's method
//! has returned: everything else is in there, and may live longer.

pub mod cq;
pub mod mr;
pub mod qp;
pub mod srq;

use crate::{revocable::Revocable, ring::mem::MmapHandle, span::KernelMemory, Driver};
use core::{
    cell::UnsafeCell,
    mem::{align_of, MaybeUninit},
    ptr::NonNull,
};
use kernel::{prelude::*, sync::Arc, types::Opaque};
use rdma_bindings as bindings;

/// A C structure `C`, followed by the state `S` of an object that was created.
#[repr(C)]
pub(crate) struct Object<C, S> {
    c: Opaque<C>,
    state: UnsafeCell<MaybeUninit<S>>,
}

impl<C, S> Object<C, S> {
    /// The size to ask the core for.
    pub(crate) const SIZE: usize = {
        // What kmalloc() aligns to at least.
        assert!(align_of::<Self>() <= 8);
        size_of::<Self>()
    };

    /// Stores the state of an object that is being created.
    ///
    /// # Safety
    ///
    /// `c` is at the start of [`Self::SIZE`] bytes, and its creation is in progress.
    pub(crate) unsafe fn init(c: *mut C, state: S) {
        // SAFETY: By the requirement the memory is there, and nobody else uses it yet.
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
    /// `c` was given to [`Self::init`], and not to [`Self::take`] before the end of `'a`.
    pub(crate) unsafe fn state<'a>(c: *mut C) -> &'a S {
        // SAFETY: By the requirement it is initialised; it is only changed by `take`.
        unsafe { (*(*c.cast::<Self>()).state.get()).assume_init_ref() }
    }

    /// Takes the state of an object that is being destroyed.
    ///
    /// # Safety
    ///
    /// `c` was given to [`Self::init`], nobody uses its state, and it is not used any more.
    pub(crate) unsafe fn take(c: *mut C) -> S {
        // SAFETY: By the requirement it is initialised, and taken once.
        unsafe { (*(*c.cast::<Self>()).state.get()).assume_init_read() }
    }
}

/// A pointer to an object that the core frees when its destroy callback returns.
pub(crate) struct CorePtr<C>(
    /// INVARIANT: Valid as long as the [`CoreObject`] that this is in is not revoked.
    NonNull<C>,
);

// SAFETY: It is used for C functions on the object that are meant for any context.
unsafe impl<C> Send for CorePtr<C> {}
// SAFETY: As above.
unsafe impl<C> Sync for CorePtr<C> {}

impl<C> CorePtr<C> {
    /// The object; it lives as long as the access through which this was reached.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut C {
        self.0.as_ptr()
    }
}

/// What the handles of an object share with it: the way to the consumer, until destroy revokes it.
pub(crate) type CoreObject<C> = Revocable<CorePtr<C>>;

/// What the handles of `c` are to share. Errors: `EINVAL` for null, `ENOMEM`. Context: sleeping.
///
/// # Safety
///
/// `c` is valid, and what is returned is revoked before that ends.
pub(crate) unsafe fn share<C>(c: *mut C) -> Result<Arc<CoreObject<C>>> {
    // INVARIANT: By the contract of this function.
    let c = CorePtr(NonNull::new(c).ok_or(EINVAL)?);
    Arc::pin_init(Revocable::new(c), GFP_KERNEL)
}

/// A user context (`struct ib_ucontext`).
pub(crate) type ContextObject<D> = Object<bindings::ib_ucontext, Arc<<D as Driver>::Context>>;

/// A protection domain (`struct ib_pd`).
pub(crate) type PdObject<D> = Object<bindings::ib_pd, Arc<<D as Driver>::Pd>>;

/// The memory that an object shares with a process, at most this many pieces.
const MAX_SHARES: usize = 4;

/// What of an object's memory a process can map.
#[derive(Default)]
pub(crate) struct Shares([Option<MmapHandle>; MAX_SHARES]);

impl Shares {
    /// Adds one. Fails with `ENOSPC`.
    pub(crate) fn add(&mut self, handle: MmapHandle) -> Result {
        let place = self.0.iter_mut().find(|place| place.is_none());
        *place.ok_or(ENOSPC)? = Some(handle);
        Ok(())
    }
}

/// A protection domain that is being created.
pub struct NewPd {
    memory: Option<KernelMemory>,
}

impl NewPd {
    pub(crate) fn new(memory: Option<KernelMemory>) -> Self {
        Self { memory }
    }

    /// For a consumer in the kernel: the right to use the addresses that it names.
    pub fn kernel_memory(&self) -> Option<KernelMemory> {
        self.memory
    }
}
