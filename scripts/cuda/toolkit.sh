#!/usr/bin/env bash
# Puts a CUDA compiler into .cuda/ (git-ignored, and may be a link to a folder that several checkouts share), from PyPI:
# NVRTC, ptxas and headers, and scripts/cuda/nvcc.py, which calls the two as nvcc does. Needs python3 with pip; no GPU, no
# driver, no root, no other compiler. A program that is built with it needs none of it to run.
#
#   scripts/cuda/toolkit.sh && . .cuda/env
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p .cuda
cuda=$(realpath .cuda)

# The last of CUDA 12: every driver from 12.2 on loads its machine code (from 12.8 on that for Blackwell), those of CUDA 13
# too; code of a 13.x compiler is refused by all drivers of 12.x.
wheels=(
  nvidia-cuda-nvrtc-cu12==12.9.86   # the front end and optimiser
  nvidia-cuda-nvcc-cu12==12.9.86    # ptxas, and headers that are always included; nvcc itself is not in it
  nvidia-cuda-runtime-cu12==12.9.79 # cuda_bf16.h, cuda_fp16.h; cuda.h for the emulated driver
  nvidia-cuda-cccl-cu12==12.9.27    # C++ headers that cuda_fp16.h includes
  nvidia-cuda-nvdisasm==13.2.86     # machine code as text, for static.sh; there is no 12.9 of it
)

key="${wheels[*]}"
home=$cuda/toolkit
if [ "$(cat "$cuda/wheels.stamp" 2>/dev/null)" != "$key" ] || [ ! -d "$home" ]; then
  rm -rf "$cuda/site" "$home"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary=:all: --no-compile --target "$cuda/site" "${wheels[@]}"
  # One folder as a toolkit's, of links into the wheels.
  mkdir -p "$home/bin" "$home/include" "$home/lib64"
  ln -sf "$cuda"/site/nvidia/*/include/* "$home/include"
  ln -sf "$cuda"/site/nvidia/*/bin/{ptxas,nvdisasm} "$home/bin"
  ln -sf "$cuda"/site/nvidia/cuda_nvrtc/lib/* "$home/lib64"
  echo "$key" >"$cuda/wheels.stamp"
fi
# A copy: the checkout that wrote a shared folder last may be gone.
cmp -s scripts/cuda/nvcc.py "$home/bin/nvcc" || install -m 755 scripts/cuda/nvcc.py "$home/bin/nvcc"
cat >"$cuda/env" <<ENV
export CUDA_HOME="$home"
export PATH="$home/bin:\$PATH" NVCC="$home/bin/nvcc"
ENV
