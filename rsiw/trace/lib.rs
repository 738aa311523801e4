// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of rsiw: a function for each event of `events.h`, which tells what its fields
//! are.
//!
//! While nobody traces an event, its function is one instruction that does nothing (where the
//! kernel has jump labels). So a closure gives the fields, the device's name first; it runs only
//! while somebody traces.
//!
//! Context of all: any.

#[cfg(CONFIG_TRACEPOINTS)]
use kernel::{bindings, ffi::c_char};

/// Declares an event: the C that `events.h` makes of it, with the fields behind the device's name,
/// and its function.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $type:ty),*) = $tracepoint:ident, $call:ident;
    )*) => {
        #[cfg(CONFIG_TRACEPOINTS)]
        // A tracepoint has empty structures in it. Nothing of it is passed.
        #[allow(improper_ctypes)]
        extern "C" {
            $(
                static $tracepoint: bindings::tracepoint;
                fn $call(dev: *const c_char, dev_len: u32, $($arg: $type),*);
            )*
        }
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name<N: AsRef<[u8]>>(event: impl FnOnce() -> (N, $($type),*)) {
                #[cfg(CONFIG_TRACEPOINTS)]
                {
                    // SAFETY: The tracepoint is a static of this module, and only its address is
                    // taken.
                    let traced = unsafe {
                        kernel::jump_label::static_branch_unlikely!(
                            $tracepoint,
                            bindings::tracepoint,
                            key
                        )
                    };
                    if traced {
                        let (dev, $($arg),*) = event();
                        let dev = dev.as_ref();
                        let len = dev.len().try_into().unwrap_or(0);
                        // SAFETY: The function is that of `events.h`, with these parameters. `dev`
                        // has `len` bytes, or more. The event copies them.
                        unsafe { $call(dev.as_ptr().cast(), len, $($arg),*) };
                    }
                }
                #[cfg(not(CONFIG_TRACEPOINTS))]
                {
                    let _ = event;
                }
            }
        )*
    };
}

events! {
    /// A connection goes from one stage to another, because of `events`.
    cm_stage(conn: u64, from: u8, to: u8, events: u32) =
        __tracepoint_rsiw_cm_stage, rust_do_trace_rsiw_cm_stage;
    /// An MPA frame is sent, or has come in full.
    mpa_frame(conn: u64, out: bool, reply: bool, flags: u8, revision: u8, len: u16) =
        __tracepoint_rsiw_mpa_frame, rust_do_trace_rsiw_mpa_frame;
    /// `count` FPDUs of `len` bytes each are in the batch for TCP.
    fpdu_tx(qpn: u32, opcode: u8, len: u32, count: u32) =
        __tracepoint_rsiw_fpdu_tx, rust_do_trace_rsiw_fpdu_tx;
    /// A segment begins to be placed.
    fpdu_rx(qpn: u32, opcode: u8, stag: u32, offset: u64, len: u32, last: bool) =
        __tracepoint_rsiw_fpdu_rx, rust_do_trace_rsiw_fpdu_rx;
    /// A whole message has come.
    message_rx(qpn: u32, opcode: u8, len: u32) =
        __tracepoint_rsiw_message_rx, rust_do_trace_rsiw_message_rx;
    /// Data of the peer are refused.
    refused(qpn: u32, layer: u8, etype: u8, code: u8) =
        __tracepoint_rsiw_refused, rust_do_trace_rsiw_refused;
    /// A Terminate is sent, or has come.
    terminate(qpn: u32, out: bool, layer: u8, etype: u8, code: u8) =
        __tracepoint_rsiw_terminate, rust_do_trace_rsiw_terminate;
    /// A queue pair goes from one state to another.
    qp_state(qpn: u32, from: u8, to: u8) =
        __tracepoint_rsiw_qp_state, rust_do_trace_rsiw_qp_state;
    /// Something waits, for a [`Stall`].
    stall(qpn: u32, cause: u8) = __tracepoint_rsiw_stall, rust_do_trace_rsiw_stall;
    /// What tx does, a [`Tx`].
    tx(qpn: u32, what: u8) = __tracepoint_rsiw_tx, rust_do_trace_rsiw_tx;
}

/// Why something waits.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stall {
    /// The peer's window, or the send buffer, has no room.
    Window = 0,
    /// TCP has no memory.
    Memory = 1,
    /// As many Reads are under way as the ORD allows.
    Ord = 2,
    /// A request has a fence.
    Fence = 3,
    /// A Send has found no receive.
    NoReceive = 4,
    /// The peer has as many Reads under way as the IRD allows.
    Ird = 5,
}

/// What tx does.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tx {
    /// It is to run, in a work item.
    Wake = 0,
    /// It runs.
    Run = 1,
    /// It has nothing to do, or waits for an event.
    Sleep = 2,
    /// Its time is over; a work item goes on.
    HandOver = 3,
}
