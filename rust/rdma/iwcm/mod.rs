// SPDX-License-Identifier: GPL-2.0

//! The iWARP connection manager (iwcm): its identifiers, and the events that a driver reports to
//! it.
//!
//! - [`CmId`]: a counted reference to an identifier, with its addresses; it reports events.
//! - [`ConsumerId`]: one that a consumer is about to connect or listen with.
//! - [`Requests`] ([`request`]): connection requests that are not answered yet.
//!
//! Events have an order. After a successful connect comes one [`CmId::connect_reply`], after a
//! successful accept one [`CmId::established`]. Only if these report success, [`CmId::disconnect`]
//! (the peer closes in order) and at last one [`CmId::close`] may follow. After a connect or accept
//! that has returned an error there must be no event. Some violations make iwcm stop the machine
//! (`BUG()`).

pub mod request;
#[cfg(CONFIG_KUNIT = "y")]
pub mod testing;

pub use request::{RequestId, Requests};

use crate::{device::Device, netdev::NetDevice, types::DriverTypes};
use core::{
    ffi::c_void,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ptr::{self, NonNull},
    slice,
};
use kernel::{error::to_result, prelude::*, sync::Arc};
use net::addr::{from_storage, to_storage};
use rdma_bindings as bindings;

/// A counted reference to an identifier (`struct iw_cm_id`).
pub struct CmId {
    id: NonNull<bindings::iw_cm_id>,
    mapped: MappedAddrs,
}

/// The addresses of an identifier after port mapping, as they were when the driver got it. iwcm
/// rewrites its own when it processes a successful [`CmId::connect_reply`].
#[derive(Clone, Copy)]
struct MappedAddrs {
    local: Result<SocketAddr>,
    remote: Result<SocketAddr>,
}

// SAFETY: The reference count is atomic, and any thread may report events: iwcm's handler takes the
// identifier's lock.
unsafe impl Send for CmId {}
// SAFETY: All functions read fields that nobody writes once a driver has the identifier.
unsafe impl Sync for CmId {}

impl Clone for CmId {
    fn clone(&self) -> Self {
        // SAFETY: `self` keeps the identifier alive.
        let id = unsafe { Self::counted(self.as_raw()) };
        Self { id, ..*self }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: `self` has a reference to give back. `iw_create_cm_id()` has set the function.
        unsafe {
            if let Some(rem_ref) = (*self.as_raw()).rem_ref {
                rem_ref(self.as_raw());
            }
        }
    }
}

impl CmId {
    /// # Safety
    ///
    /// `id` must be alive, and an argument of an operation that has not returned.
    pub(crate) unsafe fn new(id: *mut bindings::iw_cm_id) -> Self {
        // SAFETY: By the contract of this function `id` is alive. iwcm sets the addresses before
        // the operation, and writes them again only after a reply, which comes from an identifier
        // that is made here.
        unsafe {
            let mapped = MappedAddrs {
                local: from_storage(&(&raw const (*id).m_local_addr).read()),
                remote: from_storage(&(&raw const (*id).m_remote_addr).read()),
            };
            Self {
                id: Self::counted(id),
                mapped,
            }
        }
    }

    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// `id` must be alive.
    unsafe fn counted(id: *mut bindings::iw_cm_id) -> NonNull<bindings::iw_cm_id> {
        // SAFETY: By the contract of this function `id` is alive, and so it is not null.
        // `iw_create_cm_id()` has set the function.
        unsafe {
            if let Some(add_ref) = (*id).add_ref {
                add_ref(id);
            }
            NonNull::new_unchecked(id)
        }
    }

    fn as_raw(&self) -> *mut bindings::iw_cm_id {
        self.id.as_ptr()
    }

    /// Reads a field. The structure is not borrowed as a whole, as iwcm and operations write other
    /// fields of it at any time.
    ///
    /// # Safety
    ///
    /// `field` must give a field of the structure to which nobody writes at the time.
    unsafe fn read<T: Copy>(&self, field: impl FnOnce(*mut bindings::iw_cm_id) -> *const T) -> T {
        // SAFETY: `self` keeps the identifier alive; the rest is the contract of this function.
        unsafe { field(self.as_raw()).read() }
    }

