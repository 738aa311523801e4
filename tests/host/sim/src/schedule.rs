// SPDX-License-Identifier: GPL-2.0

//! Random schedules of connections, and what holds for each.

use crate::attempt::one;
use crate::conn::{End, Net, SILENT};
use crate::Entropy;
use crate::{established::established, follow};
use iwarp::conn::{Action, First, Input, Machine, Plan, Seen, SetUp, StageName};

/// Two machines in which consumers, the network and the kernel do what they like for a while. Then
/// both ends close, and both have to end within the times that connection.md gives.
pub fn run(e: &mut Entropy) {
    let firsts = [
        [First::Ours, SILENT],
        [First::OurRtr(0), First::Rtr],
        [SILENT, First::Ours],
        [First::Rtr, First::OurRtr(0)],
    ];
    let mut net = Net::pair(one(e, &firsts));
    net.delay = one(e, &[1, 1, 30, 300]);
    for end in &mut net.ends {
        end.jitter = i64::from(e.below(40)) - 20;
    }
    for _ in 0..e.below(12) {
        let at = usize::from(e.flag());
        match e.below(14) {
            n @ 0..10 => play(&mut net, at, Event::ALL[n as usize]),
            10 => net.input(at, one(e, Input::ALL)),
            _ => net.post(at, u64::from(e.below(4000))),
        }
        net.run(one(e, &[0, 1, 100, 1000, 7000, 31_000]));
    }
    close(&mut net);
}

/// What happens at one end.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The consumer disconnects.
    Close,
    /// The consumer destroys its queue pair.
    Destroy,
    /// This end gives up.
    Abort,
    /// The queue pair finds a fault.
    Fault,
    /// The process, or the host, ends with a reset.
    Reset,
    /// The network goes, or comes back.
    Deaf,
    /// The consumer does not receive any more, or again.
    Reads,
    /// TCP has no memory any more, or again.
    NoMemory,
    /// The device is about to be removed.
    Leave,
    /// The peer's FIN cuts something short.
    Cut,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Close,
        Self::Destroy,
        Self::Abort,
        Self::Fault,
        Self::Reset,
        Self::Deaf,
        Self::Reads,
        Self::NoMemory,
        Self::Leave,
        Self::Cut,
    ];
}

/// Has something happen at an end.
pub fn play(net: &mut Net, at: usize, event: Event) {
    match event {
        Event::Close => net.input(at, Input::Close),
        Event::Destroy => net.destroy(at),
        Event::Abort => net.input(at, Input::Abort),
        Event::Fault => net.fault(at),
        Event::Reset => net.reset(at),
        Event::Deaf => net.ends[at].deaf ^= true,
        Event::Reads => net.ends[at].reads ^= true,
        Event::NoMemory => net.ends[at].no_memory ^= true,
        Event::Leave => {
            net.ends[at].leaving = true;
            net.input(at, Input::Leave);
        }
        Event::Cut => net.input(at, Input::Cut),
    }
}

/// Both ends close, and have to end in time.
pub fn close(net: &mut Net) {
    for at in 0..2 {
        net.input(at, Input::Close);
    }
    // 30 s to be drained and 10 s for the FIN, extended while data move; 65 s to linger.
    assert!(
        net.run_to_end(250_000).is_some(),
        "it does not end: {net:?}"
    );
    for end in &net.ends {
        told_in_order(end);
        assert_eq!(end.closes().len(), 1);
    }
}

/// What iwcm and the queue pair rely on.
fn told_in_order(end: &End) {
    let log: Vec<_> = end.log.iter().map(|(_, action)| *action).collect();
    let told =
        |action: &&Action| matches!(action, Action::ReportDisconnect | Action::ReportClose(_));
    let told: Vec<_> = log.iter().filter(told).collect();
    assert!(told.len() <= 2, "{told:?}");
    if told.len() == 2 {
        assert_eq!(*told[0], Action::ReportDisconnect);
        assert_ne!(*told[1], Action::ReportDisconnect);
    }
    // The queue pair loses the connection once, and is told nothing afterwards.
    let lost = |action: &Action| matches!(action, Action::Lose(_));
    assert!(log.iter().filter(|action| lost(action)).count() <= 1);
    if let Some(at) = log.iter().position(lost) {
        let asks = [
            Action::Drain,
            Action::MayStart,
            Action::RepeatRtr,
            Action::GiveStream,
        ];
        assert!(
            !log[at..].iter().any(|action| asks.contains(action)),
            "{log:?}"
        );
    }
    if let Some(at) = log.iter().position(|action| *action == Action::Detach) {
        // Nothing is sent afterwards but a reset.
        let sends = [Action::SendFin, Action::Discard];
        assert!(
            !log[at..].iter().any(|action| sends.contains(action)),
            "{log:?}"
        );
    }
}

