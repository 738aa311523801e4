// @@06@@
// SPDX-License-Identifier: GPL-2.0

//! The objects that the driver does not have.

use super::{Device, Pd, SampleDriver};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    Access, AllMemory, CmId, ConnOps, ConnParam, ConsumerId, CqAttr, CqOps, ListenerOps, MrOps,
    MrType, NewCq, NewMr, NewQp, NewSrq, Notify, QpAttr, QpHandle, QpInitAttr, QpModify, QpOps,
    RecvWrs, SendWrs, SgMap, SrqAttr, SrqOps, Udata, UserMr, WcSlots,
};

type User<'a, 'b> = Option<&'a mut Udata<'b, SampleDriver>>;

/// Has no values: to make one fails, so all else is never called.
pub(super) enum Refused {}

impl CqOps<SampleDriver> for Refused {
    fn create(
        _dev: &Device,
        _attr: &CqAttr,
        _user: User<'_, '_>,
        _cq: &mut NewCq<'_>,
    ) -> Result<Arc<Self>> {
        Err(EOPNOTSUPP)
    }

    fn poll(self: &Arc<Self>, _out: &mut WcSlots<'_>) -> Result {
        match **self {}
    }

    fn req_notify(self: &Arc<Self>, _how: Notify, _report_missed: bool) -> Result<bool> {
        match **self {}
    }
}

impl QpOps<SampleDriver> for Refused {
    fn create(
        _dev: &Device,
        _pd: &Arc<Pd>,
        _attr: &mut QpInitAttr<SampleDriver>,
        _user: User<'_, '_>,
        _qp: &mut NewQp<'_>,
    ) -> Result<Arc<Self>> {
        Err(EOPNOTSUPP)
    }

    fn publish(self: &Arc<Self>) -> Result {
        match **self {}
    }

    fn modify(self: &Arc<Self>, _modify: &QpModify) -> Result {
        match **self {}
    }

    fn query(self: &Arc<Self>) -> Result<QpAttr> {
        match **self {}
    }

    fn destroy(self: &Arc<Self>) -> Result {
        match **self {}
    }

    fn post_send(self: &Arc<Self>, _wrs: &mut SendWrs<'_, SampleDriver>) -> Result {
        match **self {}
    }

    fn doorbell(self: &Arc<Self>) -> Result {
        match **self {}
    }

    fn post_recv(self: &Arc<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        match **self {}
    }

    fn find(_dev: &Device, _qpn: u32) -> Option<QpHandle> {
        None
    }
}

impl SrqOps<SampleDriver> for Refused {
    fn create(
        _dev: &Device,
        _pd: &Arc<Pd>,
        _attr: &mut SrqAttr,
        _user: User<'_, '_>,
        _srq: &mut NewSrq<'_>,
    ) -> Result<Arc<Self>> {
        Err(EOPNOTSUPP)
    }

    fn modify(self: &Arc<Self>, _max_wr: Option<u32>, _limit: Option<u32>) -> Result {
        match **self {}
    }

    fn query(self: &Arc<Self>) -> Result<SrqAttr> {
        match **self {}
    }

    fn post_recv(self: &Arc<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        match **self {}
    }
}

impl MrOps<SampleDriver> for Refused {
    fn of_kernel(
        _dev: &Device,
        _pd: &Arc<Pd>,
        _access: Access,
        _memory: AllMemory,
    ) -> Result<NewMr<Self>> {
        Err(EOPNOTSUPP)
    }

    fn of_process(
        _dev: &Device,
        _pd: &Arc<Pd>,
        _request: &UserMr,
        _udata: &mut Udata<'_, SampleDriver>,
    ) -> Result<NewMr<Self>> {
        Err(EOPNOTSUPP)
    }

    fn alloc(_dev: &Device, _pd: &Arc<Pd>, _mr_type: MrType, _max: u32) -> Result<NewMr<Self>> {
        Err(EOPNOTSUPP)
    }

    fn map_sg(self: &Arc<Self>, _map: &mut SgMap<'_>) -> Result {
        match **self {}
    }

    fn dereg(self: &Arc<Self>) -> Result {
        match **self {}
    }
}

impl ConnOps<SampleDriver> for Refused {
    fn connect(_dev: &Device, _id: &ConsumerId, _param: &ConnParam<'_>) -> Result {
        Err(EOPNOTSUPP)
    }

    fn accept(self: Arc<Self>, _dev: &Device, _id: CmId, _param: &ConnParam<'_>) -> Result {
        match *self {}
    }

    fn reject(self: Arc<Self>, _dev: &Device, _private_data: &[u8]) -> Result {
        match *self {}
    }
}

impl ListenerOps<SampleDriver> for Refused {
    fn create(_dev: &Device, _id: &ConsumerId, _backlog: u32) -> Result<Arc<Self>> {
        Err(EOPNOTSUPP)
    }

    fn destroy(self: Arc<Self>, _dev: &Device) -> Result {
        match *self {}
    }
}
