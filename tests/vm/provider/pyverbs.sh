#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
#
# rdma-core's own tests (pyverbs) with rsiw's provider, on a link whose queue pairs programs connect. The file
# "expected" has the result of each, and the reason if that is not a pass.

. /tests/lib.sh
. /tests/rc/lib

need_provider
rc_up || exit 1
huge_pages 16
expected=/tests/provider/expected
if [ ! -e /proc/sys/vm/nr_hugepages ]; then
	# As on the debug kernel.
	none="this kernel has no huge pages"
	{
		sed -E "s/^(\S+huge\S+) (pass|skip .*)/\1 skip $none/" "$expected"
		echo "because $none | Huge pages of size 2M is not supported in this platform"
	} >"$WORK/expected"
	expected=$WORK/expected
fi
_planned=by-the-program
# run.py prints the KTAP itself.
python3 -B /tests/pyverbs/run.py --device rc0 --gid "$(gid_index "$ADDR")" --expected "$expected" \
	--least 68 --limit "$(limit 25)" --traces "$RSIW_OUT/traces" \
	test_{device,pd,cq,cq_events,mr,addr,qp,srq,fork,cqex,qpex,parent_domain} \
	test_{shared_pd,relaxed_ordering,odp,atomic}
status=$?
huge_pages 0
exit "$status"
