// SPDX-License-Identifier: GPL-2.0

//! The rings that a process maps: hostile memory with a flag that hands over each element.
//!
//! The side that fills an element stores its flags last. The driver, when it takes an element,
//! copies it once and uses only the copy. Indices are not bounded by the size and wrap at 2^32; the
//! ring masks them.

use crate::abi::{
    notify, opcode, wqe_flags, Cqe, Rqe, Sge, Sqe, CQE_FLAGS_OFFSET, CQE_VALID, CQ_CTRL_SIZE,
    MAX_INLINE, MAX_SGE, WQE_FLAGS_OFFSET,
};
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::{
    ring::{Ring, SharedMem},
    Consumer, Wqe, WqeLayout, WqeRing,
};

impl WqeLayout for Sqe {
    const LIST: usize = offset_of!(Sqe, sge);
    const SGES: usize = MAX_SGE;

    #[inline]
    fn used(&self) -> u8 {
        // Inline data take the place of all elements but the first, which has their length;
        // immediate data that of the last.
        if self.opcode == opcode::WRITE_IMM {
            MAX_SGE as u8
        } else if self.flags & wqe_flags::INLINE != 0 {
            let len = self.sge[0].length.min(MAX_INLINE) as usize;
            // CAST: At most `MAX_SGE`.
            1 + len.div_ceil(size_of::<Sge>()) as u8
        } else {
            self.num_sge
        }
    }
}

impl WqeLayout for Rqe {
    const LIST: usize = offset_of!(Rqe, sge);
    const SGES: usize = MAX_SGE;

    #[inline]
    fn used(&self) -> u8 {
        self.num_sge
    }
}

/// A send or receive element.
pub(crate) trait Element: WqeLayout {
    /// A process rings the doorbell after it has filled elements.
    const DOORBELL: bool;
}

impl Element for Sqe {
    const DOORBELL: bool = true;
}

impl Element for Rqe {
    // Nobody is told of a receive: rx looks when it needs one, and a timer, if a Send waits.
    const DOORBELL: bool = false;
}

/// A send or receive ring: the consumer fills it, the driver empties it. The flags of an element
/// are a `u16` at the offset that send and receive elements share. A clone is the same ring.
#[derive(Clone)]
pub(crate) struct WorkRing<T: Element>(WqeRing<T>);

impl<T: Element> WorkRing<T> {
    /// A zeroed ring of `entries`, a power of two. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(entries: u32, consumer: Consumer) -> Result<Self> {
        WqeRing::new(entries, consumer).map(Self)
    }

    /// The memory, to be mapped by a process.
    pub(crate) fn mem(&self) -> &SharedMem {
        self.0.mem()
    }

    /// The number of elements.
    pub(crate) fn entries(&self) -> u32 {
        self.0.entries()
    }

    /// The elements, from `first` on, that the consumer has filled.
    pub(crate) fn filled(&self, first: u32) -> u32 {
        count_valid(self.entries(), |n| self.is_valid(first.wrapping_add(n)))
    }

    /// Whether the consumer has filled element `index`.
    pub(crate) fn is_valid(&self, index: u32) -> bool {
        self.flags(index).load_acquire() & wqe_flags::VALID != 0
    }

    //= 5040-8.1.2-1: affect other ULPs MUST be done using the Resource
    //= 5041-8.3.2-2: affect other ULPs MUST be done using the Privileged
    /// Takes element `index` if the consumer has filled it: copies it, then marks it as free.
    pub(crate) fn take(&self, index: u32) -> Option<Wqe<T>> {
        let mut copy = Wqe::of_numbers(T::new_zeroed());
        self.take_into(index, &mut copy).then_some(copy)
    }

    /// As [`Self::take`], but copies to `copy`, and returns `false` if the consumer has not filled
    /// the element. Of the list only the elements in use are copied, and the first; `copy` keeps
    /// its others.
    pub(crate) fn take_into(&self, index: u32, copy: &mut Wqe<T>) -> bool {
        // Acquire, in `is_valid`: the rest of the element was written before its flags.
        if !self.is_valid(index) {
            return false;
        }
        self.take_valid(index, copy);
        true
    }

    /// As [`Self::take_into`], for a caller that [`Self::is_valid`] has told that the consumer has
    /// filled the element. (If a process has taken it back since, the copy is of other content.)
    pub(crate) fn take_valid(&self, index: u32, copy: &mut Wqe<T>) {
        self.0.load_into(index, copy);
        // Release: the copy is complete before the element is free.
        self.flags(index).store_release(0);
        // Orders this store before the read of the next element's flags. The library rings the
        // doorbell only if it finds that the element before its own was taken. So either the
        // library sees this store, or the driver's next read sees the library's element.
        if T::DOORBELL {
            rdma::ring::mb();
        }
    }

    /// Fills element `index` for a kernel consumer. Returns `false` if the element is not free.
    pub(crate) fn put(&self, index: u32, wqe: &Wqe<T>) -> bool {
        if self.flags(index).load_acquire() != 0 || self.0.store(index, wqe).is_err() {
            return false;
        }
        self.flags(index).store_release(wqe_flags::VALID);
        true
    }

    fn flags(&self, index: u32) -> rdma::ring::Word<'_, u16> {
        self.0.word16(index, WQE_FLAGS_OFFSET)
    }
}

