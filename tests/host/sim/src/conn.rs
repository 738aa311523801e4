// SPDX-License-Identifier: GPL-2.0

//! Connections in virtual time: machines of [`iwarp::conn`] with stand-ins for their queue pairs,
//! over a network that delays, loses and breaks.
//!
//! A [`Net`] has two [`End`]s. One without a machine is a peer that a test plays by hand. TCP is a
//! count of bytes: what an end has queued, what has arrived, what was read, what is acknowledged.

mod end;

use crate::{established::established, follow};
use iwarp::conn::{Action, First, Input, Machine, Reply, Rule, StageName};
use std::mem::take;

/// Bytes that an end may have under way.
const WINDOW: u64 = 1000;
/// Bytes that TCP takes of an end and has not sent.
const BUFFER: u64 = 3000;
/// Milliseconds after which TCP sends again.
const REPEAT: i64 = 200;
/// Bytes of a Terminate.
const TERMINATE: u64 = 28;

/// A responder that sends if the peer is silent for 1.5 s behind the Reply, which is a byte here.
pub const SILENT: First = First::Theirs {
    wait: 1500,
    reply: Reply::Sent(1),
};

/// What travels.
#[derive(Clone, Copy, Debug)]
enum Packet {
    /// Bytes up to this one, and whether the FIN is behind them.
    Data(u64, bool),
    /// Bytes up to this one (with the FIN, which counts as one) have arrived, and there is room up
    /// to the second one.
    Ack(u64, u64),
    /// A reset.
    Reset,
}

/// One end of a connection.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// The machine, unless a test plays this end.
    pub machine: Option<Machine>,
    /// All actions, with their times.
    pub log: Vec<(i64, Action)>,
    /// The rules that the machine has gone by.
    pub rules: Vec<&'static Rule>,

    /// Bytes that TCP was given.
    queued: u64,
    fin: bool,
    /// Bytes that were sent at least once, and when.
    sent: u64,
    sent_fin: bool,
    sent_at: i64,
    /// Bytes, and the FIN, that the other end has acknowledged, and when.
    acked: u64,
    acked_at: i64,
    /// The other end has room up to this byte.
    room: u64,
    /// Bytes that have arrived, and that were read.
    arrived: u64,
    arrived_fin: bool,
    /// Bytes that were read.
    pub read: u64,
    /// The FIN was read.
    pub eof: bool,
    /// TCP has broken the connection.
    pub broken: bool,
    /// The socket is closed, or as good as.
    gone: bool,

    /// It reads what comes.
    pub reads: bool,
    /// No packet reaches it, or leaves it.
    pub deaf: bool,
    /// TCP has no memory to send a FIN.
    pub no_memory: bool,
    /// Bytes that the consumer has posted.
    pub posted: u64,
    /// The queue pair may send.
    may_send: bool,
    /// The queue pair is to say when it has sent all.
    drains: bool,
    /// The queue pair is gone.
    lost: bool,
    /// A Terminate is to be sent.
    terminate: bool,
    /// What the queue pair has left in the middle of a batch.
    rest: u64,
    /// The device is being removed.
    pub leaving: bool,
    /// The timer runs out up to this many milliseconds too early or too late.
    pub jitter: i64,
    timed_at: i64,
    pending: Vec<Input>,
}

/// Two ends, and what travels between them.
#[derive(Clone, Debug)]
pub struct Net {
    /// Milliseconds.
    pub now: i64,
    /// How long a packet travels.
    pub delay: i64,
    /// The ends.
    pub ends: [End; 2],
    packets: Vec<(i64, usize, Packet)>,
}

impl Net {
    /// A connection of two machines, which may send first as told.
    pub fn pair(first: [First; 2]) -> Self {
        let mut net = Self::empty();
        for (at, first) in first.into_iter().enumerate() {
            net.establish(at, first);
        }
        net
    }

    /// A connection of a machine, which is end 0, and a peer by hand.
    pub fn peer(first: First) -> Self {
        let mut net = Self::empty();
        net.ends[1].may_send = true;
        net.establish(0, first);
        net
    }

