// SPDX-License-Identifier: GPL-2.0

//! A device with its queue pairs and connections.

use crate::{
    cm::{rc::Doors, Conns},
    device::{Device, Workqueues},
    qp::number::Qps,
    stream::Stream,
};
use core::ops::Deref;
use kernel::{prelude::*, sync::Arc};
use net::Keyring;
use rdma::Protocol;

/// The driver's object of the RDMA core's device.
pub(crate) struct Rnic {
    /// The state that all parts of the driver share.
    pub(crate) dev: Arc<Device>,
    /// Queue pairs by number.
    pub(crate) qps: Arc<Qps>,
    /// Connections and listeners.
    pub(crate) conns: Arc<Conns<Stream>>,
    /// What queue pairs need that are called by name.
    pub(crate) doors: Arc<Doors<Stream>>,
}

impl Rnic {
    /// Makes a device that is not registered yet. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        protocol: Protocol,
        gid: [u8; 6],
        workqueues: Arc<Workqueues>,
        keys: Arc<Keyring>,
    ) -> Result<Arc<Self>> {
        let dev = Device::new(protocol, gid, workqueues, keys)?;
        let conns = Conns::new(&dev)?;
        let rnic = Self {
            qps: Qps::new()?,
            doors: Doors::new(&conns)?,
            conns,
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
