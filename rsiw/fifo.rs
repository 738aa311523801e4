// SPDX-License-Identifier: GPL-2.0

//! A bounded first-in first-out queue that allocates only when it is made.

use kernel::{alloc::Flags, prelude::*};

/// A queue of bounded capacity. The owner serialises access.
pub(crate) struct Fifo<T> {
    slots: KVVec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// A queue with no room for any element.
    pub(crate) const fn empty() -> Self {
        Self {
            slots: KVVec::new(),
            head: 0,
            len: 0,
        }
    }

    /// A queue for `capacity` elements. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn with_capacity(capacity: u32, flags: Flags) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity as usize, flags)?;
        for _ in 0..capacity {
            slots.push(None, flags)?;
        }
        Ok(Self {
            slots,
            head: 0,
            len: 0,
        })
    }

    /// The number of queued elements.
    pub(crate) fn len(&self) -> u32 {
        self.len as u32
    }

    /// Whether [`Self::push`] would refuse.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.slots.len()
    }

    /// Appends an element, or returns it if the queue is full.
    pub(crate) fn push(&mut self, v: T) -> Result<(), T> {
        if self.is_full() {
            return Err(v);
        }
        let i = self.wrap(self.head + self.len);
        self.slots[i] = Some(v);
        self.len += 1;
        Ok(())
    }

    /// The oldest element.
    pub(crate) fn front(&self) -> Option<&T> {
        self.slots.get(self.head)?.as_ref()
    }

    /// All elements, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|i| self.slots.get(self.wrap(self.head + i))?.as_ref())
    }

    /// The oldest element, to be changed.
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.slots.get_mut(self.head)?.as_mut()
    }

    /// Takes out the oldest element.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let v = self.slots.get_mut(self.head)?.take()?;
        self.head = self.wrap(self.head + 1);
        self.len -= 1;
        Some(v)
    }

    fn wrap(&self, i: usize) -> usize {
        if i >= self.slots.len() {
            i - self.slots.len()
        } else {
            i
        }
    }
}
