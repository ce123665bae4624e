#!/usr/bin/env bash
# Installs wheels into empty roots (scripts/empty_root.sh: Python and pip alone; no compiler, no network) and starts what
# they bring: the module, `--version`, `selftest`, and verdicts on the quick start's examples by a tiny seeded model, whose
# log-probabilities must be the same from every wheel. A wheel with kernels is started without a GPU: asked for one it says in one
# sentence that there is none, and on the CPU it judges. Where the quick start's smaller judge has been pulled, it judges too.
#
#   scripts/wheel_test.sh WHEEL...
#   scripts/wheel_test.sh --module target/debug/lib_tribunal.so    # a wheel packed around a module that is built already
#
# A wheel for another processor runs on an emulated one (qemu-user-static). Needs root; the exit code is 77 where a root
# cannot be made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
skip() { printf 'not checked: %s\n' "$*"; exit 77; }

[ "$(id -u)" = 0 ] || skip "an empty root is entered by root"
unshare --net --mount true 2>/dev/null || skip "this machine has no namespaces to run an empty root in"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
largest=$((60 * 1000 * 1000)) judge="${TRIBUNAL_MODEL:-qwen2.5-coder-0.5b-instruct}"
models="${TRIBUNAL_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tribunal}"
[ -d "$models" ] || { models="$work/models" && mkdir "$models"; }

