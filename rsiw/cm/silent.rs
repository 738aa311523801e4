// SPDX-License-Identifier: GPL-2.0

//! The connections of a listener whose Request has not come, and the choice of the one that is
//! given up for a new one.
//!
//! A peer that connects and says nothing takes a slot for 10 s. When all slots are taken and
//! another connection waits, the source address with the most silent connections loses its oldest
//! one. So a host that floods a listener shuts out itself. An honest peer, whose Request comes
//! right after TCP's handshake, is neither kept waiting nor given up.

use core::net::{IpAddr, SocketAddr};
use kernel::{
    prelude::*,
    time::{Instant, Monotonic},
};

/// Milliseconds for which a connection is not given up: its Request may have a long way, or be lost
/// and repeated.
const GRACE_MS: i64 = 250;

/// The number of the oldest connections that are looked at, to bound the time.
const LOOKED_AT: usize = 128;

/// The source of a connection, as far as its address tells: an IPv4 address, or the upper 64 bits
/// of an IPv6 address, which belong to one site or host. In a link-local address they are the same
/// for all, and the lower 64 bits are a host's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Source(u64, bool);

impl Source {
    pub(super) fn of(peer: &SocketAddr) -> Self {
        match peer.ip() {
            IpAddr::V4(ip) => Self(u32::from(ip).into(), false),
            IpAddr::V6(ip) => {
                let bits = u128::from(ip);
                let half = if ip.is_unicast_link_local() {
                    bits
                } else {
                    bits >> 64
                };
                // CAST: The lower half.
                Self(half as u64, true)
            }
        }
    }
}

struct One {
    serial: u64,
    source: Source,
    since: Instant<Monotonic>,
}

/// The silent connections of a listener, the oldest first.
pub(super) struct Silent(KVVec<One>);

impl Silent {
    /// Makes an empty list with room for `most` connections. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(most: u32) -> Result<Self> {
        Ok(Self(KVVec::with_capacity(most as usize, GFP_KERNEL)?))
    }

    /// Adds a new connection. There is room for as many as the listener has slots; one without room
    /// is never given up.
    pub(super) fn add(&mut self, serial: u64, source: Source, since: Instant<Monotonic>) {
        let one = One {
            serial,
            source,
            since,
        };
        let _ = self.0.push_within_capacity(one);
    }

    /// Removes a connection, whose Request has come or which has gone.
    pub(super) fn remove(&mut self, serial: u64) {
        if let Some(index) = self.0.iter().position(|one| one.serial == serial) {
            let _ = self.0.remove(index);
        }
    }

    /// Takes out the connection to give up, if there is one, and returns its key.
    pub(super) fn give_up(&mut self, now: Instant<Monotonic>) -> Option<u64> {
        let oldest = self.0.get(..self.0.len().min(LOOKED_AT))?;
        let count = |source: Source| oldest.iter().filter(|one| one.source == source).count();
        let mut most = (0, 0);
        for (index, one) in oldest.iter().enumerate() {
            if (now - one.since).as_millis() < GRACE_MS {
                break;
            }
            // Of sources with equal counts, the one whose connection is the oldest.
            let count = count(one.source);
            if count > most.0 {
                most = (count, index);
            }
        }
        if most.0 == 0 {
            return None;
        }
        self.0.remove(most.1).ok().map(|one| one.serial)
    }

    /// Whether no connection is silent.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[kunit_tests(rsiw_cm_silent)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use kernel::time::Delta;

    fn v4(host: u8) -> Source {
        Source::of(&SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), 7))
    }

    fn v6(site: u16, host: u16) -> Source {
        Source::of(&SocketAddr::new(
            Ipv6Addr::new(0xfd00, 0, 0, site, 0, 0, 0, host).into(),
            7,
        ))
    }

    #[test]
    fn the_oldest_of_who_has_most_goes() -> Result {
        let now = Instant::now();
        let later = now + Delta::from_millis(GRACE_MS + 1);
        let mut silent = Silent::new(8)?;
        assert!(silent.give_up(later).is_none());
        for (serial, source) in [(1, v4(1)), (2, v4(2)), (3, v4(2)), (4, v4(3)), (5, v4(2))] {
            silent.add(serial, source, now);
        }
        // No connection is given up at once.
        assert!(silent.give_up(now).is_none());
        assert_eq!(silent.give_up(later), Some(2));
        assert_eq!(silent.give_up(later), Some(3));
        // Now each source has one.
        assert_eq!(silent.give_up(later), Some(1));
        silent.remove(4);
        assert_eq!(silent.give_up(later), Some(5));
        assert!(silent.is_empty());
        Ok(())
    }

    #[test]
    fn hosts_of_one_ipv6_network_are_one() -> Result {
        let now = Instant::now();
        let later = now + Delta::from_millis(GRACE_MS + 1);
        let mut silent = Silent::new(4)?;
        silent.add(1, v6(1, 1), now);
        silent.add(2, v6(2, 1), now);
        silent.add(3, v6(2, 2), now);
        assert_eq!(silent.give_up(later), Some(2));
        Ok(())
    }

    #[test]
    fn link_local_addresses_are_hosts() {
        let at = |host: u16| {
            let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host);
            Source::of(&SocketAddr::new(ip.into(), 7))
        };
        assert!(at(1) != at(2));
        assert!(at(1) == at(1));
        assert!(v6(1, 1) == v6(1, 2));
    }

    #[test]
    fn no_more_than_there_is_room_for() -> Result {
        let now = Instant::now();
        let mut silent = Silent::new(1)?;
        let room = silent.0.capacity() as u64;
        for serial in 0..room + 3 {
            silent.add(serial, v4(1), now);
        }
        assert_eq!(silent.0.len() as u64, room);
        Ok(())
    }
}
