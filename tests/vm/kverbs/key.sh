#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
# pairs: rsiw,*
#
# The device's local DMA key is for kernel consumers: a process that knows the key and an address of the kernel
# neither sends from there, nor reads to there, nor receives there.

. /tests/lib.sh
plan 6

parameter() { cat "/sys/module/kverbs/parameters/$1"; }
finds_the_key() {
	modprobe rdma_cm && insmod /build/kverbs.ko addr="$ADDR" only="local DMA key" &&
		dmesg | grep "kverbs: ok 1 " && [ "$(parameter local_dma_lkey)" != 0 ]
}
# Its results, without their numbers.
tries() {
	rsiw-verbs client -t "*-dma-key" "$ADDR" | sed -E 's/^(ok|not ok) [0-9]+ /\1 /'
	return "${PIPESTATUS[0]}"
}

run "load the driver" load_driver || exit 1
run "a kernel consumer uses the key, and knows it" finds_the_key || exit 1
LOCAL_DMA_LKEY=$(parameter local_dma_lkey) LOCAL_DMA_ADDR=$(parameter local_dma_addr)
export LOCAL_DMA_LKEY LOCAL_DMA_ADDR
rsiw-verbs server "$ADDR" >"$WORK/server" 2>&1 &
server=$!
server_up 18515 || exit 1
told_by rsiw-verbs tries
kill "$server"
rmmod kverbs
exit
