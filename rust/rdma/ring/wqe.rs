// SPDX-License-Identifier: GPL-2.0

//! Work queue elements: requests with a scatter/gather list, in a ring and as private copies.
//!
//! The ring of a process has what the process has written. The ring of a kernel consumer has the
//! same layout, but only this crate writes the lists in it, and only what the consumer has posted.
//! So whose the addresses of a list are is known by the ring that it comes from, and a copy
//! ([`Wqe`]) remembers it.

use super::{Entry, Ring, SharedMem, Word};
use crate::{local::LocalSge, owner::Consumer, wr::Sge};
use core::{ops::Deref, slice};
use kernel::prelude::*;
use rdma_bindings::ib_sge;

/// A work queue element: a head, and behind it a list of elements like `struct ib_sge`.
///
/// No driver can make numbers a kernel consumer's by what it says here: the crate writes and reads
/// lists by the same constants.
pub trait WqeLayout: Entry {
    /// The byte offset of the list; a multiple of 8.
    const LIST: usize;
    /// The number of elements that the list has room for.
    const SGES: usize;

    /// The elements of the list that are in use, possibly more than it has room for. The others
    /// have no meaning, and need not be copied. It may look at the head and at the first element.
    fn used(&self) -> u8;
}

/// A private copy of a work queue element.
///
/// It can be read as a `T`. If it is a kernel consumer's, its list has only what a kernel consumer
/// has posted.
#[derive(Clone, Copy)]
pub struct Wqe<T: WqeLayout> {
    value: T,
    /// INVARIANT: If this is the kernel, then each element of the list is empty or was posted by a
    /// kernel consumer.
    consumer: Consumer,
}

impl<T: WqeLayout> Deref for Wqe<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: WqeLayout> Wqe<T> {
    const CHECKED: () = {
        assert!(align_of::<T>() == 8 && T::LIST % 8 == 0 && size_of::<ib_sge>() == 16);
        assert!(T::LIST <= size_of::<T>() && T::SGES <= (size_of::<T>() - T::LIST) / 16);
        assert!(T::SGES > 0);
    };

    /// A request of a kernel consumer with the head of `value`, and an empty list.
    #[inline]
    pub fn new(value: T) -> Self {
        let mut wqe = Self::of_numbers(value);
        wqe.change_consumer(Consumer::Kernel);
        wqe
    }

    /// A request that a process may have written.
    #[inline]
    pub fn of_numbers(value: T) -> Self {
        Self {
            value,
            consumer: Consumer::Process,
        }
    }

    /// All of the request, to be changed. Its addresses are a kernel consumer's no more.
    #[inline]
    pub fn as_numbers(&mut self) -> &mut T {
        self.consumer = Consumer::Process;
        &mut self.value
    }

    /// Sets the list, which a kernel consumer has posted, and returns the elements that have no
    /// room.
    #[inline]
    pub fn set_sges<'a>(&mut self, sges: &'a [Sge]) -> &'a [Sge] {
        if self.consumer != Consumer::Kernel {
            self.change_consumer(Consumer::Kernel);
        }
        for (place, sge) in self.list_mut().iter_mut().zip(sges) {
            *place = sge.0;
        }
        sges.get(T::SGES..).unwrap_or_default()
    }

    /// The first `count` elements of the list, or all if it has room for fewer.
    #[inline]
    pub fn sges(&self, count: u8) -> impl Iterator<Item = LocalSge> + '_ {
        let (consumer, all) = (self.consumer, self.list());
        let list = all.get(..count.into()).unwrap_or(all);
        list.iter().map(move |sge| {
            // SAFETY: By the invariant it is empty or was posted by a kernel consumer, if
            // `consumer` is the kernel.
            unsafe { LocalSge::of(*sge, consumer) }
        })
    }

    /// Makes it a request of `consumer` with an empty list.
    fn change_consumer(&mut self, consumer: Consumer) {
        self.list_mut().fill(Sge::NONE.0);
        // INVARIANT: The list is empty.
        self.consumer = consumer;
    }

    #[inline]
    fn list(&self) -> &[ib_sge] {
        let () = Self::CHECKED;
        let list = (&raw const self.value).cast::<u8>().wrapping_add(T::LIST);
        // SAFETY: The list is in the value and aligned, as `CHECKED` says. The bytes of a `T` are
        // initialised (`IntoBytes`) and do not change while it is borrowed (`Immutable`), and any
        // bytes are an `ib_sge`.
        unsafe { slice::from_raw_parts(list.cast(), T::SGES) }
    }

    #[inline]
    fn list_mut(&mut self) -> &mut [ib_sge] {
        let () = Self::CHECKED;
        let list = (&raw mut self.value).cast::<u8>().wrapping_add(T::LIST);
        // SAFETY: As in `list`. The value is borrowed mutably, and any bytes are a `T`, too
        // (`FromBytes`).
        unsafe { slice::from_raw_parts_mut(list.cast(), T::SGES) }
    }
}

/// A ring of work queue elements. A clone is the same ring.
#[derive(Clone)]
pub struct WqeRing<T: WqeLayout>(Ring<T>);

impl<T: WqeLayout> WqeRing<T> {
    /// Makes a zeroed ring; see [`Ring::new`]. Only that of a process can be made mappable.
    pub fn new(entries: u32, consumer: Consumer) -> Result<Self> {
        Ring::new(entries, consumer).map(Self)
    }

    /// The memory.
    pub fn mem(&self) -> &SharedMem {
        self.0.mem()
    }

    /// The number of elements.
    pub fn entries(&self) -> u32 {
        self.0.entries()
    }

