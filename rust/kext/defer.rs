// SPDX-License-Identifier: GPL-2.0

//! A box whose content is dropped in process context, wherever the box itself is dropped.

use crate::module;
use core::{mem::ManuallyDrop, ops::Deref};
use kernel::{
    prelude::*,
    static_lock_class,
    workqueue::{impl_has_work, Work, WorkItem},
};

/// Name of the lock class. One string for all crates that have such boxes: lockdep compares
/// addresses.
static NAME: &CStr = c"kext_deferred";

#[pin_data]
struct Inner<T> {
    #[pin]
    work: Work<Inner<T>>,
    value: T,
}

impl_has_work! {
    impl{T} HasWork<Self> for Inner<T> { self.work }
}

impl<T: Send + 'static> WorkItem for Inner<T> {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        drop(this);
    }
}

/// A boxed `T` that the reclaim workqueue drops.
pub struct Deferred<T: Send + 'static>(ManuallyDrop<Pin<KBox<Inner<T>>>>);

impl<T: Send + 'static> Deferred<T> {
    /// Boxes `value`. Errors: `ENODEV` without a [`module::Core`], `ENOMEM`; in either case `value`
    /// is dropped here. Context: sleeping.
    pub fn new(value: T) -> Result<Self> {
        if !module::is_up() {
            return Err(ENODEV);
        }
        let inner = KBox::pin_init(
            pin_init!(Inner {
                work <- Work::new(NAME, static_lock_class!()),
                value,
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(ManuallyDrop::new(inner)))
    }

    /// Drops the value at once. Context: sleeping.
    pub fn drop_now(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: The box is taken once: `this` is neither used nor dropped after this.
        drop(unsafe { ManuallyDrop::take(&mut this.0) });
    }
}

impl<T: Send + 'static> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Send + 'static> Drop for Deferred<T> {
    fn drop(&mut self) {
        // SAFETY: The box is taken once: `drop` runs once, and not after `drop_now`.
        let inner = unsafe { ManuallyDrop::take(&mut self.0) };
        let mut inner = Some(inner);
        if module::with_reclaim(|queue| inner.take().map(|inner| queue.enqueue(inner))).is_none() {
            // The module has nearly gone. A leak is better than to sleep in an unknown context.
            pr_err!("released after the module's end\n");
            core::mem::forget(inner);
        }
    }
}
