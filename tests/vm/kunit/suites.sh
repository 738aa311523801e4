#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
# kernel: debug
# pairs: rsiw*
#
# The module's KUnit suites, which run as it is loaded: each test of each
# suite is one result here.

. /tests/lib.sh

filter=/sys/module/kunit/parameters/filter_glob
[ -e "$filter" ] || { echo "this kernel has no KUnit"; exit 2; }
expected() {
	if grep -qx "$1" <<<"$suites"; then ok "there is $1"; else not_ok "there is $1"; fi
}
before=$(ls /sys/kernel/debug/kunit)
# Without a newline, which would be part of the pattern.
printf '*' >"$filter"
load_module "$RSIW_DRIVER" || exit 1
printf none.none >"$filter"

suites=$(ls /sys/kernel/debug/kunit)
suites=$(comm -13 <(sort <<<"$before") <(sort <<<"$suites"))
echo "KTAP version 1"
# One that is not built runs no test, which nothing else would tell.
for suite in golden rules_mpa rules_ddp rules_rdmap terminate setup_frame setup; do
	expected "rsiw_iwarp_$suite"
done
for suite in rdma_ring rdma_idtable rdma_claim rsiw_net rsiw_net_pool; do
	expected "$suite"
done
for suite in $suites; do
	results=/sys/kernel/debug/kunit/$suite/results
	sed 's/^/# /' "$results"
	# Lines of the suite's own tests are indented once.
	while read -r line; do
		name=${line#*ok * }
		case $line in
		*'# SKIP'*) skip "$suite.${name%% #*}" "${line##*SKIP}" ;;
		ok\ *) ok "$suite.$name" ;;
		*) not_ok "$suite.$name" ;;
		esac
	done < <(grep -E '^    (not )?ok [0-9]+ ' "$results")
done
