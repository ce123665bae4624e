#!/usr/bin/env bash
# The ARM kernels without an ARM processor: compiles the engine's tests for 64-bit ARM, runs those of its kernels and tiny
# models on emulated processors with and without the products of bytes, where they must give the bits that x86-64 wrote
# down, and looks at the instructions of the inner loops. With a program for x86-64, that one also judges on an emulated
# processor of 2009 (x86-64-v2), with the verdicts that it gives here.
#
#   scripts/arm.sh [TRIBUNAL]
#
# What is missing is installed where this runs as root with apt-get; where it cannot be, the exit code is 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=aarch64-unknown-linux-gnu
say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
skip() { printf 'not checked: %s\n' "$*"; exit 77; }

missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if [ ${#missing[@]} -gt 0 ]; then
  { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || skip "no ${missing[*]}, and this is not root with apt-get"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >/dev/null 2>&1 || skip "${missing[*]} cannot be installed here"
fi
if [ ! -d "$(rustc --print target-libdir --target $target)" ]; then
  command -v rustup >/dev/null || skip "no Rust library for $target, and no rustup to add it"
  rustup target add $target >/dev/null 2>&1 || skip "rustup cannot add $target here"
fi

say "the engine's tests for $target"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# The engine as it is released, without checks in its loops; what is not the engine need not be fast, but quick to compile.
quick=()
for setting in opt-level=3 debug-assertions=false overflow-checks=false; do
  quick+=(--config "profile.dev.package.tribunal-engine.$setting")
done
for crate in aho-corasick candle-core derivre fancy-regex flate2 gemm gemm-f32 llguidance memchr miniz_oxide rayon-core \
  regex-automata safetensors serde_json sha2 tokenizers toktrie; do
  quick+=(--config "profile.dev.package.$crate.opt-level=0")
done
tests=$(cargo test --locked -p tribunal-engine --lib --target $target "${quick[@]}" --no-run --message-format=json \
  | python3 -c 'import json, sys
paths = [json.loads(line).get("executable") for line in sys.stdin]
print(*[path for path in paths if path])')
[ -n "$tests" ] || die "cargo names no test program"

# on PROCESSOR TIERS TEST...: the tests on an emulated processor, which must have these tiers.
on() {
  say "on an emulated $1: $2"
  TRIBUNAL_TEST_TIERS="$2" qemu-aarch64 -cpu "$1" -L /usr/aarch64-linux-gnu "$tests" --quiet "${@:3}" \
    || die "the kernels fail on $1"
}
on max "portable neon neon-dotprod neon-i8mm" model::cpu
on neoverse-n1 "portable neon neon-dotprod" model::cpu::tests::bits model::cpu::tier model::cpu::baseline
on cortex-a72 "portable neon" model::cpu::tests::bits model::cpu::tier model::cpu::baseline

say "instructions of the inner loops"
aarch64-linux-gnu-objdump -d --no-show-raw-insn "$tests" | python3 scripts/arm_loops.py

tribunal="${1:-}"
if [ -n "$tribunal" ] && [ "$(uname -m)" = x86_64 ] && command -v qemu-x86_64 >/dev/null; then
  say "x86-64-v2: an emulated Nehalem"
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
  old() { qemu-x86_64 -cpu Nehalem "$tribunal" "$@"; }
  old --version | grep -x 'tiers *portable' || die "an old processor has other tiers than \`portable\`"
  head -n 3 examples/en-de/source.txt >"$out/source.txt"
  head -n 3 examples/en-de/system-a.txt >"$out/system.txt"
  judge=(score -s "$out/source.txt" -t "$out/system.txt" -l en-de --method likelihood --model models/tiny/llama --quiet)
  old "${judge[@]}" --out "$out/old" >/dev/null
  "$tribunal" "${judge[@]}" --out "$out/new" >/dev/null
  cmp "$out/old/verdicts.jsonl" "$out/new/verdicts.jsonl" || die "an old processor gives other verdicts"
  wc -l <"$out/old/verdicts.jsonl" | sed 's/$/ verdicts, the same bytes/'
fi
