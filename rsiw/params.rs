// SPDX-License-Identifier: GPL-2.0

//! Tunables: module parameters, set when the module is loaded.

use crate::module_parameters;
use rdma::compat::param;

/// Whether this end insists on CRCs. They are used if either end does (RFC 5044 section 7.1.1).
pub(crate) fn crc_required() -> bool {
    param::<u8>(module_parameters::crc.value()) != 0
}

/// Whether nothing of an FPDU is placed before its CRC was verified, whatever that costs. Otherwise it
/// is so only for FPDUs that arrive in one piece.
pub(crate) fn verify_first() -> bool {
    param::<u8>(module_parameters::verify_first.value()) != 0
}

/// Whether this end offers FPDUs that are larger than a TCP segment, with an experimental bit of
/// the MPA frame that only software peers set; it takes both ends.
pub(crate) fn large_fpdu() -> bool {
    param::<u8>(module_parameters::large_fpdu.value()) != 0
}

/// Whether an initiator asks for an explicit ready-to-receive message (RFC 6581 section 9), so that
/// the responder may send first.
pub(crate) fn peer_to_peer() -> bool {
    param::<u8>(module_parameters::peer_to_peer.value()) != 0
}

/// The MPA revision that an initiator asks for: 1 (RFC 5044) or 2 (RFC 6581).
pub(crate) fn mpa_revision() -> u8 {
    if param::<u8>(module_parameters::mpa_revision.value()) == 1 {
        1
    } else {
        2
    }
}

/// How long a Send that finds no receive waits for one, where a process posts the receives, in
/// milliseconds; 0: it does not. At most a minute: longer, the peer's close would not wait.
pub(crate) fn recv_wait_ms() -> u32 {
    param::<u32>(module_parameters::recv_wait_ms.value()).min(60_000)
}

/// Bytes that a run of the tx worker hands to TCP before others have their turn, which wait for it: other
/// QPs' tx, receiving in bulk.
pub(crate) fn tx_budget() -> usize {
    // CAST: To a type that is not smaller.
    let kib = param::<u32>(module_parameters::tx_budget.value()) as usize;
    kib.clamp(64, 16384) << 10
}

/// Whether the port mapper of the host (iwpmd) chooses the TCP ports of new devices. Consumers may
/// then listen on a port that a TCP program of the host has, and reach those only whose host has a
/// port mapper, too, or maps nothing.
pub(crate) fn port_mapper() -> bool {
    param::<u8>(module_parameters::port_mapper.value()) != 0
}

/// How long a responder stays silent for an initiator that has not agreed to a ready-to-receive
/// message, in milliseconds; 0: until its first message. Between two of the old kind (MPA revision
/// 1, or siw) an application whose acceptor speaks first would otherwise wait for ever; by RFC 5044
/// section 7.1.2 it does.
pub(crate) fn responder_wait() -> u32 {
    param::<u32>(module_parameters::responder_wait.value())
}

/// How long an initiator hears nothing from a peer before it sends an empty RDMA Write behind its
/// ready-to-receive message, in milliseconds; 0: never does. siw as the responder misses what comes
/// between its MPA Reply and the next thing it does, until more comes.
pub(crate) fn initiator_wait() -> u32 {
    param::<u32>(module_parameters::initiator_wait.value())
}

/// Seconds without anything from an established connection's peer after which TCP probes it, seconds
/// between the probes, and how many of them without an answer end the connection; `None`: no probes.
pub(crate) fn keepalive() -> Option<(u16, u16, u8)> {
    // The most that TCP takes.
    let seconds = |s: u32| s.clamp(1, 32767) as u16;
    let idle = param::<u32>(module_parameters::keepalive_idle_s.value());
    let interval = param::<u32>(module_parameters::keepalive_interval_s.value());
    let count = param::<u32>(module_parameters::keepalive_count.value()).clamp(1, 127) as u8;
    (idle != 0).then(|| (seconds(idle), seconds(interval), count))
}

/// Milliseconds that the peer of an established connection may leave data unacknowledged, probes
/// unanswered or its window shut, before the connection ends; 0: as TCP has it.
pub(crate) fn user_timeout_ms() -> u32 {
    param::<u32>(module_parameters::user_timeout_ms.value())
}
