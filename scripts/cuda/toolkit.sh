#!/usr/bin/env bash
# Puts a CUDA toolkit into .cuda/ (git-ignored): nvcc and its headers from PyPI, and link-time stand-ins
# for the CUDA libraries. Needs python3 with pip, gcc and cargo; no GPU, no driver, no root.
# It does not install the CUDA libraries themselves: the machine with the GPU has them (see run.sh).
#
#   scripts/cuda/toolkit.sh && . .cuda/env
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
cuda=$root/.cuda

# 13.0 on purpose: a driver rejects PTX newer than itself, and cudarc knows 13.0 to 13.4.
wheels=(
  nvidia-cuda-nvcc==13.0.88    # nvcc, ptxas
  nvidia-nvvm==13.0.88         # its optimizer
  nvidia-cuda-crt==13.0.88     # headers that nvcc always includes
  nvidia-cuda-runtime==13.0.96 # cuda_runtime.h, cuda_bf16.h, libcudart_static.a
  nvidia-cuda-nvdisasm==13.2.86 # shows machine code; there is no 13.0 of it
  nvidia-cuda-cccl==13.0.85    # C++ headers that candle's kernels include
)

stamped() { # stamped FILE KEY: whether FILE contains KEY
  [ "$(cat "$1" 2>/dev/null)" = "$2" ]
}

install_wheels() {
  local key="${wheels[*]}"
  stamped "$cuda/wheels.stamp" "$key" && return
  rm -rf "$cuda/site"
  mkdir -p "$cuda"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary=:all: --no-compile --target "$cuda/site" "${wheels[@]}"
  echo "$key" >"$cuda/wheels.stamp"
}

cudarc_source() { # the folder of the cudarc that Cargo.lock names
  local version sources
  version=$(grep -A1 '^name = "cudarc"$' Cargo.lock | sed -n 's/^version = "\(.*\)"$/\1/p')
  sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
  compgen -G "$sources/*/cudarc-$version" | head -1 || true
}

write_stand_ins() {
  local source key
  source=$(cudarc_source)
  [ -n "$source" ] || { cargo fetch --quiet --locked && source=$(cudarc_source); }
  [ -n "$source" ] || { echo "toolkit: cudarc is not in Cargo.lock" >&2; exit 1; }
  key="$(basename "$source") $(sha256sum <scripts/cuda/gen_stubs.py)"
  stamped "$cuda/stubs.stamp" "$key" && [ -e "$stubs/libcudart.a" ] && return
  rm -rf "$stubs"
  python3 scripts/cuda/gen_stubs.py --cudarc "$source" --out "$stubs"
  ln -s "$home/lib/libcudart_static.a" "$stubs/libcudart.a" # it opens the driver itself, at the first call
  echo "$key" >"$cuda/stubs.stamp"
}

install_wheels
home=$(echo "$cuda"/site/nvidia/cu*)
stubs=$home/lib/stubs # where cudarc's build script looks under CUDA_HOME
write_stand_ins
cat >"$cuda/env" <<ENV
export CUDA_HOME="$home"
export CUDA_COMPUTE_CAP=\${CUDA_COMPUTE_CAP:-90} CUDAFORGE_THREADS=\${CUDAFORGE_THREADS:-\$(nproc)}
export PATH="$home/bin:\$PATH" REAL_NVCC="$home/bin/nvcc" NVCC="$root/scripts/cuda/nvcc-cached"
ENV
