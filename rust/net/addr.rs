// SPDX-License-Identifier: GPL-2.0

//! Conversion between `struct sockaddr_storage` and [`SocketAddr`].
//!
//! An IPv4-mapped IPv6 address becomes an IPv4 address: it is IPv4 on the wire, and a lookup of the
//! mapped form finds no device.

use crate::{bindings, errno};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use kernel::prelude::*;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Reads an address of family `AF_INET` or `AF_INET6`.
///
/// Fails with `EAFNOSUPPORT` for any other family.
pub fn from_storage(storage: &bindings::sockaddr_storage) -> Result<SocketAddr> {
    let raw: *const bindings::sockaddr_storage = storage;
    // SAFETY: The family comes first in every socket address, and `raw` is valid for reads of a
    // whole `sockaddr_storage`, which is aligned for and at least as large as all of them.
    let family = unsafe { raw.cast::<u16>().read() };
    match family {
        AF_INET => {
            // SAFETY: `raw` is valid for reads, aligned for and at least as large as a
            // `sockaddr_in`, of which every bit pattern is valid.
            let sin = unsafe { raw.cast::<bindings::sockaddr_in>().read() };
            Ok(SocketAddr::V4(SocketAddrV4::new(
                // `s_addr` is in network order: its first byte in memory is the address's first.
                Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes()),
                u16::from_be(sin.sin_port),
            )))
        }
        AF_INET6 => {
            // SAFETY: `raw` is valid for reads, aligned for and at least as large as a
            // `sockaddr_in6`, of which every bit pattern is valid.
            let sin6 = unsafe { raw.cast::<bindings::sockaddr_in6>().read() };
            // SAFETY: All members of this union are plain integers of the same total size.
            let bytes = unsafe { sin6.sin6_addr.in6_u.u6_addr8 };
            let addr = Ipv6Addr::from(bytes);
            let port = u16::from_be(sin6.sin6_port);
            Ok(match addr.to_ipv4_mapped() {
                Some(v4) => SocketAddr::V4(SocketAddrV4::new(v4, port)),
                None => SocketAddr::V6(SocketAddrV6::new(
                    addr,
                    port,
                    u32::from_be(sin6.sin6_flowinfo),
                    sin6.sin6_scope_id,
                )),
            })
        }
        _ => Err(errno::EAFNOSUPPORT.into()),
    }
}

/// Writes an address as a C socket address; all other bytes are zero.
pub fn to_storage(addr: &SocketAddr) -> bindings::sockaddr_storage {
    // SAFETY: `sockaddr_storage` is made of integers and bytes; all zeroes is a valid value.
    let mut storage: bindings::sockaddr_storage = unsafe { core::mem::zeroed() };
    let raw: *mut bindings::sockaddr_storage = &mut storage;
    match addr {
        SocketAddr::V4(v4) => {
            let sin = raw.cast::<bindings::sockaddr_in>();
            // SAFETY: `storage` is aligned for and at least as large as `sockaddr_in`, zeroed
            // memory is a valid one, and nothing else refers to it during these writes.
            unsafe {
                (*sin).sin_family = AF_INET;
                (*sin).sin_port = v4.port().to_be();
                (*sin).sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            }
        }
        SocketAddr::V6(v6) => {
            let sin6 = raw.cast::<bindings::sockaddr_in6>();
            // SAFETY: `storage` is aligned for and at least as large as `sockaddr_in6`, zeroed
            // memory is a valid one, and nothing else refers to it during these writes.
            unsafe {
                (*sin6).sin6_family = AF_INET6;
                (*sin6).sin6_port = v6.port().to_be();
                (*sin6).sin6_flowinfo = v6.flowinfo().to_be();
                (*sin6).sin6_addr.in6_u.u6_addr8 = v6.ip().octets();
                (*sin6).sin6_scope_id = v6.scope_id();
            }
        }
    }
    storage
}

/// Length in bytes of the address that [`to_storage`] returns; C expects it beside the address.
pub(crate) fn storage_len(addr: &SocketAddr) -> c_int {
    let len = match addr {
        SocketAddr::V4(_) => size_of::<bindings::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<bindings::sockaddr_in6>(),
    };
    // CAST: Both structures have less than 32 bytes.
    len as c_int
}

/// Whether `ip` is in `fe80::/10`, so that it means something only together with an interface.
pub fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}
