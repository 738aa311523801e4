// SPDX-License-Identifier: GPL-2.0

//! Drives the machine of the engine, [`iwarp::conn`], which decides what a connection does: an
//! initiator's from the beginning, a responder's from the time that a queue pair owns the stream.
//!
//! [`Run::step`] turns the events of a connection into the machine's inputs, and [`Run::execute`]
//! does what the machine decides. Nothing else does either.
//!
//! With a queue pair, an end is in this order:
//!
//! 1. The callbacks are detached, so the queue pair hears nothing more, and the registry forgets
//!    the connection ([`Conn::leave`]).
//! 2. TCP: a reset, unless TCP has ended the connection or both FINs are there.
//! 3. [`User::lost`]: all outstanding requests complete, and the queue pair drops the connection.
//! 4. `CLOSE` to iwcm, which drops its references to the queue pair and, with our [`CmId`], to the
//!    identifier. No event follows.
//! 5. The last reference, which may be one of tx's, releases the socket.
//!
//! A connection that lingers still has data to deliver. So 3 and 4 come at once: its callbacks
//! throw received data away, and it sends what the queue pair has left, and the FIN. 1 and 2 come
//! when the peer's FIN is there, or the time is over.

use super::{
    conn::{Conn, Events},
    initiator::{Attempt, Retry},
    listener::Refused,
    secure,
    stage::Stage,
    Close, User,
};
use crate::transport::Transport;
use core::format_args;
use iwarp::conn::{Action, First, Input, Machine, Report, Rule, Seen, StageName, Status};
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::{errno, Sent, TxBatch};
use rdma::CmId;

/// An established connection's consumer, by its identifier, and queue pair.
pub(super) struct Established<U: User> {
    pub(super) cm: CmId,
    pub(super) user: Arc<U>,
}

/// A connection that the machine decides on, and what its actions need.
pub(super) struct Run<U: User> {
    machine: Machine,
    /// Until `CONNECT_REPLY` is reported, which takes it.
    attempt: Option<KBox<Attempt<U>>>,
    /// The error of an action, or of a TLS handshake.
    failed: Option<Error>,
    /// Until `CLOSE` is reported, which takes it.
    established: Option<Established<U>>,
    /// What a queue pair that is gone has left to be sent.
    rest: Option<KBox<TxBatch>>,
    /// The place of a connection that a listener has refused. Dropped with the stage, which frees
    /// it.
    _place: Option<Refused<U>>,
}

impl<U: User> Run<U> {
    /// A connection of an attempt, which TCP connects already, or which waits for its turn to make
    /// a TLS handshake. Context: sleeping.
    pub(super) fn attempt(conn: &Arc<Conn<U>>, attempt: KBox<Attempt<U>>, waits: bool) -> Stage<U> {
        let (plan, seen) = (attempt.plan(), see(conn, false));
        let machine = match waits {
            true => Machine::await_turn(plan, &seen),
            false => Machine::connecting(plan, &seen),
        };
        let mut run = Self::new(machine);
        run.attempt = Some(attempt);
        run.over(conn)
    }

    /// Gives the stream to the queue pair, which is bound to the connection already. Context:
    /// sleeping.
    pub(super) fn establish(
        conn: &Arc<Conn<U>>,
        established: Established<U>,
        first: First,
    ) -> Stage<U> {
        let rtr_wait = conn.settings().initiator_wait_ms();
        let (machine, rule) = Machine::streaming(first, rtr_wait, &see(conn, false));
        let mut run = Self::new(machine);
        run.established = Some(established);
        run.begin(conn, rule)
    }

    /// Sends a FIN behind this end's last words, and waits for the peer's for a bounded time. A
    /// connection that a listener refused has a `place`. Context: sleeping.
    pub(super) fn linger(conn: &Arc<Conn<U>>, place: Option<Refused<U>>) -> Stage<U> {
        let (machine, rule) = Machine::linger(&see(conn, false));
        let mut run = Self::new(machine);
        run._place = place;
        run.begin(conn, rule)
    }

    fn new(machine: Machine) -> Self {
        Self {
            machine,
            attempt: None,
            failed: None,
            established: None,
            rest: None,
            _place: None,
        }
    }

