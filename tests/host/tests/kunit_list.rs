// SPDX-License-Identifier: GPL-2.0

//! The kernel runs every case that the host runs.

const SUITES: [(&str, &str); 14] = [
    ("golden", include_str!("../suites/golden.rs")),
    ("rules_mpa", include_str!("../suites/rules_mpa.rs")),
    ("rules_ddp", include_str!("../suites/rules_ddp.rs")),
    ("rules_rdmap", include_str!("../suites/rules_rdmap.rs")),
    (
        "rules_extensions",
        include_str!("../suites/rules_extensions.rs"),
    ),
    (
        "rules_immediate",
        include_str!("../suites/rules_immediate.rs"),
    ),
    ("rules_atomic", include_str!("../suites/rules_atomic.rs")),
    ("terminate", include_str!("../suites/terminate.rs")),
    ("setup_frame", include_str!("../suites/setup_frame.rs")),
    ("setup", include_str!("../suites/setup.rs")),
    ("connecting", include_str!("../suites/connecting.rs")),
    ("answering", include_str!("../suites/answering.rs")),
    ("naming", include_str!("../suites/naming.rs")),
    ("ending", include_str!("../suites/ending.rs")),
];

#[test]
fn kunit_is_built() {
    let kbuild = include_str!("../../../Kbuild");
    assert!(kbuild.contains("\nrsiw-y += tests/kunit/iwarp.o\n"));
}

#[test]
fn kunit_has_every_case() {
    let kunit = include_str!("../../kunit/iwarp.rs");
    for (suite, text) in SUITES {
        let (_, list) = text.split_once("cases! {").expect("list of cases");
        let (list, _) = list.split_once('}').expect("end of list");
        for case in list.split_whitespace() {
            let call = format!("suites::{suite}::{case}()");
            assert!(
                kunit.contains(&call),
                "missing in tests/kunit/iwarp.rs: {call}"
            );
        }
        // The suite's own list has every case, too.
        for line in text.lines() {
            let case = line
                .strip_prefix("pub(crate) fn ")
                .and_then(|l| l.strip_suffix("() -> Outcome {"));
            if let Some(case) = case {
                let listed = list.split_whitespace().any(|c| c == case);
                assert!(listed, "not in the list of {suite}: {case}");
            }
        }
    }
}
