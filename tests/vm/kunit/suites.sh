#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
# kernel: debug
# pairs: rsiw*
#
# The module's KUnit suites, which run when it is loaded. Each test of each suite is a
# result of this job.

. /tests/lib.sh

filter=/sys/module/kunit/parameters/filter_glob
[ -e "$filter" ] || { echo "this kernel has no KUnit"; exit 2; }
expected() {
	local name="the KUnit suite $1 ran"
	if grep -qx "$1" <<<"$suites"; then ok "$name"; else not_ok "$name"; fi
}
before=$(ls /sys/kernel/debug/kunit)
# How many suites the module has: an ELF section of it is a list of pointers to them.
in_module() {
	python3 - "/build/$RSIW_DRIVER.ko" <<-'END'
		import struct, sys
		elf = open(sys.argv[1], "rb").read()
		at, size, count, names = *struct.unpack_from("<Q", elf, 40), *struct.unpack_from("<HHH", elf, 58)
		heads = [struct.unpack_from("<IIQQQQ", elf, at + i * size) for i in range(count)]
		strings = heads[names][4]
		print(sum(h[5] // 8 for h in heads
		          if elf[strings + h[0]:].split(b"\0", 1)[0] == b".kunit_test_suites"))
	END
}
# printf adds no newline, which would be part of the pattern.
printf '*' >"$filter"
load_module "$RSIW_DRIVER" || exit 1
printf none.none >"$filter"

suites=$(ls /sys/kernel/debug/kunit)
suites=$(comm -13 <(sort <<<"$before") <(sort <<<"$suites"))
echo "KTAP version 1"
# A suite that is not built has no results. So this list names all.
for suite in golden golden_extensions framing rules_mpa rules_ddp rules_order rules_rdmap rules_read rules_extensions rules_immediate rules_atomic rules_atomic_response terminate setup_frame setup ending lingering connecting connecting_tls answering answering_tls naming; do
	expected "rsiw_iwarp_$suite"
done
for suite in rdma_ring kext_idtable kext_tx_lock kext_revocable rdma_blocks rdma_qp rdma_runs kext_work kext_workqueue kext_hrtimer rdma_span rdma_local rdma_wqe kext_copy \
	rsiw_cpu_share rsiw_ring rsiw_cq rsiw_pd rsiw_region rsiw_window rsiw_wr rsiw_tls_names rsiw_net_keys rsiw_net_tls rsiw_net_name rsiw_net_identity \
	rsiw_cm_silent rsiw_cm_backlog rsiw_cm_setup rsiw_rx_late rsiw_queue_rnr rsiw_stream_retry rsiw_stream_silent rsiw_net rsiw_net_partial rsiw_net_pool rsiw_net_info rsiw_net_batch rsiw_net_zerocopy rsiw_net_refusals; do
	expected "$suite"
done
# All suites of the module have run, and the list above has them all.
count=$(in_module)
note "the module has $count suites"
if [ "$(wc -w <<<"$suites")" = "$count" ]; then ok "each KUnit suite of the module ran"; else not_ok "each KUnit suite of the module ran" "$suites"; fi
# shellcheck disable=SC2154 # lib.sh counts
if [ "$_count" -gt "$count" ]; then ok "this job lists each KUnit suite"; else not_ok "this job lists each KUnit suite" "a new suite has no line in this job"; fi
# said TEST: what the kernel logged during the test, up to its result.
said() {
	dmesg | awk -v name="$1" '{ sub(/^\[[^]]*\] /, "") }
		/^ *(not )?ok [0-9]+ / { if ($NF == name) exit; n = 0; next }
		{ lines[n++ % 30] = $0 }
		END { for (i = n > 30 ? n - 30 : 0; i < n; i++) print "# " lines[i % 30] }'
}
# In a file, as bash reads a pipe byte by byte, which takes the debug kernel longer than the tests. So does a line
# that is passed on by itself.
(cd /sys/kernel/debug/kunit && xargs printf '%s/results\n' <<<"$suites" | xargs grep -H '') >"$WORK/lines"
mapfile -t lines <"$WORK/lines"
for line in "${lines[@]}"; do
	suite=${line%%/*} line=${line#*/results:}
	# Lines of the suite's own tests are indented once.
	name=${line#*ok * }
	case $line in
	'    not ok '*) said "$name" ;;
	*'ok '*) ;;
	*) echo "# $line" ;;
	esac
	case $line in
	'    ok '*'# SKIP'*) skip "$suite.${name%% #*}" "${line##*SKIP}" ;;
	'    ok '*) ok "$suite.$name" ;;
	'    not ok '*) not_ok "$suite.$name" ;;
	esac
done >"$WORK/results"
cat "$WORK/results"
