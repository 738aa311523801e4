// SPDX-License-Identifier: GPL-2.0

//! What drivers of this tree need and the `kernel` crate does not have yet. Nothing here knows RDMA
//! or sockets; each module would be at home in `rust/kernel`.
//!
//! - [`work`]: workqueues, and work items that hold a reference to the object they are in.
//! - [`hrtimer`]: a timer that counts less than milliseconds.
//! - [`idtable`]: objects by number, found under RCU.
//! - [`lock`], [`tx_lock`]: spinlocks that disable interrupts; a lock whose holder is signalled.
//! - [`revocable`]: a value that its owner takes away from all who access it.
//! - [`defer`]: a box whose content is dropped in process context.
//! - [`copy`]: copies of memory that others change meanwhile, and CRC32c.
//! - [`load`]: the same for a few bytes, without a call.
//! - [`noio`]: allocation that does not wait for I/O.
//! - [`log`]: messages that cannot flood the log.
//! - [`module`]: what lives as long as the module.
//! - [`system`]: clocks, processors, contexts, random numbers.
//!
//! [`Core`] must be there first and go last.

#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rust_kext\0";

pub mod copy;
pub mod defer;
pub mod hrtimer;
pub mod idtable;
pub mod load;
pub mod lock;
pub mod log;
pub mod module;
pub mod noio;
pub mod revocable;
pub mod system;
pub mod tx_lock;
pub mod work;

pub use copy::{crc32c, crc32c_shared};
pub use defer::Deferred;
pub use idtable::IdTable;
pub use module::{rcu_barrier, Core};
pub use revocable::Revocable;
pub use system::{
    in_task, is_only_task, jiffies_ms, monotonic_ns, online_cpus, random_u32, random_u64,
};
pub use work::{DelayedWork, DelayedWorkItem, Workqueue, WqFlags};
