#!/usr/bin/env bash
# Builds the Python wheel for this machine's platform into dist/, with the profile `dist` of all that is published. It
# works with every Python from 3.10 on (abi3) and carries the `tribunal` command. Needs a Rust toolchain; maturin is
# fetched by pip if it is not there. On x86-64 Linux `--target aarch64-unknown-linux-gnu` builds the wheel for 64-bit ARM,
# with the compiler aarch64-linux-gnu-gcc (Debian's gcc-aarch64-linux-gnu, and libc6-dev-arm64-cross). Wheels for macOS are
# built on a Mac.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ " $* " == *aarch64-unknown-linux-gnu* && $(uname -m) != aarch64 ]]; then
  command -v aarch64-linux-gnu-gcc >/dev/null \
    || { echo "error: no \`aarch64-linux-gnu-gcc\`; hint: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2; exit 2; }
  if command -v rustup >/dev/null; then rustup target add aarch64-unknown-linux-gnu; fi
  export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
fi

maturin="$(command -v maturin || true)"
if [ -z "$maturin" ]; then
  environment="${CARGO_TARGET_DIR:-target}/maturin"
  [ -x "$environment/bin/maturin" ] || { python3 -m venv "$environment"; "$environment/bin/pip" install --quiet 'maturin>=1.9,<2'; }
  maturin="$environment/bin/maturin"
fi
"$maturin" build --profile dist --locked --manifest-path python/Cargo.toml --out dist "$@"
