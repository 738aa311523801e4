// SPDX-License-Identifier: GPL-2.0

//! The iWARP connection manager's operations are the connection manager's own.

pub(super) use crate::cm::{accept, connect, listen, reject, unlisten};
