// SPDX-License-Identifier: GPL-2.0

//! Memory that an STag or lkey names, and copies into it and out of it.
//!
//! - [`access`]: rights, and why memory cannot be accessed.
//! - [`table`]: the regions of a device, by their STags.
//! - [`region`]: one registered region: its STag, bounds, and bytes.
//! - [`resolved`]: a region that a key was resolved to, and copies.
//! - [`atomic`]: atomic operations.
//! - [`gather`]: the source of a message that tx sends.
//! - [`scatter`]: the sink of a message that rx places.
//! - [`window`]: memory windows, which are entries of the table as regions are.
//! - [`status`]: what tools show of a region.
//!
//! A key is looked up once for each work request or message. The bounds of each segment and the
//! validity of the region are checked before the segment's first byte is copied.

mod access;
mod atomic;
pub(crate) mod gather;
pub(crate) mod region;
mod resolved;
pub(crate) mod scatter;
mod status;
mod table;
pub(crate) mod window;

pub(crate) use access::{Access, MemError, Rights};
pub(crate) use region::{Region, Store};
pub(crate) use resolved::{HeldAccess, ResolvedMr};
pub(crate) use table::Regions;
pub(crate) use window::Binding;
