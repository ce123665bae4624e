#!/usr/bin/env bash
# Looks for races, overruns and undefined behaviour in the kernels and in the emulated driver, and proves first that it
# would find them: each planted fault of kernels/tests/faults has to be reported. No GPU needed.
#
#   scripts/cuda/sanitize.sh [NAME...]   only these host tests; default: all, and the driver
#
# JOBS tests run at a time (default: one for each core). The last line counts what passed and failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
scripts/cuda/toolkit.sh || exit 2
. .cuda/env
build=.cuda/sanitize
library=.cuda/faults
rm -rf "$build/results"
mkdir -p "$build/results"
scripts/cuda/library.sh "$library" kernels/tests/faults/*.cu || exit 2
read -ra flags <"$library/host_flags"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=history_size=0:halt_on_error=1

build_test() { # build_test NAME SANITIZERS: into a folder of the sanitizers' name; "" for none
  mkdir -p "$build/$2"
  g++ "${flags[@]}" -O1 ${2:+"-fsanitize=$2"} "kernels/tests/$1.cpp" -o "$build/$2/$1"
}

run() { # run PROGRAM ARGUMENTS: old ThreadSanitizers need a kernel that randomizes addresses less
  "$@" 2>&1 | tee "$build/results/$BASHPID.out"
  local status=${PIPESTATUS[0]}
  if grep -q 'unexpected memory mapping' "$build/results/$BASHPID.out"; then
    setarch "$(uname -m)" -R "$@" 2>&1
    status=$?
  fi
  rm -f "$build/results/$BASHPID.out"
  return "$status"
}

finds() { # finds SANITIZERS FAULT TEXT: the program reports the planted fault
  run "$build/$1/faults" "$2" | grep -F -- "$3"
}
finds_nothing() { # finds_nothing SANITIZERS TEST: it builds and passes, and nothing is reported
  build_test "$2" "$1" || return 1
  local golden=tests/golden/$2.json
  [ -e "$golden" ] || golden=
  run "$build/$1/$2" ${golden:+"$golden"} >"$build/$1/$2.log" && ! grep -E 'Sanitizer|runtime error' "$build/$1/$2.log"
  local status=$?
  [ "$status" = 0 ] || cat "$build/$1/$2.log"
  return "$status"
}

build_driver() {
  g++ -std=c++17 -O1 -Wall -Wextra -Werror -isystem "$CUDA_HOME/include" kernels/tests/driver.cpp -o "$build/driver" -ldl
}
driver() { # with the cubin of a kernel, and what ptxas says of it
  "$NVCC" -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -cubin -Xptxas -v kernels/tests/faults/sound.cu \
    -o "$build/sound.cubin" 2>"$build/ptxas" || return 1
  local registers shared
  registers=$(awk "/for 'reverse'/ { here = 1 } here && /Used/ { print \$5; exit }" "$build/ptxas")
  shared=$(awk "/for 'count'/ { here = 1 } here && /Used/ { for (i = 1; i < NF; i++) if (\$(i + 2) ~ /^smem/) print \$i; exit }" "$build/ptxas")
  build_driver && "$build/driver" "$PWD/$library/libcuda.so.1" "$build/sound.cubin" "$registers" "$shared"
}

driver_in_bounds() { # the driver itself, instrumented; the program that calls it is not
  scripts/cuda/library.sh "$library-memory" --sanitize address,undefined kernels/tests/faults/*.cu &&
    build_driver && run env LD_PRELOAD="$(g++ -print-file-name=libasan.so)" \
      "$build/driver" "$PWD/$library-memory/libcuda.so.1" sound >"$build/driver.log" &&
    ! grep -E 'Sanitizer|runtime error' "$build/driver.log"
}

check() { # check NAME COMMAND...: shows the command's output if it fails; runs beside others
  local log=$build/results/${1//[ \/,:]/_}
  if "${@:2}" >"$log.log" 2>&1; then
    echo "ok      $1" | tee "$log.ok"
  else
    { echo "FAILED  $1"; cat "$log.log"; } | tee "$log.failed"
  fi
}
jobs=0
later() { # later NAME COMMAND...: a check in the background, JOBS at a time
  if [ "$jobs" -ge "${JOBS:-$(nproc)}" ]; then wait -n; jobs=$((jobs - 1)); fi
  check "$@" &
  jobs=$((jobs + 1))
}

memory=address,undefined
tests=("$@")
if [ $# = 0 ]; then
  for test in kernels/tests/*.cpp; do
    name=$(basename "$test" .cpp)
    case $name in driver | faults) ;; *) tests+=("$name") ;; esac
  done
  later "the driver" driver
  later "the driver: nothing out of bounds, nothing undefined" driver_in_bounds
  for kind in "" thread "$memory"; do build_test faults "$kind" || exit 2; done
  # Without a sanitizer: memory that nobody wrote is NaN, and copies come as late as they may.
  for fault in uninitialised missing_wait overtaken; do later "$fault: NaN" finds "" "$fault" nan; done
  later "divergent_barrier: named" finds "" divergent_barrier 'threads of a block meet at different barriers'
  for fault in missing_barrier shuffle_for_barrier overtaken blocks_race; do
    later "$fault: a race" finds thread "$fault" 'ThreadSanitizer: data race'
  done
  later "overrun: out of bounds" finds "$memory" overrun 'AddressSanitizer: heap-buffer-overflow'
  later "shared_overrun: out of bounds" finds "$memory" shared_overrun 'AddressSanitizer'
  later "misaligned_load: undefined" finds "$memory" misaligned_load 'load of misaligned address'
  tests+=(faults)
fi
for name in "${tests[@]}"; do
  later "$name: no race" finds_nothing thread "$name"
  later "$name: nothing out of bounds, nothing undefined" finds_nothing "$memory" "$name"
done
wait
passed=$(find "$build/results" -name '*.ok' | wc -l) failed=$(find "$build/results" -name '*.failed' | wc -l)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
