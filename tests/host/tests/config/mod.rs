// SPDX-License-Identifier: GPL-2.0

//! How many cases a property is tried on, and which.

use proptest::{prelude::ProptestConfig, test_runner::RngSeed};

/// Runs this number of cases, or that of the environment (PROPTEST_CASES). proptest prints the
/// smallest input that fails. It saves no file of seeds, because such an input belongs in a test of
/// its own. The seed is fixed, so that each run has the same cases.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let config = ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases, ..config },
    }
}
