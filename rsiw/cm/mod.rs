// SPDX-License-Identifier: GPL-2.0

//! The connection manager: makes a byte stream that a queue pair owns, and ends it.
//!
//! One [`Conn`] is one TCP connection. Its life is a sequence of stages ([`stage`]). One work item,
//! the connection's actor, makes the steps from stage to stage. Socket callbacks, timers, the queue
//! pair and the RDMA core only note an event and wake the actor. There are two exceptions. `accept`
//! and `reject` act in place of the actor. And once the queue pair runs, it takes received data
//! straight from the callback.
//!
//! No file knows one that knows it, but for [`conn`] and [`user`] (`tools/ci/layering.py`). From
//! the top:
//!
//! - [`stage`]: what a connection is in between its steps, and the actor.
//! - [`initiator`]: begins attempts to connect; [`responder`]: begins connections that a listener
//!   has accepted, and takes the consumer's answers.
//! - [`run`]: drives the engine's machine, which decides what a connection does, and how it ends;
//!   [`party`]: whose the connection is meanwhile: an [`attempt`](initiator::attempt)'s, or
//!   [`incoming`](responder::incoming).
//! - [`rc`]: queue pairs that their programs connect, by name.
//! - [`listener`]: listening sockets and the connections that they accept.
//! - [`removal`]: the connections of a device that goes.
//! - [`conn`]: the connection: its socket, its events, its actor, its callbacks; [`user`]: the
//!   trait of a stream's user, which the queue pair implements.
//! - [`open`], [`frame`], [`registry`]: making sockets, moving MPA frames, the device's
//!   connections.
//! - [`secure`]: TLS between TCP and MPA; [`pace`]: how many handshakes at a time.
//! - [`order`]: connections whose steps are made one after the other.
//! - [`silent`]: which silent peer is given up. [`backlog`]: which Request is reported next.
//!
//! Documentation/connection.md has the table of stages, Documentation/locking/cm.md the locking
//! rules.

mod backlog;
mod conn;
mod consumer;
mod events;
mod frame;
mod initiator;
mod listener;
mod open;
mod order;
mod pace;
mod party;
pub(crate) mod rc;
mod registry;
mod removal;
mod responder;
mod run;
mod secure;
mod silent;
mod stage;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
mod user;

pub(crate) use self::{
    conn::{Conn, Conns},
    initiator::connect,
    listener::{listen, unlisten, Listener},
    open::PortMapper,
    removal::{leave, shutdown},
    responder::{accept, reject},
    user::User,
};

pub(crate) use iwarp::conn::Lost;

use crate::{device::max, settings::Settings};
use iwarp::{
    conn::{timeout, Input},
    mpa::{Agreed, Limits, Offer, Rtr, RtrSet, MAX_PRIVATE_DATA, NO_NEGOTIATION},
};

/// The result of connection setup, for the queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamParams {
    /// FPDUs carry a CRC.
    pub(crate) crc: bool,
    /// FPDUs that this end sends carry markers.
    pub(crate) tx_markers: bool,
    /// RDMA Reads that the peer may have outstanding.
    pub(crate) ird: u16,
    /// RDMA Reads that this end may have outstanding.
    pub(crate) ord: u16,
    /// FPDUs may be longer than a TCP segment.
    pub(crate) large_fpdu: bool,
    /// Both ends take Sends with immediate data.
    pub(crate) send_immediate: bool,
    /// This end is the initiator and may send first.
    pub(crate) initiator: bool,
    /// Initiator: the RTR to send before anything else.
    pub(crate) rtr: Option<Rtr>,
    /// Responder: the forms of RTR that the peer may begin with.
    pub(crate) peer_rtr: RtrSet,
}

