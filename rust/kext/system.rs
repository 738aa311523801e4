// SPDX-License-Identifier: GPL-2.0

//! Clocks, processors, the context of the caller, and random numbers.

use rdma_bindings as bindings;

/// Whether this is process context (`in_task()`): not an interrupt, softirq or NMI. Locks and
/// preemption are not considered.
pub fn in_task() -> bool {
    // SAFETY: The function only reads the state of the CPU.
    unsafe { bindings::in_task() }
}

/// A random number that cannot be guessed (`get_random_u32()`). Context: any.
pub fn random_u32() -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::get_random_u32() }
}

/// As [`random_u32`], of 64 bits.
pub fn random_u64() -> u64 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::get_random_u64() }
}

/// Milliseconds of the kernel's tick counter (`jiffies`), with a tick's precision. The number
/// wraps. Context: any.
pub fn jiffies_ms() -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::jiffies_ms() }
}

/// Nanoseconds of the monotonic clock (`ktime_get()`). Context: any.
pub fn monotonic_ns() -> u64 {
    // SAFETY: The function has no requirements.
    let ns = unsafe { bindings::ktime_get() };
    // CAST: The clock begins at 0 and only goes forward.
    ns as u64
}

/// Whether this CPU has no other task to run than the caller (`single_task_running()`). Context:
/// a task that stays on this CPU; a task that does not gets a hint.
pub fn is_only_task() -> bool {
    // SAFETY: The function only reads the state of the CPU.
    unsafe { bindings::single_task_running() }
}

/// The number of CPUs that are online (`num_online_cpus()`).
pub fn online_cpus() -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::num_online_cpus() }
}
