// SPDX-License-Identifier: GPL-2.0

//! Ready to Receive (RTR, RFC 6581 s9.2): the kinds of it, and on which one both ends agree in
//! connection setup. The initiator's queue pair sends it, as its first FPDU (`rsiw/tx/rtr.rs`); its
//! connection waits for the answer, and the responder's for the RTR (`conn/first_fpdu.rs`).

use super::enhanced::Enhanced;
use core::ops::{BitAnd, BitOr};

/// A Ready to Receive indication: the zero-length message with which an initiator tells that it is
/// in Full Operation (RFC 6581 s9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rtr {
    /// Control Flag B: "a zero-length FULPDU (Send)".
    Send,
    /// Control Flag C: a zero-length RDMA Write.
    Write,
    /// Control Flag D: a zero-length RDMA Read.
    Read,
}

/// A set of RTR indications. The empty set stands for the client-server model, without RTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtrSet(u8);

impl RtrSet {
    /// No RTR.
    pub const EMPTY: Self = Self(0);
    /// [`Rtr::Send`] only.
    pub const SEND: Self = Self(1);
    /// [`Rtr::Write`] only.
    pub const WRITE: Self = Self(2);
    /// [`Rtr::Read`] only.
    pub const READ: Self = Self(4);
    /// All three.
    pub const ALL: Self = Self(7);

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `rtr` is in the set.
    #[inline]
    pub const fn contains(self, rtr: Rtr) -> bool {
        self.0 & Self::of(rtr).0 != 0
    }

    /// The set that has only `rtr`.
    #[inline]
    pub const fn of(rtr: Rtr) -> Self {
        match rtr {
            Rtr::Send => Self::SEND,
            Rtr::Write => Self::WRITE,
            Rtr::Read => Self::READ,
        }
    }

    /// The indication to use: Write, because it touches no queue of the peer; else Read; else Send,
    /// whose effect on the peer's receive queue RFC 6581 leaves open.
    #[inline]
    pub const fn preferred(self) -> Option<Rtr> {
        if self.contains(Rtr::Write) {
            Some(Rtr::Write)
        } else if self.contains(Rtr::Read) {
            Some(Rtr::Read)
        } else if self.contains(Rtr::Send) {
            Some(Rtr::Send)
        } else {
            None
        }
    }

    //= 6581-9.2-7: 1, the initiator MUST generate one of the negotiated RTR indications.
    //# a Reply with Control Flag A clear asks for none: `setup::reply_without_peer_to_peer`,
    //# `tests/vm/cm/initiator.sh:client_server_reply`
    /// Of what an initiator has offered, what it may send to a responder that answers with `peer`.
    pub(super) fn allowed_by(self, peer: Enhanced) -> Self {
        match self & peer.rtr {
            both if peer.ird == 0 => both.without(Rtr::Read),
            both => both,
        }
    }

    //= 6581-9.2-3: The responder MUST support at least one RTR indication
    //= 6581-9.2-5: The responder MUST set at least one RTR indication
    //= 6581-9.2-6: then the responder MUST set at least one RTR
    /// What a responder that takes this set, or any if it is empty, answers to a peer-to-peer
    /// initiator that offers `theirs`.
    ///
    /// RFC 6581 s9.2: "If the responder does not support any of the initiator-specified RTR
    /// indication options, then the responder MUST set at least one RTR indication type option it
    /// supports."
    pub(super) fn answer_to(self, theirs: Self) -> Self {
        let mine = if self.is_empty() { Self::ALL } else { self };
        match mine & theirs {
            Self::EMPTY => mine,
            both => both,
        }
    }

    /// This set without `rtr`.
    #[inline]
    pub const fn without(self, rtr: Rtr) -> Self {
        Self(self.0 & !Self::of(rtr).0)
    }
}

impl BitAnd for RtrSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for RtrSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
