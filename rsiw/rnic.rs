// SPDX-License-Identifier: GPL-2.0

//! A device with what runs on it.

use crate::{
    cm::Registry,
    device::{Device, Queues},
    qp::{number::Qps, Qp},
};
use core::ops::Deref;
use kernel::{prelude::*, sync::Arc};

/// What the RDMA core's device refers to: what all parts of the driver share, the queue pairs, and the
/// connections.
pub(crate) struct Rnic {
    /// What all parts of the driver share.
    pub(crate) dev: Arc<Device>,
    /// Queue pairs by number.
    pub(crate) qps: Arc<Qps>,
    /// Connections and listeners.
    pub(crate) conns: Arc<Registry<Qp>>,
}

impl Rnic {
    /// One that will be registered. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(gid: [u8; 6], queues: Arc<Queues>, ports_mapped: bool) -> Result<Arc<Self>> {
        let dev = Device::new(gid, queues, ports_mapped)?;
        let rnic = Self {
            qps: Qps::new()?,
            conns: Registry::new(&dev)?,
            dev,
        };
        Ok(Arc::new(rnic, GFP_KERNEL)?)
    }
}

impl Deref for Rnic {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.dev
    }
}
