// SPDX-License-Identifier: GPL-2.0
/*
 * C that Rust cannot call, as functions: inlines and macros one by one (kernel.c,
 * rdma.c), each named rust_helper_ and a name, under which Rust sees it. And whole
 * steps of sockets (../ksock).
 */

#include "kernel.c"
#include "rdma.c"
#if __has_include("../ksock/ksock.h")
#include "../ksock/hooks.c"
#include "../ksock/socket.c"
#include "../ksock/receive.c"
#include "../ksock/send.c"
#include "../ksock/zerocopy.c"
#include "../ksock/tls.c"
#include "../ksock/keys.c"
#endif

/* The module! macro has no version. bindgen, which also reads this file, is not told one. */
#ifdef RSIW_VERSION
#include <linux/module.h>
#include <linux/stringify.h>

MODULE_VERSION(__stringify(RSIW_VERSION));
#endif