    fn empty() -> Self {
        let end = || End {
            room: WINDOW,
            reads: true,
            ..End::default()
        };
        Self {
            now: 0,
            delay: 1,
            ends: [end(), end()],
            packets: Vec::new(),
        }
    }

    fn establish(&mut self, at: usize, first: First) {
        let end = &mut self.ends[at];
        end.may_send = matches!(first, First::Ours | First::OurRtr(_));
        if let First::Theirs { .. } = first {
            // The Reply is under way.
            end.queued = 1;
        }
        let (machine, rule) = established(first, &end.see(self.now));
        end.machine = Some(machine);
        self.execute(at, rule);
    }

    /// The name of an end's stage.
    pub fn stage(&self, at: usize) -> StageName {
        let machine = self.ends[at].machine.as_ref();
        machine.map_or(StageName::Closed, Machine::stage)
    }

    /// Whether no machine is left.
    pub fn is_over(&self) -> bool {
        self.stage(0) == StageName::Closed && self.stage(1) == StageName::Closed
    }

    /// The consumer of an end posts bytes; a peer by hand sends them.
    pub fn post(&mut self, at: usize, bytes: u64) {
        self.ends[at].posted += bytes;
    }

    /// A peer by hand sends a FIN behind what it has posted.
    pub fn fin(&mut self, at: usize) {
        let end = &mut self.ends[at];
        end.queued += end.posted;
        (end.posted, end.fin) = (0, true);
    }

    /// An end sends a reset, and forgets the connection.
    pub fn reset(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if !end.gone && !end.broken {
            end.gone = true;
            if !end.deaf {
                self.packets
                    .push((self.now + self.delay, 1 - at, Packet::Reset));
            }
        }
    }

    /// The queue pair of an end finds a fault.
    pub fn fault(&mut self, at: usize) {
        if !self.ends[at].lost {
            self.ends[at].terminate = true;
            self.input(at, Input::Fault);
        }
    }

    /// The consumer of an end destroys its queue pair, in the middle of a batch perhaps.
    pub fn destroy(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if !end.lost {
            (end.rest, end.posted) = (end.posted.min(500), 0);
            self.input(at, Input::Flush);
        }
    }