    fn begin(mut self, conn: &Arc<Conn<U>>, rule: &Rule) -> Stage<U> {
        if let Some(answer) = self.execute(conn, rule) {
            self.handle(conn, answer);
        }
        self.over(conn)
    }

    /// The stage, by its name.
    pub(super) fn stage(&self) -> StageName {
        self.machine.stage()
    }

    /// The actor's step: gives `events` to the machine. Context: sleeping, the stage is locked.
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let lingers = self.stage() == StageName::Linger;
        let secures = self.stage() == StageName::Securing;
        // What ends an attempt is no error of the socket, but what reading finds.
        let attempts = self.attempt.is_some();
        let events = self.look(conn, events);
        let (how, eof) = (conn.how(), events.any(Events::EOF));
        // In the machine's order.
        let inputs = [
            // Once both FINs are there, nothing else matters.
            (lingers && eof, Input::PeerFin),
            (how == Some(Close::Abort), Input::Abort),
            (!attempts && conn.error().is_some(), Input::Broken),
            (events.any(Events::CUT), Input::Cut),
            (how == Some(Close::Flush), Input::Flush),
            (events.any(Events::FAULT), Input::Fault),
            (!lingers && eof, Input::PeerFin),
            (how == Some(Close::Graceful), Input::Close),
            (events.any(Events::LEAVE), Input::Leave),
            (events.any(Events::DRAINED), Input::Drained),
            (events.any(Events::SOCKET), Input::Room),
        ];
        for (_, input) in inputs.into_iter().filter(|(is, _)| *is) {
            self.handle(conn, input);
        }
        // A handshake that has ended has ended in time.
        if secures {
            self.ask(conn);
        }
        if events.any(Events::TIMEOUT) {
            self.handle(conn, Input::Timeout);
        }
        if !secures {
            self.ask(conn);
        }
        self.over(conn)
    }

    /// Looks for what an attempt waits for: no event says what has happened.
    fn ask(&mut self, conn: &Arc<Conn<U>>) {
        let stage = self.stage();
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let input = match stage {
            StageName::AwaitTurn => attempt.turn_has_come(),
            StageName::Connecting => Attempt::connected(conn),
            StageName::Securing => match attempt.tls_outcome(conn) {
                Some(Ok(())) => Some(Input::TlsDone),
                Some(Err(e)) => {
                    self.failed = Some(e);
                    Some(Input::TlsFailed)
                }
                None => None,
            },
            StageName::AwaitReply => attempt.read_reply(conn),
            _ => None,
        };
        if let Some(input) = input {
            self.handle(conn, input);
        }
    }

    /// Receives if an event does not say what has happened, and adds the events that this leads to.
    fn look(&self, conn: &Arc<Conn<U>>, events: Events) -> Events {
        let socket = events.any(Events::SOCKET);
        if self.attempt.is_some() {
            return events;
        }
        if self.stage() == StageName::Linger {
            let lives = conn.how() != Some(Close::Abort) && conn.error().is_none();
            // Otherwise the callback does it.
            if socket && lives && !conn.transport().works_in_callback() {
                conn.discard();
            }
            return events;
        }
        // Behind an error, data that came before it may still wait for a worker.
        let events = match socket || conn.error().is_some() {
            true => conn.look(events),
            false => events,
        };
        if conn.socket().is_secure() {
            if let Some(e) = conn.error() {
                secure::log_broken(conn, e);
            } else if conn.socket().key_is_used_up() {
                secure::log_broken(conn, errno::EDQUOT.error());
            } else if events.any(Events::CUT) {
                conn.log_failure(format_args!(
                    "TLS stream cut: no close_notify, or within an FPDU"
                ));
            }
        }
        events
    }

    /// Gives an input to the machine, and the answers to what it does.
    fn handle(&mut self, conn: &Arc<Conn<U>>, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            let user = self.attempt.as_ref().map(|attempt| attempt.user());
            let seen = see(conn, user.is_some_and(|user| user.is_orphaned()));
            next = self
                .machine
                .handle(input, &seen)
                .and_then(|rule| self.execute(conn, rule));
        }
    }

    /// Does what the machine has decided. Returns the answer to it, if there is any.
    fn execute(&mut self, conn: &Arc<Conn<U>>, rule: &Rule) -> Option<Input> {
        let mut answer = None;
        let user = match (&self.attempt, &self.established) {
            (Some(attempt), _) => Some(attempt.user().clone()),
            (None, Some(established)) => Some(established.user.clone()),
            (None, None) => None,
        };
        let counters = &conn.dev().counters;
        for action in rule.actions {
            match (action, &user) {
                (Action::Watch, _) => watch(conn),
                (Action::GiveStream, Some(user)) => conn.give_stream(user),
                (Action::Drain, Some(user)) => user.drain(),
                (Action::MayStart, Some(user)) => user.may_start(),
                (Action::RepeatRtr, Some(user)) => user.repeat_rtr(),
                (Action::Lose(why), Some(user)) => user.lost(*why),
                (Action::Discard, _) => conn.discard(),
                (Action::SendFin, _) => answer = Some(self.send_fin(conn)),
                (Action::Detach, _) => conn.leave(),
                (Action::Reset, _) => conn.socket().abort(),
                (Action::CountClosed, _) => counters.connections_closed.add(1),
                (Action::CountAborted, _) => counters.connections_aborted.add(1),
                (Action::ReportReply(report), _) => self.report_reply(conn, *report),
                (Action::Again(status), _) => self.failed = Some(self.error(conn, *status)),
                (Action::CountRepeated, _) => counters.connects_repeated.add(1),
                (Action::DetachForTls, _) => conn.socket().detach(),
                (
                    Action::Connect
                    | Action::FreePlace
                    | Action::StartTls
                    | Action::AttachTls
                    | Action::FailTls(_)
                    | Action::SendRequest
                    | Action::StartQueuePair
                    | Action::SendTerminate,
                    _,
                ) => answer = self.set_up(conn, action),
                (Action::ReportDisconnect, _) => self.report_disconnect(),
                (Action::ReportClose(status), _) => self.report_close(conn, *status),
                // The table has these for a connection with a queue pair only.
                (
                    Action::GiveStream
                    | Action::Drain
                    | Action::MayStart
                    | Action::RepeatRtr
                    | Action::Lose(_),
                    None,
                ) => {}
            }
        }
        answer
    }

    /// Does what the machine has decided for an attempt. Returns the answer to it, if there is any.
    fn set_up(&mut self, conn: &Arc<Conn<U>>, action: &Action) -> Option<Input> {
        if let Action::FailTls(status) = action {
            let e = self.error(conn, *status);
            if let Some(attempt) = &mut self.attempt {
                // Cancelled before the connection is reset, or the peer would wait for its time.
                attempt.end_tls();
            }
            secure::failed(conn, e);
            return None;
        }
        let attempt = self.attempt.as_mut()?;
        let (input, e) = match action {
            Action::FreePlace => {
                attempt.free_place();
                return None;
            }
            Action::StartQueuePair => return Some(attempt.start_queue_pair(conn)),
            Action::SendTerminate => return Some(attempt.send_terminate(conn)),
            Action::SendRequest => attempt.send_request(conn).err()?,
            Action::Connect => (Input::Broken, attempt.connect(conn).err()?),
            Action::StartTls => match attempt.start_tls(conn) {
                Ok(()) => return Some(Input::TlsStarted),
                Err(e) if e == EAGAIN => return Some(Input::TryAgain),
                Err(e) => (Input::TlsFailed, e),
            },
            Action::AttachTls => match secure::attach(conn) {
                Ok(()) => return Some(Input::Secured),
                Err(e) => (Input::TlsFailed, e),
            },
            _ => return None,
        };
        self.failed = Some(e);
        Some(input)
    }

    /// The stage after a step; sets the timer.
    fn over(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        match self.stage() {
            StageName::Closed => return Stage::Closed,
            StageName::Retry => {
                let why = self.error(conn, Status::OfSocket);
                return match (self.attempt.take(), self.machine.into_plan()) {
                    (Some(attempt), Some(plan)) => Stage::Retry(Retry::new(attempt, plan, why)),
                    _ => Stage::Closed,
                };
            }
            _ => {}
        }
        conn.set_deadline(self.machine.deadline());
        Stage::Run(self)
    }

    /// Sends as much of the rest as there is room for, and the FIN behind it.
    fn send_fin(&mut self, conn: &Arc<Conn<U>>) -> Input {
        if let Some(rest) = conn.take_rest() {
            self.rest = Some(rest);
        }
        if let Some(rest) = &mut self.rest {
            while !rest.is_empty() {
                match conn.socket().send_batch(rest) {
                    Ok(Sent::Bytes(n)) => rest.consume(n),
                    // TCP has no memory.
                    Ok(Sent::WouldBlock) if conn.transport().has_room() => return Input::TryAgain,
                    Ok(Sent::WouldBlock) => return Input::NoRoom,
                    Err(_) => return Input::Broken,
                }
            }
            self.rest = None;
        }
        match conn.socket().shutdown_write() {
            // There is no room for what TLS sends before it.
            Err(e) if e == EAGAIN => Input::TryAgain,
            // Other errors mean that the connection is gone, which an event of the socket reports
            // as well.
            _ => Input::FinSent,
        }
    }

    fn report_disconnect(&self) {
        if let Some(established) = &self.established {
            // iwcm has allocated memory for this beforehand. If it fails nevertheless, `CLOSE` says
            // enough.
            let _ = established.cm.disconnect();
        }
    }

    fn report_reply(&mut self, conn: &Conn<U>, report: Report) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        match report {
            Report::Connected => self.established = Some(attempt.succeed()),
            Report::Failed(status) | Report::Answered(status) => {
                attempt.fail(conn, self.error(conn, status));
            }
        }
    }

    /// The error that a status stands for.
    fn error(&self, conn: &Conn<U>, status: Status) -> Error {
        match status {
            Status::Aborted => errno::ECONNABORTED.error(),
            Status::Ok | Status::Reset => errno::ECONNRESET.error(),
            Status::TimedOut => errno::ETIMEDOUT.error(),
            Status::Refused => errno::ECONNREFUSED.error(),
            Status::Protocol => errno::EPROTO.error(),
            Status::Access => EACCES,
            Status::OfTls => match self.failed {
                Some(e) if e == errno::ECONNABORTED || e == errno::ETIMEDOUT => e,
                _ => EACCES,
            },
            Status::OfSocket => self
                .failed
                .or(conn.error())
                .unwrap_or_else(|| errno::ECONNRESET.error()),
        }
    }

    fn report_close(&mut self, conn: &Conn<U>, status: Status) {
        let Some(Established { cm, .. }) = self.established.take() else {
            return;
        };
        let status = match status {
            Status::Ok => Ok(()),
            status => Err(self.error(conn, status)),
        };
        if cm.close(status).is_err() {
            pr_warn_once!("iwcm did not take a CLOSE\n");
        }
    }
}

