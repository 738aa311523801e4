// SPDX-License-Identifier: GPL-2.0
/*
 * C that Rust cannot call, as functions: inlines and macros one by one, and for
 * sockets (net.c, net_tx.c) whole steps. Each function is named rust_helper_
 * and a name, and Rust sees it under that name.
 */

#include "rdma.c"
#if __has_include("net.c")
#include "net.c"
#include "net_tx.c"
#endif
