#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 360
# kernel: stock
# pairs: rsiw,rsiw
#
# RDMA between containers on two hosts: the commands of Documentation/user-guide.md, section Containers, as they
# are printed there, and what containers cannot do. An example that this job does not know fails it.

. /tests/lib.sh
. /tests/container/lib

# Indented lines of the document, but for the YAML.
examples() { sed -nE '/^```/,/^```/d; /^    [^ ]/ { s/^    //; p }' /build/bin/documents/containers.md; }
# The image is the host's own files.
local_image() { sed 's|\brdma-tools\b|--rootfs /:O|'; }
# on_peer COMMAND: a line of the document on host B, whose address in the namespace is another one.
on_peer() { peer_sh ". /tests/container/lib; ${1/10.7.0.11/10.7.0.12}"; }
both_hosts() {
	local pid
	on_peer "$1" &
	pid=$!
	eval "$1" && wait "$pid"
}
# server PORT COMMAND: starts it on the peer; the next client's command ends it.
server() {
	peer_bg server bash -c "$2"
	case $2 in
	*netns/blue*) peer ip netns exec blue /tests/guest/listens "$1" "$(limit 40)" ;;
	*) peer_listens "$1" 40 ;;
	esac
}
client() { eval "$1" && peer_end server 20; }

# try COMMAND: does what the document says.
try() {
	local line
	line=$(local_image <<<"$1")
	case $line in
	"podman run "*" rping -s "*) server 7174 "$line" ;;
	"podman run "*" ib_write_bw "*" 10.7.0."*) client "$line" ;;
	"podman run "*" ib_write_bw "*) server 18515 "$line" ;;
	"podman run "*" rping -c "*) client "$line" ;;
	"rdma link add "*)
		both_hosts "$line" || return
		line=${line#rdma link add }
		both wait_for 10 device_active "${line%% *}"
		;;
	"podman run "*" ibv_rc_pingpong "*" 10.7.0."*) client "$line" ;;
	"podman run "*" ibv_rc_pingpong "*) server 18515 "$line" ;;
	"rdma system set netns exclusive") both exclusive "$line" ;;
	"echo 'options ib_core "*) both_hosts "$line" && modprobe -c | grep -q '^options ib_core netns_mode=0$' && both rm /etc/modprobe.d/ib_core.conf ;;
	"podman --cgroup-manager="*) eval "$line" ;;
	*) both_hosts "$line" ;;
	esac
}
# Tells the runner to leave exclusive mode if the job does not come to its end.
exclusive() { touch /run/rsiw/exclusive && $1; }
# What an example needs that is not the document's.
elsewhere() {
	case $1 in
	# Guests have no systemd.
	"[Service]" | Exec*=*) echo "nobody" ;;
	*) return 1 ;;
	esac
}
sees_one() { [ "$(contained --network ns:/run/netns/blue -- rdma dev | sed -n 's/^[0-9]*: \([^:]*\):.*/\1/p' | sort | xargs)" = "blue bluerc" ]; }
# cannot TEXT OPTION... -- COMMAND...: it fails with that text.
cannot() {
	local text=$1 status=0
	shift
	contained "$@" >"$WORK/said" 2>&1 || status=$?
	cat "$WORK/said"
	[ "$status" != 0 ] && grep -q "$text" "$WORK/said"
}
set_up() { . /tests/container/lib && podman_set_up; }

run "load the module on both hosts" both load_module rsiw || exit 1
run "set podman up on both hosts" both set_up || exit 1
count=0
while read -r line; do
	if other=$(elsewhere "$line"); then
		note "'$line' is run by $other"
		continue
	fi
	LIMIT=60 run "$line" try "$line"
	count=$((count + 1))
	case $line in
	# Before the namespace goes.
	"podman run "*" -d blue 10.7.0.12")
		run "a container with a network of its own sees only its own devices" sees_one
		LIMIT=60 run "a container cannot use the device of another namespace" \
			cannot "no such device" --network host --device rsiw/device=blue -- /build/bin/watch blue
		LIMIT=60 run "a container without a device cannot connect" \
			cannot "No RDMA devices" --network podman -- rping -c -a 10.7.0.2 -C 1
		;;
	esac
done < <(examples)
run "the document has examples" test "$count" -gt 15
