// SPDX-License-Identifier: GPL-2.0

//! The iWARP connection manager: its identifiers, and the events that a driver reports to it.
//!
//! - [`CmId`]: a counted reference to an identifier, with its addresses, and the events.
//! - [`Requests`] ([`request`]): who owns a connection request that is not answered yet.
//!
//! The order of events: a successful connect gives one [`CmId::connect_reply`], a successful accept
//! one [`CmId::established`]; only when these were successful [`CmId::disconnect`] (the peer closes
//! in order) and at last one [`CmId::close`] may follow. Events for anything that has returned an
//! error are forbidden; the connection manager stops the machine over some of them.

pub mod request;

pub use request::{RequestId, Requests};

use crate::{device::Device, netdev::NetDevice, Driver};
use core::{
    ffi::c_void,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ptr::NonNull,
    slice,
};
use kernel::{error::to_result, prelude::*, sync::Arc};
use net::addr::{from_storage, to_storage};
use rdma_bindings as bindings;

/// A counted reference to an identifier (`struct iw_cm_id`).
pub struct CmId(NonNull<bindings::iw_cm_id>);

// SAFETY: The reference count is atomic; what is read does not change while a driver has the
// identifier, and events may be reported by any thread.
unsafe impl Send for CmId {}
// SAFETY: As above.
unsafe impl Sync for CmId {}

impl Clone for CmId {
    fn clone(&self) -> Self {
        // SAFETY: `self` keeps the identifier alive.
        unsafe { Self::new(self.0.as_ptr()) }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: `self` has a reference; the function is set when the identifier is made.
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
    /// `id` is alive.
    pub(crate) unsafe fn new(id: *mut bindings::iw_cm_id) -> Self {
        // SAFETY: By the requirement; the function is set when the identifier is made.
        unsafe {
            if let Some(add_ref) = (*id).add_ref {
                add_ref(id);
            }
            Self(NonNull::new_unchecked(id))
        }
    }

    fn as_raw(&self) -> *mut bindings::iw_cm_id {
        self.0.as_ptr()
    }

    fn c(&self) -> &bindings::iw_cm_id {
        // SAFETY: `self` keeps the identifier alive.
        unsafe { &*self.as_raw() }
    }

    /// The local address that the consumer has chosen. Fails with `EAFNOSUPPORT`.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        from_storage(&self.c().local_addr)
    }

    /// The peer's address that the consumer has chosen.
    pub fn remote_addr(&self) -> Result<SocketAddr> {
        from_storage(&self.c().remote_addr)
    }

    /// The local address that is used, after port mapping.
    pub fn mapped_local_addr(&self) -> Result<SocketAddr> {
        from_storage(&self.c().m_local_addr)
    }

    /// The peer's address that is used, after port mapping.
    pub fn mapped_remote_addr(&self) -> Result<SocketAddr> {
        from_storage(&self.c().m_remote_addr)
    }

    /// Whether the port of [`Self::mapped_local_addr`] is one that the port mapper (iwpmd) has
    /// reserved for this identifier, by a socket of its own that is bound to it.
    pub fn has_mapped_port(&self) -> bool {
        let ports = |local: Result<SocketAddr>| local.map(|addr| addr.port()).ok();
        self.c().mapped() && ports(self.local_addr()) != ports(self.mapped_local_addr())
    }

    /// The type of service, if the consumer has chosen one.
    pub fn tos(&self) -> Option<u8> {
        let c = self.c();
        c.tos_set().then_some(c.tos)
    }

    /// A listener for IPv6 addresses must not take IPv4 connections.
    pub fn afonly(&self) -> bool {
        self.c().afonly()
    }

    /// Whether the consumer, who listens, is in the network namespace of `ndev`, that of the device
    /// whose identifier this is, and may use the device from there. Context: any.
    pub fn is_at(&self, ndev: &NetDevice) -> bool {
        // SAFETY: `self` keeps the identifier, and the reference the network device. The identifier
        // is of the RDMA CM, whose structure it points to as long as it is there.
        unsafe { bindings::iw_cm_id_is_at(self.as_raw(), ndev.as_raw()) }
    }

    /// The result of connecting: `status`, and on success (or when the peer has rejected) what the
    /// peer has said. Wraps `IW_CM_EVENT_CONNECT_REPLY`. Fails with `ENOMEM`; then the event is
    /// not delivered. Context: any.
    pub fn connect_reply(&self, status: Result, info: &ConnInfo<'_>) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY;
        self.report(&mut info.event(kind, status), info.private_data)
    }

    /// The accepted connection is established. Wraps `IW_CM_EVENT_ESTABLISHED`; errors and context
    /// as [`Self::connect_reply`].
    pub fn established(&self, info: &ConnInfo<'_>) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED;
        self.report(&mut info.event(kind, Ok(())), &[])
    }

    /// The peer closes the connection in order. Wraps `IW_CM_EVENT_DISCONNECT`; errors and context
    /// as [`Self::connect_reply`].
    pub fn disconnect(&self) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_DISCONNECT;
        self.report(&mut ConnInfo::NONE.event(kind, Ok(())), &[])
    }

    /// The connection is closed: the last event of the identifier. The connection manager lets go
    /// of the queue pair. Wraps `IW_CM_EVENT_CLOSE`; errors and context as
    /// [`Self::connect_reply`].
    pub fn close(&self, status: Result) -> Result {
        let kind = bindings::iw_cm_event_type_IW_CM_EVENT_CLOSE;
        self.report(&mut ConnInfo::NONE.event(kind, status), &[])
    }

    /// A peer wants to connect to the endpoint that this identifier listens with. The consumer
    /// answers by `iw_accept` or `iw_reject`, which get `conn`; but the connection manager may
    /// forget the request as well, so `conn` should be taken back by
    /// [`DeviceHandle::withdraw`](crate::DeviceHandle::withdraw) after some time. Wraps
    /// `IW_CM_EVENT_CONNECT_REQUEST`. Fails with `ENOMEM`, and then `conn` is not kept: too many
    /// requests are waiting. Context: sleeping.
    pub fn connect_request<D: Driver>(
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
        // The length is a byte in C; more cannot be said.
        let len = private_data.len().min(usize::from(u8::MAX));
        event.private_data = private_data.as_ptr().cast::<c_void>().cast_mut();
        event.private_data_len = len as u8;
        let handler = self.c().event_handler.ok_or(EINVAL)?;
        // SAFETY: The identifier is alive; the handler copies the event and its private data.
        to_result(unsafe { handler(self.as_raw(), event) })
    }
}

/// What a driver knows about a connection.
#[derive(Clone, Copy)]
pub struct ConnInfo<'a> {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The peer's private data; what is beyond 255 bytes is cut off.
    pub private_data: &'a [u8],
    /// Inbound RDMA Reads.
    pub ird: u8,
    /// Outbound RDMA Reads.
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

/// What the consumer wants of a connection (`struct iw_cm_conn_param`).
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
    /// `param` and its private data are valid during `'a`.
    pub(crate) unsafe fn from_raw(param: *mut bindings::iw_cm_conn_param) -> Self {
        // SAFETY: By the requirement.
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
/// `data` is null or valid for reads of `len` bytes during `'a`, in which they do not change.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: By the requirement.
    unsafe { slice::from_raw_parts(data.cast(), len) }
}
