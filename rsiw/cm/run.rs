// SPDX-License-Identifier: GPL-2.0

//! Drives the machine of the engine, [`iwarp::conn`], which decides what a connection does.
//!
//! [`Run::step`] turns the events of a connection into the machine's inputs, and [`Run::execute`]
//! does what the machine decides. Nothing else does either.
//!
//! With a queue pair, an end is in this order:
//!
//! 1. The callbacks are detached, so the queue pair hears nothing more, and the registry forgets
//!    the connection ([`Conn::leave`]).
//! 2. TCP: a reset, unless TCP has ended the connection or both FINs are there.
//! 3. [`User::lost`]: all outstanding requests complete (after [`Lost::Call`] none does), and the
//!    queue pair drops the connection.
//! 4. `CLOSE` to iwcm, which drops its references to the queue pair and, with our [`CmId`], to the
//!    identifier. No event follows.
//! 5. The last reference, which may be one of tx's, releases the socket.
//!
//! A connection that lingers still has data to deliver. So 3 and 4 come at once: its callbacks
//! throw received data away, and it sends what the queue pair has left, and the FIN. 1 and 2 come
//! when the peer's FIN is there, or the time is over.

use super::{
    conn::Conn,
    consumer::Call,
    events::{Event, Events},
    initiator::attempt::Attempt,
    party::Party,
    responder::incoming::Incoming,
    tls, Close, Told, User,
};
use crate::transport::Transport;
use core::format_args;
use iwarp::conn::{Action, Input, Lost, Machine, Report, Rule, Seen, SetUp, StageName, Status};
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::{errno, Sent, TxBatch};
use rdma::CmId;

/// A connection that the machine decides on, and what its actions need.
pub(super) struct Run<U: User> {
    machine: Machine,
    party: Party<U>,
    /// The error of an action, or of a TLS handshake.
    failed: Option<Error>,
    /// What a queue pair that is gone has left to be sent.
    rest: Option<KBox<TxBatch>>,
    /// What the step under way was woken by; for tracepoints.
    events: Events,
}

impl<U: User> Run<U> {
    /// A connection of `party`, with the machine that `first` makes. Context: sleeping.
    pub(super) fn new(
        conn: &Arc<Conn<U>>,
        party: Party<U>,
        first: impl FnOnce(&Seen) -> Machine,
    ) -> Self {
        let machine = first(&see(conn, &party));
        conn.trace_stage(StageName::New, machine.stage(), Events::empty());
        conn.set_deadline(machine.deadline());
        Self {
            machine,
            party,
            failed: None,
            rest: None,
            events: Events::empty(),
        }
    }

    /// The stage, by its name.
    pub(super) fn stage(&self) -> StageName {
        self.machine.stage()
    }

    /// The actor's step: gives `events` to the machine. Context: sleeping, the stage is locked.
    pub(super) fn step(&mut self, conn: &Arc<Conn<U>>, events: Events) {
        let stage = self.stage();
        let lingers = stage == StageName::Linger;
        let secures = matches!(stage, StageName::Securing | StageName::AwaitTls);
        let sets_up = stage.is_initiators() || stage.is_responders();
        let events = self.look(conn, events);
        self.events = events;
        let (how, eof) = (conn.requested_close(), events.contains(Event::Eof));
        let fin = match &self.party {
            Party::Established(established) if established.cm().is_none() => Input::PeerGone,
            _ => Input::PeerFin,
        };
        let (unlistened, gone) = match &self.party {
            Party::Incoming(incoming) => (
                incoming.is_unlistened(stage),
                incoming.has_gone(conn, stage, events),
            ),
            _ => (false, false),
        };
        // In the machine's order.
        let inputs = [
            // Once both FINs are there, nothing else matters.
            (lingers && eof, Input::PeerFin),
            (how == Some(Close::Abort), Input::Abort),
            // What ends a setup is no error of the socket, but what reading finds.
            (!sets_up && conn.error().is_some(), Input::Broken),
            (events.contains(Event::Cut), Input::Cut),
            (how == Some(Close::Flush), Input::Flush),
            (events.contains(Event::Fault), Input::Fault),
            (!lingers && eof, fin),
            (how == Some(Close::Graceful), Input::Close),
            (events.contains(Event::Leave), Input::Leave),
            (events.contains(Event::Drained), Input::Drained),
            (events.contains(Event::Socket), Input::Room),
            (gone, Input::HungUp),
            (unlistened, Input::Unlistened),
        ];
        for (_, input) in inputs.into_iter().filter(|(is, _)| *is) {
            self.handle(conn, input);
        }
        // A handshake that has ended has ended in time.
        if secures {
            self.ask(conn);
        }
        if events.contains(Event::Timeout) {
            self.handle(conn, Input::Timeout);
        }
        if !secures {
            self.ask(conn);
        }
        // Not a connection whose Request has come meanwhile.
        if events.contains(Event::GiveWay) {
            self.handle(conn, Input::GiveWay);
        }
        conn.set_deadline(self.machine.deadline());
    }

