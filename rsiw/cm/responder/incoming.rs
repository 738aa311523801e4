// SPDX-License-Identifier: GPL-2.0

//! A connection that a listener has accepted: what the machine has done for it, and what it is told
//! of it.
//!
//! A Request becomes a `CONNECT_REQUEST` of the listening identifier. iwcm keeps the connection
//! until its consumer accepts or rejects. Answers and withdrawals lock the stage, so an answer
//! either finds that the consumer owes one or comes too late. Requests that the consumer posts
//! after an `ESTABLISHED`, while its queue pair may not send yet, wait in the queue pair.

use crate::{
    cm::{
        consumer::{Call, Established},
        events::{Event, Events},
        frame,
        frame::{Progress, ReadError},
        listener::{PendingConn, Refused},
        offer::{
            announced_ird, bounded_ird, clip, event_depth, event_private_data, max_private_data,
            offer,
        },
        rc::{
            parked::{self, Parked},
            Pairing,
        },
        tls,
        tls::{Tls, TLS_HANDSHAKE},
        Conn, StreamParams, Told, User,
    },
    settings::TlsPolicy,
};
use core::{format_args, net::SocketAddr};
use iwarp::{
    conn::{names::Refusal, Input, StageName},
    mpa::{Asked, Frame, FrameKind, FrameReader, Responder, Rtr, RtrSet, NO_NEGOTIATION},
};
use kernel::{prelude::*, sync::Arc};
use net::{Received, Role, TcpState};
use rdma::{CmId, ConnInfo, RequestId};

/// A Request that has come.
struct Request {
    responder: Responder,
    asked: Asked,
    local: SocketAddr,
    remote: SocketAddr,
    /// Once it is reported.
    id: Option<RequestId>,
}

/// A connection that a listener has accepted, and what it needs until its Request is answered.
pub(in crate::cm) struct Incoming<U: User> {
    pub(in crate::cm) slot: PendingConn<U>,
    pub(in crate::cm) tls: Tls<U>,
    /// The Request as far as it has come, until it is reported.
    reader: Option<KBox<FrameReader>>,
    request: Option<Request>,
    /// The Request is a call of a queue pair by name.
    parked: Option<Parked<U>>,
    user: Option<Arc<U>>,
    called: Option<Arc<Pairing<U>>>,
    accepted: Option<(CmId, ConnInfo<'static>)>,
    reply_end: u64,
    /// Where the connection may linger, once its Request is rejected.
    place: Option<Refused<U>>,
}

impl<U: User> Incoming<U> {
    /// `conn`, which occupies `slot`. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(conn: &Arc<Conn<U>>, mut slot: PendingConn<U>) -> Result<KBox<Self>> {
        slot.note_silent(conn);
        let incoming = Self {
            slot,
            tls: Tls::new(conn.peer().map(Role::Server)),
            reader: None,
            request: None,
            parked: None,
            user: None,
            called: None,
            accepted: None,
            reply_end: 0,
            place: None,
        };
        Ok(KBox::new(incoming, GFP_KERNEL)?)
    }

    /// The queue pair that has the connection, once it is attached to it.
    pub(in crate::cm) fn user(&self) -> Option<&Arc<U>> {
        self.user.as_ref()
    }

    /// The same, if the Request is a call.
    pub(in crate::cm) fn called(&self) -> Option<&Arc<Pairing<U>>> {
        self.called.as_ref()
    }

    /// The identifier that accepts, and what it is told, once the peer has the Reply.
    pub(in crate::cm) fn accepted(&self) -> Option<&(CmId, ConnInfo<'static>)> {
        self.accepted.as_ref()
    }

    /// What `bytes_acked()` has reached when the peer has the Reply.
    pub(in crate::cm) fn reply_end(&self) -> u64 {
        self.reply_end
    }

    /// Whether the Request has not come, and nobody listens any more.
    pub(in crate::cm) fn is_unlistened(&self, stage: StageName) -> bool {
        use StageName::*;
        let waits = matches!(stage, AwaitOctet | AwaitTls | AwaitRequest | Parked);
        waits && self.slot.is_dead()
    }

