// SPDX-License-Identifier: GPL-2.0

//! Steps that are made in the order of what led to them.
//!
//! Connections are set up side by side. But applications that open many of them pair them by the
//! order of their requests (perftest writes its credits by it). So there is an [`Order`] for each
//! listener, in which Requests are read and reported, and one for each protection domain, in which its
//! initiators' handshakes go on. A callback that has something for such a connection puts it at the end,
//! and one work item makes the steps, one after the other.
//!
//! A step may wait for threads of the process whose connection it is. Those of an order are of one
//! process, or of peers only, so they hold up nobody else.

use super::{Conn, User};
use crate::device::Device;
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Arc,
};
use kext::{
    lock::SpinLockIrq,
    new_owned_work, new_spinlock_irq,
    work::{OwnedWork, OwnedWorkItem},
};
use rdma::Consumer;

/// Steps that are made at a time, before others get the worker.
const BATCH: u32 = 64;

/// See the module's documentation.
#[pin_data]
pub(crate) struct Order<U: User> {
    /// Whose connections these are.
    consumer: Consumer,
    #[pin]
    waiting: SpinLockIrq<Waiting<U>>,
    #[pin]
    job: OwnedWork<Order<U>>,
}

struct Waiting<U: User> {
    /// Those that are to make a step, by their numbers.
    conns: RBTree<u64, Arc<Conn<U>>>,
    next: u64,
}

/// The room that a connection takes in its order, allocated beforehand, as callbacks cannot.
type Room<U> = RBTreeNodeReservation<u64, Arc<Conn<U>>>;

/// A connection's place in its order. Guarded by a lock of its own within that of the order.
pub(super) enum Turn<U: User> {
    /// It waits for nothing.
    Free(Room<U>),
    /// It is to make a step.
    Waits,
    /// Its steps need no order any more.
    Over,
}

impl<U: User> Turn<U> {
    /// Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Turn::Free(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

impl<U: User> OwnedWorkItem for Order<U> {
    fn run(this: Arc<Self>) {
        for _ in 0..BATCH {
            let Some(conn) = this.pop() else { return };
            conn.act();
        }
        let Some(conn) = this.pop() else { return };
        // The last one's step, and others after those who wait for a worker.
        conn.act();
        this.wake(conn.dev());
    }
}

impl<U: User> Order<U> {
    /// An empty one. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(consumer: Consumer) -> Result<Arc<Self>> {
        let waiting = Waiting {
            conns: RBTree::new(),
            next: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                consumer,
                waiting <- new_spinlock_irq!(waiting, "rsiw_order"),
                job <- new_owned_work!("rsiw_order"),
            }),
            consumer.flags(),
        )
    }

    /// Whose connections these are.
    pub(super) fn consumer(&self) -> Consumer {
        self.consumer
    }

    fn wake(self: &Arc<Self>, dev: &Device) {
        self.job
            .queue(dev.queues.cm_of(self.consumer), self.clone());
    }

    /// Has `conn` make a step behind those that wait already; false if it needs no order. Context:
    /// any.
    pub(super) fn enter(self: &Arc<Self>, conn: &Arc<Conn<U>>) -> bool {
        {
            let mut waiting = self.waiting.lock();
            let mut turn = conn.turn.lock();
            match core::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Free(room) => {
                    let number = waiting.next;
                    waiting.next += 1;
                    waiting.conns.insert(room.into_node(number, conn.clone()));
                }
                // What has happened is seen by the step that is to come.
                Turn::Waits => return true,
                Turn::Over => {
                    *turn = Turn::Over;
                    return false;
                }
            };
        }
        self.wake(conn.dev());
        true
    }

    /// The next one, which may enter again from now on.
    fn pop(&self) -> Option<Arc<Conn<U>>> {
        let mut waiting = self.waiting.lock();
        let first = waiting.conns.cursor_front_mut()?;
        let conn = first.current().1.clone();
        let (_, node) = first.remove_current();
        // Drops the tree's reference, which is not the last one.
        let room = node.into_reservation();
        let mut turn = conn.turn.lock();
        if matches!(*turn, Turn::Waits) {
            *turn = Turn::Free(room);
        }
        drop(turn);
        drop(waiting);
        Some(conn)
    }
}
