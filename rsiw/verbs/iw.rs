// SPDX-License-Identifier: GPL-2.0

//! Verbs of the iWARP connection manager: glue to `cm`.

use crate::{
    cm,
    device::Rsiw,
    stream::{Conn, Stream},
};
use kernel::{prelude::*, sync::Arc};
use rdma::{CmId, ConnOps, ConnParam, ConsumerId, Device, ListenerOps};

impl ConnOps<Rsiw> for Conn {
    fn connect(dev: &Device<Rsiw>, cm: &ConsumerId, param: &ConnParam<'_>) -> Result {
        let rnic = dev.data();
        let qp = rnic.qps.get(param.qpn).ok_or(EINVAL)?;
        cm::connect(&rnic.conns, dev, qp.stream.clone(), cm, param)
    }

    fn accept(self: Arc<Self>, dev: &Device<Rsiw>, cm: CmId, param: &ConnParam<'_>) -> Result {
        let qp = dev.data().qps.get(param.qpn);
        cm::accept(self, qp.map(|qp| qp.stream.clone()), cm, param)
    }

    fn reject(self: Arc<Self>, _dev: &Device<Rsiw>, private_data: &[u8]) -> Result {
        cm::reject(self, private_data)
    }
}

impl ListenerOps<Rsiw> for cm::Listener<Stream> {
    fn create(dev: &Device<Rsiw>, cm: &ConsumerId, backlog: u32) -> Result<Arc<Self>> {
        cm::listen(&dev.data().conns, dev, cm, backlog)
    }

    fn destroy(self: Arc<Self>, _dev: &Device<Rsiw>) -> Result {
        cm::unlisten(self)
    }
}
