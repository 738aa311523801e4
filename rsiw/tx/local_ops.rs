// SPDX-License-Identifier: GPL-2.0

//! Requests that are carried out without a message: they change what STags name.

use crate::{
    mem::{Binding, MemError},
    queue::Queues,
    wr::{Registration, Status},
};

/// Takes the STag of a fast registration, or of a window, out of use.
pub(super) fn local_invalidate(queues: &Queues, key: u32) -> Result<(), MemError> {
    let region = queues.dev.regions.find(key).ok_or(MemError::Invalid)?;
    if region.pd() != queues.pd.id() {
        return Err(MemError::Domain);
    }
    if !region.may_invalidate(queues.number()) {
        return Err(MemError::Invalid);
    }
    // It is no error if the peer has invalidated it first (Send with Invalidate).
    region.invalidate(key);
    Ok(())
}

/// Binds the window that `stag` names, with the key that it is to have; of no bytes, unbinds it.
#[cold]
pub(super) fn bind(queues: &Queues, stag: u32, to: &Binding) -> bool {
    let regions = &queues.dev.regions;
    let Some(window) = regions.table().get(stag >> 8) else {
        return false;
    };
    if window.pd() != queues.pd.id() {
        return false;
    }
    if to.len == 0 {
        return window.unbind(stag);
    }
    let region = regions.find(to.key);
    region.is_some_and(|region| window.bind(stag, region, to, queues.number()))
}

/// Puts a fast registration's STag, with its new key, into use.
pub(super) fn register(queues: &Queues, reg: &Registration) -> Result<(), Status> {
    if reg.region.pd() != queues.pd.id() {
        return Err(MemError::Domain.into());
    }
    if reg.region.stag() >> 8 != reg.key >> 8 || !reg.region.is_fast() {
        return Err(MemError::Invalid.into());
    }
    reg.region
        .register(reg.key, reg.access, reg.iova, queues.number())
        .then_some(())
        .ok_or(Status::MemOp)
}
