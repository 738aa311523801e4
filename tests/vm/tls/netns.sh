#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 200
# pairs: rsiw,*
#
# Three network namespaces: this one, and ns1 and ns2, each with a tlshd and certificates of its own. ns1 has the CA
# of this host, ns2 another one. A connection uses the daemon and the keys of the namespace that its device is in;
# a namespace without a daemon has no connections, and the others do not notice.

. /tests/lib.sh
. /tests/device/lib
. /tests/tls/lib
plan 21

# ns NUMBER COMMAND...: runs it in that namespace; 0 is the host's own.
ns() {
	local n=$1
	shift
	[ "$n" = 0 ] || set -- ip netns exec "ns$n" "$@"
	"$@"
}
# Namespace N has 10.8.N.2 for this host's 10.8.N.1.
namespace() {
	ip netns add "ns$1" && ip link add "veth$1" type veth peer name inner netns "ns$1" &&
		ip addr add "10.8.$1.1/24" dev "veth$1" && ip link set "veth$1" up &&
		ns "$1" ip addr add "10.8.$1.2/24" dev inner && ns "$1" ip link set inner up &&
		ns "$1" ip link set lo up && add_device "here$1" "veth$1" &&
		ns "$1" rdma link add "there$1" type "$RSIW_DRIVER" netdev inner
}
namespaces() { namespace 1 && namespace 2; }
# Certificates: those of ns2 are of another CA.
prepare() {
	certificates
	authority other
	certificate ns0 ca "IP:10.8.1.1,IP:10.8.2.1"
	certificate ns1 ca "IP:10.8.1.2"
	certificate ns2 other "IP:10.8.2.2"
}
# daemon NUMBER CERTIFICATE [CA]: starts tlshd in that namespace, in place of one that runs there. Each has files of
# its own, as tlshd reads them for each handshake.
daemon() {
	local n=$1 at=/etc/tls/ns$1 section
	stop "$n"
	mkdir -p "$at"
	install -m 600 "$TLS/$2.key" "$at/host.key"
	install -m 644 "$TLS/$2.pem" "$at/host.pem"
	install -m 644 "$TLS/${3:-ca}.pem" "$at/ca.pem"
	for section in client server; do
		printf '[authenticate.%s]\nx509.truststore=%s\nx509.certificate=%s\nx509.private_key=%s\n' \
			$section "$at/ca.pem" "$at/host.pem" "$at/host.key"
	done >"$at/tlshd.conf"
	ns "$n" setsid tlshd -s -c "$at/tlshd.conf" >"/tmp/tlshd$n.log" 2>&1 </dev/null &
	wait_for 10 serves "$n"
}
# The process of a namespace's daemon; not those that it has made for handshakes.
daemon_of() { pgrep -o -x -f "tlshd -s -c /etc/tls/ns$1/tlshd.conf"; }
# It has its netlink socket: the kernel's own table says so, which each namespace has for itself.
serves() {
	local pid
	pid=$(daemon_of "$1") && ns "$1" awk -v pid="$pid" '$2 == 16 && $3 % 4194304 == pid' /proc/net/netlink | grep -q .
}
stop() {
	pkill -9 -x -f "tlshd -s -c /etc/tls/ns$1/tlshd.conf"
	wait_for 5 stopped "$1"
}
stopped() { ! daemon_of "$1"; }

