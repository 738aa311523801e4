// SPDX-License-Identifier: GPL-2.0

//! The initiator's side of connection setup (RFC 5044 section 7.1, RFC 6581): attempts to connect,
//! and what the machine has done for them ([`iwarp::conn`], [`run`](super::run)).
//!
//! A successful [`connect`] leads to exactly one `CONNECT_REPLY`, which takes the [`Attempt`]. An
//! attempt may take several TCP connections.

mod attempt;

use super::{
    announced_ird, bounded_ird, clip,
    conn::Conn,
    max_private_data, open,
    open::{PortMapper, SocketConfig},
    rc::Endpoint,
    registry::{InOrder, Registry},
    run::Run,
    secure::Tls,
    Lost, User,
};
use crate::device::Rsiw;
use core::net::{IpAddr, SocketAddr};
use iwarp::{
    conn::{Answer, Plan},
    mpa::{FrameReader, Initiator},
};
use kernel::{prelude::*, sync::Arc};
use net::{errno, Role, TcpSocket};
use rdma::{CmId, ConnParam, ConsumerId, Device};

/// Who has asked for a connection, and hears of it.
pub(super) enum Caller<U: User> {
    /// A consumer of iwcm.
    Iwcm(CmId),
    /// The queue pair itself.
    Rc(Arc<Endpoint<U>>),
}

/// The consumer's parameters of one `connect`, and what its connection needs until it is
/// established.
pub(super) struct Attempt<U: User> {
    caller: Caller<U>,
    user: Arc<U>,
    /// The user's life when the consumer asked for the connection.
    life: u32,
    local: SocketAddr,
    remote: SocketAddr,
    /// The peer that the consumer has named, and that TLS has to find. The port mapper may have
    /// told of another `remote`, and any process may be the port mapper.
    server: IpAddr,
    /// What the socket is to be like.
    socket: SocketConfig,
    /// The interface that the RDMA CM has found for `local`.
    ifindex: Option<u32>,
    private_data: KVec<u8>,
    ird: u16,
    ord: u16,
    /// What the next connection asks for, and the time that it has.
    plan: Plan,
    /// The address that this connection goes to.
    to: SocketAddr,
    tls: Tls<U>,
    /// The Request that was sent, and the Reply as far as it has come.
    asked: Option<(Initiator, KBox<FrameReader>)>,
    /// What the Reply says.
    answer: Option<Answer>,
}

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
    registry: &Arc<Registry<U>>,
    dev: &Device<Rsiw>,
    user: Arc<U>,
    id: &ConsumerId,
    param: &ConnParam<'_>,
) -> Result {
    let settings = &registry.dev.settings;
    let secure = settings.tls().initiates();
    // All that know TLS know revision 2.
    let revision = if secure { 2 } else { settings.mpa_revision() };
    if param.private_data.len() > max_private_data(revision) {
        return Err(EINVAL);
    }
    let mut private_data = KVec::new();
    private_data.extend_from_slice(param.private_data, GFP_KERNEL)?;
    let (most_ird, most_ord) = user.most_reads();
    let mapper = PortMapper::of(dev, settings);
    let cm = id.id().clone();
    let local = mapper.local(&cm)?;
    if !open::may_connect_from(dev, id, &local) {
        return Err(errno::EADDRNOTAVAIL.into());
    }
    let attempt = Attempt {
        life: user.life(),
        user,
        local,
        to: local,
        remote: mapper.remote(&cm)?,
        server: cm.remote_addr()?.ip(),
        socket: SocketConfig::of(&cm, mapper),
        ifindex: id.ifindex(),
        caller: Caller::Iwcm(cm),
        private_data,
        ird: bounded_ird(announced_ird(param.ird), most_ird),
        ord: clip(param.ord.min(most_ord)),
        plan: Plan::new(
            revision,
            // Peers of revision 1 are old, and get no more than what RFC 5044 says.
            secure || settings.large_fpdu() && revision >= 2,
            secure,
            settings.initiator_wait_ms(),
        ),
        tls: Tls::new(),
        asked: None,
        answer: None,
    };
    match begin(registry, dev, KBox::new(attempt, GFP_KERNEL)?, None) {
        // TCP has one connection between a pair of addresses and ports. RTRS wants all connections
        // of a session to have the port that the RDMA CM picked for the first; here they take
        // others.
        Err((e, Some(mut attempt)))
            if e == errno::EADDRNOTAVAIL && open::picked(dev, &attempt.local)? =>
        {
            attempt.local.set_port(0);
            begin(registry, dev, attempt, None)
        }
        begun => begun,
    }
    .map_err(|(e, _)| e)
}

/// A queue pair's wish for a connection, by name.
pub(super) struct ByName<'a, U: User> {
    pub(super) user: Arc<U>,
    pub(super) life: u32,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) ifindex: u32,
    pub(super) tos: u8,
    pub(super) private_data: &'a [u8],
    /// The queue pair is its own peer.
    pub(super) to_itself: bool,
}

