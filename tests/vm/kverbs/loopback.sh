#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# Kernel verbs: a consumer in the kernel (tests/kverbs) connects to itself. It prints
# its KTAP to the kernel's log.
#= 7306-5-1, 7306-5-2, 7306-5.1.1-2b, 7306-5.1.1-5, 7306-5.1.2-3a, 7306-5.1.2-3b, 7306-5.2.1-3,
#= 7306-5.2.1-10, 7306-5.2.1-11, 7306-5.2.1-15, 7306-5.2.1-16, 7306-5.2.1-17, 7306-5.2.2-5,
#= 7306-5.2.2-6, 7306-5.2.2-9, 7306-5.3-1, 7306-5.4-1, 7306-5.4-2a, 7306-5.4-2b, 7306-5.4-7,
#= 7306-5.4-8a, 7306-5.4-8b, 7306-6.1-1, 7306-6.1-2, 7306-6.3-7, 7306-8.2-6, 7306-9-1

. /tests/lib.sh

[ -e /build/kverbs.ko ] || skip_all "no kverbs.ko (make vm builds it)"
load_driver || exit 1
modprobe rdma_cm
_planned=by-the-module
echo "KTAP version 1"
dmesg -C
within 90 insmod /build/kverbs.ko addr="$ADDR" drain_limit="$(limit 5)" || _failed=1
rmmod kverbs
dmesg | sed -n 's/.*kverbs: //p' | tee "$WORK/said" | grep -v '^done$'
grep -q '^done$' "$WORK/said" || _failed=1
! grep -q '^not ok' "$WORK/said" || _failed=1
exit
