// SPDX-License-Identifier: GPL-2.0

//! The connections of a device, so that all of them can be ended.

use super::{Close, Conn};
use crate::device::Device;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{Arc, Mutex},
    time::{delay::fsleep, Delta},
};

/// A device's part of the connection manager.
pub(crate) struct Cm {
    next: AtomicU64,
    conns: Pin<KBox<Mutex<Conns>>>,
}

struct Conns {
    /// From [`Conn::start`] to [`Conn::leave`].
    live: RBTree<u64, Arc<Conn>>,
    /// No more.
    shut: bool,
}

impl Cm {
    /// Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let conns = Conns {
            live: RBTree::new(),
            shut: false,
        };
        Ok(Self {
            next: AtomicU64::new(0),
            conns: KBox::pin_init(new_mutex!(conns, "rsiw_conns"), GFP_KERNEL)?,
        })
    }

    /// A key that no other connection has or had.
    pub(super) fn next_serial(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Errors: `ENOMEM`, `ENODEV` after [`shutdown`].
    pub(super) fn enter(&self, conn: &Arc<Conn>) -> Result {
        let mut conns = self.conns.lock();
        if conns.shut {
            return Err(ENODEV);
        }
        conns
            .live
            .try_create_and_insert(conn.serial, conn.clone(), GFP_KERNEL)?;
        Ok(())
    }

    pub(super) fn remove(&self, serial: u64) {
        let conn = self.conns.lock().live.remove(&serial);
        // Not within the lock: it may be the last reference.
        drop(conn);
    }

    fn abort_all(&self, shut: bool) {
        let mut conns = self.conns.lock();
        conns.shut |= shut;
        for conn in conns.live.values() {
            conn.close(Close::Abort);
        }
    }

    fn is_empty(&self) -> bool {
        self.conns.lock().live.is_empty()
    }
}

/// Resets all connections of a device; to be called when its removal begins, so that nobody waits
/// for one that is being set up. Context: sleeping; does not wait.
pub(crate) fn abort_all(dev: &Device) {
    dev.cm.abort_all(false);
}

/// Resets all connections of a device, refuses new ones, and returns when nothing of the connection
/// manager will run for it any more. Context: sleeping, not on the device's own work queues.
pub(crate) fn shutdown(dev: &Device) {
    dev.cm.abort_all(true);
    loop {
        dev.queues.cm.flush();
        if dev.cm.is_empty() {
            break;
        }
        fsleep(Delta::from_millis(1));
    }
    // Each connection has waited for its job of bulk; this is for what cannot be.
    dev.queues.rx.flush();
    // A timer may have run out while the last one left, and wakes an actor in vain.
    dev.queues.cm.flush();
    dev.queues.cm.flush();
}
