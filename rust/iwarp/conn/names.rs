// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that their programs connect: they know each other by name, and find each other by
//! it.
//!
//! InfiniBand connects two queue pairs without a word on the network: each end is told the address
//! (GID) and the number of the other. TCP needs an end that connects and one that listens. It is
//! the end with the lower name that connects, to a port that all hosts know, and the private data
//! of its MPA Request have both names:
//!
//! ```text
//!  0        4        5       6        8          12         16            32            48
//!  | "rsRC" | version | flags | zeros | to: QPN  | from: QPN | to: GID     | from: GID   |
//! ```
//!
//! Numbers are big-endian. The version is 2, flags have no meaning yet. An end of this version lets
//! the other have four Reads of no bytes more than the IRD, by which it has Writes confirmed, and
//! which may tell something ([`super::rnr`]).
//!
//! The names are no secret, and prove nothing. So the connection has to come from the address that
//! it names, to the address that it names; and the queue pair that it names has to be one that
//! expects a peer of that name.

use core::{cmp::Ordering, fmt};

/// Bytes of private data.
pub const CALL_LEN: usize = 48;

const MAGIC: [u8; 4] = *b"rsRC";
const VERSION: u8 = 2;

/// A queue pair's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QpName {
    /// The address: an IPv6 address, or an IPv4 address as IPv6 maps it.
    pub gid: [u8; 16],
    /// The number at that address.
    pub qpn: u32,
}

/// The names of both ends of a connection, as one of them has been told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    /// This end's.
    pub ours: QpName,
    /// The peer's.
    pub theirs: QpName,
}

/// What an end has to do for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It connects.
    Initiator,
    /// It waits for the peer, which connects.
    Responder,
    /// The queue pair is to be connected to itself.
    Both,
}

impl Names {
    /// This end's role.
    pub fn role(&self) -> Role {
        match self.ours.cmp(&self.theirs) {
            Ordering::Less => Role::Initiator,
            Ordering::Greater => Role::Responder,
            Ordering::Equal => Role::Both,
        }
    }

    /// The call by which this end, the initiator, asks for the connection.
    pub fn call(&self) -> Call {
        Call {
            to: self.theirs,
            from: self.ours,
        }
    }
}

/// What the private data of a Request say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The queue pair that is asked for.
    pub to: QpName,
    /// The queue pair that asks.
    pub from: QpName,
}

/// The answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The two queue pairs are for each other.
    Admit,
    /// No queue pair of that number expects anybody, but it may soon.
    Park,
    /// The call is refused, for this reason.
    Refuse(Refusal),
}

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The private data are no call.
    NoCall,
    /// The connection does not come from the address that it names, or not to it.
    Address,
    /// The connection comes from a port that any process of its host may have.
    Port,
    /// The end that should wait has connected.
    Role,
    /// The queue pair expects somebody else.
    Name,
    /// This end has no memory.
    NoMemory,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCall => "its Request names no queue pairs",
            Self::Address => "it does not come from, or to, the address that it names",
            Self::Port => "it comes from a port of 1024 or above (rc_low_ports)",
            Self::Role => "the other end has to call",
            Self::Name => "the queue pair expects another one",
            Self::NoMemory => "there is no memory for it",
        })
    }
}

impl Call {
    /// The private data.
    pub fn to_bytes(&self) -> [u8; CALL_LEN] {
        let mut out = [0; CALL_LEN];
        let fields: [(usize, &[u8]); 6] = [
            (0, &MAGIC),
            (4, &[VERSION]),
            (8, &self.to.qpn.to_be_bytes()),
            (12, &self.from.qpn.to_be_bytes()),
            (16, &self.to.gid),
            (32, &self.from.gid),
        ];
        for (at, field) in fields {
            for (to, from) in out.iter_mut().skip(at).zip(field) {
                *to = *from;
            }
        }
        out
    }

    /// Reads private data; `None` if they are no call, or one of another version.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; CALL_LEN] = data.try_into().ok()?;
        let [m0, m1, m2, m3, version, _flags, 0, 0, rest @ ..] = data else {
            return None;
        };
        if [*m0, *m1, *m2, *m3] != MAGIC || *version != VERSION {
            return None;
        }
        let (to_qpn, rest) = rest.split_first_chunk::<4>()?;
        let (from_qpn, rest) = rest.split_first_chunk::<4>()?;
        let (to, rest) = rest.split_first_chunk::<16>()?;
        let from = rest.first_chunk::<16>()?;
        let name = |gid: &[u8; 16], qpn: &[u8; 4]| QpName {
            gid: *gid,
            qpn: u32::from_be_bytes(*qpn),
        };
        Some(Self {
            to: name(to, to_qpn),
            from: name(from, from_qpn),
        })
    }

    /// Judges a call that has come by a connection from `remote` to `local`, both as GIDs.
    /// `expects`: the names of the queue pair with the number that is asked for, if that expects a
    /// peer.
    pub fn judge(&self, local: &[u8; 16], remote: &[u8; 16], expects: Option<&Names>) -> Verdict {
        if self.to.gid != *local || self.from.gid != *remote {
            return Verdict::Refuse(Refusal::Address);
        }
        if self.from >= self.to {
            return Verdict::Refuse(Refusal::Role);
        }
        match expects {
            None => Verdict::Park,
            Some(names) if (names.ours, names.theirs) == (self.to, self.from) => Verdict::Admit,
            Some(_) => Verdict::Refuse(Refusal::Name),
        }
    }
}
