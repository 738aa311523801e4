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
//! - [`sockets`], [`offer`], [`frame`], [`registry`]: making sockets, what MPA frames offer, moving
//!   them, the device's connections.
//! - [`tls`]: TLS between TCP and MPA; [`pace`]: how many handshakes at a time.
//! - [`order`]: connections whose steps are made one after the other.
//! - [`silent`]: which silent peer is given up. [`backlog`]: which Request is reported next.
//!
//! Documentation/connection.md has the table of stages, and the locking rules.

mod backlog;
mod conn;
mod consumer;
mod events;
mod frame;
mod initiator;
mod listener;
mod offer;
mod order;
mod pace;
mod party;
pub(crate) mod rc;
mod registry;
mod removal;
mod responder;
mod run;
mod silent;
mod sockets;
mod stage;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
mod tls;
mod user;

pub(crate) use self::{
    conn::{Conn, Conns},
    initiator::connect,
    listener::{listen, unlisten, Listener},
    removal::{leave, shutdown},
    responder::{accept, reject},
    sockets::PortMapper,
    user::User,
};

pub(crate) use iwarp::conn::Lost;

use iwarp::{
    conn::{timeout, Input},
    mpa::{Agreed, Rtr, RtrSet},
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
