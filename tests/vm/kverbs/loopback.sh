#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# Kernel verbs: a consumer in the kernel (tests/kverbs) connects to itself. It prints
# its KTAP to the kernel's log.

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