/// Begins a connection for a queue pair that calls its peer. `endpoint` hears of its failure.
/// `before` is the socket of its last call. Context: sleeping; does not wait for the network.
/// Errors: as of [`connect`].
pub(super) fn call<U: User>(
    registry: &Arc<Registry<U>>,
    dev: &Device<Rsiw>,
    endpoint: &Arc<Endpoint<U>>,
    call: &ByName<'_, U>,
    before: Option<&TcpSocket>,
) -> Result {
    let settings = &registry.dev.settings;
    let secure = settings.tls().initiates();
    let mut private_data = KVec::new();
    private_data.extend_from_slice(call.private_data, GFP_KERNEL)?;
    let (ird, ord) = call.user.most_reads();
    let mut plan = Plan::new(
        2,
        secure || settings.large_fpdu(),
        secure,
        settings.initiator_wait_ms(),
    )
    .exactly();
    if call.to_itself {
        plan = plan.to_itself();
    }
    let attempt = Attempt {
        caller: Caller::Rc(endpoint.clone()),
        life: call.life,
        user: call.user.clone(),
        local: call.local,
        to: call.remote,
        remote: call.remote,
        server: call.remote.ip(),
        socket: SocketConfig {
            tos: Some(call.tos),
            share_port: false,
        },
        ifindex: Some(call.ifindex),
        private_data,
        ird: bounded_ird(announced_ird(ird), ird),
        ord: clip(ord),
        plan,
        tls: Tls::new(),
        asked: None,
        answer: None,
    };
    let attempt = KBox::new(attempt, GFP_KERNEL)?;
    begin(registry, dev, attempt, before).map_err(|(e, _)| e)
}

/// Why an attempt did not start; and the attempt, unless that went with the connection.
type NotBegun<U> = (Error, Option<KBox<Attempt<U>>>);

/// Starts a connection for an attempt. `before` is the socket of the attempt's last connection, if
/// it had one.
fn begin<U: User>(
    registry: &Arc<Registry<U>>,
    dev: &Device<Rsiw>,
    attempt: KBox<Attempt<U>>,
    before: Option<&TcpSocket>,
) -> Result<(), NotBegun<U>> {
    let origin = open::Origin {
        socket: attempt.socket,
        ifindex: attempt.ifindex,
        local: attempt.local,
    };
    let opened = open::initiator(dev, &origin, attempt.remote, before);
    let with_file = |(socket, remote): (TcpSocket, SocketAddr)| {
        if attempt.plan.secure {
            Ok((socket.with_file(Role::Client(attempt.server))?, remote))
        } else {
            Ok((socket, remote))
        }
    };
    let (socket, remote) = match opened.and_then(with_file) {
        Ok(opened) => opened,
        Err(e) => return Err((e, Some(attempt))),
    };
    let user = &attempt.user;
    let order = match InOrder::of_domain(registry, user.domain(), user.consumer()) {
        Ok(order) => order,
        Err(e) => return Err((e, Some(attempt))),
    };
    let mut attempt = Some(attempt);
    let started = Conn::start(registry, socket, order, |conn| {
        let waiting = attempt.as_mut().ok_or(EINVAL)?;
        let remote = match waiting.plan.to_itself {
            true => conn.socket().local_addr()?,
            false => remote,
        };
        conn.note_peer(remote);
        waiting.to = remote;
        waiting.user.attach(conn, waiting.life)?;
        let waits = waiting.plan.secure && !waiting.takes_place(conn)?;
        if !waits {
            if let Err(e) = conn.socket().connect(&remote) {
                waiting.user.lost(Lost::Handshake);
                return Err(e);
            }
        }
        let attempt = attempt.take().ok_or(EINVAL)?;
        Ok(Run::attempt(conn, attempt, waits))
    });
    match started {
        Ok(_) => Ok(()),
        Err(e) => Err((e, attempt)),
    }
}

#[cfg(CONFIG_KUNIT = "y")]
impl<U: User> Attempt<U> {
    /// An attempt that wants a few Reads each way.
    pub(super) fn of_test(
        cm: CmId,
        user: Arc<U>,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<KBox<Self>> {
        let attempt = Self {
            caller: Caller::Iwcm(cm),
            life: user.life(),
            user,
            local,
            remote,
            to: remote,
            server: remote.ip(),
            socket: SocketConfig {
                tos: None,
                share_port: false,
            },
            ifindex: None,
            private_data: KVec::new(),
            ird: 4,
            ord: 4,
            plan: Plan::new(2, false, false, 0),
            tls: Tls::new(),
            asked: None,
            answer: None,
        };
        Ok(KBox::new(attempt, GFP_KERNEL)?)
    }

    /// Has TCP connect: the first stage.
    pub(super) fn connecting(
        self: KBox<Self>,
        conn: &Arc<Conn<U>>,
    ) -> Result<super::stage::Stage<U>> {
        conn.socket().connect(&self.remote)?;
        Ok(Run::attempt(conn, self, false))
    }
}

/// The attempt goes on with another connection: the peer does not take what the Request asked for,
/// or did not listen a moment ago.
pub(super) struct Retry<U: User> {
    attempt: KBox<Attempt<U>>,
    why: Error,
}

impl<U: User> Retry<U> {
    /// An attempt whose next connection goes by `plan`. The consumer gets the error `why` if that
    /// cannot even be begun.
    pub(super) fn new(mut attempt: KBox<Attempt<U>>, plan: Plan, why: Error) -> Self {
        attempt.plan = plan;
        attempt.tls = Tls::new();
        (attempt.asked, attempt.answer) = (None, None);
        Self { attempt, why }
    }

    /// Begins the other connection, on behalf of `conn`. Context: sleeping; the stage of `conn` is
    /// not locked.
    pub(super) fn run(self, conn: &Arc<Conn<U>>) {
        let Self { attempt, why } = self;
        let guard = conn.dev().handle().and_then(|handle| handle.try_get());
        let begun = match guard {
            Some(dev) => begin(&conn.registry, &dev, attempt, Some(conn.socket())),
            None => Err((why, Some(attempt))),
        };
        if let Err((_, Some(attempt))) = begun {
            attempt.fail(conn, why);
        }
    }
}
