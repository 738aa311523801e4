// SPDX-License-Identifier: GPL-2.0

//! An attempt to connect: what the machine has done for it, and what it is told of it.

use crate::cm::{
    consumer::Established,
    frame,
    frame::{Progress, ReadError},
    offer::{announced_ird, bounded_ird, clip, event_depth, event_private_data, limits, offer},
    rc::Endpoint,
    sockets::Origin,
    tls,
    tls::{Tls, TlsTurn},
    Conn, StreamParams, Told, User,
};
use core::{
    format_args,
    net::{IpAddr, SocketAddr},
};
use iwarp::{
    conn::{Answer, Input, Plan},
    mpa::{Frame, FrameKind, FrameReader, Initiator, MpaError, Offer, RtrSet},
    TermCode,
};
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::{errno, Role, TcpState};
use rdma::{CmId, ConnInfo};

/// Who has asked for a connection, and hears of it.
pub(in crate::cm) enum Caller<U: User> {
    /// A consumer of iwcm.
    Iwcm(CmId),
    /// The queue pair itself.
    Rc(Arc<Endpoint<U>>),
}

/// Where the connections of an attempt come from, and where they go.
pub(in crate::cm) struct Route {
    pub(in crate::cm) origin: Origin,
    pub(in crate::cm) remote: SocketAddr,
    /// The peer that the consumer has named, and that TLS has to find. The port mapper may have
    /// told of another `remote`, and any process may be the port mapper.
    pub(in crate::cm) server: IpAddr,
}

/// The consumer's parameters of one `connect`, and what its connection needs until it is
/// established.
pub(in crate::cm) struct Attempt<U: User> {
    pub(super) caller: Caller<U>,
    pub(super) user: Arc<U>,
    /// The user's life when the consumer asked for the connection.
    pub(super) life: u32,
    pub(super) route: Route,
    private_data: KVec<u8>,
    ird: u16,
    ord: u16,
    /// What the next connection asks for, and the time that it has.
    pub(super) plan: Plan,
    pub(in crate::cm) tls: Tls<U>,
    /// The Request that was sent, and the Reply as far as it has come.
    asked: Option<(Initiator, KBox<FrameReader>)>,
    /// What the Reply says.
    answer: Option<Answer>,
}

impl<U: User> Attempt<U> {
    /// An attempt of `user` that goes by `plan`; `ird` and `ord` are what its consumer wants.
    /// Errors: `ENOMEM`.
    pub(in crate::cm) fn new(
        caller: Caller<U>,
        (user, life): (Arc<U>, u32),
        route: Route,
        (ird, ord): (u32, u32),
        private_data: &[u8],
        plan: Plan,
    ) -> Result<KBox<Self>> {
        let mut copy = KVec::new();
        copy.extend_from_slice(private_data, GFP_KERNEL)?;
        let (most_ird, most_ord) = user.most_reads();
        let attempt = Self {
            caller,
            user,
            life,
            tls: Tls::new(Some(Role::Client(route.server))),
            route,
            private_data: copy,
            ird: bounded_ird(announced_ird(ird), most_ird),
            ord: clip(ord.min(most_ord)),
            plan,
            asked: None,
            answer: None,
        };
        Ok(KBox::new(attempt, GFP_KERNEL)?)
    }

    /// The queue pair.
    pub(in crate::cm) fn user(&self) -> &Arc<U> {
        &self.user
    }

    /// Has the next connection go by `plan`. What was of the one before is over.
    pub(in crate::cm) fn begin_again(&mut self, plan: Plan) {
        self.plan = plan;
        self.tls = Tls::new(Some(Role::Client(self.route.server)));
        (self.asked, self.answer) = (None, None);
    }

    /// Begins with `conn`, to `remote`: has TCP connect, unless the attempt has to wait for its
    /// turn to make a TLS handshake. Errors: TCP's; `ENOMEM`.
    pub(super) fn begin(&mut self, conn: &Conn<U>, remote: &SocketAddr) -> Result<TlsTurn> {
        if self.plan.secure {
            let turn = self.tls.wait(conn)?;
            // The handshakes end in any order.
            conn.needs_no_order();
            if let TlsTurn::Waits = turn {
                return Ok(turn);
            }
        }
        conn.socket().connect(remote)?;
        Ok(TlsTurn::Come)
    }

    /// Has TCP connect: it is the attempt's turn.
    pub(in crate::cm) fn connect(conn: &Conn<U>) -> Told {
        let peer = conn.peer().ok_or_else(|| errno::ENOTCONN.error());
        match peer.and_then(|peer| conn.socket().connect(&peer)) {
            Ok(_) => Ok(None),
            Err(e) => Err((Input::Broken, e)),
        }
    }