/// The number of elements, up to `most`, from the first one on for which `is_valid` is true. The
/// valid ones must come first: then the number is exact, and else it is some number up to `most`.
/// It is found in few steps, as rings are large.
pub(crate) fn count_valid(most: u32, is_valid: impl Fn(u32) -> bool) -> u32 {
    let (mut valid, mut end) = (0, most);
    while valid < end {
        let middle = valid + (end - valid) / 2;
        if is_valid(middle) {
            valid = middle + 1;
        } else {
            end = middle;
        }
    }
    valid
}

/// A completion ring, with the word that arms events: the driver fills it, a process empties it.
pub(crate) struct CompletionRing(Ring<Cqe>);

impl CompletionRing {
    /// A zeroed ring of `entries`, a power of two. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(entries: u32) -> Result<Self> {
        Ring::with_tail(entries, CQ_CTRL_SIZE, Consumer::Process).map(Self)
    }

    /// The memory, to be mapped by a process.
    pub(crate) fn mem(&self) -> &SharedMem {
        self.0.mem()
    }

    /// Publishes `cqe` as element `index`. Returns `false` if the process has not emptied that.
    ///
    /// Flags, operation and status share a 32-bit word of the element, which is stored last.
    pub(crate) fn put(&self, index: u32, cqe: &Cqe) -> bool {
        let head = self.0.word32(index, CQE_FLAGS_OFFSET);
        if head.load_acquire() & u32::from(CQE_VALID) != 0 {
            return false;
        }
        let word = |offset| self.0.word::<u64>(index, offset);
        word(offset_of!(Cqe, id)).store_relaxed(cqe.id);
        let bytes = self.0.word32(index, offset_of!(Cqe, bytes));
        bytes.store_relaxed(cqe.bytes);
        word(offset_of!(Cqe, inval_stag)).store_relaxed(cqe.inval_stag);
        word(offset_of!(Cqe, qp_id)).store_relaxed(cqe.qp_id);
        let flags = u32::from(cqe.flags | CQE_VALID)
            | u32::from(cqe.opcode) << 8
            | u32::from(cqe.status) << 16;
        head.store_release(flags);
        true
    }

    /// The number of completions up to element `put` that the process has not emptied; a guess if
    /// it does not empty them in order.
    pub(crate) fn waiting(&self, put: u32) -> u32 {
        count_valid(self.0.entries(), |n| {
            let head = self.0.word32(put.wrapping_sub(n + 1), CQE_FLAGS_OFFSET);
            head.load_relaxed() & u32::from(CQE_VALID) != 0
        })
    }

    /// The event that the process has armed: for a solicited completion, and for any.
    pub(crate) fn armed(&self) -> (bool, bool) {
        let word = self.0.tail32(0).load_relaxed();
        (
            word & notify::SOLICITED != 0,
            word & notify::NEXT_COMPLETION != 0,
        )
    }

    /// Whether the process wants an event for the completion just published.
    pub(crate) fn wants_event(&self, solicited: bool) -> bool {
        // Makes the completion visible before the arming word is read: a process that arms and then
        // polls gets the event or sees the completion.
        rdma::ring::mb();
        let armed = self.0.tail32(0).load_relaxed();
        armed & notify::NEXT_COMPLETION != 0 || armed & notify::SOLICITED != 0 && solicited
    }

    /// Disarms events: the process gets one.
    pub(crate) fn disarm(&self) {
        self.0.tail32(0).store_relaxed(notify::NOT);
    }

    /// Arms events as the process has them armed in `old`, which this ring replaces.
    pub(crate) fn take_arming(&self, old: &Self) {
        let word = old.0.tail32(0).load_relaxed();
        let known = notify::SOLICITED | notify::NEXT_COMPLETION;
        self.0.tail32(0).store_relaxed(word & known);
    }

    /// Arms events for a process that asks by a verb and not by a store.
    pub(crate) fn arm(&self, solicited_only: bool) {
        let how = if solicited_only {
            notify::SOLICITED
        } else {
            notify::SOLICITED | notify::NEXT_COMPLETION
        };
        self.0.tail32(0).store_mb(how);
    }
}

