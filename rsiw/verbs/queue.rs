// SPDX-License-Identifier: GPL-2.0

//! What the verbs of several kinds of queues have in common: the sizes of rings, and the time that
//! a Send waits for a receive.

use crate::device::Device;
use kernel::prelude::*;
use rdma::Consumer;

/// Milliseconds that a Send waits for a receive of this consumer. 0 for kernel consumers: their
/// receives are never late, unless the peer sends more than was agreed on. For ever where programs
/// connect queue pairs as with InfiniBand, unless their senders try again less often
/// (`rsiw/queue/rnr.rs`).
pub(super) fn recv_wait_ms(dev: &Device, consumer: Consumer) -> u32 {
    match consumer {
        Consumer::Process if dev.is_rc() => u32::MAX,
        Consumer::Process => dev.settings.recv_wait_ms(),
        Consumer::Kernel => 0,
    }
}

/// The elements of a ring for `n` requests: a power of two, as the provider's index arithmetic
/// needs it.
///
/// # Errors
///
/// `EINVAL` when `n` exceeds `max`.
pub(super) fn ring_size(n: u32, max: u32) -> Result<u32> {
    if n > max {
        return Err(EINVAL);
    }
    Ok(n.max(1).next_power_of_two())
}
