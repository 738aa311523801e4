// SPDX-License-Identifier: GPL-2.0

//! Connections in virtual time: what holds for any schedule.

mod config;

use config::cases;
use iwarp::conn::First;
use iwarp_sim::conn::Net;
use iwarp_sim::schedule::Event;
use iwarp_sim::{attempt, incoming, schedule, Entropy};
use proptest::collection::vec;
use proptest::prelude::*;

/// All that may happen at two ends that have data under way, three events long, at once, while
/// packets travel, and after more than any of the short waits.
#[test]
fn every_short_schedule() {
    let events = || {
        [0, 1].into_iter().flat_map(|at| {
            let pauses = move |event| [0, 1, 6_000].map(|pause| (at, event, pause));
            Event::ALL.into_iter().flat_map(pauses)
        })
    };
    let play = |net: &Net, (at, event, pause): (usize, Event, i64)| {
        let mut net = net.clone();
        schedule::play(&mut net, at, event);
        net.run(pause);
        net
    };
    let mut net = Net::pair([First::OurRtr(0), First::Rtr]);
    net.post(0, 2500);
    net.run(10);
    net.post(0, 2500);
    net.post(1, 2500);
    for one in events() {
        let first = play(&net, one);
        for two in events() {
            let second = play(&first, two);
            schedule::close(&mut second.clone());
            for three in events().filter(|event| event.2 == 1) {
                schedule::close(&mut play(&second, three));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    /// Whatever happens, iwcm is told in order; and when both ends close, both end within the times
    /// that connection.md gives.
    #[test]
    fn any_schedule(data in vec(any::<u8>(), 0..100)) {
        schedule::run(&mut Entropy::new(&data));
    }

    /// Whatever peers, processes and the device do, an attempt ends in time, with one report.
    #[test]
    fn any_attempt(data in vec(any::<u8>(), 0..200)) {
        attempt::random(&mut Entropy::new(&data));
    }

    /// Whatever peers, consumers and the device do, a listener's connection is answered in time,
    /// once.
    #[test]
    fn any_incoming(data in vec(any::<u8>(), 0..200)) {
        incoming::random(&mut Entropy::new(&data));
    }

    /// The same for inputs in any order, which no driver gives.
    #[test]
    fn any_inputs(data in vec(any::<u8>(), 0..200)) {
        schedule::inputs(&mut Entropy::new(&data));
    }
}