/// What the machine decides by. Context: sleeping.
fn see<U: User>(conn: &Conn<U>, orphaned: bool) -> Seen {
    let socket = conn.socket();
    let (acked, acked_ago) = {
        // TCP updates the counter first and the time later; the lock keeps both in step.
        let _sk = socket.lock();
        (socket.bytes_acked(), socket.last_ack_ms())
    };
    Seen {
        now: conn.age(),
        acked,
        acked_ago,
        received: socket.bytes_received(),
        peer_started: conn.peer_started(),
        leaving: conn.registry.is_leaving(),
        orphaned,
    }
}

/// Has TCP check that the peer is still there: after a time without anything from it, and while
/// sent data is not acknowledged. Otherwise a peer that has crashed, or that no packet reaches,
/// would keep the queue pair for ever, or for the quarter of an hour that TCP retransmits. A peer
/// that is gone shows as an error of the socket. Context: sleeping.
fn watch<U: User>(conn: &Arc<Conn<U>>) {
    let socket = conn.socket();
    let timeout = conn.settings().user_timeout_ms();
    if timeout != 0 {
        socket.set_user_timeout(timeout);
    }
    if let Some((idle, interval, count)) = conn.settings().keepalive() {
        // It fails only for values out of range, which these are not.
        let _ = socket.set_keepalive(idle, interval, count);
    }
}
