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
	write read inline zero-length send-invalidate send-invalidate-shared sge-send sge-segments-write long-1
	list fence-send reads-3 both-ways
	# Memory, and what is refused.
	mr-iova mr-flags mr-zero-based rereg-memory rereg-domain dmabuf deregister-busy
	write-bad-stag read-no-right told-of-write local-read-no-write local-send-key
	# Receives and completions.
	receive-one-too-long receive-no-queue late-receive late-shared late-destroy srq-last-wqe srq-limit
	cq-solicited cq-overflow-receive cq-error-event-solicited moderate resize-busy
	# Queue pairs.
	qp-flush qp-post-in-error qp-error-both qp-destroy-early modify-setup modify-ended
	reset-unconnected reset-shared-queue abandon threads
	# Connections, and their ends.
	reject server-first listen-wildcard disconnect-from-reads disconnect-both disconnect-then-post
	fault-behind-fin killed destroy-while-disconnecting
)

load_on_lo || exit 1
[ -n "${FEW:-}" ] || verbs "$LO" -q -x "*/reverse"
names=$(IFS=,; echo "${few[*]}")
[ "$(rsiw-verbs list -t "$names" | wc -l)" = ${#few[@]} ] || { echo "not all of these tests exist: $names"; exit 1; }
verbs "$LO" -t "$names"
