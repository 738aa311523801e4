// SPDX-License-Identifier: GPL-2.0

//! The responder: MPA Request, the consumer's answer, MPA Reply (RFC 5044 section 7.1, RFC 6581).
//!
//! A Request becomes a `CONNECT_REQUEST` of the listening identifier, as soon as the consumer has
//! room for it (`backlog`). iwcm keeps the connection until its consumer accepts or rejects. The
//! consumer may never do so; then the driver withdraws the request after a while. Answers and
//! withdrawals lock the stage, so an answer either finds [`Stage::Requested`] or comes too late.
//!
//! A successful [`accept`] reports `ESTABLISHED` at once, not when the peer's first FPDU arrives:
//! iwcm makes everybody who wants to end the connection wait for that event, and a peer is free to
//! send nothing for as long as it likes. Requests that the consumer posts meanwhile wait in the
//! queue pair.

use super::{
    announced_ird, bounded_ird, clip, close,
    conn::{Conn, Events},
    event_depth, event_private_data, frame,
    frame::{Progress, ReadError},
    listener::PendingConn,
    offer,
    run::{Established, Run},
    secure,
    stage::Stage,
    timeout, Lost, StreamParams, User,
};
use core::{format_args, mem::replace, net::SocketAddr};
use iwarp::{
    conn::{First, Reply},
    mpa::{Asked, Frame, FrameKind, FrameReader, Responder, Rtr, RtrSet, NO_NEGOTIATION},
};
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::{errno, TcpState};
use rdma::{CmId, ConnInfo, ConnParam, RequestId};

/// The peer has connected and owes a Request.
pub(super) struct AwaitRequest<U: User> {
    slot: PendingConn<U>,
    reader: KBox<FrameReader>,
}

/// The Request has come. It is reported when the consumer has answered others.
pub(super) struct Queued<U: User> {
    /// The backlog's progress when the timer was set.
    progress: u64,
    /// How often the timer is set again at the most.
    tries: u32,
    /// Has the private data.
    reader: KBox<FrameReader>,
    responder: Responder,
    asked: Asked,
    local: SocketAddr,
    remote: SocketAddr,
    slot: PendingConn<U>,
}

/// The consumer owes an answer.
pub(super) struct Requested<U: User> {
    responder: Responder,
    asked: Asked,
    request: RequestId,
    local: SocketAddr,
    remote: SocketAddr,
    /// The peer does not wait for the answer any more.
    gone: bool,
    slot: PendingConn<U>,
}

/// Whether a connection that has not sent its Request ends, in whichever stage.
pub(super) fn is_over<U: User>(conn: &Arc<Conn<U>>, slot: &PendingConn<U>, events: Events) -> bool {
    let over = events.any(Events::TIMEOUT | Events::LEAVE);
    conn.how().is_some() || over || slot.is_dead()
}

impl<U: User> AwaitRequest<U> {
    /// The first stage of an accepted connection, if it is the peer's turn to send a Request.
    pub(super) fn accepted(conn: &Arc<Conn<U>>, mut slot: PendingConn<U>) -> Result<Stage<U>> {
        let reader = KBox::new(FrameReader::new(FrameKind::Request), GFP_KERNEL)?;
        conn.set_timeout(timeout::REQUEST);
        slot.note_silent(conn);
        Ok(Stage::AwaitRequest(Self { slot, reader }))
    }

    /// The stage that follows when TLS is on.
    pub(super) fn begin(conn: &Arc<Conn<U>>, slot: PendingConn<U>) -> Stage<U> {
        let Ok(reader) = KBox::new(FrameReader::new(FrameKind::Request), GFP_KERNEL) else {
            return close::drop_early(conn);
        };
        conn.set_timeout(timeout::REQUEST);
        Stage::AwaitRequest(Self { slot, reader })
    }

