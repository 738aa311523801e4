// SPDX-License-Identifier: GPL-2.0

//! The traits that a driver implements: [`Driver`] for the device, and one for each kind of object.
//! Which types its objects have it says by [`DriverTypes`].
//!
//! Together they are the operations of the RDMA core (`struct ib_device_ops`). Methods that make an
//! object return an `Arc`, which the core's object keeps. When the method that destroys the object
//! has succeeded, the crate waits for calls through the object's handle to end, and for those of
//! methods that query or change the object, and drops the `Arc`. The core gets errors unchanged.
//!
//! *Sleeping* context is a thread that may sleep. In *any* context the caller may hold spinlocks of
//! the consumer or of the core, be in a softirq, or have interrupts disabled.
//!
//! User objects are those that are made with a [`Udata`]. Processes post work through shared rings,
//! so the methods that post and poll are called for objects of kernel consumers only.

use crate::{
    attr::{
        device::{DeviceLimits, PortAttr, StatDesc},
        qp::{QpAttr, QpInitAttr, QpModify},
        Access, Arm, CqAttr, SrqAttr,
    },
    device::{Device, DeviceHandle},
    iwcm::{CmId, ConnParam, ConsumerId},
    local::{AllMemory, LocalDmaKey, NewLocalDmaKey},
    object::{
        cq::NewCq,
        mr::{DmaBufMr, MwType, NewMr, Rereg, UserMr},
        page_list::{MrType, SgMap},
        qp::{NewQp, QpHandle},
        srq::NewSrq,
    },
    protocol::Protocol,
    restrack::Details,
    types::DriverTypes,
    udata::Udata,
    wc::WcSlots,
    wr::{RecvWrs, SendWrs},
};
use kernel::{prelude::*, sync::Arc};
use rdma_bindings as bindings;

/// A driver as user libraries tell it from others (`enum rdma_driver_id`). A library serves all
/// drivers of its identity whose interface has the version that it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverId(pub(crate) bindings::rdma_driver_id);

impl DriverId {
    /// No user library serves the driver.
    pub const UNKNOWN: Self = Self(bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN);
    /// Software iWARP: the library `libsiw`.
    pub const SIW: Self = Self(bindings::rdma_driver_id_RDMA_DRIVER_SIW);
}

/// A driver of devices: the operations on a device, and on the objects of [`DriverTypes`].
pub trait Driver:
    DriverTypes<
    Context: ContextOps<Self>,
    Pd: PdOps<Self>,
    Cq: CqOps<Self>,
    Qp: QpOps<Self>,
    Srq: SrqOps<Self>,
    Mr: MrOps<Self>,
    Conn: ConnOps<Self>,
    Listener: ListenerOps<Self>,
