#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# kernel: debug
#
# The quick verbs tests over lo, each in one direction only: for the debug kernel, where all tests would take too
# long. FEW=1: one or two of them for each part of the driver, and of these the fastest, for the gate.

. /tests/lib.sh
. /tests/verbs/lib

few=(
	# Operations, and their order.
	write read inline zero-length send-invalidate sge-send sge-segments-write long-1 list
	# Memory, and what is refused.
	mr-flags rereg-memory rereg-domain dmabuf deregister-busy write-bad-stag local-read-no-write
	# Receives and completions.
	late-receive late-shared late-destroy srq-last-wqe cq-overflow-receive cq-error-event-solicited resize-busy
	# Queue pairs.
	qp-post-in-error qp-error-both reset-unconnected threads
	# Connections, and their ends.
	server-first fault-behind-fin killed
)

load_on_lo || exit 1
[ -n "${FEW:-}" ] || verbs "$LO" -q -x "*/reverse"
names=$(IFS=,; echo "${few[*]}")
[ "$(rsiw-verbs list -t "$names" | wc -l)" = ${#few[@]} ] || { echo "not all of these tests exist: $names"; exit 1; }
verbs "$LO" -t "$names"
