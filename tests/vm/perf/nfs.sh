#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 900
# kernel: stock
#
# What an NFS client reads, and what that costs, over TCP, rsiw and siw: the
# throughput of direct reads of 2, 16 and 256 KiB, DEPTH at a time, and how busy both
# hosts are meanwhile. The three take turns, ROUNDS times (vm-run --env), SECONDS_EACH a
# measurement, of which the medians count. siw uses no CRCs, so rsiw runs with
# and without. KINDS, SIZES: some of them, or "tcp mtls" (NFS over TCP with TLS), "rsiw tls=3", and either over
# IPsec, "tcp esp". PROFILE: so many threads and functions of either host that have most of its time; it takes a
# part of it, so that the figures are not those of a run without. It asserts only that everything runs.

. /tests/lib.sh
. /tests/nfs/lib
. /tests/perf/lib

: "${ROUNDS:=3}" "${SECONDS_EACH:=4}" "${DEPTH:=4}" "${PROFILE:=0}"
kinds=("tcp" "rsiw" "rsiw crc=0" "rsiw large_fpdu=0" "rsiw crc=0 large_fpdu=0" "siw")
[ -z "${KINDS:-}" ] || IFS=, read -ra kinds <<<"$KINDS"
[[ " ${kinds[*]} " != *" siw "* ]] || [ -e /build/siw.ko ] || skip_all "no siw.ko to compare with (make siw-peer)"
IFS=, read -ra sizes <<<"${SIZES:-2k,16k,256k}"
plan $((ROUNDS * ${#kinds[@]} + 1))

results=$RSIW_OUT/nfs.tsv
printf 'size\tover\tMiB/s\tclient busy\tserver busy\tms of CPU per MiB\n' >"$results"

# Ticks that this host's CPU was busy, and all: user, nice, system, irq, softirq against idle.
ticks() { awk '$1 == "cpu" { b = $2 + $3 + $4 + $7 + $8; print b, b + $5 + $6 }' /proc/stat; }
both_ticks() { echo "$(ticks) $(peer_sh "$(declare -f ticks); ticks")"; }

# read_all KIND SIZE: a line of results.
read_all() {
	local before after
	[ "$PROFILE" = 0 ] || profile_begin || return
	before=$(both_ticks)
	fio --name=read --filename="$MNT/file" --readonly --rw=read --bs="$2" --direct=1 \
		--ioengine=libaio --iodepth="$DEPTH" --time_based --runtime="$SECONDS_EACH" \
		--output-format=json --output="$WORK/fio" || { cat "$WORK/fio"; return 1; }
	after=$(both_ticks)
	[ "$PROFILE" = 0 ] || profile_end
	python3 - "$WORK/fio" "$1" "$2" "$before $after" <<-'END' | tee -a "$results"
		import json, os, sys
		path, kind, size, ticks = sys.argv[1:]
		read = json.load(open(path))["jobs"][0]["read"]
		t = [int(x) for x in ticks.split()]
		busy = [t[4] - t[0], t[6] - t[2]]
		every = [t[5] - t[1], t[7] - t[3]]
		mib = read["io_bytes"] / 2**20
		cost = sum(busy) * 1000 / os.sysconf("SC_CLK_TCK") / mib
		print(size, kind, f"{read['bw_bytes'] / 2**20:.2f}",
		      *(f"{b / e:.3f}" for b, e in zip(busy, every)), f"{cost:.2f}", sep="\t")
		open("/tmp/moved", "w").write(f"{mib}")
	END
	[ "$PROFILE" = 0 ] || LIMIT=60 profile_show "$(cat /tmp/moved)" 14 "$PROFILE"
}

round() {
	local module=${1%% *} size status=0
	beneath up "$1" || return
	# shellcheck disable=SC2086 # a module and its parameter
	[ "$module" = tcp ] || both with ${1% esp} || return
	on_server "serve_nfs $module && head -c 16M /dev/zero >\$EXPORT/file" || return
	case $1 in
	"tcp mtls"*) mount_nfs_tcp 4.2,xprtsec=mtls ;;
	tcp*) mount_nfs_tcp 4.2 ;;
	*) mount_nfs 4.2 ;;
	esac || return
	# A server that has just begun lets no file be opened for some seconds.
	cat "$MNT/file" >/dev/null || return
	for size in "${sizes[@]}"; do
		read_all "$1" "$size" || { status=1; break; }
	done
	umount_nfs && on_server stop_nfs || return
	[ "$module" = tcp ] || both eval "rdma link del bench && rmmod $(module_of "$module")" || return
	beneath down "$1" || return
	return "$status"
}
prepare "${kinds[@]}" || exit 1
for ((r = 1; r <= ROUNDS; r++)); do
	for kind in "${kinds[@]}"; do
		LIMIT=$((120 + (PROFILE ? 180 : 0))) run "round $r: $kind" round "$kind"
	done
done

# The table, with the medians.
table() {
	python3 - "$results" <<-'END'
		import csv, statistics, sys
		rows = list(csv.reader(open(sys.argv[1]), delimiter="\t"))[1:]
		seen = list(dict.fromkeys((r[0], r[1]) for r in sorted(rows, key=lambda r: int(r[0][:-1]))))
		print(f"{'read':>6} {'over':<24} {'MiB/s':>8} {'client':>7} {'server':>7} {'CPU ms/MiB':>11}")
		for key in seen:
		    mine = [[float(x) for x in r[2:]] for r in rows if (r[0], r[1]) == key]
		    rate, client, server, cost = (statistics.median(x) for x in zip(*mine))
		    print(f"{key[0]:>6} {key[1].replace(' ', ','):<24} {rate:8.1f} {client:7.0%} {server:7.0%} {cost:11.1f}")
	END
}
run "the table" table
cp "$OUTPUT" "$RSIW_OUT/table"
