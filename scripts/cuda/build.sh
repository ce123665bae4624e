#!/usr/bin/env bash
# Builds the binary that is published, with CUDA and the profile `dist`, into dist/ (git-ignored), ready to be copied to a
# machine with a GPU. There it needs the driver and nothing else; without a GPU the same binary runs on the CPU.
#
#   scripts/cuda/build.sh [--tests] [--generations "90a ..."] [CARGO ARGUMENTS]
#
# --tests adds what scripts/cuda/device.sh needs: the benchmarks, the integration tests, where they expect this repository
# to be, and SmolLM2-135M in two halves if its file is here (`tribunal models pull smollm2-135m-instruct`). What one stage carries
# stays below 64 MiB.
# --generations: kernels for these compute capabilities alone (default: all, see build.rs).
# TRIBUNAL_BUILD_PROFILE chooses another profile than dist.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests='' most=$((64 << 20))
while [ $# -gt 0 ]; do
  case $1 in
    --tests) tests=1 && shift ;;
    --generations) export TRIBUNAL_CUDA_GENERATIONS=$2 && shift 2 ;;
    *) break ;;
  esac
done
scripts/cuda/toolkit.sh
. .cuda/env
profile=${TRIBUNAL_BUILD_PROFILE:-dist}
options=(--profile "$profile" --locked --features cuda)
mkdir -p dist

# put PROGRAM NAME: stripped and packed; refused if it would not start where there is no GPU.
put() {
  if readelf --dynamic "$1" | grep -E 'NEEDED.*\[lib(cuda|cublas|curand|nvrtc)'; then
    echo "build: \`$1\` needs CUDA libraries to start" >&2
    return 1
  fi
  strip -o "dist/$2" "$1"
  gzip --force --keep --no-name "dist/$2"
}

# halve FILE: into dist/, with the sum of the whole, which device.sh compares after joining.
halve() {
  split --number=2 --numeric-suffixes=1 --suffix-length=1 "$1" dist/smollm2.gguf.
  (cd "$(dirname "$1")" && sha256sum "$(basename "$1")") | cut -d' ' -f1 >dist/smollm2.sha256
}

executable() { sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1; }

built() { cargo build --package "$1" "${options[@]}" --bin "$1" --message-format json "${@:2}" | executable; }

binary=$(built tribunal "$@")
if [ -n "$tests" ]; then
  program=$(cargo test --package tribunal-engine "${options[@]}" --test all --no-run --message-format json "$@" | executable)
  put "$program" tribunal-tests
  put "$(built tribunal-bench "$@")" tribunal-bench
  printf '%s\n%s\n' "$PWD" "$binary" >dist/built-at
  model=${TRIBUNAL_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tribunal}
  model=$(find "$model" -iname 'smollm2-135m-instruct*.gguf' -size +50M 2>/dev/null | sed -n 1p || true)
  if [ -n "$model" ]; then halve "$model"; else echo "build: SmolLM2 is not here; stages 2 and 3 will say so" >&2; fi
fi
put "$binary" tribunal
ls -l dist
for carried in "tribunal.gz tribunal-tests.gz" "tribunal-bench.gz smollm2.gguf.1" "tribunal.gz tribunal-bench.gz smollm2.gguf.2"; do
  # shellcheck disable=SC2086 # a list of files
  size=$(cd dist && { cat $carried 2>/dev/null || true; } | wc -c)
  [ "$size" -lt "$most" ] || echo "build: $carried together are $size bytes, more than $most" >&2
done
