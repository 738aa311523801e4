#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 500
# pairs: rsiw,rsiw
#
# Handshakes that fail: certificates that are not to be accepted, and a tlshd that is not there, stops or is
# killed. The consumer gets an error in time, the log says why, and afterwards connections work again.

. /tests/lib.sh
. /tests/tls/lib
plan 26

port=7300
works() { port=$((port + 1)); rping_peer "$PEER" $port -C 2; }
stop_there() { peer_sh "pkill -STOP -x tlshd"; }
go_there() { peer_sh "pkill -CONT -x tlshd"; }
# Kills the process that tlshd has made here for a handshake that the peer does not answer.
child() { pgrep -P "$(pgrep -o -x tlshd)"; }
child_dies() { wait_for 10 child && kill -9 "$(child)"; }
# A peer that says nothing behind its first byte, and whose handshake is killed on the other host.
killed_there() {
	port=$((port + 1))
	peer_bg rping rping -s -a "$PEER" -p $port
	server_up $port
	exec 3<>"/dev/tcp/$PEER/$port"
	printf '\x16' >&3
	peer_sh "$(declare -f child child_dies); child_dies" || return
	# The connection is reset.
	timeout "$(limit 25)" cat <&3
	[ $? != 124 ] || return
	peer_kill rping
	peer_sh "dmesg | tail -n 1" | tee "$WORK/log"
	grep -q "TLS handshake failed: error -110, no answer" "$WORK/log"
}

# Peers of one address that begin handshakes, all more than there are places, and go on with none. Another one connects
# long before these are given up, after fifteen seconds.
silent() {
	peer_bg silent bash -c "for i in {1..40}; do exec {fd}<>/dev/tcp/$PEER/$1 && printf '\\x16\\x03\\x01' >&\$fd; done; sleep 100"
	wait_for 20 silent_there "$1"
}
silent_there() { [ "$(peer ss -Htn state established "sport = :$1" | wc -l)" -ge 40 ]; }
beside_silent() {
	port=$((port + 1))
	peer_bg rping rping -s -a "$PEER" -p $port
	server_up $port
	silent $port || { echo "they do not connect"; return 1; }
	nap 2
	timeout "$(limit 8)" rping -c -a "$PEER" -p $port -C 2
	local status=$?
	peer_kill silent
	peer_kill rping
	return "$status"
}

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver tls=3 || exit 1
run "a connection works at first" works || exit 1
LIMIT=60 run "silent peers of one address hold up no other" beside_silent
authority other
certificate foreign other "IP:$B4"
certificate nameless ca "DNS:elsewhere,IP:10.99.0.1"
certificate expired ca "IP:$B4" -not_before 20200101000000Z -not_after 20200201000000Z || note "no expired certificate"
certificate client ca "IP:$A4"

there tlshd_with foreign
run "a server of another CA is not accepted" refused -13 "does not accept"
there tlshd_with nameless
run "a server of another name is not accepted" refused -13 "does not accept"
there tlshd_with expired
run "a server whose certificate has expired is not accepted" refused -13 "does not accept"
there own_tlshd
tlshd_with foreign
cp "$TLS/ca.pem" /etc/tls/ca.pem
run "a client of another CA is not accepted" refused -13 "error -13, the peer does not accept this end"
# The server has ended the connection before the MPA Request is sent.
LD_PRELOAD=/build/bin/hangup.so tlshd_with foreign
cp "$TLS/ca.pem" /etc/tls/ca.pem
run "a client that is refused before its Request learns why" refused -13 "error -13, the peer does not accept this end"
own_tlshd
run "a connection works with the right certificates" works

end_tlshd
run "without tlshd here nothing connects" refused -13 "no tlshd"
own_tlshd
there end_tlshd
run "without tlshd there nothing connects" refused -13 "no tlshd"
there own_tlshd
run "a connection works with both again" works

stop_there
run "a stopped tlshd there is waited for no longer than it should be" refused -13 "TLS handshake failed"
go_there
pkill -STOP -x tlshd
run "a stopped tlshd here is waited for no longer than it should be" refused -110 "no answer"
pkill -CONT -x tlshd
run "a connection works when tlshd goes on" works
stop_there
child_dies &
run "a killed handshake here ends in time" refused -110 "no answer"
go_there
LIMIT=40 run "a killed handshake there ends in time" killed_there
run "a connection works after that" works

pkill -STOP -x tlshd
peer_bg rping rping -s -a "$PEER" -p 7399 -C 2
server_up 7399
rping -c -a "$PEER" -p 7399 -C 2 >"$WORK/client" 2>&1 &
client=$!
# The kernel has told tlshd, which is stopped and has not read it.
told_tlshd() {
	awk -v pid="$(pgrep -o -x tlshd)" '$2 == 16 && $3 % 4194304 == pid && $5 > 0' /proc/net/netlink |
		grep .
}
run "a handshake is under way before a link goes" wait_for 20 told_tlshd
LIMIT=10 run "a link goes during a handshake" rdma link del "$DEV"
ended() { wait_for 5 test ! -e /proc/$client; }
run "its consumer hears of it" ended
LIMIT=10 run "the module goes" rmmod rsiw
pkill -CONT -x tlshd
peer_kill rping
there sh -c "pkill -STOP -x tlshd"
run "load the driver again" load_driver tls=3
there_goes() { peer_sh "rdma link del $PEER_DEV && rmmod rsiw"; }
peer_bg rping rping -s -a "$PEER" -p 7398 -C 2
server_up 7398
rping -c -a "$PEER" -p 7398 -C 2 >"$WORK/client" 2>&1 &
# What this host's tlshd has sent waits for the one there, which is stopped.
hello_there() { there unread | grep .; }
run "a handshake is under way before a responder's link goes" wait_for 20 hello_there
LIMIT=10 run "a responder's link and module go during a handshake" there_goes
peer_kill rping
