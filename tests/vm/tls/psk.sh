#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# kernel: stock
# pairs: rsiw,rsiw
#
# TLS by pre-shared keys: who connects by them, what is shown of them, and which keys are not accepted.

. /tests/lib.sh
. /tests/tls/lib
. /tests/nfs/lib
plan 28

port=7400
# The names are those of clients.
A_TO_B="$(rsiw-key new hosta "$B4")" A_TO_B6="$(rsiw-key new hosta "$B6")" B_TO_A="$(rsiw-key new hostb "$A4")"
keys=("$A_TO_B" "$A_TO_B6" "$B_TO_A")
identity() { echo "${1%% *}"; }

set_both() { both sh -c "echo $1 >/sys/class/infiniband/rsiw0/settings/tls_psk"; }
works() { port=$((port + 1)); rping_peer "${1:-$PEER}" $port -C 3; }
works_back() {
	port=$((port + 1))
	rping -s -a "$ADDR" -p $port -C 3 &
	local server=$!
	listens $port && peer rping -c -a "$ADDR" -p $port -C 3 && wait "$server"
}
logged() { dmesg | grep -F "$1" && there sh -c "dmesg | grep -F '$1'"; }
shows_peer() { rdma -dd resource show qp | tee "$WORK/qps"; grep -qF "drv_tls_peer $(identity "$A_TO_B")" "$WORK/qps"; }
# says WORDS IDENTITY KEY: what the peer's log says of another client, which says nothing behind its
# handshake and stays until then.
says() {
	local there_before
	there_before=$(peer_sh "dmesg | wc -l")
	port=$((port + 1))
	peer_bg rping rping -s -a "$PEER" -p $port -C 2
	server_up $port
	wait_for 10 said "$there_before" "$1" |
		timeout "$(limit 15)" openssl s_client -connect "$PEER:$port" -tls1_3 \
			-psk_identity "$2" -psk "$3" -ciphersuites TLS_AES_128_GCM_SHA256 2>&1
	peer_kill rping
	cat "$WORK/log"
	grep -qF "$1" "$WORK/log"
}
# said COUNT WORDS: whether the peer's log, behind as many lines, has the words.
said() { peer_sh "dmesg | tail -n +$(($1 + 1))" >"$WORK/log" && grep -qF "$2" "$WORK/log"; }
keyring_gone() { ! keyctl id %keyring:.rsiw; }
listed() { [ "$(rsiw-key list | sort)" = "$(printf '%s\n' "${keys[@]%% *}" | sort)" ]; }
mounts() { on_server serve_nfs && mount_nfs 4.2; }
data() { files_data "$MNT" "$EXPORT" 1 70000 3000000; }

run "load the driver on both hosts" both load_driver tls=3 tls_psk=1 || exit 1
run "keys are loaded, and tlshd starts on both hosts" psk_up "${keys[@]}" || { show /tmp/tlshd.log; exit 1; }
run "the keyring has them" listed
run "rping connects by a pre-shared key" works || { cp /tmp/tlshd.log "$RSIW_OUT/"; peer cat /tmp/tlshd.log; }
run "rping connects by another one, the other way" works_back
run "rping connects by a key for an IPv6 address" works "$PEER6"
run "the log names the key of a client" logged "TLS with \"$(identity "$A_TO_B")\""
run "the log names the key of the peer as client" logged "TLS with \"$(identity "$B_TO_A")\""
peer_bg rping rping -s -a "$PEER" -p 7399 -C 1000000
server_up 7399
rping -c -a "$PEER" -p 7399 -C 1000000 >"$WORK/rping.client" 2>&1 &
run "rdma shows the key of a queue pair" wait_for 10 shows_peer
pkill -x rping
peer_kill rping
LIMIT=90 run "NFS is mounted by a pre-shared key" mounts
LIMIT=90 run "files are read and written over it" data
run "NFS is unmounted" umount "$MNT"
on_server stop_nfs >/dev/null 2>&1

there has_keys "$(rsiw-key new hosta "$B4")"
run "a wrong key is refused" refused -13 "does not accept"
there has_keys "$B_TO_A"
run "an identity that the responder does not know is refused" refused -13 "does not accept"
there has_keys "${keys[@]}"
has_keys "$B_TO_A" "$A_TO_B6"
run "an initiator without a key for the peer does not connect" refused -13 ".rsiw has no key for the peer"
has_keys "$A_TO_B" "$(rsiw-key new other "$B4")"
run "an initiator with two keys for the peer does not connect" refused -13 ".rsiw has several keys"
has_keys "${keys[@]}"
run "a connection works with the right keys again" works

run "here certificates" sh -c "echo 0 >/sys/class/infiniband/rsiw0/settings/tls_psk"
run "a certificate against a key is refused" refused -13 "does not accept"
there sh -c "echo 0 >/sys/class/infiniband/rsiw0/settings/tls_psk"
run "certificates on both ends serve" works
run "here a key" sh -c "echo 1 >/sys/class/infiniband/rsiw0/settings/tls_psk"
run "a key against a certificate is refused" refused -13 "does not accept"
there sh -c "echo 1 >/sys/class/infiniband/rsiw0/settings/tls_psk"

# Known to the peer's tlshd, and meant for others: for another server, or for a program with another keyring.
ELSEWHERE="$(rsiw-key new hosta 10.7.0.99)"
there has_keys "${keys[@]}" "$ELSEWHERE"
run "a key for another server is refused" \
	says "the peer's key is none of .rsiw for this address" "${ELSEWHERE% *}" "${ELSEWHERE#* }"
OTHER="$(rsiw-key new nvme "$B4")"
there sh -c "echo ${OTHER#* } | keyctl padd -x psk '${OTHER% *}' %keyring:.nvme"
run "a key of another keyring is refused" \
	says "the peer's key is none of .rsiw for this address" "${OTHER% *}" "${OTHER#* }"
run "a connection works after that" works
there_named() { there sh -c "echo '$1' >/sys/class/infiniband/rsiw0/settings/tls_names"; }
there_named "hosta, hosta@[$B6], other"
run "an identity that tls_names does not have is refused" refused -111 "is not in tls_names"
there_named "other, $(identity "$A_TO_B")"
run "an identity that it has connects" works
unload_driver
run "the keyring goes with the module" keyring_gone