    /// Whether TCP has connected, or has failed to.
    pub(in crate::cm) fn connected(conn: &Conn<U>) -> Option<Input> {
        match conn.socket().state() {
            TcpState::SynSent | TcpState::SynReceived => None,
            TcpState::Established | TcpState::CloseWait => Some(Input::Connected),
            _ => match conn.error() {
                Some(e) if e != errno::ECONNREFUSED => Some(Input::Broken),
                _ => Some(Input::Refused),
            },
        }
    }

    //= 6581-10-3
    /// Sends the MPA Request: TCP has connected, and TLS is on if the attempt wants it. Context:
    /// sleeping.
    pub(in crate::cm) fn send_request(&mut self, conn: &Conn<U>) -> Told {
        match self.try_request(conn) {
            Ok(asked) => {
                self.asked = Some(asked);
                Ok(None)
            }
            // A responder that does not accept this end has gone already.
            Err(e) if self.plan.secure && (e == EPIPE || e == errno::ECONNRESET) => {
                tls::log_gone(conn, e);
                Err((Input::HungUp, e))
            }
            Err(e) => Err((Input::Broken, e)),
        }
    }

    fn try_request(&self, conn: &Conn<U>) -> Result<(Initiator, KBox<FrameReader>)> {
        let reader = KBox::new(FrameReader::new(FrameKind::Reply), GFP_KERNEL)?;
        let revision = self.plan.revision;
        let wanted = conn.settings().peer_to_peer() || self.plan.exact;
        let rtr = if wanted && revision >= 2 {
            RtrSet::ALL
        } else {
            RtrSet::EMPTY
        };
        let offer = Offer {
            large_fpdu: self.plan.large_fpdu,
            ..offer(
                conn,
                &*self.user,
                revision,
                (self.ird, self.ord),
                rtr,
                &self.private_data,
            )
        };
        let mut buf = frame::FRAME_BUF;
        let (mpa, len) = Initiator::request(&offer, &mut buf).map_err(|_| EINVAL)?;
        frame::send_frame(conn, buf.get(..len).ok_or(EINVAL)?)?;
        Ok((mpa, reader))
    }

    //= 5044-7.1.2-6, 5044-7.1.2-9, 5044-8-2
    /// Reads what has come of the Reply. Returns what the machine is told of it. Context: sleeping.
    pub(in crate::cm) fn read_reply(&mut self, conn: &Conn<U>) -> Option<Input> {
        let (_, reader) = self.asked.as_mut()?;
        let why = match frame::read(conn.socket(), reader) {
            Ok(Progress::Complete) => return Some(self.judge(conn)),
            Ok(Progress::Pending) if conn.error().is_none() => return None,
            Ok(Progress::Pending | Progress::Eof) => None,
            Err(ReadError::Socket(e)) => Some(e),
            Err(ReadError::Mpa(e)) => {
                conn.log_failure(format_args!("bad MPA Reply: {e}; connection given up"));
                return Some(Input::BadReply);
            }
        };
        if self.plan.secure {
            match why {
                Some(e) => tls::log_gone(conn, e),
                None => conn.log_failure(format_args!(
                    "TLS: the peer ends the connection, error {}",
                    conn.error()
                        .unwrap_or_else(|| errno::ECONNRESET.error())
                        .to_errno()
                )),
            }
        }
        Some(Input::HungUp)
    }

    /// The Reply has come.
    fn judge(&mut self, conn: &Conn<U>) -> Input {
        let Some((mpa, reader)) = &self.asked else {
            return Input::BadReply;
        };
        conn.trace_frame(false, reader.bytes());
        let Some(reply) = reader.frame() else {
            return Input::BadReply;
        };
        let limits = limits(self.user.most_reads(), self.ird, self.ord);
        let mut answer = Answer::of(&reply, *mpa, &self.plan, limits);
        match &mut answer {
            // The peer's ORD may have raised the IRD to a number that is no power of two.
            Answer::Accepts(agreed) => agreed.ird = announced_ird(agreed.ird.into()),
            Answer::Bad(e) => {
                conn.log_failure(format_args!("bad MPA Reply: {e}; connection given up"));
            }
            Answer::NotWithinTls => {
                let what = if reply.markers() {
                    "markers"
                } else {
                    "revision 1"
                };
                conn.log_failure(format_args!(
                    "bad MPA Reply: {what} within TLS; connection given up"
                ));
            }
            _ => {}
        }
        self.answer.insert(answer).input()
    }

    //= 6581-9.3-1
    /// Starts the queue pair on the terms that were agreed on. Context: sleeping.
    pub(in crate::cm) fn start_queue_pair(&self, conn: &Conn<U>) -> Input {
        let params = match &self.answer {
            Some(Answer::Accepts(agreed)) => StreamParams::new(agreed, true),
            _ if self.plan.to_itself => self.own_terms(conn),
            _ => return Input::CannotStart,
        };
        match self.user.established(&params) {
            Ok(()) => match params.rtr {
                Some(_) => Input::StartedWithRtr,
                None => Input::Started,
            },
            Err(e) => {
                let errno = e.to_errno();
                conn.log_failure(format_args!(
                    "cannot start the queue pair: error {errno}; connection terminated"
                ));
                Input::CannotStart
            }
        }
    }

