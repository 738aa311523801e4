// SPDX-License-Identifier: GPL-2.0
/*
 * C inlines and macros that Rust cannot call, as functions. Nothing but
 * wrappers belongs here; each is named rust_helper_ and what it wraps, and
 * Rust sees it under the latter name.
 */

#include "rdma.c"
#if __has_include("net.c")
#include "net.c"
#include "net_tx.c"
#endif
