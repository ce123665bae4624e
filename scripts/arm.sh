#!/usr/bin/env bash
# The ARM kernels without an ARM processor: compiles the tests of the CPU backend for 64-bit ARM, runs its kernels and tiny
# models on emulated processors with and without the products of bytes, where they must give the bits that x86-64 wrote
# down, and looks at the instructions of the inner loops. With a program for x86-64, that one also judges with each tier of
# this machine and on an emulated processor of 2009 (x86-64-v2); with --all the whole program is compiled for ARM, which
# takes as long as all the rest, and judges on those processors. The verdicts must be the same bytes.
#
#   scripts/arm.sh [--all] [TRIBUNAL]
#
# What is missing is installed where this runs as root with apt-get; where it cannot be, the exit code is 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=
[ "${1:-}" != --all ] || { all=1; shift; }
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

say "the CPU backend's tests for $target"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# What computes as it is released, without checks in its loops; the other crates need not be fast, but quick to compile.
quick=(--config profile.dev.opt-level=0 --config profile.dev.debug=false)
for setting in opt-level=3 debug-assertions=false overflow-checks=false; do
  quick+=(--config "profile.dev.package.tribunal-cpu.$setting" --config "profile.dev.package.tribunal-model.$setting")
done
for crate in tribunal-cuda tribunal-engine tribunal-hub tribunal-meta aho-corasick candle-core derivre fancy-regex flate2 gemm gemm-f32 half libm \
  llguidance memchr miniz_oxide rayon-core regex-automata safetensors serde_json sha2 tokenizers toktrie zstd-sys; do
  quick+=(--config "profile.dev.package.$crate.opt-level=0")
done
there=(--locked --target $target "${quick[@]}")
tests=$(cargo test "${there[@]}" -p tribunal-cpu --lib --no-run --message-format=json | python3 -c 'import json, sys
paths = [json.loads(line).get("executable") for line in sys.stdin]
print(*[path for path in paths if path])')
[ -n "$tests" ] || die "cargo names no test program"

# on PROCESSOR TIERS TEST...: the tests on an emulated processor, which must have these tiers.
on() {
  say "on an emulated $1: $2"
  TRIBUNAL_TEST_TIERS="$2" qemu-aarch64 -cpu "$1" -L /usr/aarch64-linux-gnu "$tests" --quiet "${@:3}" \
    || die "the kernels fail on $1"
}
on max "portable neon neon-dotprod neon-i8mm"
on neoverse-n1 "portable neon neon-dotprod" tests::bits isa:: baseline::
on cortex-a72 "portable neon" tests::bits isa:: baseline::

say "instructions of the inner loops"
aarch64-linux-gnu-objdump -d --no-show-raw-insn "$tests" | python3 scripts/arm_loops.py

tribunal="${1:-}"
[ -n "$tribunal" ] && [ "$(uname -m)" = x86_64 ] || exit 0
say "verdicts of the program"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
head -n 3 examples/en-de/source.txt >"$out/source.txt"
head -n 3 examples/en-de/system-a.txt >"$out/system.txt"

# judges NAME PROGRAM...: its verdicts and log-probabilities with a method that reads probabilities and one that reads an
# answer. The model's weights are random, so the first of them may end without a score (1): its log-probabilities count.
judges() {
  for method in likelihood gemba-sqm; do
    "${@:2}" score -s "$out/source.txt" -t "$out/system.txt" -l en-de --method $method --model models/tiny/llama \
      --max-tokens 24 --quiet --out "$out/$1-$method" >/dev/null || [ $? = 1 ] || die "$1 gives no verdicts with $method"
    python3 -c 'import json, sys
calls = [json.loads(line) for line in sys.stdin]
for call in sorted(calls, key=lambda call: (call["seg"], call["stage"])):
    print(call["seg"], call["stage"], json.dumps([call.get(key) for key in ("reply", "logprobs", "scored")]))
' <"$out/$1-$method/calls.jsonl" >"$out/$1-$method/numbers"
    [ "$(wc -l <"$out/$1-$method/numbers")" -ge 3 ] || die "$1 has too few calls with $method"
    for file in verdicts.jsonl numbers; do
      cmp "$out/first-$method/$file" "$out/$1-$method/$file" || die "$1 gives other verdicts with $method"
    done
  done
  echo "$1: $(cat "$out/$1"-*/verdicts.jsonl | wc -l) verdicts, the same bytes"
}

judges first "$tribunal"
for tier in $("$tribunal" --version | sed -n 's/^tiers *//p' | tr -d ,); do
  TRIBUNAL_CPU_TIER="$tier" judges "$tier" "$tribunal"
done
if [ -n "$all" ]; then
  cargo build "${there[@]}" -p tribunal --no-default-features --bin tribunal
  for processor in max neoverse-n1 cortex-a72; do
    judges "$processor" qemu-aarch64 -cpu $processor -L /usr/aarch64-linux-gnu "target/$target/debug/tribunal"
  done
fi
command -v qemu-x86_64 >/dev/null || exit 0
nehalem=(qemu-x86_64 -cpu Nehalem "$tribunal")
"${nehalem[@]}" --version | grep -x 'tiers *portable' || die "an old processor has other tiers than \`portable\`"
judges nehalem "${nehalem[@]}"
