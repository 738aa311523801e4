#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
#
# rdma-core's own tests (pyverbs). The file "expected" has the result of each on an iWARP
# device with the siw provider, and the reason if that is not a pass.

. /tests/lib.sh

load_driver || exit 1
# run.py prints the KTAP itself. With siw 29 tests pass.
exec python3 -B /tests/pyverbs/run.py --device "$DEV" --expected /tests/pyverbs/expected \
	--least 29 --limit "$(limit 25)" --traces "$RSIW_OUT/traces" \
	test_{device,pd,cq,cq_events,mr,addr,qp,srq,rdmacm,fork,cqex,qpex,parent_domain} \
	test_{shared_pd,relaxed_ordering,odp,atomic}