    /// The local address that the consumer has chosen. Errors: `EAFNOSUPPORT`.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        // SAFETY: The consumer sets it before it connects or listens, and never again.
        let addr = unsafe { self.read(|id| &raw const (*id).local_addr) };
        from_storage(&addr)
    }

    /// The peer's address that the consumer has chosen. Errors: `EAFNOSUPPORT`.
    pub fn remote_addr(&self) -> Result<SocketAddr> {
        // SAFETY: The consumer sets it before it connects or listens, and never again.
        let addr = unsafe { self.read(|id| &raw const (*id).remote_addr) };
        from_storage(&addr)
    }

    /// The local address that is used, after port mapping. Errors: `EAFNOSUPPORT`.
    pub fn mapped_local_addr(&self) -> Result<SocketAddr> {
        self.mapped.local
    }

    /// The peer's address that is used, after port mapping. Errors: `EAFNOSUPPORT`.
    pub fn mapped_remote_addr(&self) -> Result<SocketAddr> {
        self.mapped.remote
    }

    /// Whether the port of [`Self::mapped_local_addr`] is one that the port mapper (iwpmd) has
    /// reserved for this identifier: it has bound a socket of its own to that port.
    pub fn has_mapped_port(&self) -> bool {
        let ports = |local: Result<SocketAddr>| local.map(|addr| addr.port()).ok();
        // SAFETY: `self` keeps the identifier alive; iwcm sets the flag before the operation.
        let mapped = unsafe { bindings::iw_cm_id::mapped_raw(self.as_raw()) };
        mapped && ports(self.local_addr()) != ports(self.mapped_local_addr())
    }

    /// The type of service, if the consumer has chosen one.
    pub fn tos(&self) -> Option<u8> {
        // SAFETY: `self` keeps the identifier alive; the consumer sets both before it connects or
        // listens, and never again.
        unsafe {
            bindings::iw_cm_id::tos_set_raw(self.as_raw())
                .then(|| self.read(|id| &raw const (*id).tos))
        }
    }

    /// Whether a listener for an IPv6 address must not take IPv4 connections.
    pub fn afonly(&self) -> bool {
        // SAFETY: As for `tos`.
        unsafe { bindings::iw_cm_id::afonly_raw(self.as_raw()) }
    }

    /// Reports the result of connecting: `status`, and the peer's answer in `info` if the peer has
    /// accepted or rejected. Wraps `IW_CM_EVENT_CONNECT_REPLY`. Errors: `ENOMEM`; the event is not
    /// delivered then. Context: any.
    pub fn connect_reply(&self, status: Result, info: &ConnInfo<'_>) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY;
        self.report(&mut info.event(kind, status), info.private_data)
    }

    /// Reports that the accepted connection is established. Wraps `IW_CM_EVENT_ESTABLISHED`. Errors
    /// and context as of [`Self::connect_reply`].
    pub fn established(&self, info: &ConnInfo<'_>) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED;
        self.report(&mut info.event(kind, Ok(())), &[])
    }

    /// Reports that the peer closes the connection in order. Wraps `IW_CM_EVENT_DISCONNECT`. Errors
    /// and context as of [`Self::connect_reply`].
    pub fn disconnect(&self) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_DISCONNECT;
        self.report(&mut ConnInfo::NONE.event(kind, Ok(())), &[])
    }

    /// Reports that the connection is closed: the last event of the identifier. The connection
    /// manager then releases the queue pair. Wraps `IW_CM_EVENT_CLOSE`. Errors and context as of
    /// [`Self::connect_reply`].
    pub fn close(&self, status: Result) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_CLOSE;
        self.report(&mut ConnInfo::NONE.event(kind, status), &[])
    }

    /// Reports that a peer wants to connect to the endpoint that this identifier listens with. The
    /// consumer answers by `iw_accept` or `iw_reject`, where the driver gets `conn`. But the
    /// connection manager may also drop the request without an answer, so the driver takes `conn`
    /// back by [`DeviceHandle::withdraw`](crate::DeviceHandle::withdraw) after some time. Wraps
    /// `IW_CM_EVENT_CONNECT_REQUEST`. Errors: `ENOMEM` if too many requests wait; `conn` is not
    /// kept then. Context: sleeping.
    pub fn connect_request<D: DriverTypes>(
        &self,
        dev: &Device<D>,
        conn: Arc<D::Conn>,
        info: &ConnInfo<'_>,
    ) -> Result<RequestId> {
        let requests = dev.requests();
        let id = requests.add(conn)?;
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST;
        let mut event = info.event(kind, Ok(()));
        event.provider_data = id.to_c();
        if let Err(e) = self.report(&mut event, info.private_data) {
            drop(requests.take(id));
            return Err(e);
        }
        Ok(id)
    }

    fn report(&self, event: &mut bindings::iw_cm_event, private_data: &[u8]) -> Result {
        // The length is one byte in C, so no more than 255 bytes can be passed.
        let len = private_data.len().min(usize::from(u8::MAX));
        // iwcm copies private data only if there are any; else it passes on the pointer as it is,
        // later. Consumers take any pointer but null for one to private data.
        event.private_data = match len {
            0 => ptr::null_mut(),
            _ => private_data.as_ptr().cast::<c_void>().cast_mut(),
        };
        event.private_data_len = len as u8;
        // SAFETY: iwcm sets it when it makes the identifier.
        let handler = unsafe { self.read(|id| &raw const (*id).event_handler) }.ok_or(EINVAL)?;
        // SAFETY: `self` keeps the identifier alive. The handler copies the event before it
        // returns, and private data that are not empty, which only requests and replies have.
        to_result(unsafe { handler(self.as_raw(), event) })
    }
}

