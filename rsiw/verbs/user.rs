// SPDX-License-Identifier: GPL-2.0

//! Conversions from the core's types that several verbs share.

use crate::abi::Sge;

/// A consumer's scatter/gather list in the form of the rings.
pub(super) fn sges(list: &[rdma::Sge]) -> impl Iterator<Item = Sge> + '_ {
    list.iter().map(|s| Sge {
        addr: s.addr(),
        length: s.length(),
        lkey: s.lkey(),
    })
}
