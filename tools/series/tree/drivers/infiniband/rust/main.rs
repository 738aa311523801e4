// @@02@@
// SPDX-License-Identifier: GPL-2.0

//! The module that the crates are in.

use kernel::prelude::*;
use kext::Core;

module! {
    type: Crates,
    name: "rust_rdma",
    authors: ["The rsiw developers"],
    description: "Rust abstractions for RDMA drivers",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

/// Keeps the crates' own state while no driver does: their KUnit suites need it.
struct Crates {
    _core: Core,
}

impl kernel::Module for Crates {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _core: Core::new()?,
        })
    }
}