    /// The 16-bit word at byte `offset` of an element's head; see [`Ring::word`]. Panics if it is
    /// not in the head.
    #[inline]
    pub fn word16(&self, index: u32, offset: usize) -> Word<'_, u16> {
        assert!(offset < T::LIST);
        self.0.word16(index, offset)
    }

    /// Copies the element at `index` (modulo the number of elements) to `wqe`, once. Elements of
    /// the list behind the first that are not in use are not copied: `wqe` keeps its own, or has
    /// none if it was another consumer's. Context: any.
    #[inline]
    pub fn load_into(&self, index: u32, wqe: &mut Wqe<T>) {
        let consumer = self.0.mem().consumer();
        if wqe.consumer != consumer {
            wqe.change_consumer(consumer);
        }
        let (head, first) = (T::LIST / 8, T::LIST / 8 + 2);
        // INVARIANT: In the ring of a kernel consumer, lists are written by `store` only, and are
        // zero before: no process maps it (`Udata::share`), and `word16` gives no word of a list.
        self.0.load_words(index, &mut wqe.value, 0..first);
        let used = usize::from(wqe.value.used());
        if used > 1 {
            self.0
                .load_words(index, &mut wqe.value, first..head + 2 * used);
        }
    }

    /// Stores `wqe` as the element at `index` (modulo the number of elements). Errors: `EINVAL` for
    /// mere numbers in the ring of a kernel consumer. Context: any.
    #[inline]
    pub fn store(&self, index: u32, wqe: &Wqe<T>) -> Result {
        if self.0.mem().consumer() == Consumer::Kernel && wqe.consumer != Consumer::Kernel {
            return Err(EINVAL);
        }
        self.0.store(index, &wqe.value);
        Ok(())
    }
}

#[kunit_tests(rdma_wqe)]
mod tests {
    use super::*;
    use crate::local::{LocalDmaKey, NewLocalDmaKey};

    /// Number of elements, a word without meaning, and the list.
    type Element = [u64; 5];

    impl WqeLayout for Element {
        const LIST: usize = 8;
        const SGES: usize = 2;

        fn used(&self) -> u8 {
            self[0] as u8
        }
    }

    const LKEY: u32 = 7;

    fn posted(addr: u64) -> Sge {
        // Nothing is read or written by it.
        Sge(ib_sge {
            addr,
            length: 10,
            lkey: LKEY,
        })
    }

    fn key() -> LocalDmaKey {
        // SAFETY: There is no device, and nothing is read or written by the key.
        unsafe { NewLocalDmaKey::new() }.choose(LKEY)
    }

    fn numbers(used: u64) -> Wqe<Element> {
        let tail = u64::from_ne_bytes(*b"\x0a\0\0\0\x07\0\0\0");
        Wqe::of_numbers([used, 1000, tail, 2000, tail])
    }

    /// The elements that name memory of the kernel, and those that do not.
    fn count(wqe: &Wqe<Element>) -> (usize, usize) {
        wqe.sges(2).fold((0, 0), |(kernel, others), sge| {
            if sge.memory(key()).is_some() {
                (kernel + 1, others)
            } else {
                (kernel, others + 1)
            }
        })
    }

    #[test]
    fn lists_tell_whose_they_are() {
        let list = [posted(1), posted(3)];
        let mut wqe = Wqe::<Element>::new([2, 1000, 0, 2000, 0]);
        assert!(wqe.list().iter().all(|sge| sge.addr == 0));
        assert!(wqe.set_sges(&list).is_empty());
        assert_eq!(count(&wqe), (2, 0));
        assert_eq!(wqe.as_numbers()[1], 1);
        assert_eq!(count(&wqe), (0, 2));
        // What was there as numbers does not become a kernel consumer's.
        assert!(wqe.set_sges(&list[..1]).is_empty());
        assert_eq!(count(&wqe), (1, 1));
        assert_eq!(count(&numbers(2)), (0, 2));
        assert_eq!(numbers(2).sges(3).count(), 2);
        assert_eq!(wqe.set_sges(&[list[0]; 3]).len(), 1);
    }

    #[test]
    fn rings_of_processes_have_numbers() -> Result {
        let ring = WqeRing::<Element>::new(2, Consumer::Process)?;
        let mut wqe = Wqe::<Element>::new([0; 5]);
        wqe.set_sges(&[posted(1)]);
        ring.store(0, &numbers(2))?;
        ring.load_into(0, &mut wqe);
        assert_eq!(count(&wqe), (0, 2));
        assert_eq!(wqe[1], 1000);
        // More elements than there are.
        ring.store(1, &numbers(255))?;
        ring.load_into(1, &mut wqe);
        assert_eq!(wqe[3], 2000);
        Ok(())
    }

    /// No way leads from numbers through a kernel consumer's ring.
    #[test]
    fn rings_of_kernel_consumers_have_what_was_posted() -> Result {
        let ring = WqeRing::<Element>::new(2, Consumer::Kernel)?;
        assert!(ring.store(0, &numbers(2)).is_err());
        let mut wqe = Wqe::<Element>::new([1, 0, 0, 0, 0]);
        wqe.set_sges(&[posted(1)]);
        ring.store(0, &wqe)?;
        let mut copy = numbers(2);
        ring.load_into(0, &mut copy);
        assert_eq!(count(&copy), (1, 1));
        assert_eq!((copy[1], copy[3]), (1, 0));
        // Nothing of the list is in use.
        let mut copy = numbers(2);
        ring.load_into(1, &mut copy);
        assert_eq!((copy[1], copy[3]), (0, 0));
        Ok(())
    }
}
