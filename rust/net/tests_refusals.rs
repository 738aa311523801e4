// SPDX-License-Identifier: GPL-2.0

//! KUnit suite: what a socket refuses because its callbacks, or its file, would not be sound.

use crate::{
    Auth, Family, Handshake, HandshakeOwner, ListenCallbacks, LockedSock, Namespace, Role,
    SockCallbacks, TcpSocket, TcpState,
};
use core::net::{IpAddr, Ipv4Addr};
use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};

/// A target of callbacks, of which none is called.
struct Nobody;

impl SockCallbacks for Nobody {
    fn data_ready(_this: ArcBorrow<'_, Self>, _sk: &mut LockedSock) {}
    fn write_space(_this: ArcBorrow<'_, Self>) {}
    fn state_change(_this: ArcBorrow<'_, Self>, _state: TcpState) {}
    fn error_report(_this: ArcBorrow<'_, Self>, _reason: Error) {}
}

impl ListenCallbacks for Nobody {
    fn ready(_this: ArcBorrow<'_, Self>) {}
}

struct Owner(TcpSocket);

impl HandshakeOwner for Owner {
    fn socket(&self) -> &TcpSocket {
        &self.0
    }

    fn handshake_done(_this: ArcBorrow<'_, Self>) {}
}

const SERVER: Role = Role::Client(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn socket() -> Result<TcpSocket> {
    TcpSocket::new(&Namespace::init(), Family::V4)
}

fn nobody() -> Result<Arc<Nobody>> {
    Ok(Arc::new(Nobody, GFP_KERNEL)?)
}

#[kunit_tests(rsiw_net_refusals)]
mod suite {
    use super::*;

    #[test]
    fn a_listener_takes_no_callbacks_of_a_connection() -> Result {
        let socket = socket()?;
        socket.listen(1)?;
        assert_eq!(socket.attach(nobody()?), Err(EINVAL));
        socket.attach_listener(nobody()?)?;
        // As a listener it may change its backlog.
        socket.listen(2)?;
        socket.detach();
        assert_eq!(socket.attach(nobody()?), Err(EINVAL));
        Ok(())
    }

    #[test]
    fn a_socket_with_callbacks_of_a_connection_does_not_listen() -> Result {
        let socket = socket()?;
        socket.attach(nobody()?)?;
        assert_eq!(socket.listen(1), Err(EBUSY));
        assert_eq!(socket.state(), TcpState::Closed);
        socket.detach();
        socket.listen(1)
    }

    #[test]
    fn a_socket_takes_one_file() -> Result {
        let socket = socket()?.with_file(SERVER)?;
        assert_eq!(socket.with_file(SERVER).err(), Some(EBUSY));
        Ok(())
    }

    #[test]
    fn a_socket_with_callbacks_makes_no_handshake() -> Result {
        let owner = Arc::new(Owner(socket()?.with_file(SERVER)?), GFP_KERNEL)?;
        let start = || Handshake::start(owner.clone(), SERVER, Auth::Certificates, 1000).err();
        owner.0.attach(nobody()?)?;
        assert_eq!(start(), Some(EBUSY));
        owner.0.detach();
        // No tlshd is there. Then nothing has begun, and the socket takes callbacks again.
        assert_eq!(start(), Some(ESRCH));
        owner.0.attach(nobody()?)
    }

    #[test]
    fn a_handshake_takes_no_callbacks() -> Result {
        let socket = socket()?;
        socket.hook_slot().begin_handshake(socket.sk())?;
        assert_eq!(socket.attach(nobody()?), Err(EBUSY));
        assert_eq!(socket.attach_listener(nobody()?), Err(EBUSY));
        assert_eq!(socket.hook_slot().begin_handshake(socket.sk()), Err(EBUSY));
        socket.hook_slot().end_handshake();
        socket.attach(nobody()?)
    }
}
