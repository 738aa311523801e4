// SPDX-License-Identifier: GPL-2.0

//! Roles in a handshake.

use core::{
    format_args,
    net::{IpAddr, SocketAddr},
};
use kernel::{error::Result, str::CString};

/// This end's role in a handshake, and the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The address is the server's. Its certificate has to name it: an IPv4 address as such, an
    /// IPv6 address by a DNS name, `fd07-0-0-0-0-0-0-2.ipv6-literal.net` for instance.
    Client(IpAddr),
    /// The peer's certificate has to be of the CA. The address is that of the peer: without it
    /// tlshd would ask the DNS for a name, and wait for the answer.
    Server(SocketAddr),
}

impl Role {
    /// What tlshd is told of the peer. It looks for a server's name in the server's certificate,
    /// and also sends it as the name of the server, in which gnutls takes no colon. So an IPv6
    /// address is written as a name, in the form that Windows has for places like that.
    pub(crate) fn peer_name(self) -> Result<CString> {
        match self {
            Role::Client(IpAddr::V4(v4)) => CString::try_from_fmt(format_args!("{v4}")),
            Role::Client(IpAddr::V6(v6)) => {
                let [a, b, c, d, e, f, g, h] = v6.segments();
                CString::try_from_fmt(format_args!(
                    "{a:x}-{b:x}-{c:x}-{d:x}-{e:x}-{f:x}-{g:x}-{h:x}.ipv6-literal.net"
                ))
            }
            // With the port, as tlshd calls the peer's key by it. Of several keys with one name it
            // keeps the last.
            Role::Server(peer) => CString::try_from_fmt(format_args!("{peer}")),
        }
    }
}
