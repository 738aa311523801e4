// SPDX-License-Identifier: GPL-2.0

//! Drives the machine of the engine, [`iwarp::conn`], which decides what a connection does: from
//! the time that a queue pair owns the stream, to the end.
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
    listener::Refused,
    secure,
    stage::Stage,
    Close, User,
};
use crate::transport::Transport;
use core::format_args;
use iwarp::conn::{Action, First, Input, Machine, Rule, Seen, StageName, Status};
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
    /// Until `CLOSE` is reported, which takes it.
    established: Option<Established<U>>,
    /// What a queue pair that is gone has left to be sent.
    rest: Option<KBox<TxBatch>>,
    /// The place of a connection that a listener has refused. Dropped with the stage, which frees
    /// it.
    _place: Option<Refused<U>>,
}

impl<U: User> Run<U> {
    /// Gives the stream to the queue pair, which is bound to the connection already. Context:
    /// sleeping.
    pub(super) fn establish(
        conn: &Arc<Conn<U>>,
        established: Established<U>,
        first: First,
    ) -> Stage<U> {
        let rtr_wait = conn.settings().initiator_wait_ms();
        let begun = Machine::streaming(first, rtr_wait, &see(conn));
        Self::begin(conn, begun, Some(established), None)
    }

    /// Sends a FIN behind this end's last words, and waits for the peer's for a bounded time. A
    /// connection that a listener refused has a `place`. Context: sleeping.
    pub(super) fn linger(conn: &Arc<Conn<U>>, place: Option<Refused<U>>) -> Stage<U> {
        Self::begin(conn, Machine::linger(&see(conn)), None, place)
    }

    fn begin(
        conn: &Arc<Conn<U>>,
        (machine, rule): (Machine, &Rule),
        established: Option<Established<U>>,
        place: Option<Refused<U>>,
    ) -> Stage<U> {
        let mut run = Self {
            machine,
            established,
            rest: None,
            _place: place,
        };
        if let Some(answer) = run.execute(conn, rule) {
            run.handle(conn, answer);
        }
        run.over(conn)
    }

    /// The stage, by its name.
    pub(super) fn stage(&self) -> StageName {
        self.machine.stage()
    }

    /// The actor's step: gives `events` to the machine. Context: sleeping, the stage is locked.
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let lingers = self.stage() == StageName::Linger;
        let events = self.look(conn, events);
        let (how, eof) = (conn.how(), events.any(Events::EOF));
        // In the machine's order.
        let inputs = [
            // Once both FINs are there, nothing else matters.
            (lingers && eof, Input::PeerFin),
            (how == Some(Close::Abort), Input::Abort),
            (conn.error().is_some(), Input::Broken),
            (events.any(Events::CUT), Input::Cut),
            (how == Some(Close::Flush), Input::Flush),
            (events.any(Events::FAULT), Input::Fault),
            (!lingers && eof, Input::PeerFin),
            (how == Some(Close::Graceful), Input::Close),
            (events.any(Events::LEAVE), Input::Leave),
            (events.any(Events::DRAINED), Input::Drained),
            (events.any(Events::SOCKET), Input::Room),
            (events.any(Events::TIMEOUT), Input::Timeout),
        ];
        for (_, input) in inputs.into_iter().filter(|(is, _)| *is) {
            self.handle(conn, input);
        }
        self.over(conn)
    }

    /// Receives if an event does not say what has happened, and adds the events that this leads to.
    fn look(&self, conn: &Arc<Conn<U>>, events: Events) -> Events {
        let socket = events.any(Events::SOCKET);
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
            next = self
                .machine
                .handle(input, &see(conn))
                .and_then(|rule| self.execute(conn, rule));
        }
    }

    /// Does what the machine has decided. Returns the answer to it, if there is any.
    fn execute(&mut self, conn: &Arc<Conn<U>>, rule: &Rule) -> Option<Input> {
        let mut answer = None;
        let user = self.established.as_ref().map(|one| one.user.clone());
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
                (Action::ReportDisconnect, _) => self.report_disconnect(),
                (Action::ReportClose(status), _) => self.report_close(conn, *status),
                // The table has these for an established connection only.
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

    /// The stage after a step; sets the timer.
    fn over(self, conn: &Arc<Conn<U>>) -> Stage<U> {
        if self.stage() == StageName::Closed {
            return Stage::Closed;
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

    fn report_close(&mut self, conn: &Conn<U>, status: Status) {
        let Some(Established { cm, .. }) = self.established.take() else {
            return;
        };
        let reset = || errno::ECONNRESET.error();
        let status = match status {
            Status::Ok => Ok(()),
            Status::Aborted => Err(errno::ECONNABORTED.error()),
            Status::Reset => Err(reset()),
            Status::TimedOut => Err(errno::ETIMEDOUT.error()),
            Status::OfSocket => Err(conn.error().unwrap_or_else(reset)),
        };
        if cm.close(status).is_err() {
            pr_warn_once!("iwcm did not take a CLOSE\n");
        }
    }
}

/// What the machine decides by. Context: sleeping.
fn see<U: User>(conn: &Conn<U>) -> Seen {
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
