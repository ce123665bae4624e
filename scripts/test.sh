#!/usr/bin/env bash
# Everything that CI runs: format, clippy with warnings as errors, all tests, doc tests, the quick start, and GPU support
# without a GPU. It fetches the default judge and three smaller models, tokenizers to compare with (where npm is installed) and
# the CUDA compiler; they stay in git-ignored or cache folders, so later runs are shorter. `TRIBUNAL_DATA` may name a
# folder with the published test data; tests that use it say so when it is not set.
#
#   scripts/test.sh [--fast|--all]
#
# Long steps whose files have not changed since they last passed on this machine are left out; --all runs them all, and the
# tests that draw at random draw more; some steps and tests run with --all only. --fast stops after format, clippy and the
# unit tests, which need no model, no network and no other program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s (after %d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

all= fast=
case "${1:-}" in
  --all) all=1 ;;
  --fast) fast=1 ;;
  "") ;;
  *) die "\`$1\` is not an option; hint: scripts/test.sh [--fast|--all]" ;;
esac

passed="${XDG_CACHE_HOME:-$HOME/.cache}/tribunal/passed"
mkdir -p "$passed"

# unchanged NAME PATH...: whether the step passed here when these files were as they are now.
unchanged() {
  stamp="$passed/$1-$(find "${@:2}" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)"
  [ -z "$all" ] && [ -e "$stamp" ] && echo "passed on this machine, and nothing of it has changed since"
}

command -v cargo >/dev/null || die "\`cargo\` is not on PATH; hint: install Rust from https://rustup.rs"
[ -n "$fast" ] || command -v g++ >/dev/null ||
  die "\`g++\`, which compiles the kernels for the emulated GPU, is not on PATH; hint: install it, or run scripts/test.sh --fast"
for component in fmt clippy; do
  cargo "$component" --version >/dev/null 2>&1 && continue
  command -v rustup >/dev/null || die "\`cargo $component\` is missing; hint: install rustfmt and clippy"
  rustup component add rustfmt clippy
done

step "format"
cargo fmt --all --check

if [ -z "$fast" ]; then
  step "CUDA compiler"
  scripts/cuda/toolkit.sh
  . .cuda/env
  # One generation of GPUs is enough here; scripts/cuda/check.sh --all compiles for others.
  export TRIBUNAL_CUDA_GENERATIONS=90a
fi
# Set for clippy too: build scripts run again where a variable that they read has changed.
export PYO3_BUILD_EXTENSION_MODULE=1

step "clippy"
cargo clippy --locked --workspace --all-targets -- -D warnings

if [ -n "$fast" ]; then
  step "unit tests"
  cargo test --locked --workspace --lib --bins
  step "the fast tests passed"
  exit
fi

