#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# kernel: stock
# pairs: rsiw,rsiw
#
# The commands that README, the user guide and the manual pages show work as they are printed there. Hosts have
# the addresses of the documents: commands of clients run here, those of servers on 10.7.0.2, the peer. An
# example that this job does not know fails it, so that each new one gets a place here.

. /tests/lib.sh

# Indented lines of a document, without comments behind commands, and without sudo.
examples() {
	sed -nE '/^    [^ ]/ { s/^    //; s/  +#.*//; s/\bsudo //g; /^#/d; p }' "/build/bin/documents/$1"
}
# What needs a reader's own machine, and which other test runs it.
elsewhere() {
	case $1 in
	"git clone "* | "make run" | "make shell" | "make vm "* | "make test "* | "make docs" | \
		"make help" | "make -C KERNEL_SOURCE "* | "make KERNEL="*) echo "CI's stages" ;;
	"make install "*) echo "tools/ci/stages/25-admin" ;;
	"make deb "* | "apt install "* | "apt remove "* | "dpkg-reconfigure "* | systemctl* | "echo netdev=eth0 | tee "*) echo tests/deb ;;
	# Lines of a file: the same stage reads them as rsiw-link does.
	netdev=* | name=* | crc=0 | large_fpdu=1) echo "tests/admin/links_test.py" ;;
	"ip netns exec blue rsiw-cdi "*) echo tests/vm/container/hosts ;;
	"ibv_rc_pingpong "* | "UCX_TLS="*) echo tests/vm/rc ;;
	"make update-kernel "*) echo "nobody, as what Debian has changes from day to day" ;;
	# They ask for a password, and for somebody at the machine when it boots.
	"dkms generate_mok" | "mokutil "*) echo "nobody, but tests/deb signs with such a key" ;;
	*) return 1 ;;
	esac
}
# server COMMAND...: starts it on the peer; the next client's command ends it.
server() {
	local port=$1
	shift
	peer_bg server "$@"
	server_up "$port"
}
# client COMMAND...: the command, and then its server ends well.
client() { "$@" && peer_end server 15; }
fresh() { [ ! -e /sys/module/rsiw ] || rmmod rsiw; }
# What an earlier example, perhaps of another document, has made.
device() { [ -e /sys/class/infiniband/rsiw0 ] || add_device rsiw0 eth0; }
rc_device() { [ -e /sys/class/infiniband/rc0 ] || { rdma link add rc0 type rsiw_rc netdev eth0 && wait_for 10 device_active rc0; }; }
no_device() { [ ! -e /sys/class/infiniband/rsiw0 ] || rdma link delete rsiw0; }

# try COMMAND: does what its document says.
try() {
	case $1 in
	"modprobe -a iw_cm rdma_ucm ib_uverbs") fresh && eval "$1" ;;
	"insmod build/"*) (mkdir -p "$WORK/build" && ln -sfn /build "$WORK/build/$(uname -r)" && cd "$WORK" && eval "$1") ;;
	"modprobe rsiw") [ -e /sys/module/rsiw ] ;;
	"echo 'options rsiw "*) (eval "$1") && modprobe -c | grep -q '^options rsiw crc=0$' && rm /etc/modprobe.d/rsiw.conf ;;
	*/rsiw0/settings/*) device && eval "$1" ;;
	"rdma link add rsiw0 "*) no_device && eval "$1" && wait_for 10 device_active rsiw0 ;;
	"rdma link add rc0 "*) eval "$1" && wait_for 10 device_active rc0 ;;
	"rping -s "*) eval "server 7174 $1" ;;
	"ib_write_bw -R -d rsiw0") eval "server 18515 $1" ;;
	"rping -c "* | "ib_write_bw "*) eval "client $1" ;;
	"qperf "*) server 19765 qperf && eval "$1" && peer_kill server ;;
	"rsiw-cdi -o /etc/cdi/rsiw.json") device && eval "$1" && grep rsiw0 /etc/cdi/rsiw.json && rm /etc/cdi/rsiw.json ;;
	# Each example has a shell of its own, and so its umask.
	"rsiw-key new "*) mkdir -p /etc/rsiw && (umask 077 && eval "$1") ;;
	# A client's look at a server, and a server's at itself and its client.
	"rsiw-doctor --peer 10.7.0.2:20049") server 20049 rping -s -p 20049 -C 1 && doctor_says "$1" ;;
	rsiw-doctor*"--port 20049"*) server 20049 rping -s -p 20049 -C 1 && doctor_says "peer $1" && peer_kill server ;;
	rsiw-doctor*" rc0") rc_device && doctor_says "$1" ;;
	rsiw-doctor*) doctor_says "$1" ;;
	*) eval "$1" ;;
	esac
}
# The doctor ends with 0, or 1 for warnings; with 2 it has found a fault, and this host has none.
doctor_says() {
	local status=0
	(cd "$WORK" && eval "$1") || status=$?
	echo "status $status"
	[ "$status" -le 1 ]
}

run "load the driver on both hosts" both load_driver || exit 1
count=1
for document in README.md user-guide.md rsiw.4.md rsiw.conf.5.md rsiw-key.8.md rsiw-cdi.8.md rsiw-doctor.8.md; do
	while read -r line; do
		if other=$(elsewhere "$line"); then
			note "$document: '$line' is run by $other"
		else
			run "$document: $line" try "$line"
			count=$((count + 1))
		fi
	done < <(examples "$document")
done
run "the documents have examples" test "$count" -gt 15
