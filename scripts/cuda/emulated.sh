#!/usr/bin/env bash
# Runs a command on emulated GPUs: with our own libcuda.so.1 (kernels/emulated), which runs kernels/*.cu on the CPU.
# It builds what is missing first, into .cuda/ (git-ignored).
#
#   scripts/cuda/emulated.sh COMMAND...
#   scripts/cuda/emulated.sh tribunal score --device cuda --model models/tiny/qwen2 ...
#
# `tribunal` and `tribunal-bench` stand for this project's own binaries, built with the feature `cuda`. Variables TRIBUNAL_EMULATED_* choose
# the device: see kernels/emulated/driver/settings.h. EMULATED_SANITIZE=address or undefined instruments the kernels
# and the driver (for threads there is sanitize.sh).
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: emulated.sh COMMAND..." >&2; exit 2; }
here=$PWD
cd "$(dirname "$0")/../.."
root=$PWD
scripts/cuda/toolkit.sh
. .cuda/env
sanitize=${EMULATED_SANITIZE:-}
library=$root/.cuda/emulated${sanitize:+-$sanitize}
scripts/cuda/library.sh "$library" ${sanitize:+--sanitize "$sanitize"} kernels/*.cu

case $1 in tribunal | tribunal-bench)
  cargo build --quiet --locked -p "$1" --features cuda --bin "$1"
  set -- "${CARGO_TARGET_DIR:-$root/target}/debug/$1" "${@:2}" ;;
esac
cd "$here"
# The check before a run takes longer on an emulated card than most runs.
export TRIBUNAL_GPU_CHECK=${TRIBUNAL_GPU_CHECK:-off}
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ -n "$sanitize" ]; then # the program itself was not built with it, and what it leaks is its own affair
  case $sanitize in address) runtime=libasan.so ;; undefined) runtime=libubsan.so ;; *) runtime=libtsan.so ;; esac
  export LD_PRELOAD=$(g++ -print-file-name=$runtime) ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
fi
exec "$@"