    /// The terms of a queue pair that is its own peer.
    fn own_terms(&self, conn: &Conn<U>) -> StreamParams {
        StreamParams {
            crc: conn.settings().crc_required(),
            tx_markers: false,
            ird: self.ird,
            ord: self.ird,
            large_fpdu: self.plan.large_fpdu,
            send_immediate: self.user.is_extended(),
            initiator: true,
            rtr: None,
            peer_rtr: RtrSet::EMPTY,
        }
    }

    //= 6581-9.1-5, 6581-9.2-8
    /// Sends a Terminate to a peer that has accepted on terms that this end cannot meet (RFC 6581
    /// section 9). Context: sleeping.
    pub(in crate::cm) fn send_terminate(&self, conn: &Conn<U>) -> Input {
        let (code, crc, tx_markers) = match self.answer {
            Some(Answer::Incompatible(MpaError::Incompatible {
                code,
                crc,
                tx_markers,
            })) => (code, crc, tx_markers),
            Some(Answer::Accepts(agreed)) => (
                TermCode::MPA_LOCAL_CATASTROPHIC,
                agreed.crc,
                agreed.tx_markers,
            ),
            _ => return Input::TerminateNotSent,
        };
        match frame::send_terminate(conn, code, crc, tx_markers) {
            Ok(()) => {
                conn.dev().terminates_sent.count(code);
                Input::TerminateSent
            }
            Err(_) => Input::TerminateNotSent,
        }
    }

    //= 6581-9.1-1, 6581-9.1-7
    /// Reports the one `CONNECT_REPLY` of an attempt that has led to a connection.
    pub(in crate::cm) fn succeed(self: KBox<Self>) -> Established<U> {
        let reply = self.reply();
        let private_data = reply.as_ref().map_or(&[][..], Frame::private_data);
        let (ird, ord) = match &self.answer {
            // iwcm's `ird`: Reads that this end may have outstanding. Its `ord`: those that the
            // peer may.
            Some(Answer::Accepts(agreed)) => (event_depth(agreed.ord), event_depth(agreed.ird)),
            _ => (0, 0),
        };
        let user = self.user.clone();
        match &self.caller {
            Caller::Iwcm(cm) => {
                self.report(cm, Ok(()), private_data, ird, ord);
                Established::Iwcm(cm.clone(), user)
            }
            Caller::Rc(_) => Established::Caller(user),
        }
    }

    //= 6581-9.1-7
    /// Reports the one `CONNECT_REPLY` of an attempt that fails with `status`, and counts it.
    pub(in crate::cm) fn fail(self: KBox<Self>, conn: &Arc<Conn<U>>, status: Error) {
        // What the peer has said is the consumer's, unless this end is the reason.
        let reply = match self.answer {
            Some(Answer::Rejects | Answer::Incompatible(_)) => self.reply(),
            _ => None,
        };
        let counters = &conn.dev().counters;
        let refused = status == errno::ECONNREFUSED;
        let count = if refused && reply.is_some() {
            &counters.connects_rejected
        } else if refused {
            &counters.connects_refused
        } else if status == errno::ETIMEDOUT {
            &counters.connects_timed_out
        } else {
            &counters.connects_failed
        };
        count.add(1);
        let cm = match &self.caller {
            Caller::Iwcm(cm) => cm,
            Caller::Rc(endpoint) => return endpoint.failed(conn),
        };
        let private_data = reply.as_ref().map_or(&[][..], Frame::private_data);
        let enhanced = reply.as_ref().and_then(Frame::enhanced);
        let (ird, ord) = enhanced.map_or((0, 0), |e| (e.ird, e.ord));
        self.report(
            cm,
            Err(status),
            private_data,
            event_depth(ird),
            event_depth(ord),
        );
    }

    /// The Reply, once it has come.
    fn reply(&self) -> Option<Frame<'_>> {
        let (_, reader) = self.asked.as_ref()?;
        reader.frame()
    }

    fn report(&self, cm: &CmId, status: Result, private_data: &[u8], ird: u8, ord: u8) {
        let mut info = ConnInfo {
            local: self.route.origin.local,
            remote: self.route.remote,
            private_data: event_private_data(private_data),
            ird,
            ord,
        };
        if cm.connect_reply(status, &info).is_err() {
            // iwcm has no memory for a copy of the private data. The event itself needs none, and
            // without it the consumer would wait for ever.
            info.private_data = &[];
            if cm.connect_reply(status, &info).is_err() {
                pr_warn_once!("iwcm did not take a CONNECT_REPLY\n");
            }
        }
    }
}
