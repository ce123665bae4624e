#!/usr/bin/env bash
# What CI checks of the CUDA side, on a machine without a GPU:
#   each kernel compiles to PTX (warnings are errors) and on to machine code, which static.sh looks at;
#   each kernel's host test passes; the stand-ins for the CUDA libraries find a library, and say so if there is none;
#   the Rust code type-checks with the feature `cuda`.
# Everything it needs goes to .cuda/ and target/ (both git-ignored). The last line counts what passed and failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
scripts/cuda/toolkit.sh || exit 2
. .cuda/env
build=.cuda/build
mkdir -p "$build"

passed=0 failed=0
check() { # check NAME COMMAND...: shows the command's output if it fails
  if "${@:2}" >"$build/log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $1"
  else
    failed=$((failed + 1))
    echo "FAILED  $1"
    cat "$build/log"
  fi
}

ptx() {
  "$REAL_NVCC" -O3 -std=c++17 --fmad=false -Werror all-warnings -gencode=arch=compute_90,code=compute_90 -ptx "$1" \
    -o "$build/out.ptx"
}

host_test() { # host_test NAME: its argument is the golden file of that name, where there is one
  g++ -std=c++17 -O2 -ffp-contract=off -Wall -Werror -Wno-unknown-pragmas -isystem "$CUDA_HOME/include" \
    -I kernels/emulated -include host.h "kernels/tests/$1.cpp" -o "$build/$1" &&
    "$build/$1" "tests/golden/$1.json"
}

stand_ins() {
  gcc -O1 -Wall -Werror scripts/cuda/stubs_test.c -L"$CUDA_HOME/lib/stubs" -lcuda -lcublas -o "$build/stubs_test" &&
    gcc -shared -fPIC -Wall -Werror -DLIBRARY scripts/cuda/stubs_test.c -o "$build/libcuda.so.1" &&
    "$build/stubs_test" missing &&
    LD_LIBRARY_PATH=$build "$build/stubs_test" found
}

type_check() { # in the folder and profile of clippy, which has checked most dependencies already
  mkdir -p "$build/stub"
  ln -sf "$PWD/scripts/cuda/nvcc-stub" "$build/stub/nvcc"
  PATH=$PWD/$build/stub:$PATH NVCC=$PWD/$build/stub/nvcc \
    cargo check --lib --bins --tests --locked --features cuda
}

for kernel in kernels/*.cu; do
  name=$(basename "$kernel" .cu)
  check "$name: PTX" ptx "$kernel"
done
check "machine code for each generation" scripts/cuda/static.sh
for test in kernels/tests/*.cpp; do
  name=$(basename "$test" .cpp)
  check "$name: host test" host_test "$name"
done
check "stand-ins for the CUDA libraries" stand_ins
check "cargo check --features cuda" type_check
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
