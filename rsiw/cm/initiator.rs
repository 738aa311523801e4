// SPDX-License-Identifier: GPL-2.0

//! The initiator: TCP connect, MPA Request, MPA Reply (RFC 5044 section 7.1, RFC 6581).
//!
//! A successful [`connect`] is answered by exactly one `CONNECT_REPLY`, see
//! [`close::report_reply`]. A responder that knows only MPA revision 1 closes the connection when it
//! sees a Request of revision 2; the attempt is then repeated with revision 1 (RFC 6581 section 10),
//! on a connection of its own.

use super::{
    announced_ird, bounded_ird, clip, close,
    close::{LastWords, ReplyInfo},
    conn::{Conn, Events},
    event_depth, frame,
    frame::{Progress, ReadError},
    limits, max_private_data, offer, open,
    registry::{InOrder, Registry},
    stage::Stage,
    streaming::{Established, First, Streaming},
    timeout, Lost, StreamParams, User,
};
use crate::{device::Rsiw, params};
use core::{format_args, net::SocketAddr};
use iwarp::{
    mpa::{Agreed, Frame, FrameKind, FrameReader, Initiator, MpaError, RtrSet},
    TermCode,
};
use kernel::{prelude::*, sync::Arc};
use net::{errno, TcpState};
use rdma::{CmId, ConnParam, Device};

/// What the consumer wants, kept for a second try.
pub(super) struct Attempt<U: User> {
    pub(super) cm: CmId,
    pub(super) user: Arc<U>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    private_data: KVec<u8>,
    ird: u16,
    ord: u16,
    revision: u8,
    /// Milliseconds that TCP has to connect.
    connect: u32,
    /// How often the peer's TCP has refused.
    refused: u32,
    /// Milliseconds that the peer has beyond those that the connection's timer runs for.
    left: u32,
}

/// TCP connects.
pub(super) struct Connecting<U: User> {
    attempt: KBox<Attempt<U>>,
}

/// Nobody listens, and is given a moment to.
pub(super) struct Backoff<U: User> {
    attempt: KBox<Attempt<U>>,
}

/// The MPA Request was sent.
pub(super) struct AwaitReply<U: User> {
    attempt: KBox<Attempt<U>>,
    mpa: Initiator,
    reader: KBox<FrameReader>,
}

/// The peer does not know MPA revision 2, or did not listen a moment ago.
pub(super) struct Retry<U: User> {
    attempt: KBox<Attempt<U>>,
    why: Error,
}

/// Connects the queue pair `param.qpn` to the id's remote address: the `iw_connect` operation.
/// Context: sleeping, within locks of the RDMA CM; does not wait for the network.
///
/// # Errors
///
/// `EINVAL`: no such queue pair, it has a connection, or too much private data. `ENOMEM`. What
/// binding and connecting a socket says at once. Nothing is reported then.
pub(crate) fn connect<U: User>(
    registry: &Arc<Registry<U>>,
    dev: &Device<Rsiw>,
    user: Arc<U>,
    cm: CmId,
    param: &ConnParam<'_>,
) -> Result {
    let revision = params::mpa_revision();
    if param.private_data.len() > max_private_data(revision) {
        return Err(EINVAL);
    }
    let mut private_data = KVec::new();
    private_data.extend_from_slice(param.private_data, GFP_KERNEL)?;
    let (most_ird, most_ord) = user.most_reads();
    let mapped = registry.dev.ports_mapped;
    let attempt = Attempt {
        user,
        local: open::local(&cm, mapped)?,
        remote: open::remote(&cm, mapped)?,
        cm,
        private_data,
        ird: bounded_ird(announced_ird(param.ird), most_ird),
        ord: clip(param.ord.min(most_ord)),
        revision,
        connect: timeout::CONNECT,
        refused: 0,
        left: 0,
    };
    match begin(registry, dev, KBox::new(attempt, GFP_KERNEL)?) {
        // TCP has one connection between the same addresses and ports. RTRS wants all those of a
        // session to have the port that the RDMA CM picked for the first.
        Err((e, Some(mut attempt)))
            if e == errno::EADDRNOTAVAIL && open::picked(dev, &attempt.local)? =>
        {
            attempt.local.set_port(0);
            begin(registry, dev, attempt)
        }
        begun => begun,
    }
    .map_err(|(e, _)| e)
}

/// Why an attempt did not start, and the attempt, unless the connection took it.
type NotBegun<U> = (Error, Option<KBox<Attempt<U>>>);

