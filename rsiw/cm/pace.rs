// SPDX-License-Identifier: GPL-2.0

//! How many connections make their TLS handshakes at a time.
//!
//! The kernel keeps few handshakes that no tlshd has taken, and tlshd makes a process for each that
//! it takes. If hundreds began at once, all of them would take longer than their peers wait. So a
//! device's initiators have a few places, and so have its responders. The two are apart: otherwise
//! a host that connects to itself could have all places taken by initiators. An initiator waits for
//! its place before TCP connects, as a peer gives a connection less time than the consumer does.

use super::{conn::Events, registry::Registry, Conn, User};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, SpinLock},
};

/// Handshakes of one role that a device makes at a time. The kernel has room for 3 to 50 in a
/// network namespace.
const MOST: u32 = 8;

/// Who begins the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Initiators.
    Initiator,
    /// Responders.
    Responder,
}

/// The places of one role.
pub(super) struct Pace<U: User>(Pin<KBox<SpinLock<State<U>>>>);

struct State<U: User> {
    taken: u32,
    /// Connections that wait for a place, the oldest first.
    waiting: RBTree<u64, Arc<Conn<U>>>,
}

/// A connection's place, or its wait for one. Dropping it ends either.
pub(super) struct Place<U: User> {
    registry: Arc<Registry<U>>,
    side: Side,
    serial: u64,
    taken: bool,
}

impl<U: User> Pace<U> {
    /// Makes places. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let state = State {
            taken: 0,
            waiting: RBTree::new(),
        };
        Ok(Self(KBox::pin_init(
            new_spinlock!(state, "rsiw_pace"),
            GFP_KERNEL,
        )?))
    }
}

impl<U: User> State<U> {
    /// The connection whose turn it is, if there is a place for it.
    fn next(&self) -> Option<(u64, Arc<Conn<U>>)> {
        if self.taken >= MOST {
            return None;
        }
        let cursor = self.waiting.cursor_front()?;
        let (serial, conn) = cursor.current();
        Some((*serial, conn.clone()))
    }
}

impl<U: User> Place<U> {
    /// Has `conn` wait for a place. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn wait(conn: &Arc<Conn<U>>, side: Side) -> Result<Self> {
        let node = RBTreeNode::new(conn.serial, conn.clone(), GFP_KERNEL)?;
        let place = Self {
            registry: conn.registry.clone(),
            side,
            serial: conn.serial,
            taken: false,
        };
        let old = place.pace().0.lock().waiting.insert(node);
        drop(old);
        Ok(place)
    }

    fn pace(&self) -> &Pace<U> {
        self.registry.pace(self.side)
    }

    /// Takes a place if it is the connection's turn. If not, [`Events::TURN`] comes when it is.
    /// Returns whether it has one. Context: sleeping.
    pub(super) fn take(&mut self) -> bool {
        if self.taken {
            return true;
        }
        let mut state = self.pace().0.lock();
        if state.next().is_none_or(|(serial, _)| serial != self.serial) {
            return false;
        }
        state.taken += 1;
        let node = state.waiting.remove_node(&self.serial);
        let next = state.next();
        drop(state);
        drop(node);
        self.taken = true;
        // There may be more places than this one.
        if let Some((_, conn)) = next {
            conn.notify(Events::TURN);
        }
        true
    }
}

impl<U: User> Drop for Place<U> {
    fn drop(&mut self) {
        let mut state = self.pace().0.lock();
        let node = match self.taken {
            true => {
                state.taken -= 1;
                None
            }
            false => state.waiting.remove_node(&self.serial),
        };
        let next = state.next();
        drop(state);
        // Not under the lock, as it frees memory.
        drop(node);
        if let Some((_, conn)) = next {
            conn.notify(Events::TURN);
        }
    }
}