    /// Takes the Request, whose first octet has come.
    pub(super) fn go_on(conn: &Arc<Conn<U>>, slot: PendingConn<U>, events: Events) -> Stage<U> {
        match KBox::new(FrameReader::new(FrameKind::Request), GFP_KERNEL) {
            Ok(reader) => Self { slot, reader }.step(conn, events),
            Err(_) => close::drop_early(conn),
        }
    }

    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if is_over(conn, &self.slot, events) {
            return close::drop_early(conn);
        }
        // It keeps its slot if the Request has come meanwhile.
        let given_up = events.any(Events::GIVE_WAY);
        match frame::read(conn.socket(), &mut self.reader) {
            Ok(Progress::Complete) => self.complete(conn),
            Ok(Progress::Pending) if conn.error().is_none() && !given_up => {
                Stage::AwaitRequest(self)
            }
            Ok(Progress::Pending | Progress::Eof) => close::drop_early(conn),
            Err(ReadError::Socket(e)) => {
                if conn.socket().is_secure() {
                    secure::log_broken(conn, e);
                }
                close::drop_early(conn)
            }
            Err(ReadError::Mpa(e)) => {
                // RFC 5044 section 7.1.2: such a connection is closed without a Reply.
                conn.log_failure(format_args!("bad MPA Request: {e}; connection reset"));
                close::drop_early(conn)
            }
        }
    }

    /// The Request has come: reports it, or has it wait for that.
    fn complete(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        self.slot.note_request();
        conn.trace_frame(false, self.reader.octets());
        let request = self.reader.frame();
        if conn.socket().is_secure() && request.as_ref().is_some_and(Frame::markers) {
            conn.log_failure(format_args!(
                "MPA Request asks for markers within TLS; reset"
            ));
            return close::drop_early(conn);
        }
        let Some(Ok((responder, asked))) = request.map(|frame| Responder::request(&frame)) else {
            return close::drop_early(conn);
        };
        // `ENOTCONN`: the peer has gone meanwhile.
        let (Ok(local), Ok(remote)) = (conn.socket().local_addr(), conn.socket().peer_addr())
        else {
            return close::drop_early(conn);
        };
        conn.note_peer(remote);
        if !conn
            .settings()
            .admits(local.port(), conn.identity().as_ref())
        {
            let port = local.port();
            match conn.identity() {
                Some(peer) => conn.log_refusal(format_args!(
                    "\"{peer}\" is not in tls_names for port {port}; refused"
                )),
                None => conn.log_failure(format_args!(
                    "no TLS, and port {port} is for tls_names only; refused"
                )),
            }
            conn.needs_no_order();
            conn.dev().counters.requests_dropped.add(1);
            return refuse(conn, &self.slot, responder, &[]);
        }
        self.slot.wait_for_report(conn, &remote);
        let mut queued = Queued {
            progress: self.slot.progress(),
            tries: timeout::REPLY / timeout::REQUEST - 1,
            reader: self.reader,
            responder,
            asked,
            local,
            remote,
            slot: self.slot,
        };
        if queued.slot.take_turn() {
            return queued.report(conn);
        }
        // If the peer has gone, its FIN may have come right behind the Request.
        conn.notify(Events::SOCKET);
        conn.set_timeout(timeout::REQUEST);
        Stage::Queued(queued)
    }
}

/// Whether the peer has ended the connection. A peer that has sent its FIN does not wait for the
/// Reply, even if there is unread data in front of the FIN.
fn has_gone<U: User>(conn: &Conn<U>, events: Events) -> bool {
    let closed = events.any(Events::SOCKET) && conn.socket().state() != TcpState::Established;
    conn.error().is_some() || closed
}

impl<U: User> Queued<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if conn.how().is_some() || events.any(Events::LEAVE) || has_gone(conn, events) {
            return close::drop_early(conn);
        }
        if events.any(Events::TIMEOUT) {
            if self.slot.progress() == self.progress {
                self.slot.make_room();
            }
            // The peer has given up, if it does as this driver does.
            if self.tries == 0 {
                conn.dev().counters.requests_dropped.add(1);
                conn.needs_no_order();
                return refuse(conn, &self.slot, self.responder, &[]);
            }
            self.tries -= 1;
            self.progress = self.slot.progress();
            conn.set_timeout(timeout::REQUEST);
        }
        if self.slot.take_turn() {
            return self.report(conn);
        }
        Stage::Queued(self)
    }

    fn report(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        let frame = self.reader.frame();
        let private_data = frame.as_ref().map_or(&[][..], Frame::private_data);
        let info = ConnInfo {
            local: self.local,
            remote: self.remote,
            private_data: event_private_data(private_data),
            ird: event_depth(self.asked.ird),
            ord: event_depth(self.asked.ord),
        };
        let reported = self.slot.report(conn, &info);
        // Only after the report: no other connection depends on the order of the steps that follow.
        conn.needs_no_order();
        match reported {
            Ok(request) => {
                conn.dev().counters.requests.add(1);
                conn.set_timeout(timeout::ANSWER);
                // If the peer has gone, its FIN may have come right behind the Request.
                conn.notify(Events::SOCKET);
                Stage::Requested(Requested {
                    responder: self.responder,
                    asked: self.asked,
                    request,
                    local: self.local,
                    remote: self.remote,
                    gone: false,
                    slot: self.slot,
                })
            }
            // iwcm has no room for the request, or nobody listens any more.
            Err(_) => {
                conn.dev().counters.requests_dropped.add(1);
                refuse(conn, &self.slot, self.responder, &[])
            }
        }
    }
}

