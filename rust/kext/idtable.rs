// SPDX-License-Identifier: GPL-2.0

//! Tables of numbered objects: queue pairs by number, memory regions by index.
//!
//! A table is an xarray of `Arc`s. Any context looks objects up under RCU; changes are made under
//! the xarray's own lock. The table's reference to a removed object is dropped after a grace
//! period, in process context. A lookup may have a reference of its own for longer than that.

use crate::{module, system};
use core::{marker::PhantomData, mem, ptr::NonNull};
use kernel::{
    alloc::Flags,
    container_of,
    error::to_result,
    ffi::c_ulong,
    prelude::*,
    sync::{rcu, Arc},
    types::Opaque,
};
use rdma_bindings as bindings;

/// An entry of the xarray: a reference that waits for a grace period before it is dropped.
#[repr(C)]
struct Entry<T> {
    free: Opaque<bindings::rcu_work>,
    object: Arc<T>,
}

/// A table of `Arc<T>` by numbers in a range.
pub struct IdTable<T: Send + Sync + 'static> {
    // Boxed: an xarray must not move.
    array: Pin<KBox<RawArray>>,
    min: u32,
    max: u32,
    _objects: PhantomData<Arc<T>>,
}

#[pin_data]
struct RawArray {
    #[pin]
    xa: Opaque<bindings::xarray>,
    /// Where cyclic allocation goes on. Changed under the xarray's lock only.
    next: Opaque<u32>,
}

// SAFETY: The xarray is changed under its lock and read under RCU. It holds `Arc<T>`s, which any
// thread may have.
unsafe impl<T: Send + Sync> Send for IdTable<T> {}
// SAFETY: Lookups run under RCU and changes under the xarray's lock, on any thread. They give out
// `Arc<T>`s, which any thread may have.
unsafe impl<T: Send + Sync> Sync for IdTable<T> {}

