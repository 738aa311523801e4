#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# waits: yes
# timeout: 120
#
# rdma-core's own tests (pyverbs). "expected" tells what each of them does on an
# iWARP device of the siw provider, and why, where it does not pass.

. /tests/lib.sh

load_driver || exit 1
# It speaks KTAP itself. 29 is what siw reaches.
exec python3 -B /tests/pyverbs/run.py --device "$DEV" --expected /tests/pyverbs/expected \
	--least 29 --limit "$(limit 25)" --traces "$RSIW_OUT/traces" \
	test_{device,pd,cq,cq_events,mr,addr,qp,srq,rdmacm,fork,cqex,qpex,parent_domain} \
	test_{shared_pd,relaxed_ordering,odp,atomic}