    /// Whether the Request has come, and the peer has ended the connection. A peer that has sent
    /// its FIN does not wait for the Reply, even if there is unread data in front of the FIN.
    pub(in crate::cm) fn has_gone(&self, conn: &Conn<U>, stage: StageName, events: Events) -> bool {
        use StageName::*;
        let waits = matches!(stage, Queued | Requested | Parked);
        let closed =
            events.contains(Event::Socket) && conn.socket().state() != TcpState::Established;
        waits && (conn.error().is_some() || closed)
    }

    /// Gives back the slot. Returns whose the connection is from now on. One that is nobody's has
    /// its place to linger at, if any. Context: sleeping.
    pub(in crate::cm) fn over(mut self: KBox<Self>) -> Result<Established<U>, Option<Refused<U>>> {
        match (self.accepted.take(), self.user.take(), self.called.take()) {
            (Some((cm, _)), Some(user), _) => Ok(Established::Iwcm(cm, user)),
            // A queue pair that was called has the connection, if its Reply is sent.
            (None, Some(_), Some(called)) if self.reply_end != 0 => Ok(Established::Called(called)),
            _ => Err(self.place.take()),
        }
    }

    /// Whether a queue pair expects the call.
    pub(in crate::cm) fn is_expected(&self) -> bool {
        self.parked.as_ref().is_some_and(Parked::is_expected)
    }

    /// Whether the first byte has come, and what it says.
    pub(in crate::cm) fn peek(conn: &Conn<U>) -> Option<Input> {
        let mut byte = 0;
        match conn.socket().peek(&mut byte) {
            Ok(Received::Bytes(_)) => {}
            Ok(Received::WouldBlock) if conn.error().is_none() => return None,
            Ok(Received::WouldBlock | Received::Eof) | Err(_) => return Some(Input::HungUp),
        }
        if byte == TLS_HANDSHAKE {
            return Some(Input::TlsBegins);
        }
        if conn.settings().tls() == TlsPolicy::Require {
            conn.log_failure(format_args!("no TLS, which is required; connection reset"));
            return Some(Input::NoTls);
        }
        Some(Input::MpaBegins)
    }

    //= 5044-7.1.2-2, 5044-7.1.2-3, 5044-7.1.2-9, 5044-8-2
    /// Reads what has come of the Request. Returns what the machine is told of it.
    pub(in crate::cm) fn read_request(&mut self, conn: &Conn<U>) -> Option<Input> {
        if self.reader.is_none() {
            let reader = KBox::new(FrameReader::new(FrameKind::Request), GFP_KERNEL);
            self.reader = reader.ok();
        }
        let Some(reader) = &mut self.reader else {
            return Some(Input::Broken);
        };
        match frame::read(conn.socket(), reader) {
            Ok(Progress::Complete) => Some(self.complete(conn)),
            Ok(Progress::Pending) if conn.error().is_none() => None,
            Ok(Progress::Pending | Progress::Eof) => Some(Input::HungUp),
            Err(ReadError::Socket(e)) => {
                if conn.socket().is_secure() {
                    tls::log_broken(conn, e);
                }
                Some(Input::HungUp)
            }
            Err(ReadError::Mpa(e)) => {
                // RFC 5044 section 7.1.2: such a connection is closed without a Reply.
                conn.log_failure(format_args!("bad MPA Request: {e}; connection reset"));
                Some(Input::BadRequest)
            }
        }
    }

    //= 6581-9.1-1
    /// The Request has come.
    fn complete(&mut self, conn: &Conn<U>) -> Input {
        // A call may be given up for another one until a queue pair takes it.
        if self.slot.calls().is_none() {
            self.slot.note_request();
        }
        let Some(reader) = &self.reader else {
            return Input::BadRequest;
        };
        conn.trace_frame(false, reader.bytes());
        let frame = reader.frame();
        if conn.socket().is_secure() && frame.as_ref().is_some_and(Frame::markers) {
            conn.log_failure(format_args!(
                "MPA Request asks for markers within TLS; reset"
            ));
            return Input::BadRequest;
        }
        let Some(Ok((responder, asked))) = frame.map(|frame| Responder::request(&frame)) else {
            return Input::BadRequest;
        };
        // `ENOTCONN`: the peer has gone meanwhile.
        let (Ok(local), Ok(remote)) = (conn.socket().local_addr(), conn.socket().peer_addr())
        else {
            return Input::HungUp;
        };
        conn.note_peer(remote);
        self.request = Some(Request {
            responder,
            asked,
            local,
            remote,
            id: None,
        });
        let (port, identity) = (local.port(), conn.identity());
        if conn.settings().admits(port, identity.as_ref()) {
            return match self.slot.calls() {
                Some(_) => Input::Called,
                None => Input::RequestCame,
            };
        }
        match identity {
            Some(peer) => conn.log_refusal(format_args!(
                "\"{peer}\" is not in tls_names for port {port}; refused"
            )),
            None => conn.log_failure(format_args!(
                "no TLS, and port {port} is for tls_names only; refused"
            )),
        }
        Input::NotAdmitted
    }

