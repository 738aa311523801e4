// SPDX-License-Identifier: GPL-2.0

//! Raw bindings of what the `kernel` crate's own bindings lack: the RDMA core, sockets, network
//! devices and the C helpers of this module.
//!
//! Everything that the `kernel` crate binds is re-exported, so that a C type has one Rust type.
//! Where that crate only declares a structure, the definition here shadows the declaration.
//!
//! Only the crates `kext`, `net` and `rdma` may use this one.

#![allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

#[allow(dead_code)]
#[allow(clippy::as_underscore)]
#[allow(clippy::cast_lossless)]
#[allow(clippy::ptr_as_ptr)]
#[allow(clippy::ref_as_ptr)]
#[allow(clippy::undocumented_unsafe_blocks)]
#[cfg_attr(not(CONFIG_RUSTC_HAS_UNNECESSARY_TRANSMUTES), allow(unknown_lints))]
#[allow(unnecessary_transmutes)]
mod raw {
    // Items that are generated below shadow those of this glob.
    pub use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    // SAFETY: `__BindgenBitfieldUnit<Storage>` is a newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("RDMA_BINDINGS"), "/bindings_generated.rs"));
}

#[allow(dead_code)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod helpers {
    use super::raw::*;
    use kernel::ffi;

    include!(concat!(env!("RDMA_BINDINGS"), "/helpers_generated.rs"));
}

pub use helpers::*;
pub use raw::*;

/// C's `struct sockaddr_storage`, which is a macro there.
pub type sockaddr_storage = __kernel_sockaddr_storage;
