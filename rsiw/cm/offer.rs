// SPDX-License-Identifier: GPL-2.0

//! The terms of MPA frames: what this end offers, and what the consumer's events have of them.

use super::{Conn, User};
use crate::device::max;
use iwarp::mpa::{Limits, Offer, RtrSet, MAX_PRIVATE_DATA, NO_NEGOTIATION};

/// Bytes of private data that iwcm can pass to the consumer (`iw_cm_event::private_data_len` is a
/// `u8`). MPA allows more, which only ULPs outside of the RDMA CM use. They get the beginning.
const EVENT_PRIVATE_DATA: usize = 255;

pub(super) fn event_private_data(data: &[u8]) -> &[u8] {
    data.get(..EVENT_PRIVATE_DATA).unwrap_or(data)
}

/// The most bytes of private data in a frame of this revision (RFC 6581 section 6: the enhanced
/// data take four bytes).
pub(super) fn max_private_data(revision: u8) -> usize {
    if revision >= 2 {
        MAX_PRIVATE_DATA - 4
    } else {
        MAX_PRIVATE_DATA
    }
}

/// The read queue depth that the consumer asked for, but at most the device's limit.
pub(super) fn clip(depth: u32) -> u16 {
    // CAST: `max::READS` is far below `u16::MAX`.
    depth.min(max::READS) as u16
}

//= 5040-6.1-5: the RDMAP layer MUST NOT exceed the maximum number
//# an IRD of 0 lets in an RTR that is a Read, which is no message of the ULP
/// The IRD that this end announces when its consumer asked for `reads` at a time: `reads`, rounded
/// up to a power of two. siw as the peer rounds an agreed number up so. It leaves a power of two as
/// it is, and thus sends no more Reads than were agreed on; this end refuses more.
pub(super) fn announced_ird(reads: u32) -> u16 {
    // The limit is a power of two, so rounding up does not exceed it.
    const { assert!(max::READS.is_power_of_two()) };
    match clip(reads) {
        0 => 0,
        reads => reads.next_power_of_two(),
    }
}

/// The IRD to announce when a queue pair allows `most`: a power of two, too.
pub(super) fn bounded_ird(ird: u16, most: u32) -> u16 {
    match clip(most) {
        0 => 0,
        most => ird.min(1 << most.ilog2()),
    }
}

/// A read queue depth of the peer's as the consumer's events have it, in 8 bits. If the peer sent
/// none, it is the device's limit.
pub(super) fn event_depth(depth: u16) -> u8 {
    let depth = if depth == NO_NEGOTIATION {
        clip(u32::MAX)
    } else {
        depth
    };
    u8::try_from(depth).unwrap_or(u8::MAX)
}

//= 5044-1.2-2, 5044-4.4-3, 5044-4.4-4
/// The terms that this end offers `user`'s peer in an MPA frame. Within TLS the record
/// authenticates its bytes and tells nobody where FPDUs begin. So there is neither a CRC nor an
/// alignment.
pub(super) fn offer<'a, U: User>(
    conn: &Conn<U>,
    user: &U,
    revision: u8,
    (ird, ord): (u16, u16),
    rtr: RtrSet,
    private_data: &'a [u8],
) -> Offer<'a> {
    let (settings, secure) = (conn.settings(), conn.socket().is_secure());
    Offer {
        revision,
        crc: settings.crc_required() && !secure,
        ird,
        ord,
        rtr,
        large_fpdu: settings.large_fpdu() || secure,
        send_immediate: user.is_extended(),
        private_data,
    }
}

/// The depths that an initiator provides if they are not negotiated, and the most that it agrees
/// on, if its user allows `most`. It has offered `ird`, and agrees to more, unless that is 0: then
/// its consumer wants no Reads.
pub(super) fn limits((most, _): (u32, u32), ird: u16, ord: u16) -> Limits {
    Limits {
        ird: match ird {
            0 => 0,
            _ => bounded_ird(clip(u32::MAX), most),
        },
        ord,
    }
}
