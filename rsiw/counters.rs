// SPDX-License-Identifier: GPL-2.0

//! The counters of a device and of its queue pairs, for `rdma statistic` and the hw_counters files
//! in sysfs.
//!
//! Each queue pair counts for itself: most of its counters have one writer at a time, and so need
//! no locked access, and no cache line that other processors write. `qp::statistics` adds them up.

use core::sync::atomic::{AtomicU64, Ordering};
use iwarp::{rdmap::Layer, TermCode};
use kernel::str::CStr;
use rdma::StatDesc;

/// Declares a set of counters. Each has its text, which tools show, as its name.
macro_rules! counters {
    (
        $(#[$doc_of_set:meta])* $set:ident, $names:ident:
        $($(#[$doc:meta])* $name:ident = $text:literal,)*
    ) => {
        $(#[$doc_of_set])*
        pub(crate) struct $set {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        const $names: &[&CStr] = &[$($text,)*];

        impl $set {
            /// How many counters there are.
            pub(crate) const COUNT: usize = $names.len();

            /// Counters that are all zero.
            pub(crate) const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// The values.
            pub(crate) fn values(&self) -> [u64; Self::COUNT] {
                [$(self.$name.get(),)*]
            }
        }
    };
}

/// Declares the counters of Terminates by their error, which the RFCs may have several codes for.
macro_rules! terminate_counters {
    (
        $(($tx:literal, $rx:literal): $($code:ident)|+,)*
        others: ($tx_others:literal, $rx_others:literal),
    ) => {
        const TERMINATE_NAMES: &[[&CStr; 2]] = &[$([$tx, $rx],)* [$tx_others, $rx_others]];

        /// The row of a code in [`TERMINATE_NAMES`], `OTHERS` if it has none of its own.
        fn terminate_row(code: TermCode) -> usize {
            const OTHERS: usize = TERMINATE_NAMES.len() - 1;
            const ROWS: [&[TermCode]; OTHERS] = [$(&[$(TermCode::$code),+],)*];
            ROWS.iter().position(|codes| codes.contains(&code)).unwrap_or(OTHERS)
        }
    };
}

/// All counters of a device: first those that queue pairs have ([`Traffic`]), then the device's
/// ([`Counters`]), and Terminates by their error ([`Terminates`]). These are optional, so that a
/// counter set has room for its queue pairs (`StatDesc::optional`); an administrator enables those
/// of interest.
pub(crate) const STATS: &[StatDesc] = &{
    const ERRORS: usize = TERMINATE_NAMES.len();
    const DEVICE: usize = Traffic::COUNT;
    const SENT: usize = DEVICE + Counters::COUNT;
    const RECEIVED: usize = SENT + ERRORS;
    let mut all = [StatDesc::new(c""); RECEIVED + ERRORS];
    let mut i = 0;
    while i < all.len() {
        all[i] = match i {
            ..DEVICE => StatDesc::new(TRAFFIC_NAMES[i]),
            DEVICE..SENT => StatDesc::new(DEVICE_NAMES[i - DEVICE]),
            SENT..RECEIVED => StatDesc::optional(TERMINATE_NAMES[i - SENT][0]),
            RECEIVED.. => StatDesc::optional(TERMINATE_NAMES[i - RECEIVED][1]),
        };
        i += 1;
    }
    all
};

/// A counter of the port, by a name that InfiniBand has for it.
struct PortCounter {
    name: &'static CStr,
    /// The counters of queue pairs that it is the sum of.
    of: &'static [usize],
    /// What it counts at a time.
    unit: u64,
}

/// Bytes that `port_xmit_data` and `port_rcv_data` count at a time: a 32-bit word, as InfiniBand's
/// `PortCounters` have it.
const WORD: u64 = 4;

/// The counters of the port that tools for InfiniBand read, as far as they mean something here: a
/// packet is an FPDU.
const PORT: &[PortCounter] = &[
    PortCounter {
        name: c"port_xmit_data",
        of: &[traffic(c"tx_bytes")],
        unit: WORD,
    },
    PortCounter {
        name: c"port_rcv_data",
        of: &[traffic(c"rx_bytes")],
        unit: WORD,
    },
    PortCounter {
        name: c"port_xmit_packets",
        of: &[traffic(c"tx_fpdus")],
        unit: 1,
    },
    PortCounter {
        name: c"port_rcv_packets",
        of: &[traffic(c"rx_fpdus")],
        unit: 1,
    },
    // Damaged and malformed ones, and not those that broke a rule of memory access.
    PortCounter {
        name: c"port_rcv_errors",
        of: &[traffic(c"rx_crc_errors"), traffic(c"rx_faults_protocol")],
        unit: 1,
    },
];

/// The names of the port's counters.
pub(crate) const PORT_NAMES: &[&CStr] = &{
    let mut names = [c""; PORT.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PORT[i].name;
        i += 1;
    }
    names
};

/// The value of a counter of the port; `index` is that in [`PORT_NAMES`], and `all` is what all
/// queue pairs have counted.
pub(crate) fn of_port(index: usize, all: &[u64; Traffic::COUNT]) -> u64 {
    PORT.get(index).map_or(0, |port| {
        let counts = port.of.iter().filter_map(|&i| all.get(i));
        let sum = counts.fold(0u64, |sum, n| sum.wrapping_add(*n));
        sum.checked_div(port.unit).unwrap_or(0)
    })
}

/// The index of a counter of queue pairs.
const fn traffic(name: &CStr) -> usize {
    let mut i = 0;
    while i < TRAFFIC_NAMES.len() {
        if same(TRAFFIC_NAMES[i].to_bytes(), name.to_bytes()) {
            return i;
        }
        i += 1;
    }
    panic!("no such counter")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

impl Traffic {
    /// Counts a fault that rx has found in the peer's data, by the error that it is to the peer.
    /// Context: the socket's lock is held.
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

/// A device's Terminates in one direction, by their error.
pub(crate) struct Terminates([Counter; TERMINATE_NAMES.len()]);

impl Terminates {
    /// Counters that are all zero.
    pub(crate) const fn new() -> Self {
        Self([const { Counter::new() }; TERMINATE_NAMES.len()])
    }

    /// Counts a Terminate. Context: any.
    #[cold]
    pub(crate) fn count(&self, code: TermCode) {
        if let Some(counter) = self.0.get(terminate_row(code)) {
            counter.add(1);
        }
    }

    /// The values, in the order of [`STATS`].
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(Counter::get)
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

    /// Replaces the value, which somebody else has counted. Context: any.
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value. Context: any.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Counters of a queue pair. What begins with `tx` is counted by tx, what begins with `rx` with
    /// the socket locked.
    Traffic, TRAFFIC_NAMES:
    /// Bytes handed to TCP, headers included.
    tx_bytes = c"tx_bytes",
    /// FPDUs handed to TCP.
    tx_fpdus = c"tx_fpdus",
    /// Messages sent (requests and Read responses).
    tx_messages = c"tx_messages",
    /// Sends of the consumer, and Immediate Data. (There is no room for more counters: see
    /// `StatDesc::fit`.)
    tx_op_sends = c"tx_op_sends",
    /// RDMA Writes of the consumer.
    tx_op_writes = c"tx_op_writes",
    /// RDMA Reads and atomic operations of the consumer.
    tx_op_reads = c"tx_op_reads",
    /// Responses to the peer's Reads and atomic operations.
    tx_op_read_responses = c"tx_op_read_responses",
    /// Fast registrations, and windows that were bound.
    op_registrations = c"op_registrations",
    /// Local invalidations, by themselves or with a Read.
    op_invalidations = c"op_invalidations",
    /// Calls into TCP that sent something.
    tx_sends = c"tx_sends",
    /// Calls into TCP that found no room in the socket.
    tx_stalls = c"tx_stalls",
    /// Those of `tx_stalls` where there was no memory.
    tx_stalls_memory = c"tx_stalls_memory",
    /// Those of `tx_stalls` where the peer's window or the send buffer had no room.
    tx_stalls_window = c"tx_stalls_window",
    /// RDMA Reads that waited as the ORD was reached.
    tx_stalls_ord = c"tx_stalls_ord",
    /// Requests that waited for the Reads before them, as they have a fence.
    tx_stalls_fence = c"tx_stalls_fence",
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
    /// RDMA Sends that found no receive, and waited for one.
    rx_stalls = c"rx_stalls",
    /// RDMA Sends that waited for a receive in vain.
    rx_stall_timeouts = c"rx_stall_timeouts",
    /// Reads of the peer after which it had as many under way as the IRD allows.
    rx_stalls_ird = c"rx_stalls_ird",
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
    /// Bytes taken from TCP, headers included.
    rx_bytes = c"rx_bytes",
    /// FPDUs received in full.
    rx_fpdus = c"rx_fpdus",
    /// Messages received in full.
    rx_messages = c"rx_messages",
    /// Sends of the peer, and Immediate Data.
    rx_op_sends = c"rx_op_sends",
    /// RDMA Writes of the peer.
    rx_op_writes = c"rx_op_writes",
    /// RDMA Reads and atomic operations of the peer.
    rx_op_reads = c"rx_op_reads",
    /// Responses to this end's Reads and atomic operations.
    rx_op_read_responses = c"rx_op_read_responses",
    /// Segments that TCP has sent again.
    tcp_retransmits = c"tcp_retransmits",
    /// Segments that TCP has received out of order.
    tcp_out_of_order = c"tcp_out_of_order",
    /// Completions that found their CQ full.
    cq_overflows = c"cq_overflows",
}

counters! {
    /// Counters of a device that are no queue pair's.
    Counters, DEVICE_NAMES:
    /// Connections that reached data transfer.
    connections = c"connections",
    /// Those of `connections` that this end began.
    connections_initiated = c"connections_initiated",
    /// Those of `connections` that this end accepted.
    connections_accepted = c"connections_accepted",
    /// Those of `connections` that ended by the FINs of both ends.
    connections_closed = c"connections_closed",
    /// Those of `connections` that ended otherwise: by a fault, a reset, or for their consumer.
    connections_aborted = c"connections_aborted",
    /// Attempts of this end to which nobody listened.
    connects_refused = c"connects_refused",
    /// Attempts that the peer's consumer has rejected.
    connects_rejected = c"connects_rejected",
    /// Attempts without an answer in time.
    connects_timed_out = c"connects_timed_out",
    /// Attempts that failed otherwise.
    connects_failed = c"connects_failed",
    /// Attempts that went on with another connection, by an older form of the Request.
    connects_repeated = c"connects_repeated",
    /// Requests of peers that were reported to a consumer.
    requests = c"requests",
    /// Those of `requests` that the consumer has rejected.
    requests_rejected = c"requests_rejected",
    /// Connections of peers without a Request that could be reported.
    requests_dropped = c"requests_dropped",
    /// Calls of queue pairs that were for no queue pair here.
    rc_calls_refused = c"rc_calls_refused",
    /// Requests of processes that failed as no peer has answered them in time.
    rc_retries_exceeded = c"rc_retries_exceeded",
    /// TLS handshakes that ended well.
    tls_handshakes = c"tls_handshakes",
    /// TLS handshakes that failed.
    tls_failures = c"tls_failures",
}

terminate_counters! {
    // An STag that is not valid.
    (c"tx_terminates_stag", c"rx_terminates_stag"): READ_INVALID_STAG | TAGGED_INVALID_STAG,
    // Access beyond a buffer.
    (c"tx_terminates_bounds", c"rx_terminates_bounds"): READ_BOUNDS | TAGGED_BOUNDS,
    // Access without the right to it.
    (c"tx_terminates_access", c"rx_terminates_access"): READ_ACCESS,
    // An STag of another stream.
    (c"tx_terminates_stream", c"rx_terminates_stream"):
        READ_NOT_ASSOCIATED | TAGGED_NOT_ASSOCIATED,
    // A TO that wraps.
    (c"tx_terminates_wrap", c"rx_terminates_wrap"): READ_TO_WRAP | TAGGED_TO_WRAP,
    // An STag that cannot be invalidated.
    (c"tx_terminates_invalidate", c"rx_terminates_invalidate"):
        CANNOT_INVALIDATE | OPERATION_CANNOT_INVALIDATE,
    // A version of RDMAP or DDP.
    (c"tx_terminates_version", c"rx_terminates_version"):
        RDMAP_VERSION | TAGGED_VERSION | UNTAGGED_VERSION,
    // An opcode that is not expected.
    (c"tx_terminates_opcode", c"rx_terminates_opcode"): UNEXPECTED_OPCODE,
    // A queue number that is not known.
    (c"tx_terminates_qn", c"rx_terminates_qn"): INVALID_QN,
    // A message for which there is no buffer.
    (c"tx_terminates_no_buffer", c"rx_terminates_no_buffer"): NO_BUFFER,
    // An MSN out of range.
    (c"tx_terminates_msn", c"rx_terminates_msn"): MSN_RANGE,
    // A message offset that is not valid.
    (c"tx_terminates_mo", c"rx_terminates_mo"): INVALID_MO,
    // A message longer than its buffer.
    (c"tx_terminates_too_long", c"rx_terminates_too_long"): MESSAGE_TOO_LONG,
    // A wrong CRC.
    (c"tx_terminates_crc", c"rx_terminates_crc"): MPA_CRC,
    // An FPDU that does not begin where it should.
    (c"tx_terminates_framing", c"rx_terminates_framing"): MPA_FPDU_START,
    // Terms of a connection that this end cannot meet, or the peer.
    (c"tx_terminates_terms", c"rx_terminates_terms"): MPA_INSUFFICIENT_IRD | MPA_NO_MATCHING_RTR,
    // All others.
    others: (c"tx_terminates_other", c"rx_terminates_other"),
}
