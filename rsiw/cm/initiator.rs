// SPDX-License-Identifier: GPL-2.0

//! The initiator: TCP connect, MPA Request, MPA Reply (RFC 5044 section 7.1, RFC 6581).
//!
//! A successful [`connect`] leads to exactly one `CONNECT_REPLY`, see [`close::report_reply`]. An
//! attempt may take several TCP connections, see [`retry`](super::retry).

use super::{
    announced_ird, bounded_ird, clip, close,
    close::{LastWords, ReplyInfo},
    conn::{Conn, Events},
    event_depth, frame,
    frame::{Progress, ReadError},
    limits, max_private_data, offer, open,
    open::PortMapper,
    pace::Place,
    patience::Patience,
    registry::{InOrder, Registry},
    retry::{Backoff, Fallback},
    run::{Established, Run},
    secure,
    secure::{AwaitTurn, Securing},
    stage::Stage,
    timeout, Lost, StreamParams, User,
};
use crate::device::Rsiw;
use core::{
    fmt::Arguments,
    format_args,
    net::{IpAddr, SocketAddr},
};
use iwarp::{
    conn::First,
    mpa::{Agreed, Frame, FrameKind, FrameReader, Initiator, MpaError, Offer, RtrSet},
    TermCode,
};
use kernel::{prelude::*, sync::Arc};
use net::{errno, Role, TcpSocket, TcpState};
use rdma::{CmId, ConnParam, ConsumerId, Device};

/// The consumer's parameters of one `connect`, and the state that outlives a TCP connection.
pub(super) struct Attempt<U: User> {
    pub(super) cm: CmId,
    pub(super) user: Arc<U>,
    /// The user's life when the consumer asked for the connection.
    life: u32,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The peer that the consumer has named, and that TLS has to find. The port mapper may have
    /// told of another `remote`, and any process may be the port mapper.
    pub(super) server: IpAddr,
    /// What the port mapper has to do with these addresses.
    mapper: PortMapper,
    /// The interface that the RDMA CM has found for `local`.
    ifindex: Option<u32>,
    private_data: KVec<u8>,
    ird: u16,
    ord: u16,
    pub(super) revision: u8,
    /// Whether FPDUs that are larger than a TCP segment are offered.
    pub(super) large_fpdu: bool,
    /// Milliseconds that TCP has to connect.
    pub(super) connect: u32,
    /// How often the peer's TCP has refused the connection.
    pub(super) refused: u32,
    /// How long the peer has, in the stage.
    pub(super) patience: Patience,
    /// Over TLS, and only so.
    secure: bool,
    /// Milliseconds that are left for the turns to make TLS handshakes.
    pub(super) turn: u32,
    /// The place for the TLS handshake, until that is made.
    pub(super) place: Option<Place<U>>,
}

/// TCP is connecting.
pub(super) struct Connecting<U: User> {
    pub(super) attempt: KBox<Attempt<U>>,
}

/// The MPA Request was sent.
pub(super) struct AwaitReply<U: User> {
    attempt: KBox<Attempt<U>>,
    mpa: Initiator,
    reader: KBox<FrameReader>,
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
    let revision = match secure {
        true => 2,
        false => settings.mpa_revision(),
    };
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
        remote: mapper.remote(&cm)?,
        server: cm.remote_addr()?.ip(),
        mapper,
        ifindex: id.ifindex(),
        cm,
        private_data,
        ird: bounded_ird(announced_ird(param.ird), most_ird),
        ord: clip(param.ord.min(most_ord)),
        revision,
        // Peers of revision 1 are old, and get no more than what RFC 5044 says.
        large_fpdu: secure || settings.large_fpdu() && revision >= 2,
        connect: timeout::CONNECT,
        refused: 0,
        patience: Patience::NONE,
        secure,
        turn: timeout::TURN,
        place: None,
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

/// Why an attempt did not start; and the attempt, unless that went with the connection.
type NotBegun<U> = (Error, Option<KBox<Attempt<U>>>);

/// Starts a connection for an attempt. `before` is the socket of the attempt's last connection, if
/// it had one.
pub(super) fn begin<U: User>(
    registry: &Arc<Registry<U>>,
    dev: &Device<Rsiw>,
    attempt: KBox<Attempt<U>>,
    before: Option<&TcpSocket>,
) -> Result<(), NotBegun<U>> {
    let origin = open::Origin {
        cm: &attempt.cm,
        mapper: attempt.mapper,
        ifindex: attempt.ifindex,
        local: attempt.local,
    };
    let opened = open::initiator(dev, &origin, attempt.remote, before);
    let with_file = |(socket, remote): (TcpSocket, SocketAddr)| match attempt.secure {
        true => Ok((socket.with_file(Role::Client(attempt.server))?, remote)),
        false => Ok((socket, remote)),
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
        conn.note_peer(remote);
        waiting.user.attach(conn, waiting.life)?;
        if waiting.secure && !AwaitTurn::is_over(conn, waiting)? {
            let attempt = attempt.take().ok_or(EINVAL)?;
            return Ok(AwaitTurn::begin(conn, attempt, remote));
        }
        let ms = waiting.connect;
        waiting.set_timeout(conn, ms);
        if let Err(e) = conn.socket().connect(&remote) {
            waiting.user.lost(Lost::Handshake);
            return Err(e);
        }
        let attempt = attempt.take().ok_or(EINVAL)?;
        Ok(Stage::Connecting(Connecting { attempt }))
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
            cm,
            life: user.life(),
            user,
            local,
            remote,
            server: remote.ip(),
            mapper: PortMapper::Elsewhere,
            ifindex: None,
            private_data: KVec::new(),
            ird: 4,
            ord: 4,
            revision: 2,
            large_fpdu: false,
            connect: timeout::CONNECT,
            refused: 0,
            patience: Patience::NONE,
            secure: false,
            turn: timeout::TURN,
            place: None,
        };
        Ok(KBox::new(attempt, GFP_KERNEL)?)
    }

