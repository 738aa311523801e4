#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# Work for the queue pairs of processes, whose threads may hold it up (user/idle), and work for those of kernel
# consumers is on work queues of their own. The kernel's trace tells which work queue an item is put on.

. /tests/lib.sh
plan 3
trace=/sys/kernel/tracing

# queues_of COMMAND...: the driver's work queues on which items for rx and tx were put meanwhile.
queues_of() {
	local event=$trace/events/workqueue/workqueue_queue_work
	mountpoint -q $trace || mount -t tracefs none $trace
	echo 4096 >$trace/buffer_size_kb && echo >$trace/trace || return
	echo 'workqueue ~ "rsiw_[rt]x*"' >$event/filter && echo 1 >$event/enable || return
	"$@" >"$WORK/output" 2>&1 || { cat "$WORK/output"; echo 0 >$event/enable; return 1; }
	echo 0 >$event/enable
	queues=$(grep -o 'workqueue=rsiw_[^ ]*' $trace/trace | sort -u | cut -d = -f 2 | xargs)
	echo "queues: $queues"
}
write_bulk() {
	peer_bg server ib_write_bw -F -R -d "$DEV" -s 1048576 -n 100
	server_up 18515 || return
	ib_write_bw -F -R -d "$DEV" -s 1048576 -n 100 "$ADDR" && peer_end server 20
}
of_process() { queues_of write_bulk && [ "$queues" = "rsiw_rx_user rsiw_tx_user" ]; }
in_kernel() { modprobe rdma_cm && insmod /build/kverbs.ko addr="$ADDR" drain_limit="$(limit 5)" && rmmod kverbs; }
of_kernel() { queues_of in_kernel && [ "$queues" = "rsiw_rx rsiw_tx" ]; }

run "load the driver" load_driver || exit 1
LIMIT=40 run "a process' data go by the work queues for processes" of_process
if [ -e /build/kverbs.ko ]; then
	LIMIT=60 run "a kernel consumer's data go by the work queues for kernel consumers" of_kernel
else
	skip "a kernel consumer's data go by the work queues for kernel consumers" "no kverbs.ko (make vm builds it)"
fi