/// What iwcm, the consumer and the listener are told of a connection, by the number of times.
#[derive(Debug, Default)]
struct Told {
    replies: u32,
    established: u32,
    answers: u32,
    slots: u32,
    disconnects: u32,
    closes: u32,
    streams: u32,
}

impl Told {
    fn add(&mut self, action: &Action) {
        let count = match action {
            Action::ReportReply(_) => &mut self.replies,
            Action::ReportEstablished => &mut self.established,
            Action::Return(_) | Action::SetUp(SetUp::Withdraw) => &mut self.answers,
            Action::FreeSlot => &mut self.slots,
            Action::ReportDisconnect => &mut self.disconnects,
            Action::ReportClose(_) => &mut self.closes,
            Action::GiveStream => &mut self.streams,
            _ => return,
        };
        *count += 1;
    }
}

/// Inputs in any order, at any times, whatever was asked: each goes by its rule, and there are at
/// most one `CONNECT_REPLY` or `ESTABLISHED`, one answer to a Request, one `DISCONNECT` and one
/// `CLOSE`.
pub fn inputs(e: &mut Entropy) {
    let firsts = [
        First::Ours,
        First::OurRtr(0),
        First::Rtr,
        First::Call(0),
        SILENT,
    ];
    let mut seen = Seen::default();
    let revision = 1 + e.u8() % 2;
    let plan = Plan::new(revision, e.flag(), e.flag(), 100);
    let mut machine = match e.below(6) {
        0 => established(one(e, &firsts), &seen).0,
        1 => Machine::await_turn(plan, &seen),
        2 => Machine::await_octet(200, &seen),
        3 => Machine::await_request(0, &seen),
        _ => Machine::connecting(plan, &seen),
    };
    let began = machine.stage();
    let (mut told, mut reported, mut called) = (Told::default(), 0, false);
    while e.is_fresh() {
        match e.below(9) {
            8 => seen.orphaned = e.flag(),
            0 => seen.peer_started = true,
            1 => seen.leaving = true,
            2 => seen.acked = seen.acked.saturating_add(u64::from(e.u8())),
            3 => seen.received = seen.received.saturating_add(u64::from(e.u8())),
            4 => seen.acked_ago = e.u32(),
            5 => seen.now += i64::from(e.u16()),
            _ => seen.now = machine.deadline().unwrap_or(seen.now),
        }
        let input = one(e, Input::ALL);
        let from = machine.stage();
        let Some(rule) = follow(&mut machine, input, &seen) else {
            continue;
        };
        rule.actions.iter().for_each(|action| told.add(action));
        reported += u32::from(rule.to == StageName::Requested && from != rule.to);
        called |= rule.to == StageName::Parked;
        let stage = machine.stage();
        let over = [StageName::Linger, StageName::Closed].contains(&stage);
        let owned = told.streams + u32::from(began.is_owned());
        assert_eq!(told.closes, u32::from(over) * owned, "{told:?}");
        let replied = over || stage != StageName::Retry && owned > 0;
        assert_eq!(told.replies, u32::from(replied && began.is_initiators()));
        let ended = began.is_responders() && !stage.is_responders();
        assert_eq!(told.slots, u32::from(ended), "{told:?}");
        assert_eq!(told.answers, u32::from(ended) * reported, "{told:?}");
        // Of a call of a queue pair by name iwcm does not know.
        let silent = told.replies.min(told.streams) + u32::from(called) * told.streams;
        assert_eq!(told.established, told.streams - silent);
        assert!(told.disconnects <= 1 && reported <= 1);
    }
}