    /// Has TCP connect: the first stage.
    pub(super) fn connecting(mut self: KBox<Self>, conn: &Arc<Conn<U>>) -> Result<Stage<U>> {
        self.set_timeout(conn, timeout::CONNECT);
        conn.socket().connect(&self.remote)?;
        Ok(Stage::Connecting(Connecting { attempt: self }))
    }
}

impl<U: User> Attempt<U> {
    /// Sets the time-out of the stage to `ms` milliseconds. The timer runs for [`timeout::GLANCE`]
    /// at a time; see [`Attempt::cut_short`].
    pub(super) fn set_timeout(&mut self, conn: &Arc<Conn<U>>, ms: u32) {
        self.patience = Patience::new(conn, ms);
        conn.set_timeout(ms.min(timeout::GLANCE));
    }

    /// Returns why the attempt ends, if an event ends it that does so in every stage.
    ///
    /// One such event is the end of the process that made the attempt. iwcm lets nobody destroy an
    /// identifier before it has its `CONNECT_REPLY`, so without this check a killed process would
    /// stay until the peer's time is up. The end of the process is not reported to the driver: the
    /// queue pair may be destroyed after the identifier. So the timer checks for it.
    pub(super) fn cut_short(&mut self, conn: &Arc<Conn<U>>, events: Events) -> Option<Error> {
        let expired = events.any(Events::TIMEOUT);
        let leaves = events.any(Events::LEAVE);
        if conn.how().is_some() || leaves || expired && self.user.is_orphaned() {
            return Some(errno::ECONNABORTED.error());
        }
        if expired && !self.patience.go_on(conn, timeout::GLANCE) {
            return Some(errno::ETIMEDOUT.error());
        }
        None
    }
}

impl<U: User> Connecting<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if let Some(e) = self.attempt.cut_short(conn, events) {
            return close::fail_attempt(conn, &self.attempt, e, LastWords::None, None);
        }
        match conn.socket().state() {
            TcpState::SynSent | TcpState::SynReceived => Stage::Connecting(self),
            TcpState::Established | TcpState::CloseWait if self.attempt.secure => {
                Securing::initiate(conn, self.attempt)
            }
            TcpState::Established | TcpState::CloseWait => request(conn, self.attempt),
            _ => {
                let refused = || errno::ECONNREFUSED.error();
                let e = conn.error().unwrap_or_else(refused);
                if e == errno::ECONNREFUSED && self.attempt.refused < timeout::REFUSALS {
                    return Backoff::begin(conn, self.attempt);
                }
                close::fail_attempt(conn, &self.attempt, e, LastWords::None, None)
            }
        }
    }
}

