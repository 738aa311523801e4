#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# kernel: stock
# pairs: rsiw,rsiw
#
# Keys of TLS end: a peer changes its key, at either end of a connection, or a key has encrypted as much as it
# may. The consumer is told, the log says why, and a new connection works.

. /tests/lib.sh
. /tests/tls/lib
. /tests/nfs/lib
plan 21

# The openssl program sends a KeyUpdate when a line begins with k, and asks for one with K.
request() { printf 'MPA ID Req Frame\x08\x01\x00\x00'; }
# An enhanced Reply: one Read each way, and no ready-to-receive message.
reply() { printf 'MPA ID Rep Frame\x10\x02\x00\x04\x00\x01\x00\x01'; }
ours() { echo "-CAfile $TLS/ca.pem -cert $TLS/hosta.pem -key $TLS/hosta.key -tls1_3"; }
CHANGES="the peer changes its key, which this kernel cannot follow"
USED="a key is used up (tls_key_mib), and there is no other"

# client COMMAND...: a client of TLS that sends what the command prints, to the server here.
client() {
	dmesg >"$WORK/before"
	: >"$WORK/openssl"
	# shellcheck disable=SC2046
	"$@" | timeout 20 openssl s_client -connect "$ADDR:7599" $(ours) >"$WORK/openssl" 2>&1
	tail -n 3 "$WORK/openssl"
	ends_here
}
# openssl looks for commands at the beginning of what it reads, once TLS has begun. So each is sent
# when what was sent before it has had an effect. When there is no more to read, openssl closes the
# connection: that has to wait for the end that is expected.
ends_here() { log_says_soon "$WORK/before" "TLS stream broken: error -127, $CHANGES"; }
tells() { wait_for 10 grep -qa "$1" "$WORK/openssl"; }
behind_request() { request; tells "MPA ID Rep"; echo "$1"; ends_here; }
before_request() { tells "New, TLSv1.3"; echo k; tells KEYUPDATE; request; ends_here; }
# server PORT COMMAND...: a server of TLS that sends what the command prints, to a client here. rping ends with 0
# when it is disconnected.
server() {
	local port=$1
	shift
	dmesg >"$WORK/before"
	rm -f "$WORK/openssl"
	# shellcheck disable=SC2046
	"$@" | timeout 30 openssl s_server -accept "$port" $(ours) -Verify 1 >"$WORK/openssl" 2>&1 &
	listens "$port"
	within 20 rping -c -a "$ADDR" -p "$port" -C 3 >"$WORK/rping.client" 2>&1
	show "$WORK/rping.client"
	tail -n 5 "$WORK/openssl"
	grep -Eq "wait for RDMA|CONNECT_ERROR" "$WORK/rping.client" &&
		ends_here
}
got_request() { wait_for 20 grep -qa "MPA ID Req" "$WORK/openssl"; }
# What follows the Request is the client's first FPDU.
larger_than() { [ "$(stat -c %s "$WORK/openssl")" -gt "$1" ]; }
behind_reply() {
	got_request
	local size
	size=$(stat -c %s "$WORK/openssl")
	reply
	wait_for 10 larger_than "$size"
	echo "$1"
	ends_here
}
before_reply() { got_request; echo k; tells SSL_do_handshake; reply; ends_here; }

set_here() { echo "$1" >/sys/class/infiniband/rsiw0/settings/tls_key_mib; }
set_there() { peer_sh "echo $1 >/sys/class/infiniband/rsiw0/settings/tls_key_mib"; }
# some PORT TIMES: so many times 64 KiB in each direction.
some() {
	peer_bg rping rping -s -a "$PEER" -p "$1" -S 65000 -C "$2"
	server_up "$1" || return
	rping -c -a "$PEER" -p "$1" -S 65000 -C "$2" >"$WORK/rping.client" 2>&1
	local status=$?
	show "$WORK/rping.client"
	peer_end rping
	return $status
}
# used_up PORT: 4 MiB do not go through, and the consumer is told.
used_up() {
	dmesg >"$WORK/before"
	some "$1" 64
	grep -q "wait for RDMA" "$WORK/rping.client"
}
all_goes() { some "$@" && ! grep "wait for" "$WORK/rping.client"; }
used_up_here() { used_up 7610 && log_says_soon "$WORK/before" "TLS stream broken: error -122, $USED"; }
used_up_there() { used_up 7612 && peer_sh "dmesg | tail -n 3 | grep -F 'TLS stream broken: error -122, $USED'"; }
refuses() { ! echo "$1" >/sys/class/infiniband/rsiw0/settings/tls_key_mib; }
mounts() { on_server serve_nfs && mount_nfs 4.2; }
data() { files_data "$MNT" "$EXPORT" 1 70000 9000000; }
goes_on() { dmesg >"$WORK/before" && data && log_says "$WORK/before" "$USED"; }

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver tls=3 || exit 1
rping -s -P -a "$ADDR" -p 7599 >"$WORK/rping.server" 2>&1 &
run "a server listens" listens 7599 || exit 1
run "an initiator changes its key" client behind_request k
run "an initiator changes its key, and asks for another" client behind_request K
run "an initiator changes its key before its Request" client before_request
run "a responder changes its key" server 7601 behind_reply k
run "a responder changes its key, and asks for another" server 7602 behind_reply K
run "a responder changes its key before its Reply" server 7603 before_reply
run "a connection works after that" rping -c -a "$ADDR" -p 7599 -C 3

run "no key may have more than RFC 8446 has it" refuses 368641
set_here 2
run "the connection ends when this end's key, or the peer's, is used up here" used_up_here
run "new connections have new keys" all_goes 7611 8
set_here 368640
set_there 2
run "the connection ends when a key is used up there" used_up_there
set_there 368640
run "keys that are not used up go on" all_goes 7613 128
# The initiator's order counts; gnutls reads it when tlshd begins.
chacha_first() {
	mkdir -p /etc/gnutls
	printf '[overrides]\ndefault-priority-string = NORMAL:-CIPHER-ALL:+CHACHA20-POLY1305:+AES-256-GCM:+AES-128-GCM\n' \
		>/etc/gnutls/config
	own_tlshd
}
aes_first() { rm /etc/gnutls/config && own_tlshd; }
set_here 1
run "this host prefers ChaCha20" chacha_first
run "keys of ChaCha20-Poly1305 have no limit" all_goes 7614 64
run "it prefers AES again" aes_first
set_here 368640
LIMIT=90 run "NFS is mounted" mounts
set_here 4
LIMIT=60 run "the mount gets its new limit" umount "$MNT"
mount_nfs 4.2
LIMIT=200 run "NFS reads and writes over new connections when keys are used up" goes_on
set_here 368640
umount "$MNT"
on_server stop_nfs >/dev/null 2>&1