/// An identifier that a consumer wants to connect or listen with, for
/// [`ConnOps::connect`](crate::ConnOps::connect) and
/// [`ListenerOps::create`](crate::ListenerOps::create). The driver only borrows it, so that it is
/// gone when the operation ends.
pub struct ConsumerId(CmId);

impl ConsumerId {
    /// # Safety
    ///
    /// `id` must be the argument of `iw_connect` or `iw_create_listen`, and the result must not
    /// outlive that call.
    pub(crate) unsafe fn new(id: *mut bindings::iw_cm_id) -> Self {
        // SAFETY: By the contract of this function it is the argument of an operation.
        Self(unsafe { CmId::new(id) })
    }

    /// A reference to keep.
    pub fn id(&self) -> &CmId {
        &self.0
    }

    /// Whether the consumer is in the network namespace of `ndev`, which is the network device of
    /// this identifier's device, and may use the device from there. Context: any.
    pub fn is_at(&self, ndev: &NetDevice) -> bool {
        // SAFETY: `self` keeps the identifier, and the reference the network device. The consumer
        // is the RDMA CM, and `context` points to its structure, which stays until it has destroyed
        // the identifier. It does not do that during `iw_connect` and `iw_create_listen`.
        unsafe { bindings::iw_cm_id_is_at(self.0.as_raw(), ndev.as_raw()) }
    }

    /// The index of the interface that has the local address, as the RDMA CM has found it in the
    /// consumer's namespace. It may be another one than the device's: a device on an interface
    /// serves the addresses of its VLANs, too. `None` if the RDMA CM has looked for none, as for
    /// wildcard and loopback addresses. Context: any.
    pub fn ifindex(&self) -> Option<u32> {
        // SAFETY: As for `is_at`.
        let ifindex = unsafe { bindings::iw_cm_id_ifindex(self.0.as_raw()) };
        u32::try_from(ifindex).ok().filter(|&ifindex| ifindex > 0)
    }
}

/// A driver's knowledge of a connection, for an event.
#[derive(Clone, Copy)]
pub struct ConnInfo<'a> {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The peer's private data; bytes beyond 255 are cut off.
    pub private_data: &'a [u8],
    /// RDMA Reads that the peer takes at a time: what this end may have outstanding. (iwcm counts
    /// from the peer's end.)
    pub ird: u8,
    /// RDMA Reads that the peer may have outstanding.
    pub ord: u8,
}

impl ConnInfo<'_> {
    const NONE: ConnInfo<'static> = ConnInfo {
        local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        private_data: &[],
        ird: 0,
        ord: 0,
    };

    fn event(&self, kind: bindings::iw_cm_event_type, status: Result) -> bindings::iw_cm_event {
        let mut event: bindings::iw_cm_event = pin_init::zeroed();
        event.event = kind;
        event.status = status.map_or_else(Error::to_errno, |()| 0);
        event.local_addr = to_storage(&self.local);
        event.remote_addr = to_storage(&self.remote);
        event.ird = self.ird;
        event.ord = self.ord;
        event
    }
}

/// The consumer's parameters of a connection (`struct iw_cm_conn_param`).
pub struct ConnParam<'a> {
    /// The number of the queue pair.
    pub qpn: u32,
    /// Outbound RDMA Reads.
    pub ord: u32,
    /// Inbound RDMA Reads.
    pub ird: u32,
    /// Private data for the peer.
    pub private_data: &'a [u8],
}

impl<'a> ConnParam<'a> {
    /// # Safety
    ///
    /// `param` and its private data must be valid during `'a`.
    pub(crate) unsafe fn from_raw(param: *mut bindings::iw_cm_conn_param) -> Self {
        // SAFETY: By the contract of this function `param` and its private data are valid.
        unsafe {
            Self {
                qpn: (*param).qpn,
                ord: (*param).ord,
                ird: (*param).ird,
                private_data: bytes((*param).private_data, (*param).private_data_len.into()),
            }
        }
    }
}

/// # Safety
///
/// `data` must be null, or valid for reads of `len` bytes during `'a`, in which they do not change.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: `data` is not null, so by the contract of this function it is valid for `len` bytes.
    unsafe { slice::from_raw_parts(data.cast(), len) }
}