impl<T: Send + Sync + 'static> IdTable<T> {
    /// Makes an empty table for the numbers `min` to `max`, both included. Errors: `ENODEV` without
    /// a [`module::Core`], `EINVAL` if `min` is larger than `max`, `ENOMEM`. Context: sleeping.
    pub fn new(min: u32, max: u32) -> Result<Self> {
        if !module::is_up() {
            return Err(ENODEV);
        }
        if min > max {
            return Err(EINVAL);
        }
        let array = KBox::pin_init(
            pin_init!(RawArray {
                xa <- Opaque::ffi_init(|slot| {
                    let flags = bindings::XA_FLAGS_ALLOC | bindings::XA_FLAGS_LOCK_IRQ;
                    // SAFETY: `slot` is valid for writes.
                    unsafe { bindings::xa_init_flags(slot, flags) }
                }),
                next: Opaque::new(min),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            array,
            min,
            max,
            _objects: PhantomData,
        })
    }

    fn xa(&self) -> *mut bindings::xarray {
        self.array.xa.get()
    }

    /// Reserves the next free number after the one reserved last. Errors: `EBUSY` when all are in
    /// use, `ENOMEM`. Context: sleeping.
    pub fn reserve_cyclic(&self) -> Result<Reserved<'_, T>> {
        let mut id = 0;
        // SAFETY: The xarray is initialised for allocation with interrupts disabled, and interrupts
        // are enabled here. `id` is valid for writes. `next` changes under the xarray's lock only,
        // which the function takes.
        let ret = unsafe {
            bindings::xa_alloc_cyclic_irq(
                self.xa(),
                &mut id,
                self.min,
                self.max,
                self.array.next.get(),
                bindings::GFP_KERNEL,
            )
        };
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        Ok(Reserved { table: self, id })
    }

    //= 5040-8.1.1-9
    /// Reserves a free number that cannot be guessed: the first free one from a random number on.
    /// Errors: `EBUSY` when all are in use, `ENOMEM`. Context: sleeping.
    pub fn reserve_random(&self) -> Result<Reserved<'_, T>> {
        let span = u64::from(self.max - self.min) + 1;
        let random = u64::from(system::random_u32());
        // The remainder is below `span`, which is at most 2^32, so the sum is at most `max`.
        let start = self.min + (random % span) as u32;
        match self.reserve_in(start, self.max) {
            Err(e) if e == EBUSY && start > self.min => self.reserve_in(self.min, start - 1),
            result => result,
        }
    }

    fn reserve_in(&self, min: u32, max: u32) -> Result<Reserved<'_, T>> {
        let mut id = 0;
        // SAFETY: The xarray is initialised for allocation with interrupts disabled, and interrupts
        // are enabled here. `id` is valid for writes.
        let ret =
            unsafe { bindings::xa_alloc_irq(self.xa(), &mut id, min, max, bindings::GFP_KERNEL) };
        to_result(ret)?;
        Ok(Reserved { table: self, id })
    }

    /// Puts `object` into the table under a number that [`Reserved::keep`] returned. The entry is
    /// allocated with `flags`. Errors: `ENOMEM`; the number stays reserved then. Context: sleeping.
    pub fn publish(&self, id: u32, object: Arc<T>, flags: Flags) -> Result {
        let free = Opaque::uninit();
        let entry = KBox::into_raw(KBox::new(Entry { free, object }, flags)?);
        // SAFETY: The entry is where it stays, and nobody has used its work yet.
        unsafe { bindings::init_rcu_work((*entry).free.get(), Some(Self::reclaim)) };
        match self.store(id, entry) {
            // There was one if the reservation was removed, and somebody else has used the number.
            Ok(old) => old.map_or((), Self::free),
            Err(e) => {
                // SAFETY: The entry comes from a box, and was not stored, so nobody else has it.
                drop(unsafe { KBox::from_raw(entry) });
                return Err(e);
            }
        }
        Ok(())
    }

    /// Removes the object with that number from the table. The number stays reserved until
    /// [`Self::remove`]. Context: process, interrupts enabled.
    pub fn retire(&self, id: u32) -> Option<Arc<T>> {
        // A slot that exists needs no memory. A number that was not reserved becomes so, which is
        // no worse than a number that is never used again.
        let entry = self.store(id, core::ptr::null_mut()).ok().flatten()?;
        // SAFETY: Only this call has taken the entry out, and it frees it below.
        let object = unsafe { entry.as_ref() }.object.clone();
        Self::free(entry);
        Some(object)
    }

    /// Stores an entry, or null for a reservation. Returns the entry that was there.
    fn store(&self, id: u32, entry: *mut Entry<T>) -> Result<Option<NonNull<Entry<T>>>> {
        // SAFETY: The xarray is initialised, and interrupts are enabled, as callers may sleep.
        let old = unsafe {
            bindings::xa_store_irq(self.xa(), id as c_ulong, entry.cast(), bindings::GFP_KERNEL)
        };
        // SAFETY: `xa_err` only looks at the value of the pointer.
        to_result(unsafe { bindings::xa_err(old) })?;
        Ok(NonNull::new(old.cast()))
    }

    /// Calls `f` with the object of that number; `None` if there is none. Context: any. `f` runs
    /// under the RCU read lock, so it must not sleep.
    #[inline]
    pub fn with<R>(&self, id: u32, f: impl FnOnce(&Arc<T>) -> R) -> Option<R> {
        let _guard = rcu::read_lock();
        // SAFETY: The xarray is initialised.
        let entry = unsafe { bindings::xa_load(self.xa(), id as c_ulong) }.cast::<Entry<T>>();
        if entry.is_null() {
            return None;
        }
        // SAFETY: `publish` has stored the entry, and it is freed a grace period after it was taken
        // out at the earliest. The RCU read lock is held.
        Some(f(unsafe { &(*entry).object }))
    }

    /// A reference to the object of that number. Context: any.
    #[inline]
    pub fn get(&self, id: u32) -> Option<Arc<T>> {
        self.with(id, Arc::clone)
    }

    /// Removes the object with that number from the table. The number is free at once. Context:
    /// any.
    pub fn remove(&self, id: u32) -> Option<Arc<T>> {
        // SAFETY: The xarray is initialised, and the function disables interrupts itself.
        let entry = unsafe { bindings::xa_erase_irqsave(self.xa(), id as c_ulong) };
        let entry = NonNull::new(entry.cast::<Entry<T>>())?;
        // SAFETY: Only this call has taken the entry out, and it frees it below.
        let object = unsafe { entry.as_ref() }.object.clone();
        Self::free(entry);
        Some(object)
    }

    /// Calls `f` with each object. It may miss objects that come or go meanwhile. Context:
    /// sleeping; `f` may sleep.
    pub fn for_each(&self, mut f: impl FnMut(u32, &Arc<T>)) {
        let mut index = 0;
        loop {
            let object = {
                let _guard = rcu::read_lock();
                let entry = self.find(&mut index).cast::<Entry<T>>();
                if entry.is_null() {
                    return;
                }
                // SAFETY: `publish` has stored the entry, and it is freed a grace period after it
                // was taken out at the earliest. The RCU read lock is held.
                unsafe { &(*entry).object }.clone()
            };
            // CAST: The index is at most `max`, which is a `u32`.
            f(index as u32, &object);
            index += 1;
        }
    }

    /// The first entry at `index` or behind it, or null; `index` becomes that of the entry.
    fn find(&self, index: &mut c_ulong) -> *mut c_void {
        // SAFETY: The xarray is initialised, and `index` is valid for reads and writes.
        unsafe { bindings::xa_find(self.xa(), index, self.max as c_ulong, bindings::XA_PRESENT) }
    }

    /// Whether the table has no object and no reserved number.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The xarray is initialised.
        unsafe { bindings::xa_empty(self.xa()) }
    }

    /// Frees an entry, which was taken out of the xarray, after a grace period.
    fn free(entry: NonNull<Entry<T>>) {
        let work = entry.as_ptr().cast();
        // SAFETY: `free` is the first field of the entry (`repr(C)`). The entry is not in the table
        // any more, so only this call queues its work, and it stays until `reclaim` has run.
        if !unsafe { module::queue_rcu_work(work) } {
            pr_err!("removed from a table after the module's end\n");
        }
    }

    /// # Safety
    ///
    /// `work` must be the work of the `free` field of an entry that nobody else refers to.
    unsafe extern "C" fn reclaim(work: *mut bindings::work_struct) {
        // SAFETY: By the contract of this function `work` is in an `rcu_work`, and that in an
        // entry.
        let entry = unsafe {
            let work = container_of!(work, bindings::rcu_work, work);
            container_of!(Opaque::cast_from(work), Entry<T>, free)
        };
        // SAFETY: The entry comes from `KBox::into_raw` in `publish`, and nobody else refers to it.
        drop(unsafe { KBox::from_raw(entry.cast_mut()) });
    }
}

