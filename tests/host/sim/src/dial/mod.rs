// SPDX-License-Identifier: GPL-2.0

//! Attempts to connect to a listener, in virtual time: both ends are machines, and what one of them
//! does is what happens to the other, a while later, in order, perhaps in parts, or never.

mod run;
mod side;

use crate::attempt::{one, After};
use crate::Entropy;
use iwarp::conn::{Action, Input, Plan, Report, SetUp, StageName};

pub use run::{run, Outcome};
pub use side::Side;

/// Whether a listener takes TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// It does not know it.
    No,
    /// From peers that begin with it.
    Taken,
    /// From every peer.
    Required,
}

/// What a responder makes of Requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// All.
    All,
    /// It closes if large FPDUs are offered.
    NoOffers,
    /// It closes if the revision is not 1.
    Revision1,
    /// It answers each in the format of revision 1.
    OldFormat,
}

/// An attempt, and what both ends and the network do.
#[derive(Clone, Debug)]
pub struct Dial {
    /// The attempt.
    pub plan: Plan,
    /// Milliseconds from end to end.
    pub delay: i64,
    /// Messages come in two parts, the second so much later. 0: in one.
    pub parts: i64,
    /// When the listener begins to listen.
    pub listens_at: i64,
    /// The listener's TLS.
    pub tls: Tls,
    /// The responder's MPA.
    pub knows: Knows,
    /// How long each end waits for its turn to make a TLS handshake.
    pub place: i64,
    /// How long a TLS handshake takes.
    pub handshake: i64,
    /// How long a Request waits to be reported.
    pub queue: Option<i64>,
    /// The responder's consumer answers after so long.
    pub answer: After,
    /// The initiator owes an RTR.
    pub rtr: bool,
    /// From then on nothing travels any more.
    pub lost_at: i64,
    /// What the consumer or the device of an end does, and when. End 0 is the initiator.
    pub event: Option<(i64, usize, Input)>,
    /// By how much timers are late.
    pub jitter: i64,
    /// It is a call of a queue pair by name, and is made again until there is a connection.
    pub call: bool,
    /// When the connection breaks that there is then, and whether the responder hears of it before
    /// its TCP gives up.
    pub breaks: Option<(i64, bool)>,
}

impl Dial {
    /// An attempt at a listener that is there and accepts at once.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            delay: 10,
            parts: 0,
            listens_at: 0,
            tls: Tls::Taken,
            knows: Knows::All,
            place: 0,
            handshake: 5,
            queue: Some(0),
            answer: Some((0, Input::Accept)),
            rtr: true,
            lost_at: i64::MAX,
            event: None,
            jitter: 0,
            call: false,
            breaks: None,
        }
    }
}

/// What holds for each attempt, whatever its listener, the network and consumers do.
pub fn check(dial: &Dial, outcome: &Outcome) {
    let (at, report) = outcome.report.expect("the consumer is told");
    // Turns; 20 s to connect, 20 for TLS, 30 for a Reply, three times.
    assert!(
        at <= 120_000 + 3 * 70_000 + 10 * (100 + dial.jitter),
        "{outcome:?}"
    );
    let theirs = || {
        outcome
            .sides
            .iter()
            .filter_map(|(_, theirs)| theirs.as_ref())
    };
    let established = theirs().map(|side| side.count(Action::ReportEstablished));
    // An attempt whose first Request was accepted in the old format is told so by a reset.
    let most = 1 + usize::from(dial.knows == Knows::OldFormat);
    assert!(established.sum::<usize>() <= most, "{outcome:?}");
    let (last, others) = outcome.sides.split_last().expect("a connection");
    for (ours, _) in others {
        assert_eq!(ours.stage(), StageName::Retry);
    }
    for side in theirs() {
        assert_eq!(side.count(Action::FreeSlot), 1, "{outcome:?}");
        assert!(
            side.count(Action::SetUp(SetUp::ReportRequest)) <= 1,
            "{outcome:?}"
        );
        assert!(!side.stage().is_responders(), "{outcome:?}");
        let established = side.count(Action::ReportEstablished);
        let over = usize::from(!side.stage().is_owned());
        assert_eq!(side.closes().len(), established * over, "{outcome:?}");
    }
    // Both ends have it, or neither has, when all has settled.
    let ours = last.0.stage() == StageName::Streaming;
    let theirs = theirs().any(|side| side.stage() == StageName::Streaming);
    assert_eq!(ours, theirs, "{outcome:?}");
    assert!(!ours || report == Report::Connected);
    if report == Report::Connected {
        let first = last.1.iter().flat_map(|side| &side.log);
        let told = first
            .filter(|one| one.1 == Action::ReportEstablished)
            .map(|one| one.0);
        assert!(
            told.min().is_some_and(|told| told <= at),
            "first the responder: {outcome:?}"
        );
    }
}

