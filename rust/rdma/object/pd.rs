// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::Object;
use crate::types::DriverTypes;
use kernel::sync::Arc;
use rdma_bindings as bindings;

/// A protection domain (`struct ib_pd`).
pub(crate) type PdObject<D> = Object<bindings::ib_pd, Arc<<D as DriverTypes>::Pd>>;