/// Starts an attempt, or gives it back.
fn begin<U: User>(
    registry: &Arc<Registry<U>>,
    dev: &Device<Rsiw>,
    attempt: KBox<Attempt<U>>,
) -> Result<(), NotBegun<U>> {
    let opened = open::initiator(
        dev,
        registry.dev.ports_mapped,
        &attempt.cm,
        attempt.local,
        attempt.remote,
    );
    let (socket, remote) = match opened {
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
        waiting.user.attach(conn)?;
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

#[cfg(CONFIG_KUNIT)]
impl<U: User> Attempt<U> {
    /// One that wants a few Reads each way.
    pub(super) fn of_test(
        cm: CmId,
        user: Arc<U>,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<KBox<Self>> {
        let attempt = Self {
            cm,
            user,
            local,
            remote,
            private_data: KVec::new(),
            ird: 4,
            ord: 4,
            revision: 2,
            connect: timeout::CONNECT,
            refused: 0,
            left: 0,
        };
        Ok(KBox::new(attempt, GFP_KERNEL)?)
    }

    /// Has TCP connect: the first stage.
    pub(super) fn connecting(self: KBox<Self>, conn: &Arc<Conn<U>>) -> Result<Stage<U>> {
        conn.set_timeout(timeout::GLANCE);
        conn.socket().connect(&self.remote)?;
        Ok(Stage::Connecting(Connecting { attempt: self }))
    }
}

impl<U: User> Attempt<U> {
    /// Gives the peer `ms` milliseconds for what comes next.
    fn set_timeout(&mut self, conn: &Arc<Conn<U>>, ms: u32) {
        let now = ms.min(timeout::GLANCE);
        self.left = ms - now;
        conn.set_timeout(now);
    }

    /// What ends an attempt in every stage.
    ///
    /// One of them is the end of the process that made it. iwcm lets nobody destroy an id before it
    /// has its `CONNECT_REPLY`, so a killed process would otherwise stay as long as the peer is
    /// given; and nobody tells us, as the queue pair may be destroyed after the id.
    fn cut_short(&mut self, conn: &Arc<Conn<U>>, events: Events) -> Option<Error> {
        let expired = events.any(Events::TIMEOUT);
        let leaves = events.any(Events::LEAVE);
        if conn.how().is_some() || leaves || expired && self.user.is_orphaned() {
            return Some(errno::ECONNABORTED.error());
        }
        if expired && self.left == 0 {
            return Some(errno::ETIMEDOUT.error());
        }
        if expired {
            self.set_timeout(conn, self.left);
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
            TcpState::Established | TcpState::CloseWait => self.request(conn),
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

    /// Sends the MPA Request.
    fn request(self, conn: &Arc<Conn<U>>) -> Stage<U> {
        let mut attempt = self.attempt;
        match send_request(conn, &attempt) {
            Ok((mpa, reader)) => {
                attempt.set_timeout(conn, timeout::REPLY);
                Stage::AwaitReply(AwaitReply {
                    attempt,
                    mpa,
                    reader,
                })
            }
            Err(e) => close::fail_attempt(conn, &attempt, e, LastWords::None, None),
        }
    }
}

impl<U: User> Backoff<U> {
    /// Waits a little. A server that says that it is ready before it listens (perftest does, by another
    /// connection) meets its client's SYN on a slow network only; a lost one would be repeated, too.
    fn begin(conn: &Arc<Conn<U>>, mut attempt: KBox<Attempt<U>>) -> Stage<U> {
        conn.set_timeout(timeout::REFUSED << attempt.refused);
        attempt.refused += 1;
        // All tries together have hardly more time than one: up to a second more for each.
        attempt.connect = timeout::CONNECT.min(attempt.left + timeout::GLANCE);
        attempt.left = 0;
        Stage::Backoff(Self { attempt })
    }

    pub(super) fn step(self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let ends = conn.how().is_some() || self.attempt.user.is_orphaned();
        if ends || events.any(Events::LEAVE) {
            let e = errno::ECONNABORTED.error();
            return close::fail_attempt(conn, &self.attempt, e, LastWords::None, None);
        }
        if !events.any(Events::TIMEOUT) {
            return Stage::Backoff(self);
        }
        try_again(conn, self.attempt, errno::ECONNREFUSED.error())
    }
}

fn send_request<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: &Attempt<U>,
) -> Result<(Initiator, KBox<FrameReader>)> {
    let reader = KBox::new(FrameReader::new(FrameKind::Reply), GFP_KERNEL)?;
    let rtr = if params::peer_to_peer() && attempt.revision >= 2 {
        RtrSet::ALL
    } else {
        RtrSet::EMPTY
    };
    let offer = offer(
        attempt.revision,
        attempt.ird,
        attempt.ord,
        rtr,
        &attempt.private_data,
    );
    let mut buf = frame::FRAME_BUF;
    let (mpa, len) = Initiator::request(&offer, &mut buf).map_err(|_| EINVAL)?;
    frame::send(conn, buf.get(..len).ok_or(EINVAL)?)?;
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
            Ok(Progress::Pending | Progress::Eof) | Err(ReadError::Socket) => self.hung_up(conn),
            Err(ReadError::Mpa(e)) => {
                conn.log_failure(format_args!("bad MPA Reply: {e}; connection given up"));
                let e = errno::EPROTO.error();
                close::fail_attempt(conn, &self.attempt, e, LastWords::None, None)
            }
        }
    }

    /// The Reply is there.
    fn complete(self, conn: &Arc<Conn<U>>) -> Stage<U> {
        let Self {
            attempt,
            mpa,
            reader,
        } = self;
        let Some(reply) = reader.frame() else {
            let e = errno::EPROTO.error();
            return close::fail_attempt(conn, &attempt, e, LastWords::None, None);
        };
        // A responder that answers in the old format does not know the new one: it took the
        // enhanced data for the ULP's, so its consent is void. Its consumer's refusal stands: to ask
        // again would hide it, and the private data that tell why.
        if attempt.revision >= 2 && reply.enhanced().is_none() && !reply.rejected() {
            return fall_back(conn, attempt, errno::ECONNREFUSED.error());
        }
        match mpa.reply(&reply, limits(&*attempt.user, attempt.ord)) {
            Ok(mut agreed) => {
                // The peer's ORD may have raised it.
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
            Err(e) => {
                conn.log_failure(format_args!("bad MPA Reply: {e}; connection given up"));
                let e = errno::EPROTO.error();
                close::fail_attempt(conn, &attempt, e, LastWords::None, None)
            }
        }
    }

    /// The peer ended the connection instead of a Reply.
    fn hung_up(self, conn: &Arc<Conn<U>>) -> Stage<U> {
        let e = conn.error().unwrap_or_else(|| errno::ECONNRESET.error());
        if self.attempt.revision >= 2 {
            fall_back(conn, self.attempt, e)
        } else {
            close::fail_attempt(conn, &self.attempt, e, LastWords::None, None)
        }
    }
}

/// What a Reply says for the consumer.
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
    // Before this, which sends the RTR: a quick peer has answered it by the time that it returns.
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
        // How many Reads this end may have outstanding, and how many the peer may.
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
    Stage::Streaming(Streaming::begin(conn, established, first))
}

/// The peer has accepted what this end cannot take: tells it by a Terminate (RFC 6581 section 9).
fn give_up<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: &Attempt<U>,
    code: TermCode,
    crc: bool,
    tx_markers: bool,
    peer: Option<ReplyInfo<'_>>,
) -> Stage<U> {
    let words = match frame::send_terminate(conn, code, crc, tx_markers) {
        Ok(()) => LastWords::Sent,
        Err(_) => LastWords::None,
    };
    close::fail_attempt(conn, attempt, errno::EPROTO.error(), words, peer)
}

/// Ends an attempt that is to be repeated with MPA revision 1.
fn fall_back<U: User>(conn: &Arc<Conn<U>>, mut attempt: KBox<Attempt<U>>, why: Error) -> Stage<U> {
    attempt.revision = 1;
    attempt.connect = timeout::CONNECT;
    try_again(conn, attempt, why)
}

/// Ends the connection of an attempt that is to have another one. `why` is what is reported if that
/// cannot even be begun.
fn try_again<U: User>(conn: &Arc<Conn<U>>, attempt: KBox<Attempt<U>>, why: Error) -> Stage<U> {
    // First: the queue pair takes one connection at a time, and the port may be the consumer's
    // choice.
    conn.leave();
    conn.socket().abort();
    attempt.user.lost(Lost::Handshake);
    Stage::Retry(Retry { attempt, why })
}

impl<U: User> Retry<U> {
    /// Makes the next attempt. Context: sleeping; the stage of the one before is not locked.
    pub(super) fn run(self, conn: &Conn<U>) {
        let Self { attempt, why } = self;
        let guard = conn.dev().handle().and_then(|handle| handle.try_get());
        let begun = match guard {
            Some(dev) => begin(&conn.registry, &dev, attempt),
            None => Err((why, Some(attempt))),
        };
        if let Err((_, Some(attempt))) = begun {
            close::report_reply(&attempt, Err(why), ReplyInfo::default());
        }
    }
}
