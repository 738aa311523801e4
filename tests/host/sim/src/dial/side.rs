// SPDX-License-Identifier: GPL-2.0

//! One end of a TCP connection, and what its driver makes of what comes.

use super::{Dial, Knows, Tls};
use crate::attempt::After;
use iwarp::conn::{Action, Input, Machine, Seen, StageName, Status};
use std::collections::VecDeque;

/// How long TCP sends again what nobody acknowledges, as with `user_timeout_ms`.
const TCP_GIVES_UP: i64 = 60_000;

/// What TCP brings, in this order for each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// TCP has connected.
    Connected,
    /// The first part of a message that comes in two.
    Part,
    /// TLS: the initiator begins, and the responder's handshake has ended.
    Hello,
    Finished,
    /// An MPA Request with this revision and offer.
    Request(u8, bool),
    /// An MPA Reply, of which this input tells.
    Reply(Input),
    /// An RTR.
    Rtr,
    Fin,
    Reset,
}

/// One end of a TCP connection.
#[derive(Clone, Debug)]
pub struct Side {
    pub(super) machine: Machine,
    pub(super) seen: Seen,
    timed_at: i64,
    /// What its own end has yet to say.
    pending: VecDeque<(i64, Input)>,
    /// What is under way to it.
    pub(super) under_way: VecDeque<(i64, Message)>,
    /// What has come, and is not read.
    pub(super) came: VecDeque<Message>,
    /// It asked for a TLS handshake.
    pub(super) securing: bool,
    pub(super) detached: bool,
    /// Its FIN or reset has gone out.
    pub(super) said_end: bool,
    pub(super) reset: bool,
    /// All actions, with their times.
    pub log: Vec<(i64, Action)>,
}

impl Side {
    pub(super) fn new(machine: Machine, now: i64) -> Self {
        Self {
            machine,
            seen: Seen {
                now,
                ..Seen::default()
            },
            timed_at: now,
            pending: VecDeque::new(),
            under_way: VecDeque::new(),
            came: VecDeque::new(),
            securing: false,
            detached: false,
            said_end: false,
            reset: false,
            log: Vec::new(),
        }
    }

    /// The stage.
    pub fn stage(&self) -> StageName {
        self.machine.stage()
    }

    /// How often this was done.
    pub fn count(&self, action: Action) -> usize {
        self.log.iter().filter(|one| one.1 == action).count()
    }

    /// The `CLOSE`s.
    pub fn closes(&self) -> Vec<Status> {
        let close = |one: &(i64, Action)| match one.1 {
            Action::ReportClose(status) => Some(status),
            _ => None,
        };
        self.log.iter().filter_map(close).collect()
    }

    pub(super) fn say(&mut self, now: i64, after: After) {
        if let Some((ms, input)) = after {
            self.pending.push_back((now + ms, input));
            self.pending.make_contiguous().sort_by_key(|one| one.0);
        }
    }

    /// TCP gets no answer to what it sends, and gives up after a while.
    pub(super) fn loses(&mut self, from: i64) {
        self.under_way
            .push_back((from + TCP_GIVES_UP, Message::Reset));
    }

    /// When something happens here next.
    pub(super) fn next_time(&self, jitter: i64) -> i64 {
        if self.detached {
            return i64::MAX;
        }
        let timer = self
            .machine
            .deadline()
            .map(|at| (at + jitter).max(self.timed_at + 1));
        let pending = self.pending.front().map(|one| one.0);
        let under_way = self.under_way.front().map(|one| one.0);
        [timer, pending, under_way]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(i64::MAX)
    }

    /// What happens here now, if anything does: TCP first, as its events wake the driver.
    pub(super) fn happens(&mut self, dial: &Dial, now: i64) -> Option<Input> {
        if self.detached {
            return None;
        }
        while self.under_way.front().is_some_and(|one| one.0 <= now) {
            self.came
                .extend(self.under_way.pop_front().map(|one| one.1));
        }
        if let Some(input) = self.hears(dial) {
            return Some(input);
        }
        if self.pending.front().is_some_and(|one| one.0 <= now) {
            return self.pending.pop_front().map(|one| one.1);
        }
        let due = self
            .machine
            .deadline()
            .is_some_and(|at| at + dial.jitter <= now);
        (due && self.timed_at < now).then(|| {
            self.timed_at = now;
            Input::Timeout
        })
    }

    /// What the driver reads of what has come, in this stage.
    fn hears(&mut self, dial: &Dial) -> Option<Input> {
        let next = *self.came.front()?;
        let ends = matches!(next, Message::Fin | Message::Reset);
        let stage = self.stage();
        let input = match (stage, next) {
            (StageName::Connecting, Message::Connected) => Input::Connected,
            (StageName::Connecting, Message::Reset) => Input::Refused,
            // These are only looked at.
            (StageName::AwaitOctet, Message::Hello) => return Some(Input::TlsBegins),
            (StageName::AwaitOctet, Message::Part | Message::Request(..)) => {
                return Some(match dial.tls {
                    Tls::Required => Input::NoTls,
                    _ => Input::MpaBegins,
                });
            }
            (StageName::AwaitRequest, Message::Hello) => Input::BadRequest,
            (StageName::AwaitRequest, Message::Request(revision, offer)) => match dial.knows {
                Knows::NoOffers if offer => Input::BadRequest,
                Knows::Revision1 if revision != 1 => Input::BadRequest,
                _ if dial.call => Input::Called,
                _ => Input::RequestCame,
            },
            // tlshd's, from the time when it is asked for a handshake on.
            (StageName::AwaitTls | StageName::Securing, _) if !self.securing => return None,
            (StageName::Securing, Message::Finished) => Input::TlsDone,
            (StageName::AwaitTls | StageName::Securing, _) if ends => Input::TlsFailed,
            (StageName::AwaitReply, Message::Reply(answer)) => answer,
            (StageName::AwaitOctet | StageName::AwaitRequest, _) if ends => Input::HungUp,
            (StageName::Queued | StageName::Requested | StageName::AwaitReply, _) if ends => {
                Input::HungUp
            }
            (StageName::Parked, _) if ends => Input::HungUp,
            (StageName::Streaming, Message::Fin) if dial.call => Input::PeerGone,
            (_, Message::Fin) => Input::PeerFin,
            (_, Message::Reset) => Input::Broken,
            (_, message) => {
                self.seen.peer_started |= message == Message::Rtr;
                self.seen.received += 1;
                self.came.pop_front();
                return self.hears(dial);
            }
        };
        self.came.pop_front();
        Some(input)
    }
}
