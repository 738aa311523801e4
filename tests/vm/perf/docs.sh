#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 1800
# kernel: stock
#
# What a server of documents moves, and how busy it is, over TCP (by sendfile) and over rsiw (by RDMA Write and
# Send): CLIENTS connections of one process on this host fetch documents of SIZES bytes from the peer's page cache
# (tests/vm/prog/docs.c). KINDS take turns, ROUNDS times (vm-run --env), SECONDS_EACH a measurement, of which the
# medians count. It asserts only that everything runs.

. /tests/lib.sh

: "${ROUNDS:=3}" "${SECONDS_EACH:=2}" "${CLIENTS:=1 16 64 256}" "${SIZES:=4096 16384 65536 262144}"
IFS=, read -ra kinds <<<"${KINDS:-tcp,rsiw,rsiw crc=0}"
read -ra clients <<<"$CLIENTS"
read -ra sizes <<<"$SIZES"
plan $((ROUNDS * ${#kinds[@]} + 1))

results=$RSIW_OUT/docs.tsv
printf 'bytes\tclients\tover\tMiB/s\tserver busy\n' >"$results"

# The peer's processor: ticks that it was busy, and all.
ticks() { awk '$1 == "cpu" { b = $2 + $3 + $4 + $7 + $8; print b, b + $5 + $6 }' /proc/stat; }
server_ticks() { peer_sh "$(declare -f ticks); ticks"; }

# fetch KIND CLIENTS SIZE PORT: a line of results.
fetch() {
	local over=rdma before after client
	[ "$1" != tcp ] || over=tcp
	docs fetch $over "$PEER" "$4" "$2" "$3" "$SECONDS_EACH" >"$WORK/fetched" &
	client=$!
	wait_for 60 grep -q connected "$WORK/fetched"
	before=$(server_ticks)
	wait "$client" || return
	after=$(server_ticks)
	awk -v kind="$1" -v clients="$2" -v size="$3" -v seconds="$SECONDS_EACH" -v ticks="$before $after" '
		$1 == "fetched" && $2 > 0 {
			split(ticks, t)
			printf "%s\t%s\t%s\t%.2f\t%.3f\n", size, clients, kind, $2 * size / 2^20 / seconds,
				(t[3] - t[1]) / (t[4] - t[2])
			found = 1
		}
		END { exit !found }' "$WORK/fetched" | tee -a "$results"
	[ "${PIPESTATUS[0]}" = 0 ]
}
measure_all() {
	local n size
	for n in "${clients[@]}"; do
		for size in "${sizes[@]}"; do
			fetch "$1" "$n" "$size" "$2" || { cat "$WORK/server"; return 1; }
		done
	done
}
port=7600
round() {
	local over=rdma status=0
	port=$((port + 1))
	if [ "$1" = tcp ]; then
		over=tcp
	else
		# shellcheck disable=SC2086 # a module and its parameters
		both with $1 || return
	fi
	peer_bg server sh -c "ulimit -l unlimited; head -c 4M /dev/urandom >/tmp/file; exec docs serve $over $PEER $port /tmp/file"
	server_up "$port" || return
	measure_all "$1" "$port" || status=1
	peer_kill server
	peer rm /tmp/file
	[ "$1" = tcp ] || both eval "rdma link del bench && rmmod rsiw" || return
	return "$status"
}
ulimit -l unlimited
for ((r = 1; r <= ROUNDS; r++)); do
	for kind in "${kinds[@]}"; do
		LIMIT=300 run "round $r: $kind" round "$kind"
	done
done

# The table, with the medians: MiB/s, and how busy the server is.
table() {
	python3 - "$results" <<-'END'
		import csv, statistics, sys
		rows = list(csv.reader(open(sys.argv[1]), delimiter="\t"))[1:]
		kinds = list(dict.fromkeys(r[2] for r in rows))
		print(f"{'bytes':>7} {'clients':>7} " + " ".join(f"{k:>16}" for k in kinds))
		for size, clients in dict.fromkeys((int(r[0]), int(r[1])) for r in sorted(rows, key=lambda r: int(r[0]))):
		    told = []
		    for kind in kinds:
		        mine = [(float(r[3]), float(r[4])) for r in rows if r[:3] == [str(size), str(clients), kind]]
		        rate, busy = (statistics.median(x) for x in zip(*mine))
		        told.append(f"{rate:8.1f}, {busy:5.0%} ")
		    print(f"{size:7} {clients:7} " + " ".join(f"{t:>16}" for t in told))
	END
}
run "the table" table
cp "$OUTPUT" "$RSIW_OUT/table"