/// Sends the MPA Request: TCP has connected, and TLS is on if the attempt wants it.
pub(super) fn request<U: User>(conn: &Arc<Conn<U>>, mut attempt: KBox<Attempt<U>>) -> Stage<U> {
    // Another attempt may make its handshake now.
    attempt.place = None;
    match send_request(conn, &attempt) {
        Ok((mpa, reader)) => {
            attempt.set_timeout(conn, timeout::REPLY);
            Stage::AwaitReply(AwaitReply {
                attempt,
                mpa,
                reader,
            })
        }
        // A responder that does not accept this end has gone already. What it has said can still be
        // read.
        Err(e) if attempt.secure && (e == EPIPE || e == errno::ECONNRESET) => {
            let read = conn.socket().recv(&mut [0]).err();
            not_accepted(conn, &attempt, Some(read.unwrap_or(e)))
        }
        Err(e) => close::fail_attempt(conn, &attempt, e, LastWords::None, None),
    }
}

/// The peer has ended or broken a connection with TLS before its Reply; `read` is the error of
/// reading, if there was one. Fails the attempt.
///
/// The end of a handshake is this end's opinion only: a responder that does not accept the
/// certificate says so afterwards. And all who know TLS know revision 2.
fn not_accepted<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: &Attempt<U>,
    read: Option<Error>,
) -> Stage<U> {
    match read {
        Some(e) => secure::log_broken(conn, e),
        None => conn.log_failure(format_args!(
            "TLS: the peer ends the connection, error {}",
            conn.error()
                .unwrap_or_else(|| errno::ECONNRESET.error())
                .to_errno()
        )),
    }
    close::fail_attempt(conn, attempt, EACCES, LastWords::None, None)
}

fn send_request<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: &Attempt<U>,
) -> Result<(Initiator, KBox<FrameReader>)> {
    let reader = KBox::new(FrameReader::new(FrameKind::Reply), GFP_KERNEL)?;
    let rtr = if conn.settings().peer_to_peer() && attempt.revision >= 2 {
        RtrSet::ALL
    } else {
        RtrSet::EMPTY
    };
    let offer = Offer {
        large_fpdu: attempt.large_fpdu,
        ..offer(
            conn.settings(),
            conn.socket().is_secure(),
            attempt.revision,
            attempt.ird,
            attempt.ord,
            rtr,
            &attempt.private_data,
        )
    };
    let mut buf = frame::FRAME_BUF;
    let (mpa, len) = Initiator::request(&offer, &mut buf).map_err(|_| EINVAL)?;
    frame::send_frame(conn, buf.get(..len).ok_or(EINVAL)?)?;
    Ok((mpa, reader))
}

impl<U: User> AwaitReply<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if let Some(e) = self.attempt.cut_short(conn, events) {
            return close::fail_attempt(conn, &self.attempt, e, LastWords::None, None);
        }
        match frame::read(conn.socket(), &mut self.reader) {
            Ok(Progress::Complete) => self.complete(conn),
            Ok(Progress::Pending) if conn.error().is_none() => Stage::AwaitReply(self),
            Ok(Progress::Pending | Progress::Eof) => self.hung_up(conn, None),
            Err(ReadError::Socket(e)) => self.hung_up(conn, Some(e)),
            Err(ReadError::Mpa(e)) => bad_reply(conn, &self.attempt, format_args!("{e}")),
        }
    }

    /// The Reply has come: starts the queue pair, falls back, or fails the attempt.
    fn complete(self, conn: &Arc<Conn<U>>) -> Stage<U> {
        let Self {
            attempt,
            mpa,
            reader,
        } = self;
        conn.trace_frame(false, reader.octets());
        let Some(reply) = reader.frame() else {
            let e = errno::EPROTO.error();
            return close::fail_attempt(conn, &attempt, e, LastWords::None, None);
        };
        if conn.socket().is_secure() && reply.markers() {
            return bad_reply(conn, &attempt, format_args!("markers within TLS"));
        }
        // A responder that answers in the old format does not know the new one. It has passed the
        // enhanced data to its consumer as private data, so its consent is void. A rejection
        // stands: another attempt would hide it, and the private data that say why.
        if attempt.revision >= 2 && reply.enhanced().is_none() && !reply.rejected() {
            if attempt.secure {
                return bad_reply(conn, &attempt, format_args!("revision 1 within TLS"));
            }
            return Fallback::Revision1.begin(conn, attempt, errno::ECONNREFUSED.error());
        }
        // Unless it may be one of the offer: it is from a peer that does not know the offer, and
        // gives no reason.
        if attempt.large_fpdu
            && reply.rejected()
            && !reply.knows_large_fpdu()
            && reply.private_data().is_empty()
        {
            return Fallback::NoLargeFpdu.begin(conn, attempt, errno::ECONNREFUSED.error());
        }
        match mpa.reply(&reply, limits(&*attempt.user, attempt.ird, attempt.ord)) {
            Ok(mut agreed) => {
                // The peer's ORD may have raised the IRD to a number that is no power of two.
                agreed.ird = announced_ird(agreed.ird.into());
                establish(conn, attempt, &agreed, &reply)
            }
            Err(MpaError::Rejected) => {
                let e = errno::ECONNREFUSED.error();
                let peer = peer_of(&reply);
                close::fail_attempt(conn, &attempt, e, LastWords::None, Some(peer))
            }
            Err(MpaError::Incompatible {
                code,
                crc,
                tx_markers,
            }) => {
                let peer = peer_of(&reply);
                give_up(conn, &attempt, code, crc, tx_markers, Some(peer))
            }
            Err(e) => bad_reply(conn, &attempt, format_args!("{e}")),
        }
    }

    /// The peer has ended the connection instead of sending a Reply, or broken it.
    fn hung_up(self, conn: &Arc<Conn<U>>, read: Option<Error>) -> Stage<U> {
        if self.attempt.secure {
            return not_accepted(conn, &self.attempt, read);
        }
        let e = conn.error().unwrap_or_else(|| errno::ECONNRESET.error());
        let fallback = match &*self.attempt {
            Attempt {
                large_fpdu: true, ..
            } => Fallback::NoLargeFpdu,
            Attempt { revision: 2.., .. } => Fallback::Revision1,
            _ => return close::fail_attempt(conn, &self.attempt, e, LastWords::None, None),
        };
        fallback.begin(conn, self.attempt, e)
    }
}

