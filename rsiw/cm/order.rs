// SPDX-License-Identifier: GPL-2.0

//! Orders: connections whose steps are made one after the other, in the order of their events.
//!
//! Connections are set up concurrently. But applications that open many connections pair them by
//! the order of their requests (perftest writes its credits by it). So each listener has an
//! [`Order`], in which Requests are read and reported. Each protection domain has one, too, in
//! which its initiators' handshakes go on. A callback that has an event for such a connection puts
//! it at the end of the order, and one work item makes the steps.
//!
//! A step may wait for threads of the process that owns the connection. All connections of an order
//! belong to one process, or to none, so a slow process holds up nobody else.

use crate::device::Device;
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Arc,
    workqueue::{Work, WorkItem},
};
use kext::{lock::SpinLockIrq, new_spinlock_irq, noio::noio};
use rdma::Consumer;

/// Steps that are made in one run, before other work gets the worker.
const BATCH: u32 = 64;

/// What an order needs of a connection.
pub(crate) trait Ordered: Sized + Send + Sync + 'static {
    /// The device.
    fn dev(&self) -> &Device;

    /// The connection's place in its order. Its lock is taken inside the order's lock.
    fn turn(&self) -> &SpinLockIrq<OrderEntry<Self>>;

    /// Makes a step. Context: sleeping.
    fn act(self: &Arc<Self>);
}

/// Connections whose steps are made one after the other; see the module's documentation.
#[pin_data]
pub(crate) struct Order<C: Ordered> {
    /// The consumer that the connections belong to.
    consumer: Consumer,
    #[pin]
    waiting: SpinLockIrq<Waiting<C>>,
    #[pin]
    work: Work<Order<C>>,
}

impl_has_work! {
    impl{C: Ordered} HasWork<Self> for Order<C> { self.work }
}

struct Waiting<C> {
    /// Connections that are to make a step, by their numbers.
    conns: RBTree<u64, Arc<C>>,
    next: u64,
}

/// Memory for a connection's node in its order. It is allocated beforehand, as callbacks cannot.
type Room<C> = RBTreeNodeReservation<u64, Arc<C>>;

/// A connection's place in its order.
pub(crate) enum OrderEntry<C> {
    /// The connection is not in the order.
    Free(Room<C>),
    /// The connection is in the order and is to make a step.
    Waits,
    /// The connection's steps need no order any more.
    Over,
}

impl<C> OrderEntry<C> {
    /// The entry of a new connection. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(OrderEntry::Free(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

impl<C: Ordered> WorkItem for Order<C> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        noio(|| this.run_batch());
    }
}

impl<C: Ordered> Order<C> {
    /// An empty order for connections of `consumer`. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(consumer: Consumer) -> Result<Arc<Self>> {
        let waiting = Waiting {
            conns: RBTree::new(),
            next: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                consumer,
                waiting <- new_spinlock_irq!(waiting, "rsiw_order"),
                work <- new_work!("rsiw_order"),
            }),
            consumer.flags(),
        )
    }

    /// The consumer that the connections belong to.
    pub(super) fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Makes up to about [`BATCH`] steps.
    fn run_batch(self: &Arc<Self>) {
        for _ in 0..BATCH {
            let Some(conn) = self.pop() else { return };
            conn.act();
        }
        let Some(conn) = self.pop() else { return };
        // This is the last step of this run. The rest is queued behind other work.
        conn.act();
        self.wake(conn.dev());
    }

    fn wake(self: &Arc<Self>, dev: &Device) {
        dev.workqueues.cm.of(self.consumer).enqueue(self.clone());
    }

    /// Has `conn` make a step after the connections that wait already. Returns false, and does
    /// nothing, if `conn` needs no order any more. Context: any.
    pub(super) fn enter(self: &Arc<Self>, conn: &Arc<C>) -> bool {
        {
            let mut waiting = self.waiting.lock();
            let mut turn = conn.turn().lock();
            match core::mem::replace(&mut *turn, OrderEntry::Waits) {
                OrderEntry::Free(room) => {
                    let number = waiting.next;
                    waiting.next += 1;
                    waiting.conns.insert(room.into_node(number, conn.clone()));
                }
                // The step that is to come sees the new event, too.
                OrderEntry::Waits => return true,
                OrderEntry::Over => {
                    *turn = OrderEntry::Over;
                    return false;
                }
            };
        }
        self.wake(conn.dev());
        true
    }

    /// Takes out the next connection. It may enter again from now on.
    fn pop(&self) -> Option<Arc<C>> {
        let mut waiting = self.waiting.lock();
        let first = waiting.conns.cursor_front_mut()?;
        let conn = first.current().1.clone();
        let (_, node) = first.remove_current();
        // This drops the tree's reference under the lock. It is not the last one, as `conn` is
        // another.
        let room = node.into_reservation();
        let mut turn = conn.turn().lock();
        if matches!(*turn, OrderEntry::Waits) {
            *turn = OrderEntry::Free(room);
        }
        drop(turn);
        drop(waiting);
        Some(conn)
    }
}
