// SPDX-License-Identifier: GPL-2.0

//! The queues of a queue pair, and the state that both directions of its stream go by.
//!
//! Tx and rx carry out what is queued here, and know neither each other nor the connection: tx
//! takes requests and the peer's Reads, rx takes receives and queues the peer's Reads, both
//! complete.
//!
//! - [`Queues`]: all of a queue pair together.
//! - [`sq`], [`rq`]: the queues, from post to completion.
//! - [`reads`]: RDMA Reads under way in both directions.
//! - [`rnr`]: for how long Sends wait for their receives, as a program has said it.
//! - [`state`]: the state diagram.

mod queues;
pub(crate) mod reads;
mod rnr;
pub(crate) mod rq;
pub(crate) mod sq;
pub(crate) mod state;

pub(crate) use queues::{Parts, Queues};

/// Position of a request in the sequence of all requests of a send queue; wraps.
pub(crate) type Seq = u32;

/// The most requests that complete in one go, with interrupts off. A queue may have 32,768, and a
/// process can have all of them complete at once, as often as it likes.
const BATCH: u32 = 64;
