// SPDX-License-Identifier: GPL-2.0
/*
 * C that Rust cannot call, as functions: inlines and macros one by one (kernel.c,
 * rdma.c), and for sockets whole steps (../ksock). Each function is named rust_helper_ and
 * a name, and Rust sees it under that name.
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