    /// Gives an input to a machine.
    pub fn input(&mut self, at: usize, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let end = &mut self.ends[at];
            let seen = end.see(self.now);
            let Some(machine) = &mut end.machine else {
                return;
            };
            let Some(rule) = follow(machine, input, &seen) else {
                break;
            };
            next = self.execute(at, rule);
        }
        let end = &mut self.ends[at];
        let stage = end.machine.as_ref().map(Machine::stage);
        let waits = end.machine.as_ref().and_then(Machine::deadline).is_some();
        // No stage is without a way out, but for that of a consumer who owns the stream.
        match stage {
            Some(StageName::Draining | StageName::FinSent | StageName::Linger) => assert!(waits),
            Some(StageName::Closed) => assert!(!waits),
            _ => {}
        }
    }

    fn execute(&mut self, at: usize, rule: &'static Rule) -> Option<Input> {
        let mut answer = None;
        self.ends[at].rules.push(rule);
        for action in rule.actions {
            let end = &mut self.ends[at];
            end.log.push((self.now, *action));
            match action {
                Action::Drain => end.drains = true,
                Action::MayStart => end.may_send = true,
                Action::RepeatRtr => end.posted += 1,
                Action::SendFin => answer = Some(end.send_fin()),
                Action::Lose(_) => {
                    (end.lost, end.terminate, end.drains) = (true, false, false);
                    end.posted = 0;
                }
                Action::Reset => self.reset(at),
                Action::Detach
                | Action::Watch
                | Action::GiveStream
                | Action::Discard
                | Action::CountClosed
                | Action::CountAborted
                | Action::ReportReply(_)
                | Action::ReportEstablished
                | Action::FreeSlot
                | Action::Return(_)
                | Action::ReportDisconnect
                | Action::ReportClose(_) => {}
                // A setup's: see `attempt` and `incoming`.
                _ => unreachable!("{action:?}"),
            }
        }
        answer
    }

    /// Lets time pass, and all happen that happens meanwhile.
    pub fn run(&mut self, ms: i64) {
        let end = self.now + ms;
        self.happen();
        while self.now < end {
            let next = self.next_time().clamp(self.now + 1, end);
            self.now = next;
            self.happen();
        }
    }

    /// Lets time pass until no machine is left. Returns how long that took, if it was no more than
    /// `ms`.
    pub fn run_to_end(&mut self, ms: i64) -> Option<i64> {
        let began = self.now;
        self.happen();
        while !self.is_over() {
            if self.now - began > ms {
                return None;
            }
            self.now = self.next_time().clamp(self.now + 1, began + ms + 1);
            self.happen();
        }
        Some(self.now - began)
    }

    /// When something happens next.
    fn next_time(&self) -> i64 {
        let packets = self.packets.iter().map(|(time, ..)| *time);
        let timers = self.ends.iter().filter_map(|end| {
            let deadline = end.machine.as_ref()?.deadline()?;
            Some(deadline + end.jitter)
        });
        let repeats = self
            .ends
            .iter()
            .filter(|end| end.has_unacked())
            .map(|end| end.sent_at + REPEAT);
        let next = packets.chain(timers).chain(repeats).min();
        next.unwrap_or(i64::MAX)
    }

    /// All that happens now.
    fn happen(&mut self) {
        let now = self.now;
        for rounds in 0.. {
            assert!(rounds < 1000, "it does not end: {self:?}");
            let due = |packet: &(i64, usize, Packet)| packet.0 <= now;
            let arrived: Vec<_> = self.packets.iter().copied().filter(due).collect();
            self.packets.retain(|packet| packet.0 > now);
            let mut quiet = arrived.is_empty();
            for (_, to, packet) in arrived {
                if !self.ends[to].deaf {
                    self.arrive(to, packet);
                }
            }
            for at in 0..2 {
                self.advance(at);
                for input in take(&mut self.ends[at].pending) {
                    quiet = false;
                    self.input(at, input);
                }
                let end = &self.ends[at];
                let deadline = end.machine.as_ref().and_then(Machine::deadline);
                let due = deadline.is_some_and(|deadline| deadline + end.jitter <= now);
                // A timer that is set again takes some time, however early it is.
                if due && end.timed_at < now {
                    quiet = false;
                    self.ends[at].timed_at = now;
                    self.input(at, Input::Timeout);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn arrive(&mut self, to: usize, packet: Packet) {
        let end = &mut self.ends[to];
        if end.gone {
            // TCP answers what comes for a socket that is not there any more.
            if let Packet::Data(..) = packet {
                self.packets
                    .push((self.now + self.delay, 1 - to, Packet::Reset));
            }
            return;
        }
        if end.broken {
            return;
        }
        match packet {
            Packet::Data(upto, fin) => {
                end.arrived = end.arrived.max(upto.min(end.read + WINDOW));
                end.arrived_fin |= fin && end.arrived == upto;
                end.take();
                let ack = end.ack();
                self.send(to, ack);
            }
            Packet::Ack(upto, room) => {
                if upto > end.acked {
                    (end.acked, end.acked_at) = (upto, self.now);
                }
                let more = room > end.room;
                end.room = end.room.max(room);
                if more {
                    end.pending.push(Input::Room);
                }
            }
            Packet::Reset => {
                end.broken = true;
                end.pending.push(Input::Broken);
            }
        }
    }

    fn send(&mut self, from: usize, packet: Packet) {
        if !self.ends[from].deaf {
            self.packets.push((self.now + self.delay, 1 - from, packet));
        }
    }

    /// An end reads, posts to TCP, and TCP sends.
    fn advance(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if end.gone || end.broken {
            return;
        }
        let before = end.read;
        end.take();
        let window = (end.read > before).then(|| end.ack());
        end.post();
        let data = end.transmit(self.now);
        for packet in window.into_iter().chain(data) {
            self.send(at, packet);
        }
    }
}
