#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# pairs: rsiw,rsiw
#
# Which peers may connect to a listener, by the names that TLS has verified (tls_names). The consumer is not asked
# about others.

. /tests/lib.sh
. /tests/tls/lib
plan 26

SETTINGS=/sys/class/infiniband/rsiw0/settings
names() { peer_sh "printf '%s\n' '$1' >$SETTINGS/tls_names"; }
both_have() { both sh -c "echo $2 >$SETTINGS/$1"; }
shown() { [ "$(cat $SETTINGS/tls_names)" = "$1" ]; }
# takes TEXT SHOWN; refuses TEXT.
takes() { printf '%s\n' "$1" >$SETTINGS/tls_names && shown "$2"; }
refuses() { ! printf '%s' "$1" 2>/dev/null >$SETTINGS/tls_names && shown ""; }
too_long() { refuses "$(seq -s , 2000)"; }
many() { local list; list=$(seq -s ", " 800) && takes "$list" "$list"; }
not_for_others() { ! ordinary sh -c "echo hosta >$SETTINGS/tls_names"; }
# works PORT; refused PORT WORDS: the client hears of it at once, and the server of nothing.
works() { rping_peer "$PEER" "$1" -C 2; }
works_back() {
	rping -s -a "$ADDR" -p "$1" -C 2 &
	local server=$!
	listens "$1" && peer rping -c -a "$ADDR" -p "$1" -C 2 && wait "$server"
}
refused() {
	local said
	peer_sh "dmesg | wc -l" >"$WORK/lines"
	peer_bg rping rping -s -a "$PEER" -p "$1" -C 2
	server_up "$1"
	said=$(within 10 rping -c -a "$PEER" -p "$1" -C 2 2>&1) && { echo "rping succeeds"; peer_kill rping; return 1; }
	echo "$said"
	peer_sh "pgrep -x rping" || { echo "the server has got a connection"; return 1; }
	peer_kill rping
	peer_sh "dmesg | tail -n +$(($(cat "$WORK/lines") + 1))" | tee "$WORK/log"
	grep -q "REJECTED" <<<"$said" && grep -qF "$2" "$WORK/log"
}
other_name() {
	certificate "$1" ca "DNS:hosta,IP:$A4" && tlshd_with "$1"
}

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver tls=3 || exit 1
run "there are no names at first" shown ""
run "names are taken" takes "hosta,host b,  80=x ,*" "hosta, host b, 80=x, *"
run "many names are taken" many
run "no names are taken" takes "" ""
run "a bad port is refused" refuses "70000=hosta"
run "no port is refused" refuses "=hosta"
run "bytes that are no text are refused" refuses $'host\xff'
run "a name that is too long is refused" refuses "$(printf 'a%.0s' {1..129})"
run "a list that is too long is refused" too_long
run "an ordinary user changes none" not_for_others

names hosta
run "a peer that is named connects" works 7701
names "hostx, hosta.example, host"
run "a peer that is not named is refused" refused 7702 '"hosta" is not in tls_names for port 7702; refused'
names "hostx, 7703=hosta"
run "a peer that is named for a port connects there" works 7703
run "it does not connect elsewhere" refused 7704 '"hosta" is not in tls_names for port 7704; refused'
names "hosta, 7705=hostx"
run "a port has no names but its own" refused 7705 '"hosta" is not in tls_names for port 7705; refused'
names "*, 7706=hostx"
run "all verified peers connect to other ports" works 7707
names "7799=hosta"
run "without names for a port nobody connects to it" refused 7708 "refused"
run "names do not concern connections that a host makes itself" works_back 7709
names ""
run "without names all connect" works 7710

names hosta
run "another certificate" other_name $'hosta\x1b'
run "a name that only looks like another is refused" refused 7711 '"hosta\x1b" is not in tls_names'
own_tlshd
both_have tls 1
run "without TLS nobody is named" refused 7712 "no TLS, and port 7712 is for tls_names only; refused"
names "*"
run "without TLS nobody is verified" refused 7713 "no TLS, and port 7713 is for tls_names only; refused"
both_have tls 0
run "that is so where TLS is off" refused 7714 "no TLS, and port 7714 is for tls_names only; refused"
