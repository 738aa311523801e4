// SPDX-License-Identifier: GPL-2.0

//! In place of the kinds of objects that a device does not have.

use crate::{
    attr::{
        qp::{QpAttr, QpInitAttr, QpModify},
        Access, Arm, CqAttr, SrqAttr,
    },
    device::Device,
    driver::{ConnOps, CqOps, ListenerOps, MrOps, QpOps, SrqOps},
    errno,
    iwcm::{CmId, ConnParam, ConsumerId},
    local::AllMemory,
    object::{
        cq::NewCq,
        mr::{NewMr, UserMr},
        page_list::{MrType, SgMap},
        qp::{NewQp, QpHandle},
        srq::NewSrq,
    },
    types::DriverTypes,
    udata::Udata,
    wc::WcSlots,
    wr::{RecvWrs, SendWrs},
};
use kernel::{prelude::*, sync::Arc};

/// A kind of objects that the driver's devices do not have: to make one fails with `EOPNOTSUPP`. As
/// the type has no values, the compiler knows that all else is never called.
pub enum Unsupported {}

type User<'a, 'b, D> = Option<&'a mut Udata<'b, D>>;

impl<D: DriverTypes> CqOps<D> for Unsupported {
    fn create(
        _dev: &Device<D>,
        _attr: &CqAttr,
        _user: User<'_, '_, D>,
        _cq: &mut NewCq<'_>,
    ) -> Result<Arc<Self>> {
        Err(errno::unsupported())
    }

    fn poll(self: &Arc<Self>, _out: &mut WcSlots<'_>) -> Result {
        match **self {}
    }

    fn req_notify(self: &Arc<Self>, _how: Arm, _report_missed: bool) -> Result<bool> {
        match **self {}
    }
}

impl<D: DriverTypes> QpOps<D> for Unsupported {
    fn create(
        _dev: &Device<D>,
        _pd: &Arc<D::Pd>,
        _attr: &mut QpInitAttr<D>,
        _user: User<'_, '_, D>,
        _qp: &mut NewQp<'_>,
    ) -> Result<Arc<Self>> {
        Err(errno::unsupported())
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

    fn post_send(self: &Arc<Self>, _wrs: &mut SendWrs<'_, D>) -> Result {
        match **self {}
    }

    fn doorbell(self: &Arc<Self>) -> Result {
        match **self {}
    }

    fn post_recv(self: &Arc<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        match **self {}
    }

    fn find(_dev: &Device<D>, _qpn: u32) -> Option<QpHandle> {
        None
    }
}

impl<D: DriverTypes> SrqOps<D> for Unsupported {
    fn create(
        _dev: &Device<D>,
        _pd: &Arc<D::Pd>,
        _attr: &mut SrqAttr,
        _user: User<'_, '_, D>,
        _srq: &mut NewSrq<'_>,
    ) -> Result<Arc<Self>> {
        Err(errno::unsupported())
    }

    fn set_limit(self: &Arc<Self>, _limit: u32) -> Result {
        match **self {}
    }

    fn query(self: &Arc<Self>) -> Result<SrqAttr> {
        match **self {}
    }

    fn post_recv(self: &Arc<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        match **self {}
    }
}

impl<D: DriverTypes> MrOps<D> for Unsupported {
    fn of_kernel(
        _dev: &Device<D>,
        _pd: &Arc<D::Pd>,
        _access: Access,
        _memory: AllMemory,
    ) -> Result<NewMr<Self>> {
        Err(errno::unsupported())
    }

    fn of_process(
        _dev: &Device<D>,
        _pd: &Arc<D::Pd>,
        _request: &UserMr,
        _udata: &mut Udata<'_, D>,
    ) -> Result<NewMr<Self>> {
        Err(errno::unsupported())
    }

    fn alloc(_dev: &Device<D>, _pd: &Arc<D::Pd>, _type: MrType, _max: u32) -> Result<NewMr<Self>> {
        Err(errno::unsupported())
    }

    fn map_sg(self: &Arc<Self>, _map: &mut SgMap<'_>) -> Result {
        match **self {}
    }

    fn dereg(self: &Arc<Self>) -> Result {
        match **self {}
    }
}

impl<D: DriverTypes> ConnOps<D> for Unsupported {
    fn connect(_dev: &Device<D>, _id: &ConsumerId, _param: &ConnParam<'_>) -> Result {
        Err(errno::unsupported())
    }

    fn accept(self: Arc<Self>, _dev: &Device<D>, _id: CmId, _param: &ConnParam<'_>) -> Result {
        match *self {}
    }

    fn reject(self: Arc<Self>, _dev: &Device<D>, _private_data: &[u8]) -> Result {
        match *self {}
    }
}

impl<D: DriverTypes> ListenerOps<D> for Unsupported {
    fn create(_dev: &Device<D>, _id: &ConsumerId, _backlog: u32) -> Result<Arc<Self>> {
        Err(errno::unsupported())
    }

    fn destroy(self: Arc<Self>, _dev: &Device<D>) -> Result {
        match *self {}
    }
}
