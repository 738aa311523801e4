// SPDX-License-Identifier: GPL-2.0

//! The counters of a device, for `rdma statistic show link` and the hw_counters files in sysfs.

use core::sync::atomic::{AtomicU64, Ordering};
use iwarp::{rdmap::Layer, TermCode};
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

impl Counters {
    /// Counts a fault that rx has found in the peer's data, by the error that it is to the peer.
    #[cold]
    pub(crate) fn peer_fault(&self, code: TermCode) {
        self.rx_faults.add(1);
        let cause = match code {
            TermCode::TAGGED_INVALID_STAG
            | TermCode::TAGGED_NOT_ASSOCIATED
            | TermCode::READ_INVALID_STAG
            | TermCode::READ_ACCESS
            | TermCode::READ_NOT_ASSOCIATED
            | TermCode::CANNOT_INVALIDATE => &self.rx_faults_access,
            TermCode::TAGGED_BOUNDS
            | TermCode::TAGGED_TO_WRAP
            | TermCode::READ_BOUNDS
            | TermCode::READ_TO_WRAP
            | TermCode::MESSAGE_TOO_LONG => &self.rx_faults_bounds,
            TermCode::NO_BUFFER => &self.rx_faults_no_buffer,
            _ => &self.rx_faults_protocol,
        };
        cause.add(1);
    }

    /// Counts a Terminate that is sent.
    #[cold]
    pub(crate) fn terminate_sent(&self, code: TermCode) {
        self.tx_terminates.add(1);
        add_by_layer(
            code,
            &self.tx_terminates_rdmap,
            &self.tx_terminates_ddp,
            &self.tx_terminates_mpa,
        );
    }

    /// Counts a Terminate that was received.
    #[cold]
    pub(crate) fn terminate_received(&self, code: TermCode) {
        self.rx_terminates.add(1);
        add_by_layer(
            code,
            &self.rx_terminates_rdmap,
            &self.rx_terminates_ddp,
            &self.rx_terminates_mpa,
        );
    }
}

/// Counts a Terminate for the layer whose error it reports.
fn add_by_layer(code: TermCode, rdmap: &Counter, ddp: &Counter, mpa: &Counter) {
    match code.layer() {
        Layer::Rdmap => rdmap.add(1),
        Layer::Ddp => ddp.add(1),
        Layer::Llp => mpa.add(1),
        Layer::Other(_) => {}
    }
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
    /// Those of `tx_stalls` where TCP had no memory, and not the window or the send buffer no room.
    tx_stalls_memory = c"tx_stalls_memory",
    /// RDMA Sends that found no receive, and waited for one.
    rx_stalls = c"rx_stalls",
    /// RDMA Sends that waited for a receive in vain.
    rx_stall_timeouts = c"rx_stall_timeouts",
    /// FPDUs with a wrong CRC.
    rx_crc_errors = c"rx_crc_errors",
    /// Other violations of the protocol, or of access rights, by the peer.
    rx_faults = c"rx_faults",
    /// Those of `rx_faults` where the STag was invalid, or did not give the right.
    rx_faults_access = c"rx_faults_access",
    /// Those of `rx_faults` outside of a buffer or a region.
    rx_faults_bounds = c"rx_faults_bounds",
    /// Those of `rx_faults` without a receive, or with more Reads than the IRD.
    rx_faults_no_buffer = c"rx_faults_no_buffer",
    /// All other `rx_faults`.
    rx_faults_protocol = c"rx_faults_protocol",
    /// Terminate messages sent.
    tx_terminates = c"tx_terminates",
    /// Those of `tx_terminates` that report an error of RDMAP.
    tx_terminates_rdmap = c"tx_terminates_rdmap",
    /// Those of `tx_terminates` that report an error of DDP.
    tx_terminates_ddp = c"tx_terminates_ddp",
    /// Those of `tx_terminates` that report an error of MPA.
    tx_terminates_mpa = c"tx_terminates_mpa",
    /// Terminate messages received.
    rx_terminates = c"rx_terminates",
    /// Those of `rx_terminates` that report an error of RDMAP.
    rx_terminates_rdmap = c"rx_terminates_rdmap",
    /// Those of `rx_terminates` that report an error of DDP.
    rx_terminates_ddp = c"rx_terminates_ddp",
    /// Those of `rx_terminates` that report an error of MPA.
    rx_terminates_mpa = c"rx_terminates_mpa",
    /// Connections that reached data transfer.
    connections = c"connections",
    /// Those of `connections` that this end began.
    connections_initiated = c"connections_initiated",
    /// Those of `connections` that this end accepted.
    connections_accepted = c"connections_accepted",
    /// Completions that found their CQ full.
    cq_overflows = c"cq_overflows",
}