#[kunit_tests(rsiw_ring)]
mod tests {
    use super::*;

    fn request(id: u64) -> Wqe<Sqe> {
        Wqe::new(element(id, 0, 1))
    }

    fn element(id: u64, flags: u16, num_sge: u8) -> Sqe {
        let mut sqe = Sqe {
            id,
            flags,
            num_sge,
            ..Default::default()
        };
        for (n, sge) in sqe.sge.iter_mut().enumerate() {
            sge.addr = 100 + n as u64;
        }
        sqe
    }

    #[test]
    fn elements_are_taken_once_and_in_any_round() -> Result {
        let ring = WorkRing::<Sqe>::new(4, Consumer::Kernel)?;
        for index in [0, 1, 3, 4, 7, u32::MAX, 0] {
            assert!(ring.take(index).is_none());
            assert!(ring.put(index, &request(index.into())));
            // The element is not free, also for the index of the next round.
            assert!(!ring.put(index.wrapping_add(4), &request(9)));
            assert!(ring.is_valid(index));
            assert!(ring
                .take(index)
                .is_some_and(|sqe| sqe.id == u64::from(index)));
            assert!(!ring.is_valid(index));
            assert!(ring.take(index).is_none());
        }
        Ok(())
    }

    /// A process writes the length of the list. It bounds the copy, and a wrong one does not lead
    /// beyond the element.
    #[test]
    fn hostile_lengths_stay_in_the_element() -> Result {
        let ring = WorkRing::<Sqe>::new(2, Consumer::Process)?;
        let inline = wqe_flags::INLINE;
        for (flags, num_sge, length, used) in [
            (0, 0, 9, 1),
            (0, 2, 9, 2),
            (0, 6, 9, 6),
            (0, 7, 9, 6),
            (0, u8::MAX, u32::MAX, 6),
            (inline, 0, 0, 1),
            (inline, u8::MAX, 1, 2),
            (inline, 3, 16, 2),
            (inline, 1, 17, 3),
            (inline, 1, MAX_INLINE, 6),
            (inline, 0, u32::MAX, 6),
        ] {
            let mut sqe = element(1, flags, num_sge);
            sqe.sge[0].length = length;
            // As a process does it: the flags last.
            ring.0.store(0, &Wqe::of_numbers(sqe))?;
            ring.flags(0).store_release(flags | wqe_flags::VALID);
            let mut copy = Wqe::new(Sqe::default());
            assert!(ring.take_into(0, &mut copy));
            let copied = copy.sge.iter().filter(|sge| sge.addr != 0).count();
            assert_eq!(copied, used);
        }
        Ok(())
    }

    #[test]
    fn valid_elements_are_counted() {
        for most in [0, 1, 2, 7, 8] {
            for valid in 0..=most {
                assert!(count_valid(most, |n| n < valid) == valid);
            }
        }
    }

    #[test]
    fn completions_wait_for_room() -> Result {
        let ring = CompletionRing::new(2)?;
        let cqe = Cqe::default();
        assert!(ring.put(0, &cqe) && ring.put(1, &cqe));
        assert!(!ring.put(2, &cqe));
        // Events are not armed.
        assert!(!ring.wants_event(true));
        ring.arm(true);
        assert!(!ring.wants_event(false));
        assert!(ring.wants_event(true));
        ring.disarm();
        assert!(!ring.wants_event(true));
        ring.arm(false);
        assert!(ring.wants_event(false));
        // A ring that replaces this one has the events armed that were armed here.
        for (word, any, solicited) in [(0, false, false), (1, false, true), (2, true, true)] {
            ring.0.tail32(0).store_relaxed(word | 0xf0);
            let new = CompletionRing::new(4)?;
            new.take_arming(&ring);
            assert!(new.wants_event(false) == any && new.wants_event(true) == solicited);
            assert!(new.0.tail32(0).load_relaxed() == word);
        }
        Ok(())
    }
}
