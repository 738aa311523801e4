# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the scripts of this directory have in common. They are run in the build root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# shellcheck disable=SC2034 # used by the scripts
targets=(setup stream pair mutant)
triple=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}

# libFuzzer is C++; Debian's clang has a version in its name.
if [ -z "${CXX:-}" ] && ! command -v c++ >/dev/null; then
	CXX=$(compgen -c clang++- | sort -V | tail -n 1)
	export CXX
fi

# build DIR FLAG...: the targets with these flags for rustc; their directory is in $built. With
# --target the flags are for the targets only, not for build scripts.
build() {
	local dir=$1
	shift
	RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 $*" cargo build --quiet --locked --release \
		--target-dir "$dir" --target "$triple" --bins
	built=$dir/$triple/release
}

# build_fuzzers: coverage by flags that rustc has in its stable release, hence no cargo-fuzz and no
# nightly.
build_fuzzers() {
	build "$CARGO_TARGET_DIR" -Cpasses=sancov-module \
		-Cllvm-args=-sanitizer-coverage-level=4 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
		-Cllvm-args=-sanitizer-coverage-pc-table \
		-Cllvm-args=-sanitizer-coverage-trace-compares
}

# found NAME: where the inputs are that this machine found.
found() { echo "$CARGO_TARGET_DIR/fuzz-corpus/$1"; }
