#!/usr/bin/env bash
# Looks for races, overruns and undefined behaviour in the kernels and in the emulated driver, and proves first that it
# would find them: each planted fault of kernels/tests/faults has to be reported. No GPU needed.
#
#   scripts/cuda/sanitize.sh [--all | NAME...]
#
# Without arguments, as in CI: the planted faults, the driver, devices that exchange rows, and the tests of norm and fragments, which have what the others
# are made of: sums over a block, asynchronous copies, matrix loads. --all: every host test, which takes long. NAME: only
# these host tests.
# JOBS tests run at a time (default: one for each core).
set -uo pipefail
cd "$(dirname "$0")/../.."
scripts/cuda/toolkit.sh || exit 2
. .cuda/env
build=.cuda/sanitize
library=.cuda/faults
memory=address,undefined
results=$build/results
. scripts/cuda/checks.sh
scripts/cuda/library.sh "$library" kernels/tests/faults/*.cu || exit 2
read -ra flags <"$library/host_flags"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=history_size=0:halt_on_error=1

build_test() { # build_test NAME SANITIZERS: into a folder of the sanitizers' name; "" for none
  mkdir -p "$build/$2"
  g++ "${flags[@]}" -O1 ${2:+"-fsanitize=$2"} "kernels/tests/$1.cpp" -o "$build/$2/$1"
}

# run LOG PROGRAM ARGUMENTS...: what it writes goes to LOG. Older ThreadSanitizers cannot live with as much randomness
# of addresses as newer kernels have.
run() {
  "${@:2}" >"$1" 2>&1
  local status=$?
  if grep -q 'unexpected memory mapping' "$1"; then
    setarch "$(uname -m)" -R "${@:2}" >"$1" 2>&1
    status=$?
  fi
  return "$status"
}

finds() { # finds SANITIZERS FAULT TEXT: the program reports the planted fault
  local log=$build/$1/$2.found
  run "$log" "$build/$1/faults" "$2"
  grep -qF -- "$3" "$log" || { echo "nothing says \`$3\`:" && cat "$log" && return 1; }
}

static_finds() { # static_finds FAULT TEXT...: scripts/cuda/static.sh refuses the planted kernel, and says all of this
  local log=$build/static_$1.found text
  scripts/cuda/static.sh --only 90a "kernels/tests/faults/static/$1.cu" >"$log" && cat "$log" && return 1
  for text in "${@:2}"; do grep -qF -- "$text" "$log" || { echo "nothing says \`$text\`:" && cat "$log" && return 1; }; done
}

finds_nothing() { # finds_nothing SANITIZERS TEST: it builds (faults is built) and passes, and nothing is reported
  [ "$2" = faults ] || build_test "$2" "$1" || return 1
  local log=$build/$1/$2.log golden=tests/golden/$2.json
  [ -e "$golden" ] || golden=
  run "$log" "$build/$1/$2" ${golden:+"$golden"} && ! grep -qE 'Sanitizer|runtime error' "$log" && return
  cat "$log"
  return 1
}

build_driver() {
  g++ -std=c++17 -O1 -Wall -Wextra -Werror -isystem "$CUDA_HOME/include" kernels/tests/driver.cpp -o "$build/driver" -ldl
}

# of_kernel NAME WORD: the number before WORD in what ptxas says of a kernel.
of_kernel() {
  awk -v name="function '$1'" -v word="$2" '
    /Compiling entry function/ { here = index($0, name) }
    here && /Used/ { for (i = 2; i <= NF; i++) if ($i ~ "^" word) { print $(i - (word == "smem" ? 2 : 1)); exit } }' "$build/ptxas"
}

driver() { # with the cubin of some kernels, and what ptxas says of them
  "$NVCC" -O3 -std=c++17 -arch=sm_90a -cubin --ptxas-options=-v kernels/tests/faults/sound.cu \
    -o "$build/sound.cubin" 2>"$build/ptxas" || return 1
  "$build/driver" "$PWD/$library/libcuda.so.1" "$build/sound.cubin" "$(of_kernel reverse registers)" \
    "$(of_kernel count smem)"
}

driver_in_bounds() { # the driver itself, instrumented; the program that calls it is not
  local log=$build/driver.log
  scripts/cuda/library.sh "$library-memory" --sanitize "$memory" kernels/tests/faults/*.cu || return 1
  run "$log" env LD_PRELOAD="$(g++ -print-file-name=libasan.so)" "$build/driver" \
    "$PWD/$library-memory/libcuda.so.1" sound && ! grep -qE 'Sanitizer|runtime error' "$log" && return
  cat "$log"
  return 1
}

build_exchange() { # the driver too, to which streams are threads
  scripts/cuda/library.sh "$library-exchange" --sanitize thread kernels/gather.cu kernels/tests/faults/sound.cu &&
    g++ -std=c++17 -O1 -g -Wall -Wextra -Werror -fsanitize=thread -isystem "$CUDA_HOME/include" kernels/tests/exchange.cpp \
      -o "$build/exchange" -ldl
}

exchange() { # exchange CASE RACES: whether ThreadSanitizer finds races between the streams of several devices
  local log=$build/exchange_$1.log races=0
  TRIBUNAL_EMULATED_DEVICES=3 run "$log" "$build/exchange" "$PWD/$library-exchange/libcuda.so.1" "$1" || races=1
  grep -q 'ThreadSanitizer: data race' "$log" || [ "$races" = 0 ] || races=failed
  [ "$races" = "$2" ] || { cat "$log" && return 1; }
}

tests=("$@")
if [ $# = 0 ] || [ "$1" = --all ]; then
  tests=(norm fragments)
  if [ "${1:-}" = --all ]; then
    tests=()
    for test in kernels/tests/*.cpp; do
      name=$(basename "$test" .cpp)
      case $name in driver | exchange | faults) ;; *) tests+=("$name") ;; esac
    done
  fi
  build_driver || exit 2
  build_exchange || exit 2
  for sound in sound through_host; do later "devices exchange rows, $sound: no race" exchange "$sound" 0; done
  for fault in no_wait too_early through_host_no_wait through_host_one_half; do
    later "devices exchange rows, $fault: a race" exchange "$fault" 1
  done
  later "the driver" driver
  later "the driver: nothing out of bounds, nothing undefined" driver_in_bounds
  for kind in "" thread "$memory"; do later "planted faults, ${kind:-no sanitizer}: built" build_test faults "$kind"; done
  wait && jobs=0
  # Without a sanitizer: unwritten memory is NaN, and copies arrive as late as possible.
  for fault in uninitialised missing_wait; do later "$fault: NaN" finds "" "$fault" nan; done
  for fault in no_wait wrong_phase no_arrival; do
    later "tma_$fault: named" finds "" "tma_$fault" 'threads wait for each other'
  done
  later "tma_no_wait_for_room: named" finds "" tma_no_wait_for_room 'more arrivals than the barrier counts'
  later "tma_too_few_bytes: named" finds "" tma_too_few_bytes 'more bytes than the barrier expects'
  later "tma_no_init: named" finds "" tma_no_init 'the barrier was not initialised'
  later "tma_left: named" finds "" tma_left 'still on their way'
  later "tma_misaligned: named" finds "" tma_misaligned 'not aligned to 1024 bytes'
  later "tma_too_early: named" finds "" tma_too_early 'a copy before await_earlier'
  later "tma_overwritten: named" finds "" tma_overwritten 'the destination of a copy in flight was written'
  for fault in returns half_frees; do later "aligned_$fault: named" finds "" "aligned_$fault" 'lanes of its mask have ended'; done
  for fault in skips two_places; do
    later "aligned_$fault: named" finds "" "aligned_$fault" 'other lanes of the warp are in ldmatrix_x4 at'
  done
  later "aligned_half_transposes: named" finds "" aligned_half_transposes 'other lanes of the warp are in mma_bf16 at'
  for fault in no_publish publish_too_early publish_too_late stores_no_publish store_after_publish transposed_no_publish; do
    later "wgmma_$fault: named" finds "" "wgmma_$fault" 'of an operand was not published'
  done
  later "wgmma_no_first_fence: named" finds "" wgmma_no_first_fence 'a product before any wgmma_fence'
  later "wgmma_no_second_fence: named" finds "" wgmma_no_second_fence 'and no wgmma_fence follows'
  for fault in no_commit no_product_wait half_waits; do
    later "wgmma_$fault: named" finds "" "wgmma_$fault" 'has ended, and products are on their way'
  done
  later "wgmma_sums_in_flight: named" finds "" wgmma_sums_in_flight 'the sums of a product on its way were written'
  later "wgmma_rows_in_flight: another sum" finds "" wgmma_rows_in_flight 24576.000000 # sound ones' is 16384
  later "wgmma_operand_in_flight: another sum" finds "" wgmma_operand_in_flight 16640.000000 # sound ones' is 16384
  for fault in first_reduces semaphore_not_zero; do later "split_k_$fault: NaN" finds "" "split_k_$fault" nan; done
  later "split_k_own_first: another sum" finds "" split_k_own_first 128.000000 # sound ones' is 96
  later "split_k_no_fence: a race" finds thread split_k_no_fence 'ThreadSanitizer: data race'
  later "machine code, cached: refused" static_finds cached 'cached: 1 loads through the read-only cache'
  later "machine code, too_soon: refused" static_finds too_soon 'never_waits: no await_earlier' \
    'too_soon: 1 instructions touch memory before await_earlier'
  later "machine code, spilled: refused" static_finds spilled 'bytes of spilled registers' 'bytes of local memory'
  later "machine code, fused: refused" static_finds fused 'take_rows_fused: 1 fused multiply-adds, and none is written'
  later "machine code, unbounded: refused" static_finds unbounded 'tries of a barrier, and 0 waits that end by a trap'
  later "forgotten_wait: named" finds "" forgotten_wait 'has ended without await_earlier'
  later "divergent_barrier: named" finds "" divergent_barrier 'threads of a block are at different barriers'
  later "wgmma_operand_in_flight: a race" finds thread wgmma_operand_in_flight 'host::Products::read_chunk'
  for fault in own_write other_block overlapped; do
    later "cached_$fault: a race" finds thread "cached_$fault" 'host::ReadOnlyCache::read'
  done
  for fault in missing_barrier shuffle_for_barrier overtaken blocks_race; do
    later "$fault: a race" finds thread "$fault" 'ThreadSanitizer: data race'
  done
  later "overrun: out of bounds" finds "$memory" overrun 'AddressSanitizer: heap-buffer-overflow'
  later "shared_overrun: out of bounds" finds "$memory" shared_overrun 'AddressSanitizer'
  later "misaligned_load: undefined" finds "$memory" misaligned_load 'load of misaligned address'
  for kind in thread "$memory"; do later "no fault planted, $kind: nothing found" finds_nothing "$kind" faults; done
fi
for name in "${tests[@]}"; do
  later "$name: no race" finds_nothing thread "$name"
  later "$name: nothing out of bounds, nothing undefined" finds_nothing "$memory" "$name"
done
tally