impl<U: User> Requested<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        if conn.how().is_some() || events.any(Events::TIMEOUT | Events::LEAVE) {
            // If there is no such request any more, an answer has taken it and waits for the stage.
            if let Some(handle) = conn.dev().handle() {
                drop(handle.withdraw(self.request));
            }
            return close::drop_unknown(conn);
        }
        if !self.gone && has_gone(conn, events) {
            // The consumer has the event all the same, or it waits for the consumer. So the
            // Request counts until it is answered, in vain: otherwise peers that come and go would
            // fill the room that the RDMA CM has for events, and others would be rejected.
            conn.socket().abort();
            self.gone = true;
        }
        Stage::Requested(self)
    }

    /// Starts the queue pair and sends the Reply. The queue pair starts first, as FPDUs may follow
    /// as soon as the peer has the Reply. Returns the information for `ESTABLISHED`, and the value
    /// that `bytes_acked()` has reached when the peer has the Reply.
    fn accept(
        &self,
        conn: &Arc<Conn<U>>,
        user: &Arc<U>,
        param: &ConnParam<'_>,
    ) -> Result<(ConnInfo<'static>, u64), (Lost, Error)> {
        let (most_ird, most_ord) = user.most_reads();
        let mut ird = bounded_ird(announced_ird(param.ird), most_ird);
        // Allow as many Reads as the peer asked for: it would lower its ORD to a smaller IRD (RFC
        // 6581 section 9.1), and it may need them. But allow none if the consumer wants none.
        if ird != 0 && self.asked.ord != NO_NEGOTIATION {
            ird = bounded_ird(ird.max(announced_ird(self.asked.ord.into())), most_ird);
        }
        let ord = clip(param.ord.min(most_ord));
        // An empty set means any RTR. With an IRD of 0 the set leaves out the Read, for which the
        // Reply would have to say 1, unless the peer can send nothing else.
        let only_read = !self.asked.rtr.is_empty() && self.asked.rtr.without(Rtr::Read).is_empty();
        let rtr = match ird == 0 && !only_read {
            true => RtrSet::ALL.without(Rtr::Read),
            false => RtrSet::EMPTY,
        };
        let answer = offer(
            conn.settings(),
            conn.socket().is_secure(),
            self.asked.revision,
            ird,
            ord,
            rtr,
            param.private_data,
        );
        let mut buf = frame::FRAME_BUF;
        let (agreed, len) = self
            .responder
            .accept(&answer, &mut buf)
            .map_err(|_| (Lost::Handshake, EINVAL))?;
        let never = |e| (Lost::Handshake, e);
        let reply = buf.get(..len).ok_or(never(EINVAL))?;
        user.established(&StreamParams::new(&agreed, false))
            .map_err(never)?;
        // The Reply is the first data that this end sends.
        let end = conn.socket().bytes_acked() + reply.len() as u64;
        frame::send_frame(conn, reply).map_err(|e| (Lost::Reset, e))?;
        let info = ConnInfo {
            local: self.local,
            remote: self.remote,
            private_data: &[],
            // iwcm's `ird`: Reads that this end may have outstanding. Its `ord`: those that the
            // peer may.
            ird: event_depth(agreed.ord),
            ord: event_depth(agreed.ird),
        };
        Ok((info, end))
    }
}