    /// Has the Request wait to be reported.
    pub(in crate::cm) fn queue(&mut self, conn: &Arc<Conn<U>>) -> Option<Input> {
        let remote = self.request.as_ref()?.remote;
        self.slot.wait_for_report(conn, &remote);
        Some(if self.slot.take_turn() {
            Input::Turn
        } else {
            Input::NoTurn
        })
    }

    /// Reports the Request, whose turn it is. `None`: iwcm has no room for it, or nobody listens
    /// any more.
    pub(in crate::cm) fn report(&mut self, conn: &Arc<Conn<U>>) -> Option<()> {
        let request = self.request.as_mut()?;
        let frame = self.reader.as_ref().and_then(|reader| reader.frame());
        let private_data = frame.as_ref().map_or(&[][..], Frame::private_data);
        let info = ConnInfo {
            local: request.local,
            remote: request.remote,
            private_data: event_private_data(private_data),
            ird: event_depth(request.asked.ird),
            ord: event_depth(request.asked.ord),
        };
        request.id = Some(self.slot.report(conn, &info).ok()?);
        self.reader = None;
        Some(())
    }

    /// Tells iwcm that there is no such Request any more.
    pub(in crate::cm) fn withdraw(&self, conn: &Conn<U>) {
        // If there is no such request any more, an answer has taken it and waits for the stage.
        let id = self.request.as_ref().and_then(|request| request.id);
        if let (Some(handle), Some(id)) = (conn.dev().handle(), id) {
            drop(handle.withdraw(id));
        }
    }

    /// Has the queue pair that the consumer names take the connection.
    pub(in crate::cm) fn accept(&mut self, conn: &Arc<Conn<U>>, call: &mut Call<'_, U>) -> Told {
        let none = (Input::NotAttached, EINVAL);
        let (user, cm) = call.user.take().zip(call.cm.take()).ok_or(none)?;
        let (life, reads) = (user.life(), (call.ird, call.ord));
        let (input, info) = self.start(conn, user, life, reads, call.private_data)?;
        self.accepted = Some((cm, info));
        Ok(Some(input))
    }

    /// Looks for the queue pair that the call names, and has it take the connection.
    pub(in crate::cm) fn admit(&mut self, conn: &Arc<Conn<U>>) -> Told {
        if self.parked.is_none() {
            let frame = self.reader.as_ref().and_then(|reader| reader.frame());
            let private_data = frame.as_ref().map_or(&[][..], Frame::private_data);
            let request = self.request.as_ref().ok_or((Input::Broken, EINVAL))?;
            let parked = match self.slot.calls() {
                // An initiator of this kind always sends an RTR, so that the called end may send
                // first.
                Some(calls) if request.asked.peer_to_peer => {
                    let ends = (&request.local, &request.remote);
                    Parked::new(conn, private_data, ends, calls)
                }
                _ => Err(Refusal::NoCall),
            };
            let parked = parked.map_err(|why| (parked::refused(conn, why), EINVAL))?;
            self.parked = Some(parked);
            self.reader = None;
        }
        let none = (Input::Broken, EINVAL);
        let pairing = match self.parked.as_ref().ok_or(none)?.look() {
            Ok(Some(pairing)) => pairing,
            Ok(None) => return Ok(Some(Input::NotExpected)),
            Err(why) => return Ok(Some(parked::refused(conn, why))),
        };
        // It fails only for a socket without a route, whose peer gets nothing anyway.
        let _ = conn.socket().set_tos(pairing.way.tos);
        let (user, life) = (pairing.user.clone(), pairing.life);
        let reads = user.most_reads();
        self.called = Some(pairing);
        let (input, _) = self.start(conn, user, life, reads, &[])?;
        self.slot.note_request();
        Ok(Some(input))
    }

