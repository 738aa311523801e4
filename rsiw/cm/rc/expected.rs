// SPDX-License-Identifier: GPL-2.0

//! Whom the queue pairs of a device expect, and the calls that wait for their queue pairs.

use super::Endpoint;
use crate::cm::{conn::Events, registry::Registry, User};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, SpinLock},
};

/// See the module's documentation. A spinlock, as threads of all processes take it.
pub(in crate::cm) struct Expected<U: User>(Pin<KBox<SpinLock<Tables<U>>>>);

struct Tables<U: User> {
    /// Queue pairs that expect a call, by their numbers.
    expected: RBTree<u32, Arc<Endpoint<U>>>,
    /// Calls for a number that nobody has in `expected`: the number, and the key of the connection
    /// in the registry.
    parked: RBTree<(u32, u64), ()>,
}

/// The place of a call among those that wait. Dropping it frees the place.
pub(super) struct Place<U: User> {
    registry: Arc<Registry<U>>,
    key: (u32, u64),
}

impl<U: User> Expected<U> {
    /// Nobody is expected. Context: sleeping. Errors: `ENOMEM`.
    pub(in crate::cm) fn new() -> Result<Self> {
        let tables = Tables {
            expected: RBTree::new(),
            parked: RBTree::new(),
        };
        let tables = new_spinlock!(tables, "rsiw_rc_expected");
        Ok(Self(KBox::pin_init(tables, GFP_KERNEL)?))
    }

    /// `endpoint` expects its peer from now on, and the calls for it are looked at again. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(super) fn add(&self, registry: &Registry<U>, endpoint: &Arc<Endpoint<U>>) -> Result {
        let qpn = endpoint.names.ours.qpn;
        let node = RBTreeNode::new(qpn, endpoint.clone(), GFP_KERNEL)?;
        let old = self.0.lock().expected.insert(node);
        // Unlocked, as it may be the last reference.
        drop(old);
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
            if let Some(conn) = registry.get(serial) {
                conn.notify(Events::TURN);
            }
            from = serial.checked_add(1).map(|serial| (qpn, serial));
        }
        Ok(())
    }

    /// The queue pair of that number that expects a peer. Context: process.
    pub(super) fn get(&self, qpn: u32) -> Option<Arc<Endpoint<U>>> {
        self.0.lock().expected.get(&qpn).cloned()
    }

    /// `endpoint` does not expect a peer any more. Context: process.
    pub(super) fn remove(&self, endpoint: &Arc<Endpoint<U>>) {
        let qpn = endpoint.names.ours.qpn;
        let removed = {
            let mut tables = self.0.lock();
            let is = tables.expected.get(&qpn);
            if is.is_some_and(|one| Arc::ptr_eq(one, endpoint)) {
                tables.expected.remove_node(&qpn)
            } else {
                None
            }
        };
        drop(removed);
    }
}

impl<U: User> Place<U> {
    /// A call with the key `serial` waits for the queue pair `qpn`. When that expects somebody,
    /// [`Events::TURN`] comes. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(registry: &Arc<Registry<U>>, qpn: u32, serial: u64) -> Result<Self> {
        let key = (qpn, serial);
        let node = RBTreeNode::new(key, (), GFP_KERNEL)?;
        let old = registry.expected.0.lock().parked.insert(node);
        drop(old);
        Ok(Self {
            registry: registry.clone(),
            key,
        })
    }
}

impl<U: User> Drop for Place<U> {
    fn drop(&mut self) {
        let removed = self
            .registry
            .expected
            .0
            .lock()
            .parked
            .remove_node(&self.key);
        drop(removed);
    }
}
