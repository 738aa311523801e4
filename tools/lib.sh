# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Shared by the tools: where things live, how a cached stage is made, and how
# a tool speaks. Sourced, never run.

set -euo pipefail

# Those who are not root do not have chroot and mount in theirs.
PATH=$PATH:/usr/sbin:/sbin

# shellcheck disable=SC2034 # used by those who source this
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${RSIW_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rsiw}
# shellcheck disable=SC2034
DEBIAN_MIRROR=${RSIW_MIRROR:-http://deb.debian.org/debian}

mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd -P)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# One second of the clock is enough here: stages take seconds to minutes.
now() { date +%s; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "root is needed for '$1', and there is no sudo"
	fi
}

# Make sure that commands exist on the host (or files, by their paths), by the packages that bring them:
# need_host COMMAND=PACKAGE... README names all of them (the stage scripts looks).
need_host() {
	local pair missing=()
	for pair; do
		case $pair in
		/*) compgen -G "${pair%%=*}" >/dev/null ;;
		*) command -v "${pair%%=*}" >/dev/null ;;
		esac || missing+=("${pair#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die "please install: ${missing[*]} (this is not a Debian machine)"
	as_root apt-get -q update >/dev/null || say "apt-get update failed; trying on"
	# With what they depend on, where the machine lacks that.
	say "installing on this machine: $(apt-get -s --no-install-recommends install "${missing[@]}" |
		sed -n 's/^Inst \([^ ]*\).*/\1/p' | tr '\n' ' ')"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
		--no-install-recommends "${missing[@]}" >/dev/null ||
		die "could not install: ${missing[*]}"
}

# A short key of everything a stage was made from.
key_of() { printf '%s\n' "$@" | sha256sum | cut -c1-12; }

# stage DIR TITLE FUNCTION: fill DIR by FUNCTION unless that was done before.
# The stamp comes last, so an interrupted stage is simply made anew; it is
# filled in place, not renamed, because kernel trees remember where they are.
# The lock is held for one stage only: others wait for it and then find it.
stage() {
	local dir=$1 title=$2 fill=$3 began lock status
	[ ! -e "$dir/.stamp" ] || return 0
	mkdir -p "$CACHE/lock"
	exec {lock}>"$CACHE/lock/${dir##*/}"
	if ! flock -n "$lock"; then
		say "waiting for another process: $title"
		flock "$lock"
	fi
	if [ ! -e "$dir/.stamp" ]; then
		say "$title ..."
		began=$(now)
		[ ! -e "$dir" ] || as_root rm -rf --one-file-system "$dir"
		mkdir -p "$dir"
		# Not `(...) || die`: what stands before || runs without set -e, and
		# half a build root would pass for a whole one.
		set +e
		(set -e; "$fill" "$dir" {lock}>&-)
		status=$?
		set -e
		[ "$status" = 0 ] || die "failed: $title"
		touch "$dir/.stamp"
		say "$title: $(($(now) - began)) s"
	fi
	exec {lock}>&-
}

# Run a noisy command with its output in a log, shown only if it fails.
quiet() {
	local log=$1
	shift
	if ! "$@" >"$log" 2>&1; then
		say "'$*' failed; the end of $log:"
		tail -n 30 "$log" >&2
		return 1
	fi
}
