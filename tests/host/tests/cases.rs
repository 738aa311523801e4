// SPDX-License-Identifier: GPL-2.0

//! The cases that host and kernel have in common.

#[path = "../suites/mod.rs"]
mod suites;
