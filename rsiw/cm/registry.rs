// SPDX-License-Identifier: GPL-2.0

//! The connections of a device, so that all of them can be ended, and the orders of its initiators.

use super::{conn::Events, order::Order, Close, Conn, User};
use crate::{device::Device, pd::PdId};
use core::{
    ops::Deref,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, SpinLock},
    time::{delay::fsleep, Delta},
};
use rdma::Consumer;

/// A device's part of the connection manager.
pub(crate) struct Registry<U: User> {
    /// Whose connections these are.
    pub(super) dev: Arc<Device>,
    next: AtomicU64,
    /// The device is being removed.
    leaving: AtomicBool,
    /// A spinlock, as the threads of all users take it: none must lose its processor in there.
    conns: Pin<KBox<SpinLock<Conns<U>>>>,
}

struct Conns<U: User> {
    /// From [`Conn::start`] to [`Conn::leave`].
    live: RBTree<u64, Arc<Conn<U>>>,
    /// Of the protection domains that have initiators, each with the number of those.
    orders: RBTree<PdId, (Arc<Order<U>>, u64)>,
    /// No more.
    shut: bool,
}

/// The order that a connection's steps are made in; kept as long as one uses it.
pub(super) struct InOrder<U: User> {
    order: Arc<Order<U>>,
    /// None of a listener's, which has its own.
    of: Option<(Arc<Registry<U>>, PdId)>,
}

impl<U: User> Deref for InOrder<U> {
    type Target = Arc<Order<U>>;

    fn deref(&self) -> &Arc<Order<U>> {
        &self.order
    }
}

impl<U: User> InOrder<U> {
    /// That of a listener.
    pub(super) fn of_listener(order: &Arc<Order<U>>) -> Self {
        Self {
            order: order.clone(),
            of: None,
        }
    }

    /// That of a protection domain's initiators. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn of_domain(
        registry: &Arc<Registry<U>>,
        pd: PdId,
        consumer: Consumer,
    ) -> Result<Self> {
        let order = Order::new(consumer)?;
        let new = RBTreeNode::new(pd, (order.clone(), 1), GFP_KERNEL)?;
        let mut conns = registry.conns.lock();
        let (order, unused) = match conns.orders.get_mut(&pd) {
            Some((order, users)) => {
                *users += 1;
                (order.clone(), Some(new))
            }
            None => (order, conns.orders.insert(new)),
        };
        drop(conns);
        drop(unused);
        let of = Some((registry.clone(), pd));
        Ok(Self { order, of })
    }
}

impl<U: User> Drop for InOrder<U> {
    fn drop(&mut self) {
        let Some((registry, pd)) = &self.of else {
            return;
        };
        let mut conns = registry.conns.lock();
        let last = conns.orders.get_mut(pd).is_some_and(|(_, users)| {
            *users -= 1;
            *users == 0
        });
        let removed = if last {
            conns.orders.remove_node(pd)
        } else {
            None
        };
        drop(conns);
        drop(removed);
    }
}

impl<U: User> Registry<U> {
    /// Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(dev: &Arc<Device>) -> Result<Arc<Self>> {
        let conns = Conns {
            live: RBTree::new(),
            orders: RBTree::new(),
            shut: false,
        };
        let registry = Self {
            dev: dev.clone(),
            next: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            conns: KBox::pin_init(new_spinlock!(conns, "rsiw_conns"), GFP_KERNEL)?,
        };
        Ok(Arc::new(registry, GFP_KERNEL)?)
    }

    /// A key that no other connection has or had.
    pub(super) fn next_serial(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the device is being removed.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Errors: `ENOMEM`, `ENODEV` after [`leave`].
    pub(super) fn enter(&self, conn: &Arc<Conn<U>>) -> Result {
        let node = RBTreeNode::new(conn.serial, conn.clone(), GFP_KERNEL)?;
        let mut conns = self.conns.lock();
        if conns.shut {
            drop(conns);
            return Err(ENODEV);
        }
        let old = conns.live.insert(node);
        drop(conns);
        drop(old);
        Ok(())
    }

    pub(super) fn remove(&self, serial: u64) {
        let conn = self.conns.lock().live.remove_node(&serial);
        // Not within the lock: it may be the last reference.
        drop(conn);
    }

    /// The connection of that key, if it is not over.
    pub(super) fn get(&self, serial: u64) -> Option<Arc<Conn<U>>> {
        self.conns.lock().live.get(&serial).cloned()
    }

    /// Refuses new connections, and calls `each` for those that there are. Context: sleeping.
    fn shut(&self, each: impl Fn(&Arc<Conn<U>>)) {
        {
            let mut conns = self.conns.lock();
            conns.shut = true;
            // Before any of them is woken, which then sees it.
            self.leaving.store(true, Ordering::Relaxed);
        }
        let mut from = 0;
        while let Some(next) = self.some_from(from, &each) {
            from = next;
        }
    }

    /// Calls `each` for some of the connections from number `from` on; there may be very many, and this
    /// holds a spinlock. Returns the number to go on from, if there are more.
    fn some_from(&self, mut from: u64, each: impl Fn(&Arc<Conn<U>>)) -> Option<u64> {
        const MOST: usize = 64;
        let conns = self.conns.lock();
        for _ in 0..MOST {
            let cursor = conns.live.cursor_lower_bound(&from)?;
            let (serial, conn) = cursor.current();
            each(conn);
            from = serial.checked_add(1)?;
        }
        Some(from)
    }

    fn is_empty(&self) -> bool {
        self.conns.lock().live.is_empty()
    }
}

/// Ends the connections of a device that are being set up, and refuses new ones; to be called when its
/// removal begins, so that nobody waits for them. Established ones end when their consumers, who are
/// asked to go next, close them: an NVMe host, for one, shuts its controller down by a command first,
/// and waits for the answer for a minute. From now on they close quickly. Context: sleeping; does not
/// wait.
pub(crate) fn leave<U: User>(registry: &Registry<U>) {
    registry.shut(|conn| conn.notify(Events::LEAVE));
}

/// Resets all connections of a device, refuses new ones, and returns when nothing of the connection
/// manager will run for it any more. Context: sleeping, not on the device's own work queues.
pub(crate) fn shutdown<U: User>(registry: &Registry<U>) {
    let dev = &registry.dev;
    registry.shut(|conn| conn.close(Close::Abort));
    loop {
        flush(dev);
        if registry.is_empty() {
            break;
        }
        fsleep(Delta::from_millis(1));
    }
    // Each connection has waited for its job of bulk; this is for what cannot be.
    dev.queues.rx.flush();
    dev.queues.rx_in_turn.flush();
    // A timer may have run out while the last one left, and wakes an actor in vain.
    flush(dev);
    flush(dev);
}

/// Waits for what is queued. Twice: what runs on one queue may go on, on the other.
fn flush(dev: &Device) {
    for _ in 0..2 {
        dev.queues.cm.flush();
        dev.queues.cm_of_processes.flush();
    }
}