>
{
    /// The identity for user libraries.
    const ID: DriverId;
    /// The version of the interface to the user library.
    const UVERBS_ABI_VERSION: u32;

    /// The counters that [`Driver::port_stats`] reads, optional ones last.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// The names of the device's settings, at most 32. Each is a file in `settings/` of the
    /// device's folder in sysfs, which shows a number and takes one.
    const SETTINGS: &'static [&'static CStr] = &[];

    /// The value of a setting; `index` is that in [`Driver::SETTINGS`]. Not called if there are
    /// none. Context: sleeping.
    fn setting(_dev: &Device<Self>, _index: usize) -> u32 {
        0
    }

    /// Changes a setting, for somebody who has `CAP_NET_ADMIN`. Not called if there are none.
    /// Errors: `EINVAL` for a value that the setting does not take. Context: sleeping; calls for
    /// one setting may run at once.
    fn set_setting(_dev: &Device<Self>, _index: usize, _value: u32) -> Result {
        Err(EINVAL)
    }

    /// The names of the device's settings that are text. Together with [`Driver::SETTINGS`] they
    /// are at most 32.
    const TEXTS: &'static [&'static CStr] = &[];

    /// Writes the value of a text to `out`, without a newline, and returns its length; `index` is
    /// that in [`Driver::TEXTS`]. Not called if there are none. Context: sleeping.
    fn text(_dev: &Device<Self>, _index: usize, _out: &mut [u8]) -> usize {
        0
    }

    /// As [`Driver::set_setting`], of a text.
    fn set_text(_dev: &Device<Self>, _index: usize, _value: &[u8]) -> Result {
        Err(EINVAL)
    }

    /// The protocol of a device. It does not change. Context: any.
    fn protocol(_data: &Self::Device) -> Protocol {
        Protocol::Iwarp
    }

    /// Makes and returns the local DMA key of a device that does not exist yet, by `new`: by that
    /// key the work requests of each kernel consumer name kernel memory
    /// ([`LocalSge::memory`](crate::LocalSge::memory)), and those of nobody else. Called once,
    /// before any other method. Context: sleeping. Errors: `ENOMEM`.
    fn local_dma_key(data: &Arc<Self::Device>, new: NewLocalDmaKey) -> Result<LocalDmaKey>;

    /// The device exists, but is not registered yet. Called once, before any other method but
    /// [`Driver::local_dma_key`]. Context: sleeping.
    fn attach(data: &Arc<Self::Device>, handle: DeviceHandle<Self>);

    /// The device is about to be unregistered, by `rdma link del` or with all devices of the
    /// driver: ends everything that would hold that up. Context: sleeping; the core may hold a lock
    /// under which it handles all such requests.
    fn leaving(_dev: &Device<Self>) {}

    /// The device is unregistered. This is the last call. Context: sleeping.
    fn detach(data: &Arc<Self::Device>);

    /// The device's limits. Context: sleeping.
    fn limits(dev: &Device<Self>) -> DeviceLimits;

    /// The attributes of the port. It may be called while the device is being registered. Context:
    /// sleeping; RTNL is not held and may be taken.
    fn query_port(dev: &Device<Self>) -> Result<PortAttr>;

    /// The GID of the port of an iWARP device; `index` is 0. Context: sleeping.
    fn query_gid(dev: &Device<Self>, index: u32) -> Result<[u8; 16]>;

    /// Reads the counters of [`Driver::PORT_STATS`], in their order. Not called if there are none.
    /// Context: sleeping.
    fn port_stats(_dev: &Device<Self>, _values: &mut [u64]) {}

    /// The names of the port's counters that tools for InfiniBand know, at most 16. They are files
    /// in `ports/1/counters` of the device's folder in sysfs.
    const PORT_COUNTERS: &'static [&'static CStr] = &[];

    /// The value of a counter of [`Driver::PORT_COUNTERS`]; `index` is that in the list. What
    /// counter sets have counted belongs to it. Not called if there are none. Context: sleeping.
    fn port_counter(_dev: &Device<Self>, _index: usize) -> u64 {
        0
    }

    /// Makes a counter set, which has the counters of [`Driver::PORT_STATS`] for the queue pairs
    /// that are bound to it. What they count is missing in [`Driver::port_stats`] from then on: the
    /// core adds it. Returns the set's number, which tools show; no other set of the device has it,
    /// and it is not 0. Context: sleeping. Errors: `EOPNOTSUPP`: the driver has no such sets.
    fn new_counter_set(_dev: &Device<Self>) -> Result<u32> {
        Err(crate::errno::unsupported())
    }

    /// Removes a counter set, to which no queue pair is bound any more. Context: sleeping.
    fn free_counter_set(_dev: &Device<Self>, _set: u32) {}

    /// Binds a queue pair to a set, or with `None` releases it from its set. Context: sleeping; the
    /// core serialises these calls for one set.
    fn bind_counter_set(_dev: &Device<Self>, _qp: &Arc<Self::Qp>, _set: Option<u32>) -> Result {
        Err(crate::errno::unsupported())
    }

    /// Reads the counters of a set. Context: sleeping.
    fn counter_set_stats(_dev: &Device<Self>, _set: u32, _values: &mut [u64]) {}
}

/// Operations on user contexts.
pub trait ContextOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// A process opens the device. Context: sleeping.
    fn alloc(dev: &Device<D>, udata: &mut Udata<'_, D>) -> Result<Arc<Self>>;

    /// The process has closed the device, or the device is being removed. All objects of the
    /// context are destroyed. Context: sleeping.
    fn dealloc(self: &Arc<Self>) {}
}

/// Operations on protection domains.
pub trait PdOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Makes a protection domain. Context: sleeping.
    fn alloc(dev: &Device<D>, user: Option<&mut Udata<'_, D>>) -> Result<Arc<Self>>;

    /// Destroys a protection domain, which nothing uses any more. Context: sleeping.
    fn dealloc(self: &Arc<Self>) -> Result {
        Ok(())
    }
}

