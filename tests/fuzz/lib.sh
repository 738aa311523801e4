# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the scripts of this directory, which run in the build root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# shellcheck disable=SC2034 # used by the scripts
targets=(setup conn stream pair mutant)
triple=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}

# libFuzzer is C++; Debian's clang has a version in its name.
if [ -z "${CXX:-}" ] && ! command -v c++ >/dev/null; then
	CXX=$(compgen -c clang++- | sort -V | tail -n 1)
	export CXX
fi

# build DIR FLAG...: build the targets with these flags for rustc, and set $built to their directory.
# Because of --target, cargo does not use the flags for build scripts.
build() {
	local dir=$1
	shift
	RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 $*" cargo build --quiet --locked --release \
		--target-dir "$dir" --target "$triple" --bins
	built=$dir/$triple/release
}

# build_fuzzers: build the targets with libFuzzer's instrumentation, by flags of the stable rustc.
# So neither cargo-fuzz nor a nightly rustc is needed.
build_fuzzers() {
	build "$CARGO_TARGET_DIR" -Cpasses=sancov-module \
		-Cllvm-args=-sanitizer-coverage-level=4 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
		-Cllvm-args=-sanitizer-coverage-pc-table \
		-Cllvm-args=-sanitizer-coverage-trace-compares
}

# found NAME: the directory of the inputs that this machine has found.
found() { echo "$CARGO_TARGET_DIR/fuzz-corpus/$1"; }
