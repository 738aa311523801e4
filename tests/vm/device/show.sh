#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
# pairs: rsiw,*
#
# What ibv_devinfo and iproute2's rdma show of a device.
#= 5040-8.1.2-7, 5041-8.3.2-6

. /tests/lib.sh
. /tests/device/lib
plan 17

run "load the driver" load_driver || exit 1
mac=$(</sys/class/net/eth0/address)
hex=${mac//:/}
devinfo=$WORK/devinfo
ibv_devinfo -v -d "$DEV" >"$devinfo" 2>&1
cp "$devinfo" "$RSIW_OUT/"

# field NAME REGEX: the value that ibv_devinfo prints.
field() {
	local value
	value=$(sed -n "s/^[[:space:]]*$1:[[:space:]]*//p" "$devinfo" | head -n 1)
	echo "$1: $value"
	[[ $value =~ ^($2)$ ]]
}
# at_least NAME NUMBER: the limit is not below what programs expect.
at_least() {
	local value
	value=$(sed -n "s/^[[:space:]]*$1:[[:space:]]*//p" "$devinfo" | head -n 1)
	echo "$1: $value"
	[ $((value)) -ge "$2" ]
}

kind() { field transport 'iWARP \(1\)' && field link_layer Ethernet && field phys_port_cnt 1; }
run "ibv_devinfo shows an iWARP device with an Ethernet port" kind
port() { field state 'PORT_ACTIVE \(4\)' && field max_mtu '4096 \(5\)' && field active_mtu '1024 \(3\)' &&
	field max_msg_sz 0xffffffff; }
run "ibv_devinfo shows the port active, its MTU below eth0's" port

# The GUID is the EUI-64 of the address, the GID the address itself.
guid=$(printf '%02x%s:%sff:fe%s:%s' $((0x${hex:0:2} ^ 2)) "${hex:2:2}" "${hex:4:2}" \
	"${hex:6:2}" "${hex:8:4}")
guids() { echo "eth0 is $mac"; field node_guid "$guid" && field sys_image_guid "$guid"; }
run "ibv_devinfo shows GUIDs made of eth0's address" guids
# From sysfs: ibv_devinfo looks at the last 64 bits of a GID only, and takes this one for empty.
gid() {
	local is
	is=$(</sys/class/infiniband/"$DEV"/ports/1/gids/0)
	echo "$is"
	[ "$is" = "${hex:0:4}:${hex:4:4}:${hex:8:4}:0000:0000:0000:0000:0000" ]
}
run "the GID is eth0's address" gid

limits() {
	at_least max_qp 1024 && at_least max_qp_wr 4096 && at_least max_sge 4 &&
		at_least max_sge_rd 1 && at_least max_cq 1024 && at_least max_cqe 65536 &&
		at_least max_mr 1024 && at_least max_pd 1024 && at_least max_srq 128 &&
		at_least max_srq_wr 4096 && at_least max_qp_rd_atom 16 &&
		at_least max_qp_init_rd_atom 16 && field max_mr_size 0xffffffffffffffff &&
		field atomic_cap 'ATOMIC_NONE \(0\)'
}
run "ibv_devinfo shows limits that programs need, no atomics" limits
page_sizes() { field page_size_cap '0x1000' && field vendor_id '0x727369' && field max_srq_sge 6; }
run "ibv_devinfo shows page size, vendor, SRQ scatter list" page_sizes

# prints TEXT COMMAND...: the command's output contains the text.
prints() {
	local text=$1 said
	shift
	said=$("$@") || return
	echo "$said"
	grep -q "$text" <<<"$said"
}
listed() { prints "link $DEV/1 state ACTIVE physical_state LINK_UP netdev eth0" rdma link show "$DEV/1"; }
run "rdma link shows the device active on eth0" listed
device() { prints "$DEV: node_type rnic .*node_guid $guid" rdma dev show "$DEV"; }
run "rdma dev shows an RNIC with its GUID" device
statistic() {
	local name
	rdma statistic show link "$DEV/1" | tee "$WORK/statistic"
	for name in tx_bytes rx_bytes tx_messages rx_messages connections rx_crc_errors; do
		grep -q "\<$name 0" "$WORK/statistic" || { echo "no $name, or not 0"; return 1; }
	done
}
run "rdma statistic shows counters, which begin at 0" statistic

version=$(</sys/module/rsiw/version)
firmware() {
	field fw_ver "$version" && [ "$(</sys/class/infiniband/"$DEV"/fw_ver)" = "$version" ] &&
		prints "$DEV: .* fw $version " rdma -d dev show "$DEV"
}
run "the module's version stands for the firmware's" firmware

# resources "pd 1 cq 1 …": how many objects of the device `rdma resource` counts.
resources() { prints "$1" rdma res show "$DEV"; }
# Protection domains of consumers in the kernel that use every device (smbdirect does).
others=$(rdma res show "$DEV" | grep -o 'pd [0-9]*')
others=${others#pd }
run "rdma resource shows no object of an unused device" resources 'qp 0 cm_id 0 mr 0'
held() {
	watching && resources "pd $((others + 1)) cq 1 qp 1 cm_id 0 mr 1 .*srq 1" &&
		prints "link $DEV/.* type RC state .*comm watch" rdma res show qp
}
run "rdma resource shows the objects of a process" held
# details KIND TEXT: what the driver tells of the process' object.
details() {
	rdma -dd res show "$1" | grep -A 1 'comm watch' >"$WORK/details"
	cat "$WORK/details"
	grep -q "$2 " "$WORK/details"
}
described() {
	details cq 'drv_unpolled 0 drv_armed next drv_overflowed 0' &&
		details srq 'drv_size 8 drv_posted 3 drv_limit 0' &&
		details mr 'drv_kind process drv_pinned_pages 1 drv_valid 1 drv_local_write 1 drv_remote_write 0'
}
run "rdma resource shows the driver's details of queues and regions" described
let_go() { kill "$(<"$WORK/watch.pid")"; ends watch 5; resources "pd $others cq 0 qp 0 cm_id 0 mr 0"; }
run "rdma resource shows no object of a killed process" let_go

# taken COUNT: messages have taken at least so many receives of the queue pairs at both ends.
taken() {
	rdma -dd res show qp link "$DEV/1" | tee "$WORK/taken"
	awk -v least="$1" '{ for (i = 1; i < NF; i++) if ($i == "drv_receives_taken" && $(i + 1) >= least) n++ }
		END { exit n != 2 }' "$WORK/taken"
}
# found: TCP's sockets at both ends are found by the cookies of the queue pairs.
found() {
	local cookie count=0
	ss -Htne >"$WORK/sockets"
	while read -r cookie; do
		echo "cookie $cookie"
		grep -E "sk:$cookie( |\$)" "$WORK/sockets" && count=$((count + 1))
	done < <(grep -o 'drv_tcp_cookie 0x[0-9a-f]*' "$WORK/taken" | cut -d x -f 2)
	[ "$count" = 2 ]
}
taken_while_busy() {
	peer_bg server rping -s -a "$ADDR" -p 7199
	server_up 7199
	peer_bg client rping -c -C 100000 -a "$ADDR" -p 7199
	wait_for 20 taken 20 && taken 20
	local status=$?
	cat "$WORK/taken"
	found >"$WORK/found"
	echo $? >"$WORK/found.status"
	peer_kill client
	peer_end server 20
	return "$status"
}
run "rdma resource shows the receives that a peer has taken" taken_while_busy
cookies() { cat "$WORK/found" "$WORK/sockets"; return "$(<"$WORK/found.status")"; }
by_cookie="ss finds the TCP connection of a queue pair by its cookie"
# Without it ss reads /proc/net/tcp, which has no cookies.
if modprobe tcp_diag; then
	run "$by_cookie" cookies
else
	skip "$by_cookie" "no CONFIG_INET_DIAG"
fi
