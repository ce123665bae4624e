#!/usr/bin/env bash
# How much memory long runs and large inputs take: peak resident memory of `tribunal score` with a seeded two-layer model,
# first for more and more calls, then for larger and larger inputs of which a hundred segments are judged.
# Usage: scripts/soak.sh [TRIBUNAL] [CALLS ...] [-- SEGMENTS ...]
# Example: scripts/soak.sh target/release/tribunal 1000 10000 100000 -- 1000 100000 1000000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

program=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/tribunal}")
shift || true
[ -x "$program" ] || die "\`$program\` is missing; hint: cargo build --release, or name the program"
[ -x /usr/bin/time ] || die "GNU time is missing; hint: apt-get install time"
calls=() segments=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do calls+=("$1"); shift; done
if [ $# -gt 0 ]; then shift; segments=("$@"); fi
if [ ${#calls[@]} -eq 0 ] && [ ${#segments[@]} -eq 0 ]; then
  calls=(1000 10000 100000)
  segments=(1000 100000 1000000)
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/tribunal-soak.XXXXXX")
trap 'rm -rf "$root"' EXIT
# A prompt that the tiny model's context holds.
mkdir -p "$root/prompts/gemba_scales"
printf '{{ source }}\n{{ target }}\nScore as JSON:\n' > "$root/prompts/gemba_scales/sqm.j2"

# Documents of ten segments, 320 bytes a line.
input() {
  awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "{\"system\":\"s\",\"doc\":\"d%d\",\"seg_id\":%d,\"src_lang\":\"en\",\"tgt_lang\":\"de\",\"source\":\"The council voted on %d to close the old bridge for repairs until the spring of next year, it said.\",\"hypothesis\":\"Der Rat hat am %d beschlossen, die alte Bruecke bis zum Fruehjahr des naechsten Jahres zu sperren.\"}\n", i / 10, i, i, i }' \
    > "$root/input.jsonl"
}

# The seconds and the peak KiB of a run over the input.
score() {
  local code=0
  /usr/bin/time -f '%e %M' -o "$root/time" "$program" score --input "$root/input.jsonl" --out "$root/out" \
    --method gemba-sqm --prompts "$root/prompts" --max-tokens 24 --model models/tiny/qwen2 --kv-cache 8MiB \
    --quiet --only-system "$@" >"$root/said" 2>&1 || code=$?
  # 1: a model of noise leaves some segments without a verdict.
  [ "$code" -le 1 ] || die "exit code $code: $(cat "$root/said")"
  tail -1 "$root/time"
}

row() {
  read -r seconds kib
  printf '| %s | %s | %.0f s | %.0f MiB |\n' "$1" "$2" "$seconds" "$(awk -v k="$kib" 'BEGIN { print k / 1024 }')"
}

printf '| segments of the input | calls | time | peak memory |\n|---|---|---|---|\n'
for n in "${calls[@]}"; do
  input "$n"
  score | row "$n" "$n"
  rm -rf "$root/out"
done
for n in "${segments[@]}"; do
  input "$n"
  parts=$(((n + 99) / 100))
  score --shard "1/$parts" | row "$n" "$((n / parts))"
  rm -rf "$root/out"
done
