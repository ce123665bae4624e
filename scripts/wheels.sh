#!/usr/bin/env bash
# Builds the Python wheel for this machine's platform into dist/, with the profile `dist` of all that is published. It
# works with every Python from 3.10 on (abi3) and carries the `tribunal` command. Needs a Rust toolchain; maturin is
# fetched by pip if it is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

maturin="$(command -v maturin || true)"
if [ -z "$maturin" ]; then
  environment="${CARGO_TARGET_DIR:-target}/maturin"
  [ -x "$environment/bin/maturin" ] || { python3 -m venv "$environment"; "$environment/bin/pip" install --quiet 'maturin>=1.9,<2'; }
  maturin="$environment/bin/maturin"
fi
"$maturin" build --profile dist --locked --manifest-path python/Cargo.toml --out dist "$@"
