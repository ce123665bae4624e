#!/usr/bin/env bash
# The program for Apple's processors without a Mac: the compiler checks everything that is compiled there, tests included. It
# links nothing and runs nothing, so speed and bits on such a machine are not measured. C code of dependencies is compiled
# by zig, which pip fetches.
#
#   scripts/apple.sh
#
# Where the target or zig cannot be had, the exit code is 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=aarch64-apple-darwin
skip() { printf 'not checked: %s\n' "$*"; exit 77; }

if [ ! -d "$(rustc --print target-libdir --target $target)" ]; then
  command -v rustup >/dev/null || skip "no Rust library for $target, and no rustup to add it"
  rustup target add $target >/dev/null 2>&1 || skip "rustup cannot add $target here"
fi
zig="${CARGO_TARGET_DIR:-target}/zig"
if [ ! -x "$zig/bin/cargo-zigbuild" ]; then
  python3 -m venv "$zig" && "$zig/bin/pip" install --quiet 'cargo-zigbuild>=0.20,<1' 'ziglang>=0.13,<1' \
    || skip "pip cannot install cargo-zigbuild here"
fi
PATH="$(realpath "$zig")/bin:$PATH" cargo-zigbuild check --locked --workspace --all-targets --exclude tribunal-python --target $target
