// SPDX-License-Identifier: GPL-2.0

//! Whom the queue pairs of a device expect, and the calls that wait for their queue pairs.

use super::Pairing;
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, SpinLock},
};

/// See the module's documentation. A spinlock, as threads of all processes take it.
pub(in crate::cm) struct Expected<U>(Pin<KBox<SpinLock<Tables<U>>>>);

struct Tables<U> {
    /// Queue pairs that expect a call, or have a connection by one, by their numbers.
    expected: RBTree<u32, Arc<Pairing<U>>>,
    /// Calls whose queue pair expects nobody at the moment: its number, and the key of the
    /// connection in the registry.
    parked: RBTree<(u32, u64), ()>,
}

/// What calls need to know of the listener that takes them.
pub(in crate::cm) struct Calls<U> {
    pub(in crate::cm) expected: Arc<Expected<U>>,
    /// The interface of the address at which it listens.
    pub(super) ifindex: u32,
}

/// The place of a call among those that wait. Dropping it frees the place.
pub(super) struct Place<U> {
    pub(super) expected: Arc<Expected<U>>,
    key: (u32, u64),
}

impl<U> Expected<U> {
    /// Nobody is expected. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let tables = Tables {
            expected: RBTree::new(),
            parked: RBTree::new(),
        };
        let tables = new_spinlock!(tables, "rsiw_rc_expected");
        Ok(Self(KBox::pin_init(tables, GFP_KERNEL)?))
    }

    /// The queue pair of `pairing` expects its peer from now on. The calls for it are to be looked
    /// at again: `give_turn` gets their keys. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn add(&self, pairing: &Arc<Pairing<U>>, give_turn: impl Fn(u64)) -> Result {
        let qpn = pairing.names.ours.qpn;
        let node = RBTreeNode::new(qpn, pairing.clone(), GFP_KERNEL)?;
        let old = self.0.lock().expected.insert(node);
        // Unlocked, as it may be the last reference.
        drop(old);
        self.give_turns(qpn, give_turn);
        Ok(())
    }

    /// Has the calls for a queue pair looked at again: `give_turn` gets their keys. Context:
    /// process.
    pub(super) fn give_turns(&self, qpn: u32, give_turn: impl Fn(u64)) {
        let mut from = Some((qpn, 0));
        while let Some(key) = from {
            let found = {
                let tables = self.0.lock();
                let cursor = tables.parked.cursor_lower_bound(&key);
                let found = cursor.map(|cursor| *cursor.current().0);
                found
            };
            let Some((_, serial)) = found.filter(|(number, _)| *number == qpn) else {
                break;
            };
            give_turn(serial);
            from = serial.checked_add(1).map(|serial| (qpn, serial));
        }
    }

    /// The queue pair of that number that is called. Context: process.
    pub(super) fn get(&self, qpn: u32) -> Option<Arc<Pairing<U>>> {
        self.0.lock().expected.get(&qpn).cloned()
    }

    /// The queue pair of `pairing` is not called any more. Context: process.
    pub(super) fn remove(&self, pairing: &Arc<Pairing<U>>) {
        let qpn = pairing.names.ours.qpn;
        let removed = {
            let mut tables = self.0.lock();
            let is = tables.expected.get(&qpn);
            if is.is_some_and(|one| Arc::ptr_eq(one, pairing)) {
                tables.expected.remove_node(&qpn)
            } else {
                None
            }
        };
        drop(removed);
    }
}

impl<U> Place<U> {
    /// A call with the key `serial` waits for the queue pair `qpn`. It gets a turn when that
    /// expects somebody. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(expected: &Arc<Expected<U>>, qpn: u32, serial: u64) -> Result<Self> {
        let key = (qpn, serial);
        let node = RBTreeNode::new(key, (), GFP_KERNEL)?;
        let old = expected.0.lock().parked.insert(node);
        drop(old);
        Ok(Self {
            expected: expected.clone(),
            key,
        })
    }
}

impl<U> Drop for Place<U> {
    fn drop(&mut self) {
        let removed = self.expected.0.lock().parked.remove_node(&self.key);
        drop(removed);
    }
}
