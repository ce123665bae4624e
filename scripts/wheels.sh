#!/usr/bin/env bash
# Builds the Python wheel into dist/. It works with every Python from 3.10 on (abi3), carries the `tribunal` command, and
# with glibc is the same file with and without a GPU: the kernels are in it, and the driver is opened when a GPU is asked for.
#
#   scripts/wheels.sh                                       # for this machine
#   scripts/wheels.sh --target aarch64-unknown-linux-gnu    # for 64-bit ARM, from x86-64 Linux
#   scripts/wheels.sh --target x86_64-unknown-linux-musl    # for Alpine Linux; without kernels: the driver needs glibc
#   scripts/wheels.sh --no-gpu                              # without kernels
#   scripts/wheels.sh --profile dist                        # slower to build; writes 2 to 7% more tokens per second on a CPU
#
# Needs a Rust toolchain (with rustup for another target) and Python 3 with pip, which fetches maturin, Zig's C compiler and
# linker, and, for the kernels, the CUDA compiler. What else is given goes to maturin. scripts/wheel_test.sh installs what
# comes out into an empty root.
#
# A wheel for Linux asks for glibc 2.28 of 2018, so RHEL 8, Debian 10 and Ubuntu 20.04 and all later ones can install it, or
# for musl 1.2. Its kernels are machine code for compute capabilities 8.0, which runs on 8.6 and 8.9 too, and 9.0, and PTX for
# later GPUs; drivers of CUDA 12 and of CUDA 13 load the same ones. A wheel for macOS is built on a Mac and has none. A list of
# all Rust packages in a wheel (CycloneDX) is in its `dist-info/sboms`. From nothing it takes 21 minutes of a processor (two cores
# of an AMD EPYC); with the dependencies kept, the kernels, this repository's crates and the linking take 6.3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

host="$(rustc -vV | sed -n 's/^host: //p')"
target=$host profile=release gpu=1 others=()
while [ $# -gt 0 ]; do
  case $1 in
    --target) target=${2:?hint: --target TRIPLE} && shift 2 ;;
    --profile) profile=${2:?hint: --profile release or dist} && shift 2 ;;
    --no-gpu) gpu='' && shift ;;
    *) others+=("$1") && shift ;;
  esac
done

environment="${CARGO_TARGET_DIR:-target}/wheel-tools"
if ! "$environment/bin/python" -c "import ziglang, wheel" 2>/dev/null || [ ! -x "$environment/bin/maturin" ]; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check 'maturin[zig]>=1.9,<2' wheel
fi
export PATH="$(realpath "$environment")/bin:$PATH"

# Neither the time nor the folders of this machine are in what is built.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)}"
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/tribunal"

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
options=(--profile "$profile" --locked --manifest-path python/Cargo.toml --out "$built")
case $target in
  *-linux-gnu)
    options+=(--zig --compatibility manylinux_2_28)
    if [ -n "$gpu" ]; then
      scripts/cuda/toolkit.sh
      . .cuda/env
      export TRIBUNAL_CUDA_GENERATIONS="${TRIBUNAL_CUDA_GENERATIONS:-80 90a}"
      options+=(--features cuda)
    fi
    ;;
  *-linux-musl) options+=(--zig --compatibility musllinux_1_2) ;;
esac
if [ "$target" != "$host" ]; then
  if command -v rustup >/dev/null; then rustup target add "$target"; fi
  options+=(--target "$target")
fi
maturin build "${options[@]}" ${others[@]+"${others[@]}"}

# The list of packages names the folder of each crate.
python -m wheel unpack --dest "$built" "$built"/*.whl >/dev/null
sed -i.old "s|file://$PWD|file:///tribunal|g" "$built"/*/*.dist-info/sboms/*.json
rm "$built"/*/*.dist-info/sboms/*.old
mkdir -p dist
python -m wheel pack --dest-dir dist "$built"/tribunal_mt-*/
