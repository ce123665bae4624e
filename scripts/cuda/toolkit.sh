#!/usr/bin/env bash
# Puts a CUDA compiler into .cuda/ (git-ignored, and may be a link to a folder that several checkouts share): nvcc and its
# headers from PyPI. Needs python3 with pip and g++; no GPU, no driver, no root. No CUDA library comes with it, and none is
# needed.
#
#   scripts/cuda/toolkit.sh && . .cuda/env
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p .cuda
cuda=$(realpath .cuda)

# 13.0 on purpose: a driver refuses PTX newer than itself.
wheels=(
  nvidia-cuda-nvcc==13.0.88    # nvcc, ptxas
  nvidia-nvvm==13.0.88         # its optimizer
  nvidia-cuda-crt==13.0.88     # headers that nvcc always includes
  nvidia-cuda-runtime==13.0.96 # cuda_runtime.h, cuda_bf16.h
  nvidia-cuda-cccl==13.0.85    # C++ headers that cuda_fp16.h includes
  nvidia-cuda-nvdisasm==13.2.86 # machine code as text, for static.sh; there is no 13.0 of it
)

key="${wheels[*]}"
if [ "$(cat "$cuda/wheels.stamp" 2>/dev/null)" != "$key" ]; then
  rm -rf "$cuda/site"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary=:all: --no-compile --target "$cuda/site" "${wheels[@]}"
  echo "$key" >"$cuda/wheels.stamp"
fi
home=$(echo "$cuda"/site/nvidia/cu*)
cat >"$cuda/env" <<ENV
export CUDA_HOME="$home"
export PATH="$home/bin:\$PATH" NVCC="$home/bin/nvcc"
ENV
