// SPDX-License-Identifier: GPL-2.0

//! The registry: all connections of a device, so that its removal can end them, and the orders of
//! its initiators.

use super::{
    order::{Order, Ordered},
    pace::Paces,
};
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
};
use rdma::Consumer;

/// The connection manager's state of one device.
pub(crate) struct Registry<C: Ordered> {
    /// The device.
    pub(super) dev: Arc<Device>,
    next: AtomicU64,
    /// The device is being removed.
    leaving: AtomicBool,
    /// A spinlock, as threads of all processes take it: none may lose its processor while it has it
    /// locked.
    conns: Pin<KBox<SpinLock<State<C>>>>,
    /// Places for TLS handshakes.
    pub(super) paces: Paces,
}

struct State<C: Ordered> {
    /// The connections, by their keys.
    live: RBTree<u64, Arc<C>>,
    /// The orders of protection domains that have initiators, each with the number of its
    /// initiators.
    orders: RBTree<PdId, (Arc<Order<C>>, u64)>,
    /// New connections are refused.
    shut: bool,
}

/// A connection's reference to the order of its steps. A protection domain keeps its order as long
/// as a connection uses it.
pub(super) struct InOrder<C: Ordered> {
    order: Arc<Order<C>>,
    /// The protection domain, and the registry that has its order. `None`: the order is a
    /// listener's own.
    of: Option<(Arc<Registry<C>>, PdId)>,
}

impl<C: Ordered> Deref for InOrder<C> {
    type Target = Arc<Order<C>>;

    fn deref(&self) -> &Arc<Order<C>> {
        &self.order
    }
}

impl<C: Ordered> InOrder<C> {
    /// Refers to the order of a listener.
    pub(super) fn of_listener(order: &Arc<Order<C>>) -> Self {
        Self {
            order: order.clone(),
            of: None,
        }
    }

    /// Refers to the order of a protection domain's initiators; makes it if there is none. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(super) fn of_domain(
        registry: &Arc<Registry<C>>,
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

impl<C: Ordered> Drop for InOrder<C> {
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

impl<C: Ordered> Registry<C> {
    /// An empty registry. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(dev: &Arc<Device>) -> Result<Arc<Self>> {
        let conns = State {
            live: RBTree::new(),
            orders: RBTree::new(),
            shut: false,
        };
        let registry = Self {
            dev: dev.clone(),
            next: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            conns: KBox::pin_init(new_spinlock!(conns, "rsiw_conns"), GFP_KERNEL)?,
            paces: Paces::new()?,
        };
        Ok(Arc::new(registry, GFP_KERNEL)?)
    }

    /// Returns a key that no other connection has or had.
    pub(super) fn next_serial(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the device is being removed.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Enters a connection. Context: sleeping. Errors: `ENOMEM`; `ENODEV` after [`Self::shut`].
    pub(super) fn enter(&self, serial: u64, conn: &Arc<C>) -> Result {
        let node = RBTreeNode::new(serial, conn.clone(), GFP_KERNEL)?;
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
        // Drop it unlocked: it may be the last reference.
        drop(conn);
    }

    /// The connection with the key `serial`, if it is not over.
    pub(super) fn get(&self, serial: u64) -> Option<Arc<C>> {
        self.conns.lock().live.get(&serial).cloned()
    }

    /// Refuses new connections, and calls `each` for the existing ones. Context: sleeping.
    pub(super) fn shut(&self, each: impl Fn(&Arc<C>)) {
        {
            let mut conns = self.conns.lock();
            conns.shut = true;
            // Set it before any connection is woken, so that each sees it.
            self.leaving.store(true, Ordering::Relaxed);
        }
        let mut from = 0;
        while let Some(next) = self.some_from(from, &each) {
            from = next;
        }
    }

    /// Calls `each` for connections with the key `from` or a larger one, at most for 64 of them,
    /// because this holds a spinlock. Returns the key to go on from, if more may follow.
    fn some_from(&self, mut from: u64, each: impl Fn(&Arc<C>)) -> Option<u64> {
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

    pub(super) fn is_empty(&self) -> bool {
        self.conns.lock().live.is_empty()
    }
}