    /// Has the queue pair of `user` take the connection, starts it and sends the Reply. The queue
    /// pair starts first, as FPDUs may follow as soon as the peer has the Reply. Returns what the
    /// machine is told, and the consumer.
    fn start(
        &mut self,
        conn: &Arc<Conn<U>>,
        user: Arc<U>,
        life: u32,
        (ird, ord): (u32, u32),
        private_data: &[u8],
    ) -> Result<(Input, ConnInfo<'static>), (Input, Error)> {
        let none = (Input::NotAttached, EINVAL);
        let request = self.request.as_ref().ok_or(none)?;
        let attached = user.attach(conn, life);
        attached.map_err(|e| (Input::NotAttached, e))?;
        let user = self.user.insert(user);
        conn.belongs_to(user.consumer());

        let never = |e| (Input::CannotStart, e);
        let asked = &request.asked;
        let (most_ird, most_ord) = user.most_reads();
        let mut ird = bounded_ird(announced_ird(ird), most_ird);
        // Allow as many Reads as the peer asked for: it would lower its ORD to a smaller IRD (RFC
        // 6581 section 9.1), and it may need them. But allow none if the consumer wants none.
        if ird != 0 && asked.ord != NO_NEGOTIATION {
            ird = bounded_ird(ird.max(announced_ird(asked.ord.into())), most_ird);
        }
        let ord = clip(ord.min(most_ord));
        // An empty set means any RTR. With an IRD of 0 the set leaves out the Read, for which the
        // Reply would have to say 1, unless the peer can send nothing else.
        let only_read = !asked.rtr.is_empty() && asked.rtr.without(Rtr::Read).is_empty();
        let rtr = if ird == 0 && !only_read {
            RtrSet::ALL.without(Rtr::Read)
        } else {
            RtrSet::EMPTY
        };
        let answer = offer(conn, &**user, asked.revision, (ird, ord), rtr, private_data);
        let mut buf = frame::FRAME_BUF;
        let accepted = request.responder.accept(&answer, &mut buf);
        let (agreed, len) = accepted.map_err(|_| never(EINVAL))?;
        let reply = buf.get(..len).ok_or(never(EINVAL))?;
        user.established(&StreamParams::new(&agreed, false))
            .map_err(never)?;
        // The Reply is the first data that this end sends.
        self.reply_end = conn.socket().bytes_acked() + reply.len() as u64;
        frame::send_frame(conn, reply).map_err(|e| (Input::ReplyNotSent, e))?;
        let info = ConnInfo {
            local: request.local,
            remote: request.remote,
            private_data: &[],
            // iwcm's `ird`: Reads that this end may have outstanding. Its `ord`: those that the
            // peer may.
            ird: event_depth(agreed.ord),
            ord: event_depth(agreed.ird),
        };
        let input = if asked.peer_to_peer {
            Input::ReplySentForRtr
        } else {
            Input::ReplySent
        };
        Ok((input, info))
    }

    //= 5044-7.1.2-4: the implementation MUST exit MPA, leaving the TCP connection open.
    //# deviates: the connection is closed behind the Reply, as nobody but the driver has it
    /// Rejects the Request by a Reply. If too many refused peers linger, this one may miss the
    /// Reply; but it sees the reset.
    pub(in crate::cm) fn reject(&mut self, conn: &Conn<U>, call: &mut Call<'_, U>) -> Input {
        let mut buf = frame::FRAME_BUF;
        let sent = self.request.as_ref().is_some_and(|request| {
            call.fits = call.private_data.len() <= max_private_data(request.asked.revision);
            let private_data = if call.fits { call.private_data } else { &[] };
            let len = request.responder.reject(private_data, &mut buf);
            let reply = len.ok().and_then(|len| buf.get(..len));
            reply.is_some_and(|reply| frame::send_frame(conn, reply).is_ok())
        });
        if sent {
            self.place = self.slot.linger_place();
        }
        match self.place {
            Some(_) => Input::RejectionSent,
            None => Input::RejectionNotSent,
        }
    }
}