/// What holds for each call whose connection breaks at most once: there is one connection in the
/// end, unless it broke when the caller had it already.
pub fn check_call(dial: &Dial, outcome: &Outcome) {
    let (at, report) = outcome.report.expect("a connection");
    assert_eq!(report, Report::Connected);
    let had = dial.breaks.is_some_and(|breaks| at <= breaks.0);
    let stages = outcome.sides.iter().flat_map(|(ours, theirs)| {
        let theirs = theirs.as_ref().map(Side::stage);
        [Some(ours.stage()), theirs]
    });
    let streaming = stages.filter(|stage| *stage == Some(StageName::Streaming));
    assert_eq!(streaming.count(), if had { 0 } else { 2 }, "{outcome:?}");
    // RTR_LATE, and calls that wait and come again meanwhile.
    assert!(outcome.now <= 120_000 && at <= 60_000, "{outcome:?}");
    for (_, theirs) in &outcome.sides {
        let slots = theirs.as_ref().map(|side| side.count(Action::FreeSlot));
        assert!(slots.is_none_or(|slots| slots == 1), "{outcome:?}");
    }
}

fn some(e: &mut Entropy) -> Dial {
    const PLAIN: Plan = Plan::new(2, true, false, 100);
    const SECURE: Plan = Plan::new(2, true, true, 100);
    let times = [0, 0, 1, 7, 100, 5_000, 9_995, 19_990, 29_980, 31_000];
    let plan = one(
        e,
        &[
            PLAIN,
            PLAIN,
            SECURE,
            PLAIN.exactly(),
            Plan::new(1, false, false, 0),
        ],
    );
    let events = [
        Input::Abort,
        Input::Flush,
        Input::Close,
        Input::Leave,
        Input::Unlistened,
    ];
    let answers = [Input::Accept, Input::Accept, Input::Accept, Input::Reject];
    Dial {
        delay: one(e, &[1, 10, 500, 4_000]),
        parts: one(e, &[0, 0, 1, 3_000]),
        listens_at: one(e, &[0, 0, 0, 50, 1_000]),
        tls: one(e, &[Tls::Taken, Tls::Taken, Tls::No, Tls::Required]),
        knows: one(
            e,
            &[
                Knows::All,
                Knows::All,
                Knows::NoOffers,
                Knows::Revision1,
                Knows::OldFormat,
            ],
        ),
        place: one(e, &times),
        handshake: one(e, &times),
        queue: (e.below(8) != 0).then(|| one(e, &times)),
        answer: (e.below(8) != 0).then(|| (one(e, &times), one(e, &answers))),
        rtr: e.flag(),
        lost_at: if e.below(4) == 0 {
            i64::from(e.u16())
        } else {
            i64::MAX
        },
        event: (e.below(3) == 0)
            .then(|| (i64::from(e.u16()), usize::from(e.flag()), one(e, &events))),
        jitter: i64::from(e.below(40)) - 10,
        ..Dial::new(plan)
    }
}

/// A call whose connection may break, at a listener and in a network that are not too slow for it.
fn some_call(e: &mut Entropy) -> Dial {
    const PLAIN: Plan = Plan::new(2, true, false, 100).exactly();
    const SECURE: Plan = Plan::new(2, true, true, 100).exactly();
    Dial {
        call: true,
        delay: one(e, &[1, 10, 500]),
        parts: one(e, &[0, 0, 1]),
        listens_at: one(e, &[0, 50, 1_000]),
        place: one(e, &[0, 7, 100]),
        handshake: one(e, &[0, 5, 100]),
        breaks: (e.below(4) != 0).then(|| (i64::from(e.u16() % 4_000), e.flag())),
        jitter: i64::from(e.below(40)) - 10,
        ..Dial::new(one(e, &[PLAIN, SECURE]))
    }
}

/// A random attempt.
pub fn random(e: &mut Entropy) {
    if e.below(4) == 0 {
        let dial = some_call(e);
        return check_call(&dial, &run(&dial));
    }
    let dial = some(e);
    check(&dial, &run(&dial));
}
