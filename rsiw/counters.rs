// SPDX-License-Identifier: GPL-2.0

//! The counters of a device, for `rdma statistic show link` and the hw_counters files in sysfs.

use core::sync::atomic::{AtomicU64, Ordering};
use rdma::StatDesc;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Counters of one device.
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// Names of the counters, in the order of [`Counters::read`].
        pub(crate) const NAMES: &[StatDesc] = &[$(StatDesc::new($text),)*];

        impl Counters {
            /// Counters that are all zero.
            pub(crate) const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// Copies the values in the order of [`NAMES`].
            pub(crate) fn read(&self, values: &mut [u64]) {
                let now = [$(self.$name.get(),)*];
                for (v, n) in values.iter_mut().zip(now) {
                    *v = n;
                }
            }
        }
    };
}

/// One counter. Its accesses are relaxed, as no other data depends on it.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`. Context: any.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// As [`Counter::add`], for a counter that nobody else writes meanwhile. It needs no locked
    /// access.
    #[inline]
    pub(crate) fn add_alone(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// The value. Context: any.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Bytes handed to TCP, headers included.
    tx_bytes = c"tx_bytes",
    /// Messages sent (requests and Read responses).
    tx_messages = c"tx_messages",
    /// Calls into TCP that sent something.
    tx_sends = c"tx_sends",
    /// Calls into TCP that found no room in the socket.
    tx_stalls = c"tx_stalls",
    /// Bytes taken from TCP, headers included.
    rx_bytes = c"rx_bytes",
    /// Messages received in full.
    rx_messages = c"rx_messages",
    /// RDMA Sends that found no receive, and waited for one.
    rx_stalls = c"rx_stalls",
    /// RDMA Sends that waited for a receive in vain.
    rx_stall_timeouts = c"rx_stall_timeouts",
    /// FPDUs with a wrong CRC.
    rx_crc_errors = c"rx_crc_errors",
    /// Other violations of the protocol, or of access rights, by the peer.
    rx_faults = c"rx_faults",
    /// Terminate messages sent.
    tx_terminates = c"tx_terminates",
    /// Terminate messages received.
    rx_terminates = c"rx_terminates",
    /// Connections that reached data transfer.
    connections = c"connections",
    /// Completions that found their CQ full.
    cq_overflows = c"cq_overflows",
}