impl StreamParams {
    fn new(agreed: &Agreed, initiator: bool) -> Self {
        Self {
            crc: agreed.crc,
            tx_markers: agreed.tx_markers,
            ird: agreed.ird,
            ord: agreed.ord,
            large_fpdu: agreed.large_fpdu,
            send_immediate: agreed.send_immediate,
            initiator,
            rtr: agreed.rtr.filter(|_| initiator),
            peer_rtr: if initiator {
                RtrSet::EMPTY
            } else {
                agreed.rtr_any
            },
        }
    }
}

/// What the machine is told, if anything; with an error, if that says why.
type Told = Result<Option<Input>, (Input, kernel::error::Error)>;

/// How to close a connection. Each way overrides those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Close {
    /// The queue pair sends all that is posted, then FINs are exchanged.
    Graceful = 1,
    /// TCP sends the data that it has, then a FIN. The queue pair no longer uses the connection.
    Flush = 2,
    /// The connection is reset.
    Abort = 3,
}

/// Octets of private data that iwcm can pass to the consumer (`iw_cm_event::private_data_len` is a
/// `u8`). MPA allows more, which only ULPs outside of the RDMA CM use. They get the beginning.
const EVENT_PRIVATE_DATA: usize = 255;

fn event_private_data(data: &[u8]) -> &[u8] {
    data.get(..EVENT_PRIVATE_DATA).unwrap_or(data)
}

/// The most octets of private data in a frame of this revision (RFC 6581 section 6: the enhanced
/// data take four octets).
fn max_private_data(revision: u8) -> usize {
    if revision >= 2 {
        MAX_PRIVATE_DATA - 4
    } else {
        MAX_PRIVATE_DATA
    }
}

/// The read queue depth that the consumer asked for, but at most the device's limit.
fn clip(depth: u32) -> u16 {
    // CAST: `max::READS` is far below `u16::MAX`.
    depth.min(max::READS) as u16
}

/// The IRD that this end announces when its consumer asked for `reads` at a time: `reads`, rounded
/// up to a power of two. siw as the peer rounds an agreed number up so. It leaves a power of two as
/// it is, and thus sends no more Reads than were agreed on; this end refuses more.
fn announced_ird(reads: u32) -> u16 {
    // The limit is a power of two, so rounding up does not exceed it.
    const { assert!(max::READS.is_power_of_two()) };
    match clip(reads) {
        0 => 0,
        reads => reads.next_power_of_two(),
    }
}

/// The IRD to announce when a queue pair allows `most`: a power of two, too.
fn bounded_ird(ird: u16, most: u32) -> u16 {
    match clip(most) {
        0 => 0,
        most => ird.min(1 << most.ilog2()),
    }
}

/// A read queue depth of the peer's as the consumer's events have it, in 8 bits. If the peer sent
/// none, it is the device's limit.
fn event_depth(depth: u16) -> u8 {
    let depth = if depth == NO_NEGOTIATION {
        clip(u32::MAX)
    } else {
        depth
    };
    u8::try_from(depth).unwrap_or(u8::MAX)
}

/// The terms that this end offers in an MPA frame. Within TLS the record authenticates its octets
/// and tells nobody where FPDUs begin. So there is neither a CRC nor an alignment.
fn offer<'a>(
    settings: &Settings,
    secure: bool,
    revision: u8,
    ird: u16,
    ord: u16,
    rtr: RtrSet,
    private_data: &'a [u8],
) -> Offer<'a> {
    Offer {
        revision,
        crc: settings.crc_required() && !secure,
        ird,
        ord,
        rtr,
        large_fpdu: settings.large_fpdu() || secure,
        send_immediate: false,
        private_data,
    }
}

/// The depths that an initiator provides if they are not negotiated, and the most that it agrees
/// on, if its user allows `most`. It has offered `ird`, and agrees to more, unless that is 0: then
/// its consumer wants no Reads.
fn limits((most, _): (u32, u32), ird: u16, ord: u16) -> Limits {
    Limits {
        ird: match ird {
            0 => 0,
            _ => bounded_ird(clip(u32::MAX), most),
        },
        ord,
    }
}
