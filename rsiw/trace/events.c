// SPDX-License-Identifier: GPL-2.0
/* Makes the tracepoints of events.h. */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "events.h"