# packed MODULE: the wheel that maturin would make of a module that cargo has built; prints its path.
packed() {
  local tools
  tools="$(realpath -m "${CARGO_TARGET_DIR:-target}")/wheel-tools"
  [ -x "$tools/bin/python" ] || python3 -m venv "$tools" >&2
  "$tools/bin/python" -c "import maturin, wheel" 2>/dev/null ||
    "$tools/bin/pip" install --quiet 'maturin[zig]>=1.9,<2' wheel >&2 || skip "pip cannot install maturin here" >&2
  mkdir "$work/packed"
  "$tools/bin/maturin" pep517 write-dist-info --manifest-path python/Cargo.toml --metadata-directory "$work/packed" \
    --interpreter python3 >&2
  cp -r python/tribunal "$work/packed"
  find "$work/packed" -name '*.pyc' -delete
  strip -o "$work/packed/tribunal/_tribunal.abi3.so" "$1"
  "$tools/bin/python" -m wheel pack --dest-dir "$work" "$work/packed" >&2
  ls "$work"/*.whl
}

# in_root COMMAND...: a command of Python in the root, without a network and with the models read-only, on an emulated
# processor where $emulator says so.
in_root() {
  unshare --net --mount -- sh -euc '
    mount --bind "$1" "$3/models" && mount -o remount,bind,ro "$3/models"
    shift && exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home LC_ALL=C.UTF-8 TRIBUNAL_HOME=/models "$@"
  ' sh "$models" "$(command -v chroot)" "$root" ${emulator:+/emulator} /usr/bin/python3 "$@"
}

tribunal() { in_root "$program" "$@"; }

# verdicts NAME OPTION...: of the examples, in the root's folder NAME.
verdicts() {
  tribunal score -s /examples/source.txt -t /examples/system-a.txt /examples/system-b.txt -l en-de "${@:2}" \
    --out "/$1" --only-system || [ $? = 1 ] || die "no verdicts with ${*:2}"
}

test_wheel() {
  local wheel=$1 kind emulator='' qemu
  case ${wheel##*/} in
    *manylinux*_x86_64.whl | *-linux_x86_64.whl) kind=x86_64-glibc ;;
    *manylinux*_aarch64.whl) kind=aarch64-glibc ;;
    *musllinux*_x86_64.whl) kind=x86_64-musl ;;
    *) die "\`$wheel\` is for a platform without an empty root" ;;
  esac
  say "${wheel##*/}: $(stat -c %s "$wheel") bytes, $kind"
  [ -n "$module" ] || [ "$(stat -c %s "$wheel")" -lt $largest ] || die "it is larger than $largest bytes"
  local tar
  tar=$(scripts/empty_root.sh "$kind")
  root="$work/$kind" && rm -rf "$root" && mkdir "$root"
  tar xf "$tar" -C "$root"
  if [ "${kind%-*}" != "$(uname -m)" ]; then
    qemu=$(command -v "qemu-${kind%-*}-static") || {
      { apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-user-static; } >/dev/null 2>&1 ||
        skip "qemu-user-static cannot be installed here"
      qemu=$(command -v "qemu-${kind%-*}-static")
    }
    cp "$qemu" "$root/emulator" && emulator=1
  fi
  for program in cc gcc clang make ld; do
    [ ! -e "$root/usr/bin/$program" ] || die "the empty root has a compiler: $program"
  done
  mkdir -p "$root"/{dist,model,models,examples,tmp,home}
  cp "$wheel" "$root/dist" && cp examples/en-de/*.txt "$root/examples" && cp models/tiny/qwen2/* "$root/model"

  # Only Debian's own pip has to be told that this package is not Debian's.
  local pip=(--quiet --no-cache-dir --no-index --disable-pip-version-check --root-user-action ignore)
  case $kind in *-glibc) pip+=(--break-system-packages) ;; esac
  in_root -m pip install "${pip[@]}" --find-links /dist tribunal-mt || die "pip refuses the wheel"
  for program in /usr/local/bin/tribunal /usr/bin/tribunal ''; do
    [ ! -e "$root$program" ] || break
  done
  [ -n "$program" ] || die "no command \`tribunal\` was installed"

  in_root -c 'import tribunal; print("module", tribunal.__version__, len(tribunal.methods()), "methods")'
  tribunal --version
  tribunal selftest
  verdicts out --method likelihood --model /model --max-tokens 24
  # The weights are random, so the answers may be no verdicts: their log-probabilities count.
  python3 -c 'import json, sys
calls = sorted((json.loads(line) for line in sys.stdin), key=lambda call: (call["system"], call["seg"], call["stage"]))
for call in calls:
    print(json.dumps([call[key] for key in ("system", "seg", "stage", "reply", "scored") if key in call]))
' <"$root/out/calls.jsonl" >"$work/$kind.numbers"
  [ "$(grep -c 0 "$work/$kind.numbers")" = 16 ] || die "the run recorded no log-probabilities"
  cat "$root/out/verdicts.jsonl" >>"$work/$kind.numbers"
  for other in "$work"/*.numbers; do
    cmp "$other" "$work/$kind.numbers" || die "the numbers are not those of $(basename "$other" .numbers)"
  done
  in_root -c 'import tribunal
verdicts = tribunal.Judge("/model", method="likelihood", language_pair="en-de").score([{"src": "Good morning.", "mt": "Guten Morgen."}])
assert len(verdicts) == 1 and verdicts[0].status, verdicts
print("judged in Python:", verdicts[0].status)'
  if grep -qx 'features *cuda' <<<"$(tribunal --version)"; then
    tribunal ask --model /model --device cuda hello >"$work/said" 2>&1 && die "\`--device cuda\` found a GPU in an empty root"
    cat "$work/said"
    grep -q 'there is no NVIDIA driver' "$work/said" || die "without a driver \`--device cuda\` does not say so"
  fi
  if [ -n "$emulator$module" ]; then
    echo "not checked: the quick start's judge, for which this is too slow"
  elif tribunal models verify "$judge" >/dev/null 2>&1; then
    verdicts quick --method probe --model "$judge"
  else
    echo "not checked: the quick start's judge; hint: tribunal models pull $judge"
  fi
  rm -rf "$root"
}

[ $# -gt 0 ] || die "hint: scripts/wheel_test.sh WHEEL..."
module=
if [ "$1" = --module ]; then
  module=1 # without optimization it may be larger than what is published
  set -- "$(packed "${2:?hint: --module FILE}")"
fi
for wheel in "$@"; do test_wheel "$wheel"; done
say "$# wheel(s) installed and started"
