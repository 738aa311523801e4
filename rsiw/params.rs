// SPDX-License-Identifier: GPL-2.0

//! Module parameters. They are set when the module is loaded.

use crate::module_parameters;
use rdma::compat::param;

/// Whether this end insists on CRCs. They are used if either end does (RFC 5044 section 7.1.1).
pub(crate) fn crc_required() -> bool {
    param::<u8>(module_parameters::crc.value()) != 0
}

/// Whether the payload of each FPDU is placed only after its CRC was verified. Otherwise that is so
/// only for FPDUs that arrive in one piece.
pub(crate) fn verify_first() -> bool {
    param::<u8>(module_parameters::verify_first.value()) != 0
}

/// Whether this end offers FPDUs that are larger than a TCP segment. The offer is an experimental
/// bit of the MPA frame that only software peers set. They are used if both ends offer them.
pub(crate) fn large_fpdu() -> bool {
    param::<u8>(module_parameters::large_fpdu.value()) != 0
}

/// Whether an initiator asks for an explicit ready-to-receive message (RFC 6581 section 9), so that
/// the responder may send first.
pub(crate) fn peer_to_peer() -> bool {
    param::<u8>(module_parameters::peer_to_peer.value()) != 0
}

/// The MPA revision that an initiator begins with: 1 (RFC 5044) or 2 (RFC 6581).
pub(crate) fn mpa_revision() -> u8 {
    if param::<u8>(module_parameters::mpa_revision.value()) == 1 {
        1
    } else {
        2
    }
}

/// Milliseconds that a Send waits for a receive, where a process posts the receives; 0: it does not
/// wait. At most a minute.
pub(crate) fn recv_wait_ms() -> u32 {
    param::<u32>(module_parameters::recv_wait_ms.value()).min(60_000)
}

/// Bytes that one run of the tx worker hands to TCP. Then other work gets the worker: tx of other
/// QPs, and bulk receive.
pub(crate) fn tx_budget() -> usize {
    // CAST: `usize` is not smaller than `u32`.
    let kib = param::<u32>(module_parameters::tx_budget.value()) as usize;
    kib.clamp(64, 16384) << 10
}

/// Whether the port mapper of the host (iwpmd) chooses the TCP ports of new devices. Consumers may
/// then listen on a port that a TCP program of the host uses. But they can then connect only to
/// hosts that run a port mapper, too, or that map no ports.
pub(crate) fn port_mapper() -> bool {
    param::<u8>(module_parameters::port_mapper.value()) != 0
}

/// Milliseconds that a responder stays silent for an initiator that has not agreed to a
/// ready-to-receive message; 0: until the initiator's first message. Such initiators are of MPA
/// revision 1, or siw. If the application speaks first at the responder, both ends would otherwise
/// wait for ever, as RFC 5044 section 7.1.2 has it.
pub(crate) fn responder_wait() -> u32 {
    param::<u32>(module_parameters::responder_wait.value())
}

/// Milliseconds without data from the peer after which an initiator sends an empty RDMA Write
/// behind its ready-to-receive message; 0: never. siw as the responder does not notice data that
/// comes right after its MPA Reply, until more comes.
pub(crate) fn initiator_wait() -> u32 {
    param::<u32>(module_parameters::initiator_wait.value())
}

/// TCP's keep-alive: seconds without anything from the peer of an established connection until TCP
/// probes it; seconds between probes; and the number of unanswered probes that end the connection.
/// `None`: no probes.
pub(crate) fn keepalive() -> Option<(u16, u16, u8)> {
    // The limits, here and below, are TCP's.
    let seconds = |s: u32| s.clamp(1, 32767) as u16;
    let idle = param::<u32>(module_parameters::keepalive_idle_s.value());
    let interval = param::<u32>(module_parameters::keepalive_interval_s.value());
    let count = param::<u32>(module_parameters::keepalive_count.value()).clamp(1, 127) as u8;
    (idle != 0).then(|| (seconds(idle), seconds(interval), count))
}

/// Milliseconds that the peer of an established connection may leave data unacknowledged, probes
/// unanswered or its window shut, before the connection ends; 0: TCP's sysctls apply.
pub(crate) fn user_timeout_ms() -> u32 {
    param::<u32>(module_parameters::user_timeout_ms.value())
}
