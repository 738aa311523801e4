// SPDX-License-Identifier: GPL-2.0

//! Tunables: module parameters, set when the module is loaded.

use crate::module_parameters;

/// Whether this end insists on CRCs. They are used if either end does (RFC 5044 section 7.1.1).
pub(crate) fn crc_required() -> bool {
    *module_parameters::crc.value() != 0
}

/// Whether this end offers FPDUs that are larger than a TCP segment, with an experimental bit of
/// the MPA frame that only software peers set; it takes both ends.
pub(crate) fn large_fpdu() -> bool {
    *module_parameters::large_fpdu.value() != 0
}

/// Whether an initiator asks for an explicit ready-to-receive message (RFC 6581 section 9), so that
/// the responder may send first.
pub(crate) fn peer_to_peer() -> bool {
    *module_parameters::peer_to_peer.value() != 0
}

/// The MPA revision that an initiator asks for: 1 (RFC 5044) or 2 (RFC 6581).
pub(crate) fn mpa_revision() -> u8 {
    if *module_parameters::mpa_revision.value() == 1 {
        1
    } else {
        2
    }
}