/// Accepts a request for `user`, the queue pair that the consumer named: the `iw_accept` operation.
/// Context: sleeping, within locks of the RDMA CM; does not wait for the network.
///
/// # Errors
///
/// `EINVAL`: there is no such queue pair, it has a connection, or there is too much private data.
/// `ECONNRESET`: the peer has gone, or the answer comes after the time-out. `ENOMEM`. The
/// connection is over then, and nothing is reported.
pub(crate) fn accept<U: User>(
    conn: Arc<Conn<U>>,
    user: Option<Arc<U>>,
    cm: CmId,
    param: &ConnParam<'_>,
) -> Result {
    conn.in_actors_place(|stage| answer(&conn, user, stage, cm, param))
}

/// Accepts in place of the actor.
fn answer<U: User>(
    conn: &Arc<Conn<U>>,
    user: Option<Arc<U>>,
    stage: &mut Stage<U>,
    cm: CmId,
    param: &ConnParam<'_>,
) -> Result {
    let mut requested = match replace(stage, Stage::Closed) {
        Stage::Requested(requested) => requested,
        other => {
            *stage = other;
            return Err(errno::ECONNRESET.into());
        }
    };
    requested.slot.note_accept();
    if requested.gone {
        *stage = close::drop_unknown(conn);
        return Err(errno::ECONNRESET.into());
    }
    let user = user.ok_or(EINVAL);
    let attached = user.and_then(|user| user.attach(conn, user.life()).map(|()| user));
    let user = match attached {
        Ok(user) => user,
        Err(e) => {
            *stage = close::drop_unknown(conn);
            return Err(e);
        }
    };
    conn.belongs_to(user.consumer());
    let (info, reply_end) = match requested.accept(conn, &user, param) {
        Ok(accepted) => accepted,
        Err((why, e)) => {
            if matches!(why, Lost::Reset) {
                // It had reached data transfer.
                conn.dev().counters.connections_aborted.add(1);
            }
            *stage = close::drop_unknown(conn);
            user.lost(why);
            return Err(e);
        }
    };
    // The stage is locked, so no other event is reported before this one.
    if cm.established(&info).is_err() {
        pr_warn_once!("iwcm did not take an ESTABLISHED\n");
    }
    let established = Established { cm, user };
    let first = if requested.asked.peer_to_peer {
        First::Rtr
    } else {
        First::Theirs {
            wait: conn.settings().responder_wait_ms(),
            reply: Reply::Sent(reply_end),
        }
    };
    *stage = Run::establish(conn, established, first);
    Ok(())
}

/// Rejects a request: the `iw_reject` operation. Context: sleeping, within locks of the RDMA CM;
/// does not wait for the network.
///
/// # Errors
///
/// `ECONNRESET`: the peer has gone, or the answer comes after the time-out. `EINVAL`: there is too
/// much private data; the peer is rejected without them.
pub(crate) fn reject<U: User>(conn: Arc<Conn<U>>, private_data: &[u8]) -> Result {
    conn.in_actors_place(|stage| match replace(stage, Stage::Closed) {
        Stage::Requested(requested) if requested.gone => {
            *stage = close::drop_unknown(&conn);
            Err(errno::ECONNRESET.into())
        }
        Stage::Requested(requested) => {
            conn.dev().counters.requests_rejected.add(1);
            let max = super::max_private_data(requested.asked.revision);
            let fits = private_data.len() <= max;
            let private_data = if fits { private_data } else { &[] };
            *stage = refuse(&conn, &requested.slot, requested.responder, private_data);
            if fits {
                Ok(())
            } else {
                Err(EINVAL)
            }
        }
        other => {
            *stage = other;
            Err(errno::ECONNRESET.into())
        }
    })
}

/// Rejects the request by a Reply and lingers; resets the connection if that is not possible.
fn refuse<U: User>(
    conn: &Arc<Conn<U>>,
    slot: &PendingConn<U>,
    responder: Responder,
    private_data: &[u8],
) -> Stage<U> {
    let mut buf = frame::FRAME_BUF;
    let sent = responder
        .reject(private_data, &mut buf)
        .map_err(|_| EINVAL)
        .and_then(|len| frame::send_frame(conn, buf.get(..len).ok_or(EINVAL)?));
    match (sent, slot.linger_place()) {
        (Ok(()), Some(place)) => Run::linger(conn, Some(place)),
        // If too many refused peers linger, this one may miss the Reply; but it sees the reset.
        _ => close::drop_unknown(conn),
    }
}
