#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# pairs: rsiw,rsiw
#
# Each policy of an initiator against each of a responder, both ways: which connect, and which of those by TLS.

. /tests/lib.sh
. /tests/tls/lib
plan 34

names=(off allow initiate require)
here_is() { echo "$1" >/sys/class/infiniband/rsiw0/settings/tls; }
# expects MINE THEIRS: prints "tls", "clear" or "none".
expects() {
	case $1$2 in
	0[012] | 1[012]) echo clear ;;
	[23]0 | 03 | 13) echo none ;;
	*) echo tls ;;
	esac
}
# is WHAT COMMAND...: runs the command, which connects once, and compares.
is() {
	local what=$1 before after got
	shift
	before=$(tls_streams)
	if "$@"; then
		after=$(tls_streams)
		got=clear
		[ "${after:-0}" = "${before:-0}" ] || got=tls
	else
		got=none
	fi
	echo "it is $got, expected is $what"
	[ "$got" = "$what" ]
}
# ping: this host connects. pinged: the peer does.
ping() { peer_bg rping rping -s -a "$PEER" -p "$1" -C 2; server_up "$1" && rping -c -a "$PEER" -p "$1" -C 2; local status=$?; peer_kill rping; return "$status"; }
pinged() {
	rping -s -a "$ADDR" -p "$1" -C 2 &
	local server=$! status
	listens "$1" && peer rping -c -a "$ADDR" -p "$1" -C 2
	status=$?
	kill "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	return "$status"
}

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver || exit 1
port=7200
for mine in 0 1 2 3; do
	here_is $mine
	for theirs in 0 1 2 3; do
		there sh -c "echo $theirs >/sys/class/infiniband/rsiw0/settings/tls"
		port=$((port + 1))
		run "A (${names[mine]}) to B (${names[theirs]}): $(expects $mine $theirs)" \
			is "$(expects $mine $theirs)" ping $port
		port=$((port + 1))
		run "B (${names[theirs]}) to A (${names[mine]}): $(expects $theirs $mine)" \
			is "$(expects $theirs $mine)" pinged $port
	done
done
