// SPDX-License-Identifier: GPL-2.0

//! The test cases that host and kernel share.

#[path = "../suites/mod.rs"]
mod suites;