/// Operations on completion queues.
pub trait CqOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Makes a completion queue. Context: sleeping.
    fn create(
        dev: &Device<D>,
        attr: &CqAttr,
        user: Option<&mut Udata<'_, D>>,
        cq: &mut NewCq<'_>,
    ) -> Result<Arc<Self>>;

    /// Adds the driver's own attributes to the description of a completion queue, for all users
    /// to read. Context: sleeping.
    fn describe(self: &Arc<Self>, _details: &mut Details<'_>) -> Result {
        Ok(())
    }

    /// Moderates events: `count` completions share one, which comes at most `period_us`
    /// microseconds after the first of them. Context: sleeping; calls for one queue may run at
    /// once.
    fn modify(self: &Arc<Self>, _count: u16, _period_us: u16) -> Result {
        Err(crate::errno::unsupported())
    }

    /// Gives a process' queue room for at least `entries` completions, and returns for how many.
    /// What it shares by `user` takes the place of what it has shared before. Context: sleeping;
    /// one call at a time for a queue.
    fn resize(self: &Arc<Self>, _entries: u32, _user: &mut Udata<'_, D>) -> Result<u32> {
        Err(crate::errno::unsupported())
    }

    /// Destroys a completion queue, which no queue pair uses any more. Context: sleeping.
    fn destroy(self: &Arc<Self>) -> Result {
        Ok(())
    }

    /// Moves completions to `out`, until there are no more or `out` is full. Context: any.
    fn poll(self: &Arc<Self>, out: &mut WcSlots<'_>) -> Result;

    /// Arms the queue. With `report_missed`, returns whether it holds completions that the consumer
    /// might miss. Context: any.
    fn req_notify(self: &Arc<Self>, how: Arm, report_missed: bool) -> Result<bool>;
}