/// The Reply is none that a peer may send: fails the attempt.
fn bad_reply<U: User>(conn: &Arc<Conn<U>>, attempt: &Attempt<U>, why: Arguments<'_>) -> Stage<U> {
    conn.log_failure(format_args!("bad MPA Reply: {why}; connection given up"));
    close::fail_attempt(conn, attempt, errno::EPROTO.error(), LastWords::None, None)
}

/// The part of a Reply that is for the consumer.
fn peer_of<'a>(reply: &Frame<'a>) -> ReplyInfo<'a> {
    let (ird, ord) = reply.enhanced().map_or((0, 0), |e| (e.ird, e.ord));
    ReplyInfo {
        private_data: reply.private_data(),
        ird: event_depth(ird),
        ord: event_depth(ord),
    }
}

/// The peer has accepted: starts the queue pair and reports the connection.
fn establish<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: KBox<Attempt<U>>,
    agreed: &Agreed,
    reply: &Frame<'_>,
) -> Stage<U> {
    // Read the counter before `established()`, which has tx send the RTR (`tx::message`): a quick
    // peer has answered that by the time that the call returns.
    let received = conn.socket().bytes_received();
    if let Err(e) = attempt.user.established(&StreamParams::new(agreed, true)) {
        let errno = e.to_errno();
        conn.log_failure(format_args!(
            "cannot start the queue pair: error {errno}; connection terminated"
        ));
        let code = TermCode::MPA_LOCAL_CATASTROPHIC;
        return give_up(conn, &attempt, code, agreed.crc, agreed.tx_markers, None);
    }
    let info = ReplyInfo {
        private_data: reply.private_data(),
        // iwcm's `ird`: Reads that this end may have outstanding. Its `ord`: those that the peer
        // may.
        ird: event_depth(agreed.ord),
        ord: event_depth(agreed.ird),
    };
    close::report_reply(&attempt, Ok(()), info);
    let established = Established {
        cm: attempt.cm.clone(),
        user: attempt.user.clone(),
    };
    let first = match agreed.rtr {
        Some(_) => First::OurRtr(received),
        None => First::Ours,
    };
    Run::establish(conn, established, first)
}

/// The peer has accepted on terms that this end cannot meet: sends it a Terminate (RFC 6581 section
/// 9) and fails the attempt.
fn give_up<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: &Attempt<U>,
    code: TermCode,
    crc: bool,
    tx_markers: bool,
    peer: Option<ReplyInfo<'_>>,
) -> Stage<U> {
    let words = match frame::send_terminate(conn, code, crc, tx_markers) {
        Ok(()) => {
            conn.dev().terminates_sent.count(code);
            LastWords::Sent
        }
        Err(_) => LastWords::None,
    };
    close::fail_attempt(conn, attempt, errno::EPROTO.error(), words, peer)
}
