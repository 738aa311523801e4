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
//! with one address have a quarter of the places at the most, and addresses with fewer handshakes
//! go first.

use super::silent::Source;
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::SpinLock,
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
pub(super) struct Pace(Pin<KBox<SpinLock<State>>>);

struct State {
    /// The addresses that have places.
    taken: [Option<Source>; MOST],
    /// Connections that wait for a place.
    waiting: RBTree<Key, Source>,
}

/// The places of a device.
pub(super) struct Paces([Pace; 4]);

impl Paces {
    /// Makes places. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self([
            Pace::new()?,
            Pace::new()?,
            Pace::new()?,
            Pace::new()?,
        ]))
    }

    /// The places of one kind.
    pub(super) fn of(&self, side: Side, consumer: Consumer) -> &Pace {
        let [a, b, c, d] = &self.0;
        match (side, consumer) {
            (Side::Initiator, Consumer::Process) => a,
            (Side::Initiator, Consumer::Kernel) => b,
            (Side::Responder, Consumer::Process) => c,
            (Side::Responder, Consumer::Kernel) => d,
        }
    }
}

/// A connection's place, or its wait for one.
pub(super) struct Ticket {
    source: Source,
    key: Key,
    taken: bool,
}

impl Ticket {
    /// Whether the connection has a place.
    pub(super) fn has_place(&self) -> bool {
        self.taken
    }
}

impl State {
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
    fn next(&self) -> Option<Key> {
        let mut first = self.waiting.iter().take(LOOKED_AT);
        let next = first.find(|(_, source)| self.has_room(**source));
        next.map(|(key, _)| *key)
    }
}

/// These are called in process context. They return the key of the connection whose turn is next,
/// if there is one; that is to be told.
impl Pace {
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

    /// Has the connection with the key `serial`, to or from `source`, wait for a place. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(super) fn wait(&self, source: Source, serial: u64) -> Result<Ticket> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut state = self.0.lock();
        let before = state.waiting.values().filter(|one| **one == source).count();
        let key = (before + state.count(source), serial);
        let old = state.waiting.insert(room.into_node(key, source));
        drop(state);
        drop(old);
        Ok(Ticket {
            source,
            key,
            taken: false,
        })
    }

    /// Takes a place if it is the connection's turn.
    pub(super) fn take(&self, ticket: &mut Ticket) -> Option<u64> {
        if ticket.taken {
            return None;
        }
        let mut state = self.0.lock();
        if state.next() != Some(ticket.key) {
            return None;
        }
        if let Some(free) = state.taken.iter_mut().find(|place| place.is_none()) {
            *free = Some(ticket.source);
        }
        let node = state.waiting.remove_node(&ticket.key);
        // There may be more places than this one.
        let next = state.next();
        drop(state);
        drop(node);
        ticket.taken = true;
        next.map(|(_, serial)| serial)
    }

    /// Gives back a place, or ends the wait for one.
    pub(super) fn leave(&self, ticket: &Ticket) -> Option<u64> {
        let mut state = self.0.lock();
        let node = if ticket.taken {
            let mut places = state.taken.iter_mut();
            if let Some(place) = places.find(|place| **place == Some(ticket.source)) {
                *place = None;
            }
            None
        } else {
            state.waiting.remove_node(&ticket.key)
        };
        let next = state.next();
        drop(state);
        // Not under the lock, as it frees memory.
        drop(node);
        next.map(|(_, serial)| serial)
    }
}