if [ -n "$all" ]; then
  step "each crate alone"
  # In a workspace, a crate may compile by features that only another one asks for.
  for manifest in crates/*/Cargo.toml; do
    cargo check --locked --quiet --lib --manifest-path "$manifest"
  done
fi

step "build"
# All crates in one breath, the Python module too: features of shared dependencies are then the same, and none of them is
# compiled twice. (Python is found by the interpreter that loads the module, not by the linker.)
everything=(--locked --workspace --features tribunal/cuda)
cargo build "${everything[@]}" --lib --bins --tests

step "quick start, and the test models"
# With the binary that was just built for the tests.
tribunal="${CARGO_TARGET_DIR:-target}/debug/tribunal"
quick=$(mktemp -d)
trap 'rm -rf "$quick"' EXIT
# The smaller of the two judges, which a build without optimization can run.
TRIBUNAL_BINARY="$tribunal" TRIBUNAL_OUT="$quick/out" TRIBUNAL_MODEL=qwen2.5-coder-0.5b-instruct \
  scripts/quickstart.sh | tee "$quick/said" || [ $? = 1 ]
grep -q '^system-b ' "$quick/said" || die "the quick start printed no systems"
grep -q '^caution: ' "$quick/said" || die "the quick start printed no caution above the systems"
for model in qwen2.5-coder-1.5b-instruct smollm2-135m-instruct gemma-3-270m multilingual-e5-small; do
  "$tribunal" models verify "$model" >/dev/null 2>&1 || "$tribunal" models pull --quiet "$model"
done

step "examples of the library"
cargo build "${everything[@]}" --examples
examples="${CARGO_TARGET_DIR:-target}/debug/examples"
"$examples/judge_a_segment" smollm2-135m-instruct > "$quick/segment"
grep -q 'score:' "$quick/segment" || die "judge_a_segment printed no score"
printf '{"src": "Good morning.", "mt": "Guten Morgen.", "lp": "en-de"}\n' > "$quick/table.jsonl"
"$examples/judge_a_file" "$quick/table.jsonl" "$quick/example" models/tiny/qwen2 > "$quick/file"
grep -q '^method:gemba-da' "$quick/file" || die "judge_a_file printed no signature"

step "the table of methods"
if command -v python3 >/dev/null; then
  python3 scripts/methods_table.py --check --tribunal "$tribunal"
  # Comparisons with other engines start; those that need packages are only compiled.
  for script in scripts/peers/*.py scripts/first_verdicts.py; do
    if grep -qE '^(import|from) (torch|transformers|gguf|numpy)' "$script"; then
      python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$script"
    else
      python3 "$script" --help > /dev/null
    fi
  done
else
  echo "not checked: there is no python3 on this machine"
fi

step "tokenizers to compare with"
TRIBUNAL_TOKENIZERS=$(realpath "${CARGO_TARGET_DIR:-target}")/tokenizers
export TRIBUNAL_TOKENIZERS
scripts/tokenizers.sh "$TRIBUNAL_TOKENIZERS"

step "tests"
if [ -n "$all" ]; then
  export TRIBUNAL_FUZZ=2000 TRIBUNAL_ANSWERS=10000 TRIBUNAL_KILLS=50 TRIBUNAL_STEPS=10000
  export TRIBUNAL_TEST_TIMINGS=all TRIBUNAL_TEST_METHODS=all
fi
export INSTA_SNAPSHOT_REFERENCES_FILE="$quick/snapshots"
cargo test "${everything[@]}" --lib --bins --tests --no-fail-fast
unset INSTA_SNAPSHOT_REFERENCES_FILE

step "snapshots that no test reads"
unread=$(comm -23 <(find src crates tests -path '*/snapshots/*.snap' -exec realpath {} + | sort) <(xargs realpath < "$quick/snapshots" | sort -u))
[ -z "$unread" ] || die "no test reads ${unread//$'\n'/, }; hint: delete them"

step "doc tests"
cargo test "${everything[@]}" --doc

step "Python"
scripts/python_test.sh

step "a wheel in an empty root"
# Of the module that the tests have just used; scripts/wheels.sh and the release's workflow make the ones to publish.
if ! unchanged wheel scripts/empty_root.sh scripts/wheel_test.sh python/Cargo.toml python/pyproject.toml python/src python/tribunal Cargo.lock; then
  status=0
  scripts/wheel_test.sh --module "${CARGO_TARGET_DIR:-target}/debug/lib_tribunal.so" || status=$?
  [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status" # 77: no root can be made or entered here
  [ "$status" = 77 ] || touch "$stamp"
fi

step "the documentation as a site"
if ! unchanged site scripts/site.py *.md docs examples python/README.md python/tribunal; then
  status=0
  scripts/site.py "$quick/site" || status=$?
  [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status" # 77: mdBook cannot be installed here
  [ "$status" = 77 ] || touch "$stamp"
fi

step "training adapters"
# PyTorch is larger than all that is downloaded here, so it is used where it is there already.
if python3 -c "import peft, safetensors, torch, transformers" 2>/dev/null; then
  python3 scripts/tune/gmft_gpu.py --tiny --tribunal "$tribunal"
  python3 scripts/tune/probe_gpu.py --tiny --tribunal "$tribunal"
else
  echo "not checked: python3 cannot import torch, transformers and peft"
fi

step "the report in a browser"
if ! unchanged browser crates/report scripts/report_test.py; then
  # On a CI machine a browser is installed for this; elsewhere it runs where there is one already.
  if [ "$(id -u)" = 0 ] && [ -n "${CI:-}" ] && command -v apt-get >/dev/null && ! command -v chromium >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
      >/dev/null 2>&1 || echo "note: no browser can be installed here"
  fi
  scripts/report_test.py
  touch "$stamp"
fi

gpu=(kernels scripts/cuda crates/cuda crates/model/src tests/golden/mma.json tests/golden/planes.snap)

step "the engine on an emulated GPU"
# Left to --all: eight GPUs, GPUs that copy through the host, formats one by one. Others have two and four GPUs, and all formats.
skipped=(--skip cuda::eight --skip detour::steps --skip agrees_in_every_format --skip products_by_any_kernels)
[ -z "$all" ] || skipped=()
if ! unchanged emulated "${gpu[@]}" crates/engine/tests/all tests/all/cuda_program.rs tests/all/cuda_program; then
  TRIBUNAL_TEST_GPU=1 TRIBUNAL_TEST_EMULATED=1 \
    scripts/cuda/emulated.sh cargo test "${everything[@]}" --test all -- cuda:: cuda_program:: "${skipped[@]}"
  touch "$stamp"
fi

step "kernels without a GPU"
if ! unchanged kernels kernels scripts/cuda tests/golden/mma.json tests/golden/planes.snap; then
  scripts/cuda/check.sh ${all:+--all}
  touch "$stamp"
fi

step "races, overruns and undefined behaviour in kernels"
if ! unchanged sanitize kernels scripts/cuda; then
  scripts/cuda/sanitize.sh
  touch "$stamp"
fi

step "ARM, and an old processor"
if ! unchanged arm scripts/arm.sh scripts/arm_loops.py crates/cpu crates/model/Cargo.toml crates/model/src models/tiny Cargo.lock; then
  status=0
  scripts/arm.sh ${all:+--all} "$tribunal" || status=$?
  [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status" # 77: something cannot be installed here
  [ "$status" = 77 ] || touch "$stamp"
fi

if [ -n "$all" ]; then
  step "Apple's processors, by the compiler alone"
  status=0
  scripts/apple.sh || status=$?
  [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status" # 77: something cannot be installed here
fi

# On a CI machine Slurm is installed for this; elsewhere it runs where Slurm is there already.
if [ "$(id -u)" = 0 ] && { [ -n "${CI:-}" ] || command -v slurmctld >/dev/null; }; then
  step "three nodes of Slurm"
  if ! unchanged slurm src/cli/slurm src/cli/slurm.rs crates/run scripts/slurm_test.sh; then
    status=0
    scripts/slurm_test.sh || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status" # 77: it cannot be installed here
    touch "$stamp"
  fi
fi

step "everything passed"
