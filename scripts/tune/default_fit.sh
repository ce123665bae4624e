#!/usr/bin/env bash
# Makes a fit that comes with the program, from the ratings of 2020 and 2021 alone (docs/tuning.md). The same data give
# the same bytes.
#
#   TRIBUNAL_DATA=DIR scripts/tune/default_fit.sh [--model CARD] [--readings DIR] [--tribunal PATH]
#
# CARD is qwen2.5-coder-1.5b-instruct, the default model, or qwen2.5-coder-0.5b-instruct.
# `DIR/ratings-2020-2021` has the ratings, `DIR/wmt23` the test set that nothing is trained on. What the model has read
# is kept in the folder of `--readings`, so that the script goes on where it was stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

model=qwen2.5-coder-1.5b-instruct
readings=out/default-fit
tribunal=target/release/tribunal
while [ $# -gt 0 ]; do
  case "$1" in
    --model) model=${2:?} ;;
    --readings) readings=${2:?} ;;
    --tribunal) tribunal=${2:?} ;;
    *) die "\`$1\` is not an option; hint: scripts/tune/default_fit.sh [--model CARD] [--readings DIR] [--tribunal PATH]" ;;
  esac
  shift 2
done
data=${TRIBUNAL_DATA:-}
[ -d "$data/ratings-2020-2021" ] || die "\`$data/ratings-2020-2021\` is not there; hint: set TRIBUNAL_DATA"

# How many of each file, and after how many layers.
case "$model" in
  qwen2.5-coder-1.5b-instruct) how=(--sample 1800+240 --corrupted 2400 --depth 16) ;;
  qwen2.5-coder-0.5b-instruct) how=(--sample 450+60 --corrupted 1200 --depth 14) ;;
  *) die "\`$model\` has no fit that comes with the program; hint: \`tribunal tune probe\` makes one of your own" ;;
esac

# Without the direct assessments of Indic languages, Nepali, Sinhala and Yoruba: a character of most of these costs a token.
exec "$tribunal" tune probe --input "$data"/ratings-2020-2021/*.jsonl.xz --exclude "$data/wmt23" \
  -l en-de zh-en en-ru en-zh ro-en et-en ru-en en-cs en-ja km-en ps-en \
  "${how[@]}" --seed 0 --hold-out 0.2 --model "$model" --readings "$readings" --out "models/fits/$model.json"
