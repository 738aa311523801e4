// SPDX-License-Identifier: GPL-2.0

//! How many connections make their TLS handshakes at a time.
//!
//! The kernel keeps few handshakes that no tlshd has taken, and tlshd makes a process for each that
//! it takes. If hundreds began at once, all of them would take longer than their peers wait. So
//! there is a number of places for the initiators of a device, and for its responders. The two are
//! apart: otherwise a host that connects to itself could have all places taken by initiators. Those
//! of processes and of the kernel are apart, too: no process holds up a disk. An initiator waits
//! for its place before TCP connects, as a peer gives a connection less time than the consumer
//! does.
//!
//! A peer that says nothing keeps its place for as long as a handshake may take. So the connections
//! with one address have a quarter of the places at the most, and who has few goes before who has
//! many.

use super::{conn::Events, registry::Registry, silent::Source, Conn, User};
use core::net::SocketAddr;
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{Arc, SpinLock},
};
use rdma::Consumer;

/// Handshakes of one kind that a device makes at a time. The kernel has room for 3 to 50 in a
/// network namespace.
const MOST: usize = 16;

/// Of these, handshakes with one address.
const MOST_OF_ONE: usize = 4;

/// Connections that are looked at for the next place, to bound the time. Those that may have one
/// come first: see [`Key`].
const LOOKED_AT: usize = 64;

/// Who begins the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Initiators.
    Initiator,
    /// Responders.
    Responder,
}

/// The order of those who wait: first by how many there were of the same address before, then by
/// the connection's age. So the first [`MOST_OF_ONE`] of an address go before all others of those
/// that have more.
type Key = (usize, u64);

/// The places of one kind.
pub(super) struct Pace<U: User>(Pin<KBox<SpinLock<State<U>>>>);

struct State<U: User> {
    /// The addresses that have places.
    taken: [Option<Source>; MOST],
    /// Connections that wait for a place.
    waiting: RBTree<Key, (Source, Arc<Conn<U>>)>,
}

/// The places of a device.
pub(super) struct Paces<U: User>([Pace<U>; 4]);

impl<U: User> Paces<U> {
    /// Makes places. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self([
            Pace::new()?,
            Pace::new()?,
            Pace::new()?,
            Pace::new()?,
        ]))
    }

    fn of(&self, side: Side, consumer: Consumer) -> &Pace<U> {
        let [a, b, c, d] = &self.0;
        match (side, consumer) {
            (Side::Initiator, Consumer::Process) => a,
            (Side::Initiator, Consumer::Kernel) => b,
            (Side::Responder, Consumer::Process) => c,
            (Side::Responder, Consumer::Kernel) => d,
        }
    }
}

/// A connection's place, or its wait for one. Dropping it ends either.
pub(super) struct Place<U: User> {
    registry: Arc<Registry<U>>,
    side: Side,
    consumer: Consumer,
    source: Source,
    key: Key,
    taken: bool,
}

impl<U: User> Pace<U> {
    fn new() -> Result<Self> {
        let state = State {
            taken: [None; MOST],
            waiting: RBTree::new(),
        };
        Ok(Self(KBox::pin_init(
            new_spinlock!(state, "rsiw_pace"),
            GFP_KERNEL,
        )?))
    }
}

impl<U: User> State<U> {
    /// The number of places that an address has.
    fn count(&self, source: Source) -> usize {
        let places = self.taken.iter();
        places.filter(|place| **place == Some(source)).count()
    }

    /// Whether an address may have a place now, and there is one.
    fn has_room(&self, source: Source) -> bool {
        self.taken.iter().any(Option::is_none) && self.count(source) < MOST_OF_ONE
    }

    /// The connection whose turn it is, if there is a place for it.
    fn next(&self) -> Option<(Key, Arc<Conn<U>>)> {
        let first = self.waiting.iter().take(LOOKED_AT);
        first
            .filter(|(_, (source, _))| self.has_room(*source))
            .map(|(key, (_, conn))| (*key, conn.clone()))
            .next()
    }
}

impl<U: User> Place<U> {
    /// Has `conn`, to or from `peer`, wait for a place. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn wait(conn: &Arc<Conn<U>>, side: Side, peer: &SocketAddr) -> Result<Self> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut place = Self {
            registry: conn.registry.clone(),
            side,
            consumer: conn.consumer(),
            source: Source::of(peer),
            key: (0, conn.serial),
            taken: false,
        };
        let mut state = place.pace().0.lock();
        let same = |(source, _): &(Source, _)| *source == place.source;
        let before = state.waiting.values().filter(|one| same(one)).count();
        let key = (before + state.count(place.source), conn.serial);
        let node = room.into_node(key, (place.source, conn.clone()));
        let old = state.waiting.insert(node);
        drop(state);
        drop(old);
        place.key = key;
        Ok(place)
    }

    fn pace(&self) -> &Pace<U> {
        self.registry.paces().of(self.side, self.consumer)
    }

    /// Takes a place if it is the connection's turn. If not, [`Events::TURN`] comes when it is.
    /// Returns whether it has one. Context: sleeping.
    pub(super) fn take(&mut self) -> bool {
        if self.taken {
            return true;
        }
        let mut state = self.pace().0.lock();
        if state.next().is_none_or(|(key, _)| key != self.key) {
            return false;
        }
        if let Some(free) = state.taken.iter_mut().find(|place| place.is_none()) {
            *free = Some(self.source);
        }
        let node = state.waiting.remove_node(&self.key);
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
        let node = if self.taken {
            let mut places = state.taken.iter_mut();
            if let Some(place) = places.find(|place| **place == Some(self.source)) {
                *place = None;
            }
            None
        } else {
            state.waiting.remove_node(&self.key)
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
