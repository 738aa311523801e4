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
[ -e "$filter" ] || skip_all "this kernel has no KUnit"
before=$(ls /sys/kernel/debug/kunit)
# Without a newline, which would be part of the pattern.
printf '*' >"$filter"
load_module "$RSIW_DRIVER" || exit 1
printf none.none >"$filter"

suites=$(ls /sys/kernel/debug/kunit)
suites=$(comm -13 <(sort <<<"$before") <(sort <<<"$suites"))
[ -n "$suites" ] || skip_all "the module was built without KUnit suites"
echo "KTAP version 1"
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
