#!/usr/bin/env bash
# The fuzz targets for as long as one likes: the seeds of `fuzz/seeds`, mutated the same way each time, so many times each.
# CI runs 400 of each seed with the tests. `cargo fuzz` (in `fuzz/`, with a nightly toolchain) searches further, guided by
# what the program does. Usage: scripts/fuzz.sh [MUTATIONS] [TARGET ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

n=${1:-100000}
shift || true
[[ "$n" =~ ^[0-9]+$ ]] || { echo "error: \`$n\` is not a number of mutations" >&2; exit 2; }
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls fuzz/seeds)

echo "$n mutations for each of ${#targets[@]} targets"
TRIBUNAL_FUZZ=$n cargo test --locked --test all -- --nocapture --exact "${targets[@]/#/fuzzed::}"
