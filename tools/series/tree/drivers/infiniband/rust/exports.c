// @@01@@
// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the crates; see rust/exports.c. That the type is wrong
 * does not matter: C code does not use these symbols.
 */

#include <linux/export.h>
// @@01-01@@
#include <linux/module.h>
// @@01@@

#include "exports_generated.h"
// @@01-01@@

MODULE_DESCRIPTION("Rust abstractions for RDMA drivers");
MODULE_LICENSE("GPL");