/// Operations on queue pairs.
pub trait QpOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Makes a queue pair, and sets its number by [`NewQp::set_number`]. Context: sleeping.
    fn create(
        dev: &Device<D>,
        pd: &Arc<D::Pd>,
        attr: &mut QpInitAttr<D>,
        user: Option<&mut Udata<'_, D>>,
        qp: &mut NewQp<'_>,
    ) -> Result<Arc<Self>>;

    /// The queue pair that [`QpOps::create`] made is complete: [`QpOps::find`] may find it from now
    /// on, and not before. If this fails, the queue pair is dropped. Context: sleeping.
    fn publish(self: &Arc<Self>) -> Result;

    /// Changes a queue pair. The core does not serialise these calls, and one may still go on while
    /// [`QpOps::destroy`] is called, for which it must not wait. Context: sleeping.
    fn modify(self: &Arc<Self>, modify: &QpModify) -> Result;

    /// The attributes of a queue pair. Context: sleeping.
    fn query(self: &Arc<Self>) -> Result<QpAttr>;

    /// Adds the driver's own attributes to the description of a queue pair, which may be in any
    /// state. Context: sleeping.
    fn describe(self: &Arc<Self>, _details: &mut Details<'_>) -> Result {
        Ok(())
    }

    /// Destroys a queue pair. The driver moves it to ERROR and completes all its work requests, and
    /// [`QpOps::find`] finds it no more. If it is connected, the driver also closes the connection
    /// and reports that to the connection manager: on return the crate waits until the connection
    /// manager has released the queue pair. Context: sleeping.
    fn destroy(self: &Arc<Self>) -> Result;

    /// Posts all send work requests that `wrs` has. On an error the request that was taken last is
    /// not posted, and those before it are. A queue pair in ERROR completes requests, too, in
    /// order. Context: any.
    fn post_send(self: &Arc<Self>, wrs: &mut SendWrs<'_, D>) -> Result;

    /// A process has put requests into its send queue. Context: sleeping, in the process.
    fn doorbell(self: &Arc<Self>) -> Result;

    /// Posts receive work requests, as [`QpOps::post_send`] does. Context: any.
    fn post_recv(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result;

    /// The handle of the queue pair with number `qpn`, for which the current task wants to connect
    /// or accept (the `iw_get_qp` operation). `None` if there is none or the task may not use it:
    /// see [`Owner`](crate::Owner). Context: the task's, with interrupts disabled.
    fn find(dev: &Device<D>, qpn: u32) -> Option<QpHandle>;
}

/// Operations on shared receive queues.
pub trait SrqOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Makes a shared receive queue. `attr` has the attributes that the consumer asks for; the
    /// driver leaves there those that it grants. Context: sleeping.
    fn create(
        dev: &Device<D>,
        pd: &Arc<D::Pd>,
        attr: &mut SrqAttr,
        user: Option<&mut Udata<'_, D>>,
        srq: &mut NewSrq<'_>,
    ) -> Result<Arc<Self>>;

    /// Changes a shared receive queue's limit. Context: sleeping.
    fn set_limit(self: &Arc<Self>, limit: u32) -> Result;

    /// Changes the size of a process' shared receive queue in two calls, so that the process can
    /// map what is new before the queue uses it. A call that shares memory prepares, and changes
    /// nothing. One that shares none has the queue use what the call before it has shared, which is
    /// then all that it shares, and sets the limit if one is given. Context: sleeping; one call for
    /// a queue at a time.
    fn resize(
        self: &Arc<Self>,
        _max_wr: u32,
        _limit: Option<u32>,
        _udata: &mut Udata<'_, D>,
    ) -> Result {
        Err(crate::errno::unsupported())
    }

    /// The attributes of a shared receive queue. Context: sleeping.
    fn query(self: &Arc<Self>) -> Result<SrqAttr>;

    /// Adds the driver's own attributes to the description of a shared receive queue, for all users
    /// to read. Context: sleeping.
    fn describe(self: &Arc<Self>, _details: &mut Details<'_>) -> Result {
        Ok(())
    }

    /// Destroys a shared receive queue, which no queue pair uses any more. Context: sleeping.
    fn destroy(self: &Arc<Self>) -> Result {
        Ok(())
    }

    /// Posts receive work requests, as [`QpOps::post_recv`]. Context: any.
    fn post_recv(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result;
}

/// Operations on memory regions.
pub trait MrOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Makes a region of all kernel memory, for a kernel consumer. Context: sleeping.
    fn of_kernel(
        dev: &Device<D>,
        pd: &Arc<D::Pd>,
        access: Access,
        memory: AllMemory,
    ) -> Result<NewMr<Self>>;

    /// Makes a region of memory of the calling process. Context: sleeping, in the process.
    fn of_process(
        dev: &Device<D>,
        pd: &Arc<D::Pd>,
        request: &UserMr,
        udata: &mut Udata<'_, D>,
    ) -> Result<NewMr<Self>>;

    /// Makes a region of a dma-buf, for a process. Context: sleeping, in the process.
    fn of_dma_buf(_dev: &Device<D>, _pd: &Arc<D::Pd>, _request: &DmaBufMr) -> Result<NewMr<Self>> {
        Err(crate::errno::unsupported())
    }

    /// Makes the region that is to take the place of `self`, a region of [`MrOps::of_process`], in
    /// the domain `pd`. When this has succeeded, the core destroys `self`, which the process cannot
    /// use meanwhile. If it fails, `self` stays: as it was, or without memory. Context: sleeping,
    /// in a process.
    fn rereg(
        self: &Arc<Self>,
        _dev: &Device<D>,
        _pd: &Arc<D::Pd>,
        _request: &Rereg,
    ) -> Result<NewMr<Self>> {
        Err(crate::errno::unsupported())
    }

    /// Makes a region for fast registration of up to `max` pages, or elements of a scatterlist with
    /// gaps. Context: sleeping. Errors: `EOPNOTSUPP` for a type that the driver does not have.
    fn alloc(dev: &Device<D>, pd: &Arc<D::Pd>, mr_type: MrType, max: u32) -> Result<NewMr<Self>>;

    /// Maps pages to a region of [`MrOps::alloc`], by [`SgMap::map_into`]. The region has them when
    /// the consumer has posted a request to register them. Context: any.
    fn map_sg(self: &Arc<Self>, map: &mut SgMap<'_>) -> Result;

    /// Adds the driver's own attributes to the description of a region, for all users
    /// to read. Context: sleeping.
    fn describe(self: &Arc<Self>, _details: &mut Details<'_>) -> Result {
        Ok(())
    }

    /// Makes a memory window for a process: it has no memory of its own, and is bound to that of a
    /// region by work request. It is destroyed by [`MrOps::dereg`]. Context: sleeping.
    fn window(
        _dev: &Device<D>,
        _pd: &Arc<D::Pd>,
        _mw_type: MwType,
        _udata: &Udata<'_, D>,
    ) -> Result<NewMr<Self>> {
        Err(crate::errno::unsupported())
    }

    /// Destroys a region or window. On return the driver must not access its memory. Context:
    /// sleeping. Errors: `EBUSY`: windows are bound to the region, which stays.
    fn dereg(self: &Arc<Self>) -> Result;
}

/// Operations on connections.
pub trait ConnOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Starts to connect. On success exactly one [`CmId::connect_reply`] must follow, on an error
    /// none. Context: sleeping, under locks of the consumer: must not wait for the network.
    fn connect(dev: &Device<D>, id: &ConsumerId, param: &ConnParam<'_>) -> Result;

    /// Accepts a request that [`CmId::connect_request`] has reported. On success exactly one
    /// [`CmId::established`] must follow. Context: as for [`ConnOps::connect`].
    fn accept(self: Arc<Self>, dev: &Device<D>, id: CmId, param: &ConnParam<'_>) -> Result;

    /// Rejects a request. Context: as for [`ConnOps::connect`].
    fn reject(self: Arc<Self>, dev: &Device<D>, private_data: &[u8]) -> Result;
}

/// Operations on listening endpoints.
pub trait ListenerOps<D: DriverTypes>: Sized + Send + Sync + 'static {
    /// Starts to listen. It may be called while the device is being registered. Context: as for
    /// [`ConnOps::connect`].
    fn create(dev: &Device<D>, id: &ConsumerId, backlog: u32) -> Result<Arc<Self>>;

    /// Stops listening. On return the driver must report no more [`CmId::connect_request`].
    /// Context: as for [`ConnOps::connect`].
    fn destroy(self: Arc<Self>, dev: &Device<D>) -> Result;
}