# to, from NUMBER: rping connects from the host into that namespace, or the other way; and by TLS.
to() { connect 0 "$1" "10.8.$1.2"; }
from() { connect "$1" 0 "10.8.$1.1"; }
connect() {
	# shellcheck disable=SC2154 # lib.sh's number of tests so far
	local client=$1 server=$2 at=$3 port=$((7600 + _count)) before status pid
	# The log is written at a limited rate.
	nap 1
	before=$(dmesg | wc -l)
	ns "$server" rping -s -a "$at" -p $port -C 3 >"$WORK/server" 2>&1 &
	pid=$!
	ns "$server" /tests/guest/listens $port 10 || return
	ns "$client" timeout "$(limit 25)" rping -c -a "$at" -p $port -C 3
	status=$?
	if [ "$status" != 0 ] || ! wait_for 2 test ! -e "/proc/$pid"; then pkill -KILL -x rping; fi
	dmesg | tail -n +$((before + 1)) | tee "$WORK/log"
	[ "$status" = 0 ] && [ "$(grep -c 'TLS with' "$WORK/log")" = 2 ]
}
# refused WORDS to|from NUMBER: that connection fails, at once, and the log has the words.
refused() {
	local words=$1 began=$SECONDS
	shift
	! "$@" || { echo "it connects"; return 1; }
	# The device would wait for 15 or 20 s.
	[ $((SECONDS - began)) -le "$(limit 12)" ] || { echo "after $((SECONDS - began)) s"; return 1; }
	grep "$words" "$WORK/log"
}
# The name by which the device of an end knows the peer.
named() { grep "$1.*TLS with \"$2\"" "$WORK/log"; }
named_right() { to 1 && named here1 ns1 && named there1 ns0; }

run "load the driver" load_driver tls=3 || exit 1
run "make certificates" prepare
run "make namespaces with devices" namespaces || exit 1
# Only the host's own namespace has one.
run "tlshd starts on the host" daemon 0 ns0
run "no daemon there: nothing connects into the namespace" refused "no tlshd" to 1
run "no daemon there: nothing connects from the namespace" refused "no tlshd" from 1
run "tlshd starts in the first namespace" daemon 1 ns1
run "rping connects into the first namespace" to 1
run "rping connects from the first namespace" from 1
run "each end knows the other by the certificate of its namespace" named_right
run "tlshd starts in the second namespace" daemon 2 ns2 other
run "keys of another CA: nothing connects into the second namespace" refused "does not accept" to 2
run "keys of another CA: nothing connects from the second namespace" refused "does not accept" from 2
run "rping still connects into the first namespace" to 1
daemon 2 ns2
run "a second namespace that trusts the host is not trusted by it" refused "does not accept" to 2
certificate ns2 ca "IP:10.8.2.2"
run "tlshd starts in the second namespace with the host's CA" daemon 2 ns2
run "rping connects into the second namespace" to 2
stop 0
run "no daemon here: nothing connects into a namespace that has one" refused "no tlshd" to 1
# A device of ns1 with one of ns2 would need a route; within a namespace its daemon is enough.
within_ns1() {
	ns 1 ip link set lo address 02:00:00:00:00:01
	ns 1 ip addr add 10.8.9.1/32 dev lo && ns 1 rdma link add lo1 type "$RSIW_DRIVER" netdev lo || return
	certificate ns1 ca "IP:10.8.9.1" && daemon 1 ns1 && connect 1 1 10.8.9.1
}
run "a namespace with a daemon connects within itself" within_ns1
under_way() { ss -Htn state established "dport = :7699" | grep .; }
# The namespace ends during a handshake which its daemon, stopped, has not taken.
ends_meanwhile() {
	daemon 0 ns0 || return
	pkill -STOP -x -f "tlshd -s -c /etc/tls/ns1/tlshd.conf"
	ns 1 rping -s -a 10.8.1.2 -p 7699 >"$WORK/server" 2>&1 &
	ns 1 /tests/guest/listens 7699 10 || return
	rping -c -a 10.8.1.2 -p 7699 -C 3 >"$WORK/client" 2>&1 &
	local client=$!
	wait_for 5 under_way || return
	nap 1
	if ! under_way || [ ! -e "/proc/$client" ]; then
		echo "it does not wait"
		return 1
	fi
	ip netns pids ns1 | xargs -r kill -9
	ip netns del ns1
	wait_for 20 device_gone there1 && wait_for 20 test ! -e "/proc/$client"
}
LIMIT=60 run "a namespace ends during a handshake" ends_meanwhile
end_ns2() { stop 2; ip netns del ns2 && wait_for 20 device_gone there2; }
run "the second namespace ends" end_ns2
