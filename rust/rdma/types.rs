// SPDX-License-Identifier: GPL-2.0

//! The types of a driver's objects.
//!
//! The structures of this crate keep them for the core. [`driver`](crate::driver) says what can be
//! done with them.

/// The types of a driver's objects: what a [`Driver`](crate::Driver) keeps in each object of the
/// core.
pub trait DriverTypes: Sized + Send + Sync + 'static {
    /// The driver's part of a device.
    type Device: Send + Sync + 'static;
    /// The driver's part of a user context: one open of the device by a process.
    type Context: Send + Sync + 'static;
    /// The driver's part of a protection domain.
    type Pd: Send + Sync + 'static;
    /// The driver's part of a completion queue.
    type Cq: Send + Sync + 'static;
    /// The driver's part of a queue pair.
    type Qp: Send + Sync + 'static;
    /// The driver's part of a shared receive queue.
    type Srq: Send + Sync + 'static;
    /// The driver's part of a memory region.
    type Mr: Send + Sync + 'static;
    /// The driver's part of a connection.
    type Conn: Send + Sync + 'static;
    /// The driver's part of a listening endpoint.
    type Listener: Send + Sync + 'static;
}
