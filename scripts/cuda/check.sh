#!/usr/bin/env bash
# What CI checks of the kernels, on a machine without a GPU:
#   each kernel compiles to machine code for compute capability 9.0, which static.sh looks at;
#   each kernel's host test passes.
# Everything it needs goes to .cuda/ (git-ignored). JOBS checks run at a time (default: one for each core).
#
#   scripts/cuda/check.sh [--all]
#
# --all: machine code for every generation, which takes six times as long.
set -uo pipefail
cd "$(dirname "$0")/../.."
scripts/cuda/toolkit.sh || exit 2
. .cuda/env
build=.cuda/build
mkdir -p "$build"

results=$build/results
. scripts/cuda/checks.sh

host_test() { # host_test NAME: its argument is the golden file of that name, where there is one
  g++ -std=c++17 -O2 -march=x86-64-v3 -ffp-contract=off -Wall -Werror -Wno-unknown-pragmas -isystem "$CUDA_HOME/include" \
    -I kernels/emulated -include host.h "kernels/tests/$1.cpp" -o "$build/$1" &&
    "$build/$1" "tests/golden/$1.json"
}

case "${1:-}" in
  --all) generation=() ;;
  "") generation=(--only 90a) ;;
  *) echo "error: \`$1\` is not an option; hint: scripts/cuda/check.sh [--all]" >&2 && exit 2 ;;
esac
later "machine code" scripts/cuda/static.sh "${generation[@]}"
later "traps: compiles" "$NVCC" -arch=sm_90a -cubin -o "$build/traps.cubin" kernels/tests/traps.cu # device.sh runs it where NVIDIA's nvcc is
for test in kernels/tests/*.cpp; do
  name=$(basename "$test" .cpp)
  case $name in driver | exchange | faults) continue ;; esac # sanitize.sh builds what these need
  later "$name: host test" host_test "$name"
done
tally
