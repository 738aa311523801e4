// SPDX-License-Identifier: GPL-2.0

//! The initiator's side of connection setup (RFC 5044 section 7.1, RFC 6581): attempts to connect,
//! and what the machine has done for them ([`iwarp::conn`], [`run`](super::run)).
//!
//! A successful [`connect`] leads to exactly one `CONNECT_REPLY`, which takes the [`Attempt`]. An
//! attempt may take several TCP connections ([`reconnect`]).

pub(super) mod attempt;
mod reconnect;

pub(super) use reconnect::Retry;

use self::attempt::{Attempt, Caller, Route};
use super::{
    conn::{Conn, Conns},
    offer::max_private_data,
    party::Party,
    rc::Endpoint,
    registry::InOrder,
    run::Run,
    sockets,
    sockets::{Origin, PortMapper, SocketConfig},
    tls::TlsTurn,
    Lost, User,
};
use crate::device::Rsiw;
use core::net::SocketAddr;
use iwarp::conn::{names, Machine, Plan};
use kernel::{prelude::*, sync::Arc};
use net::{errno, Role, TcpSocket};
use rdma::{ConnParam, ConsumerId, Device};

/// Connects `user`, the queue pair that the consumer named, to the remote address of `id`: the
/// `iw_connect` operation. Context: sleeping, within locks of the RDMA CM; does not wait for the
/// network.
///
/// # Errors
///
/// `EINVAL`: the queue pair has a connection or cannot have one, or there is too much private data.
/// `EADDRNOTAVAIL`: a loopback address of another network namespace. `ENOMEM`. Errors of binding
/// and connecting a socket that TCP reports at once. Nothing is reported to iwcm then.
pub(crate) fn connect<U: User>(
    conns: &Arc<Conns<U>>,
    dev: &Device<Rsiw>,
    user: Arc<U>,
    id: &ConsumerId,
    param: &ConnParam<'_>,
) -> Result {
    let settings = &conns.dev.settings;
    let secure = settings.tls().initiates();
    // All that know TLS know revision 2.
    let revision = if secure { 2 } else { settings.mpa_revision() };
    if param.private_data.len() > max_private_data(revision) {
        return Err(EINVAL);
    }
    let mapper = PortMapper::of(dev, settings);
    let cm = id.id().clone();
    let local = mapper.local(&cm)?;
    if !sockets::may_connect_from(dev, id, &local) {
        return Err(errno::EADDRNOTAVAIL.into());
    }
    let route = Route {
        origin: Origin {
            socket: SocketConfig::of(&cm, mapper),
            ifindex: id.ifindex(),
            local,
            low_port: false,
        },
        remote: mapper.remote(&cm)?,
        server: cm.remote_addr()?.ip(),
    };
    let plan = Plan::new(
        revision,
        // Peers of revision 1 are old, and get no more than what RFC 5044 says.
        secure || settings.large_fpdu() && revision >= 2,
        secure,
        settings.initiator_wait_ms(),
    );
    let life = user.life();
    let attempt = Attempt::new(
        Caller::Iwcm(cm),
        (user, life),
        route,
        (param.ird, param.ord),
        param.private_data,
        plan,
    )?;
    match begin(conns, dev, attempt, None) {
        // TCP has one connection between a pair of addresses and ports. RTRS wants all connections
        // of a session to have the port that the RDMA CM picked for the first; here they take
        // others.
        Err((e, Some(mut attempt)))
            if e == errno::EADDRNOTAVAIL && sockets::picked(dev, &attempt.route.origin.local)? =>
        {
            attempt.route.origin.local.set_port(0);
            begin(conns, dev, attempt, None)
        }
        begun => begun,
    }
    .map_err(|(e, _)| e)
}

/// Begins a connection for a queue pair that calls its peer. `endpoint` hears of its failure.
/// `before` is the socket of its last call. Context: sleeping; does not wait for the network.
/// Errors: as of [`connect`].
pub(super) fn call<U: User>(
    conns: &Arc<Conns<U>>,
    dev: &Device<Rsiw>,
    endpoint: &Arc<Endpoint<U>>,
    before: Option<&TcpSocket>,
) -> Result {
    let settings = &conns.dev.settings;
    let call = endpoint.pairing();
    let itself = call.names.role() == names::Role::Both;
    let secure = settings.tls().initiates() && !itself;
    let mut plan = Plan::new(
        2,
        secure || settings.large_fpdu(),
        secure,
        settings.initiator_wait_ms(),
    )
    .exactly();
    if itself {
        plan = plan.to_itself();
    }
    let remote = call.remote();
    let route = Route {
        origin: Origin {
            socket: SocketConfig {
                tos: Some(call.way.tos),
                ..SocketConfig::default()
            },
            ifindex: Some(call.way.ifindex),
            local: call.local(),
            low_port: settings.rc_low_ports() && !itself,
        },
        remote,
        server: remote.ip(),
    };
    let attempt = Attempt::new(
        Caller::Rc(endpoint.clone()),
        (call.user.clone(), call.life),
        route,
        call.user.most_reads(),
        &call.names.call().to_bytes(),
        plan,
    )?;
    begin(conns, dev, attempt, before).map_err(|(e, _)| e)
}

/// Why an attempt did not start; and the attempt, unless that went with the connection.
type NotBegun<U> = (Error, Option<KBox<Attempt<U>>>);

/// Starts a connection for an attempt. `before` is the socket of the attempt's last connection, if
/// it had one.
fn begin<U: User>(
    conns: &Arc<Conns<U>>,
    dev: &Device<Rsiw>,
    attempt: KBox<Attempt<U>>,
    before: Option<&TcpSocket>,
) -> Result<(), NotBegun<U>> {
    let route = &attempt.route;
    let opened = sockets::initiator(dev, &route.origin, route.remote, before);
    let with_file = |(socket, remote): (TcpSocket, SocketAddr)| {
        if attempt.plan.secure {
            Ok((socket.with_file(Role::Client(route.server))?, remote))
        } else {
            Ok((socket, remote))
        }
    };
    let (socket, remote) = match opened.and_then(with_file) {
        Ok(opened) => opened,
        Err(e) => return Err((e, Some(attempt))),
    };
    let user = &attempt.user;
    let order = match InOrder::of_domain(conns, user.domain(), user.consumer()) {
        Ok(order) => order,
        Err(e) => return Err((e, Some(attempt))),
    };
    let mut attempt = Some(attempt);
    let started = Conn::start(conns, socket, order, |conn| {
        let waiting = attempt.as_mut().ok_or(EINVAL)?;
        let remote = if waiting.plan.to_itself {
            conn.socket().local_addr()?
        } else {
            remote
        };
        conn.note_peer(remote);
        waiting.user.attach(conn, waiting.life)?;
        let begun = waiting.begin(conn, &remote);
        let first = match begun.inspect_err(|_| waiting.user.lost(Lost::Handshake))? {
            TlsTurn::Waits => Machine::await_turn,
            TlsTurn::Come => Machine::connecting,
        };
        let plan = waiting.plan;
        let attempt = attempt.take().ok_or(EINVAL)?;
        Ok(Run::new(conn, Party::Attempt(attempt), |seen| {
            first(plan, seen)
        }))
    });
    match started {
        Ok(_) => Ok(()),
        Err(e) => Err((e, attempt)),
    }
}