    /// The consumer's answer to a Request: gives `input`, in place of the actor. Context: sleeping,
    /// the stage is locked.
    pub(super) fn answer(&mut self, conn: &Arc<Conn<U>>, input: Input, call: &mut Call<'_, U>) {
        if let (Party::Incoming(incoming), Input::Accept) = (&mut self.party, input) {
            incoming.slot.note_accept();
        }
        self.events = Events::empty();
        self.handle_for(conn, input, call);
        conn.set_deadline(self.machine.deadline());
    }

    /// Looks for what a setup waits for: no event says what has happened.
    fn ask(&mut self, conn: &Arc<Conn<U>>) {
        use StageName::*;
        let told = match (self.stage(), &mut self.party) {
            (Connecting, Party::Attempt(_)) => Ok(Attempt::connected(conn)),
            (AwaitReply, Party::Attempt(attempt)) => Ok(attempt.read_reply(conn)),
            (AwaitOctet, Party::Incoming(_)) => Ok(Incoming::peek(conn)),
            (AwaitRequest, Party::Incoming(incoming)) => Ok(incoming.read_request(conn)),
            (Queued, Party::Incoming(incoming)) => {
                Ok(incoming.slot.take_turn().then_some(Input::Turn))
            }
            (Parked, Party::Incoming(incoming)) => {
                Ok(incoming.is_expected().then_some(Input::Turn))
            }
            (AwaitTlsSlot | Securing | AwaitTls, party) => {
                party.tls().map_or(Ok(None), |tls| tls.ask(conn))
            }
            _ => Ok(None),
        };
        if let Some(input) = self.told(told) {
            self.handle(conn, input);
        }
    }

    fn told(&mut self, told: Told) -> Option<Input> {
        told.unwrap_or_else(|(input, e)| {
            self.failed = Some(e);
            Some(input)
        })
    }

    /// Receives if an event does not say what has happened, and adds the events that this leads to.
    fn look(&self, conn: &Arc<Conn<U>>, events: Events) -> Events {
        let socket = events.contains(Event::Socket);
        if let Party::Attempt(_) | Party::Incoming(_) = self.party {
            return events;
        }
        if self.stage() == StageName::Linger {
            let lives = conn.requested_close() != Some(Close::Abort) && conn.error().is_none();
            // Otherwise the callback does it.
            if socket && lives && !conn.transport().works_in_callback() {
                conn.discard();
            }
            return events;
        }
        // Behind an error, data that came before it may still wait for a worker.
        let events = if socket || conn.error().is_some() {
            conn.look(events)
        } else {
            events
        };
        if conn.socket().is_secure() {
            if let Some(e) = conn.error() {
                tls::log_broken(conn, e);
            } else if conn.socket().key_is_used_up() {
                tls::log_broken(conn, errno::EDQUOT.error());
            } else if events.contains(Event::Cut) {
                conn.log_failure(format_args!(
                    "TLS stream cut: no close_notify, or within an FPDU"
                ));
            }
        }
        events
    }

    /// Gives an input to the machine, and the answers to what it does.
    fn handle(&mut self, conn: &Arc<Conn<U>>, input: Input) {
        self.handle_for(conn, input, &mut Call::nobodys());
    }

    fn handle_for(&mut self, conn: &Arc<Conn<U>>, input: Input, call: &mut Call<'_, U>) {
        let mut next = Some(input);
        while let Some(input) = next {
            let seen = see(conn, &self.party);
            let from = self.stage();
            let rule = self.machine.handle(input, &seen);
            // Before what it asks for, which may lead on.
            conn.trace_stage(from, self.stage(), self.events);
            next = rule.and_then(|rule| self.execute(conn, rule, call));
        }
    }

