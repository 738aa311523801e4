// SPDX-License-Identifier: GPL-2.0

//! The registry: all connections of a device, so that its removal can end them, and the orders of
//! its initiators.

use super::{
    conn::Events,
    order::Order,
    pace::Paces,
    rc::{Doors, Expected},
    Close, Conn, User,
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
    time::{delay::fsleep, Delta},
};
use rdma::Consumer;

/// The connection manager's state of one device.
pub(crate) struct Registry<U: User> {
    /// The device.
    pub(super) dev: Arc<Device>,
    next: AtomicU64,
    /// The device is being removed.
    leaving: AtomicBool,
    /// A spinlock, as threads of all processes take it: none may lose its processor while it has it
    /// locked.
    conns: Pin<KBox<SpinLock<Conns<U>>>>,
    /// Places for TLS handshakes.
    paces: Paces<U>,
    /// Sockets that listen for calls of queue pairs by name.
    pub(super) doors: Doors<U>,
    /// Queue pairs that expect such calls.
    pub(super) expected: Expected<U>,
}

struct Conns<U: User> {
    /// The connections between [`Conn::start`] and [`Conn::leave`].
    live: RBTree<u64, Arc<Conn<U>>>,
    /// The orders of protection domains that have initiators, each with the number of its
    /// initiators.
    orders: RBTree<PdId, (Arc<Order<U>>, u64)>,
    /// New connections are refused.
    shut: bool,
}

/// A connection's reference to the order of its steps. A protection domain keeps its order as long
/// as a connection uses it.
pub(super) struct InOrder<U: User> {
    order: Arc<Order<U>>,
    /// The protection domain, and the registry that has its order. `None`: the order is a
    /// listener's own.
    of: Option<(Arc<Registry<U>>, PdId)>,
}

impl<U: User> Deref for InOrder<U> {
    type Target = Arc<Order<U>>;

    fn deref(&self) -> &Arc<Order<U>> {
        &self.order
    }
}

impl<U: User> InOrder<U> {
    /// Refers to the order of a listener.
    pub(super) fn of_listener(order: &Arc<Order<U>>) -> Self {
        Self {
            order: order.clone(),
            of: None,
        }
    }

    /// Refers to the order of a protection domain's initiators; makes it if there is none. Context:
    /// sleeping. Errors: `ENOMEM`.
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
    /// An empty registry. Context: sleeping. Errors: `ENOMEM`.
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
            paces: Paces::new()?,
            doors: Doors::new()?,
            expected: Expected::new()?,
        };
        Ok(Arc::new(registry, GFP_KERNEL)?)
    }

    /// The places for TLS handshakes.
    pub(super) fn paces(&self) -> &Paces<U> {
        &self.paces
    }

    /// Returns a key that no other connection has or had.
    pub(super) fn next_serial(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the device is being removed.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Enters a connection. Context: sleeping. Errors: `ENOMEM`; `ENODEV` after [`leave`].
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
        // Drop it unlocked: it may be the last reference.
        drop(conn);
    }

    /// The connection with the key `serial`, if it is not over.
    pub(super) fn get(&self, serial: u64) -> Option<Arc<Conn<U>>> {
        self.conns.lock().live.get(&serial).cloned()
    }

    /// Refuses new connections, and calls `each` for the existing ones. Context: sleeping.
    fn shut(&self, each: impl Fn(&Arc<Conn<U>>)) {
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

/// Ends the connections of a device that are being set up, and refuses new ones. To be called when
/// the removal of the device begins, so that nobody has to wait for such connections.
///
/// Established connections stay. The RDMA core asks their consumers to go next, and those close
/// them: an NVMe host, for one, shuts its controller down by a command first, and waits for the
/// answer for a minute. From now on an orderly close is quick. Context: sleeping; does not wait.
pub(crate) fn leave<U: User>(registry: &Registry<U>) {
    registry.shut(|conn| conn.notify(Events::LEAVE));
}

/// Resets all connections of a device and refuses new ones. When it returns, no code of the
/// connection manager runs for the device, or will. Context: sleeping, not on the device's own work
/// queues.
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
    // A timer may have run out while the last connection left, and have woken its actor in vain.
    flush(dev);
    flush(dev);
    // The actors have cancelled the bulk work items of their streams, so the queues should have
    // none left. Flush them all the same, and what they may have woken.
    dev.workqueues.rx.flush();
    flush(dev);
}

/// Waits for the queued work. Twice, as work on one queue may queue more on the other.
fn flush(dev: &Device) {
    for _ in 0..2 {
        dev.workqueues.cm.flush();
    }
}