impl<T: Send + Sync + 'static> Drop for IdTable<T> {
    fn drop(&mut self) {
        // No lookup runs any more, as lookups borrow the table. So no grace period is needed.
        let mut index = 0;
        loop {
            let entry = self.find(&mut index);
            if entry.is_null() {
                break;
            }
            // SAFETY: The xarray is initialised, and the function disables interrupts itself.
            unsafe { bindings::xa_erase_irqsave(self.xa(), index) };
            // SAFETY: The entry comes from `KBox::into_raw` in `publish`, and was taken out above.
            drop(unsafe { KBox::from_raw(entry.cast::<Entry<T>>()) });
        }
        // SAFETY: The xarray is initialised, and it is not used after this.
        unsafe { bindings::xa_destroy(self.xa()) };
    }
}

/// A number that is reserved in a table. Dropping this frees it.
#[must_use]
pub struct Reserved<'a, T: Send + Sync + 'static> {
    table: &'a IdTable<T>,
    id: u32,
}

impl<T: Send + Sync + 'static> Reserved<'_, T> {
    /// The number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Keeps the number reserved until [`IdTable::remove`], for [`IdTable::publish`].
    pub fn keep(self) -> u32 {
        let id = self.id;
        mem::forget(self);
        id
    }

    /// Puts `object` into the table under the number. Errors: `ENOMEM`. Context: sleeping.
    pub fn publish(self, object: Arc<T>, flags: Flags) -> Result {
        self.table.publish(self.id, object, flags)?;
        mem::forget(self);
        Ok(())
    }
}

impl<T: Send + Sync + 'static> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        drop(self.table.remove(self.id));
    }
}

#[kunit_tests(kext_idtable)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_and_go() -> Result {
        let table = IdTable::new(5, 7)?;
        for id in 5..8 {
            let reserved = table.reserve_cyclic()?;
            assert_eq!(reserved.id(), id);
            // The number has no object before one is published.
            assert!(table.get(id).is_none());
            reserved.publish(Arc::new(id * 10, GFP_KERNEL)?, GFP_KERNEL)?;
            assert_eq!(*table.get(id).ok_or(ENOENT)?, id * 10);
        }
        assert!(table.reserve_cyclic().is_err());
        assert!(table.reserve_random().is_err());
        assert_eq!(*table.remove(6).ok_or(ENOENT)?, 60);
        assert!(table.get(6).is_none());
        assert!(table.remove(6).is_none());
        assert!(table.remove(1000).is_none());
        // Only 6 is free. A reservation that is dropped frees it again.
        assert_eq!(table.reserve_random()?.id(), 6);
        assert_eq!(table.reserve_cyclic()?.id(), 6);
        let mut sum = 0;
        table.for_each(|id, object| sum += id + **object);
        assert_eq!(sum, 5 + 7 + 50 + 70);
        assert!(!table.is_empty());
        Ok(())
    }

    /// The number of a retired object is not given to another one.
    #[test]
    fn retired_numbers_stay_reserved() -> Result {
        let table = IdTable::new(5, 5)?;
        let id = table.reserve_random()?.keep();
        table.publish(id, Arc::new(1u32, GFP_KERNEL)?, GFP_KERNEL)?;
        assert_eq!(*table.retire(id).ok_or(ENOENT)?, 1);
        assert!(table.get(id).is_none());
        assert!(table.retire(id).is_none());
        assert!(table.reserve_random().is_err());
        assert!(table.remove(id).is_none());
        assert_eq!(table.reserve_random()?.id(), id);
        Ok(())
    }

    #[test]
    fn references_are_kept_and_dropped() -> Result {
        let object = Arc::new(1u32, GFP_KERNEL)?;
        let table = IdTable::new(0, u32::MAX)?;
        let id = {
            let reserved = table.reserve_random()?;
            let id = reserved.id();
            reserved.publish(object.clone(), GFP_KERNEL)?;
            id
        };
        assert!(Arc::ptr_eq(&table.get(id).ok_or(ENOENT)?, &object));
        drop(table.remove(id));
        let reserved = table.reserve_cyclic()?;
        reserved.publish(object.clone(), GFP_KERNEL)?;
        // One object is in the table, the other one waits for its grace period.
        drop(table);
        for _ in 0..3 {
            module::rcu_barrier();
            module::flush();
        }
        assert!(Arc::into_unique_or_drop(object).is_some());
        Ok(())
    }
}