    /// Does what the machine has decided. Returns the answer to it, if there is any.
    fn execute(
        &mut self,
        conn: &Arc<Conn<U>>,
        rule: &Rule,
        call: &mut Call<'_, U>,
    ) -> Option<Input> {
        let mut answer = None;
        let user = self.party.user().cloned();
        let counters = &conn.dev().counters;
        for action in rule.actions {
            match (action, &user) {
                (Action::SetUp(action), _) => {
                    answer = self.set_up(conn, *action, call).or(answer);
                }
                (Action::DetachForTls, _) => conn.socket().detach(),
                (Action::LeaveOrder, _) => conn.needs_no_order(),
                (Action::LookAgain, _) => conn.look_for_end(),
                (Action::Watch, _) => watch(conn),
                (Action::GiveStream, Some(user)) => conn.give_stream(user),
                (Action::Drain, Some(user)) => {
                    answer = user.drain().then_some(Input::Drained).or(answer);
                }
                (Action::MayStart, Some(user)) => user.may_start(),
                (Action::RepeatRtr, Some(user)) => user.repeat_rtr(),
                (Action::Lose(why), Some(user)) => {
                    user.lost(*why);
                    if let (Lost::Call, Some(called)) = (why, self.party.called()) {
                        called.expects(|serial| conn.registry.give_turn(serial));
                    }
                }
                (Action::Discard, _) => conn.discard(),
                (Action::SendFin, _) => answer = Some(self.send_fin(conn)),
                (Action::Detach, _) => conn.leave(),
                (Action::Reset, _) => conn.socket().abort(),
                (Action::FreeSlot, _) => self.free_slot(),
                (Action::CountClosed, _) => counters.connections_closed.add(1),
                (Action::CountAborted, _) => counters.connections_aborted.add(1),
                (Action::CountRepeated, _) => counters.connects_repeated.add(1),
                (Action::CountRequest, _) => counters.requests.add(1),
                (Action::CountRejected, _) => counters.requests_rejected.add(1),
                (Action::CountDropped, _) => counters.requests_dropped.add(1),
                (Action::ReportReply(report), _) => self.report_reply(conn, *report),
                (Action::ReportEstablished, _) => self.report_established(),
                (Action::Again(status), _) => self.failed = Some(self.error(conn, *status)),
                (Action::Return(status), _) => call.result = self.result(conn, *status),
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

    /// Does what the machine has decided for a setup. Returns the answer to it, if there is any.
    fn set_up(
        &mut self,
        conn: &Arc<Conn<U>>,
        action: SetUp,
        call: &mut Call<'_, U>,
    ) -> Option<Input> {
        let told = match (action, &mut self.party) {
            (SetUp::Connect, Party::Attempt(_)) => Attempt::connect(conn),
            (SetUp::SendRequest, Party::Attempt(attempt)) => attempt.send_request(conn),
            (SetUp::StartQueuePair, Party::Attempt(attempt)) => {
                Ok(Some(attempt.start_queue_pair(conn)))
            }
            (SetUp::SendTerminate, Party::Attempt(attempt)) => {
                Ok(Some(attempt.send_terminate(conn)))
            }
            (SetUp::ReadRequest, Party::Incoming(incoming)) => Ok(incoming.read_request(conn)),
            (SetUp::Queue, Party::Incoming(incoming)) => Ok(incoming.queue(conn)),
            (SetUp::MakeRoom, Party::Incoming(incoming)) => {
                incoming.slot.make_room();
                Ok(None)
            }
            (SetUp::ReportRequest, Party::Incoming(incoming)) => {
                Ok(Some(match incoming.report(conn) {
                    Some(()) => Input::Reported,
                    None => Input::NotReported,
                }))
            }
            (SetUp::Withdraw, Party::Incoming(incoming)) => {
                incoming.withdraw(conn);
                Ok(None)
            }
            (SetUp::Accept, Party::Incoming(incoming)) => incoming.accept(conn, call),
            (SetUp::Admit, Party::Incoming(incoming)) => incoming.admit(conn),
            (SetUp::SendRejection, Party::Incoming(incoming)) => {
                Ok(Some(incoming.reject(conn, call)))
            }
            (SetUp::FailTls(status), _) => {
                let e = self.error(conn, status);
                // Cancelled before the connection is reset, or the peer would wait for its time.
                if let Some(tls) = self.party.tls() {
                    tls.fail(conn, e);
                }
                Ok(None)
            }
            // TLS, at either end. The table gives no end the other's actions.
            (action, party) => party.tls().map_or(Ok(None), |tls| tls.set_up(conn, action)),
        };
        self.told(told)
    }

    /// Gives back the slot of a listener.
    fn free_slot(&mut self) {
        self.party = match self.party.take() {
            Party::Incoming(incoming) => match incoming.over() {
                Ok(established) => Party::Established(established),
                Err(_place) => Party::Nobody { _place },
            },
            other => other,
        };
    }

    /// The attempt, which goes on with another connection; and why this one is over.
    pub(super) fn into_retry(self, conn: &Conn<U>) -> Option<(KBox<Attempt<U>>, Error)> {
        let why = self.error(conn, Status::OfSocket);
        match (self.party, self.machine.into_plan()) {
            (Party::Attempt(mut attempt), Some(plan)) => {
                attempt.begin_again(plan);
                Some((attempt, why))
            }
            _ => None,
        }
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

    //= 5041-3-10, 5041-3-11
    fn report_disconnect(&self) {
        if let Party::Established(established) = &self.party {
            // iwcm has allocated memory for this beforehand. If it fails nevertheless, `CLOSE` says
            // enough.
            let _ = established.cm().map(CmId::disconnect);
        }
    }

    fn report_reply(&mut self, conn: &Arc<Conn<U>>, report: Report) {
        let Party::Attempt(attempt) = self.party.take() else {
            return;
        };
        match report {
            Report::Connected => self.party = Party::Established(attempt.succeed()),
            Report::Failed(status) | Report::Answered(status) => {
                attempt.fail(conn, self.error(conn, status));
            }
        }
    }

    fn report_established(&self) {
        let Party::Incoming(incoming) = &self.party else {
            return;
        };
        // The stage is locked, so no other event is reported before this one.
        if let Some((cm, info)) = incoming.accepted() {
            if cm.established(info).is_err() {
                pr_warn_once!("iwcm did not take an ESTABLISHED\n");
            }
        }
    }

    fn result(&self, conn: &Conn<U>, status: Status) -> Result {
        match status {
            Status::Ok => Ok(()),
            status => Err(self.error(conn, status)),
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
        let Party::Established(established) = self.party.take() else {
            return;
        };
        let status = self.result(conn, status);
        if established.cm().is_some_and(|cm| cm.close(status).is_err()) {
            pr_warn_once!("iwcm did not take a CLOSE\n");
        }
    }
}

/// What the machine decides by. Context: sleeping.
fn see<U: User>(conn: &Conn<U>, party: &Party<U>) -> Seen {
    let socket = conn.socket();
    let (acked, acked_ago) = match party {
        Party::Established(_) => {
            // TCP updates the counter first and the time later; the lock keeps both in step.
            let _sk = socket.lock();
            (socket.bytes_acked(), socket.last_ack_ms())
        }
        // Only an established connection asks for the time.
        _ => (socket.bytes_acked(), 0),
    };
    Seen {
        now: conn.age(),
        acked,
        acked_ago,
        received: socket.bytes_received(),
        peer_started: conn.peer_started(),
        leaving: conn.registry.is_leaving(),
        orphaned: match party {
            Party::Attempt(attempt) => attempt.user().is_orphaned(),
            _ => false,
        },
        reply_end: match party {
            Party::Incoming(incoming) => incoming.reply_end(),
            _ => 0,
        },
    }
}

/// Has TCP check that the peer is still there: after a time without anything from it, and while
/// sent data is not acknowledged. Otherwise a peer that has crashed, or that no packet reaches,
/// would keep the queue pair for ever, or for the quarter of an hour that TCP retransmits. A peer
/// that is gone shows as an error of the socket. Context: sleeping.
fn watch<U: User>(conn: &Arc<Conn<U>>) {
    let socket = conn.socket();
    let timeout = conn.settings().user_timeout_ms();
    // Where programs connect queue pairs, a closed window is no fault: the stream looks itself.
    if timeout != 0 && !conn.dev().is_rc() {
        socket.set_user_timeout(timeout);
    }
    if let Some((idle, interval, count)) = conn.settings().keepalive() {
        // It fails only for values out of range, which these are not.
        let _ = socket.set_keepalive(idle, interval, count);
    }
}
