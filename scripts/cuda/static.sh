#!/usr/bin/env bash
# What can be known of a kernel's speed without a GPU, for each generation that the binary has machine code for:
#   no register is spilled, and no array lies in local memory;
#   a block's registers and its shared memory fit (kernels/tests/tiles.txt has the dynamic part of products);
#   the fast products have the tensor core's instructions, asynchronous copies and matrix loads, and as many blocks
#   fit on a multiprocessor as they ask for;
#   kernels that write no fused multiply-add have none;
#   from compute capability 9.0 on, a kernel waits for those before it, and lets the next one start, before it touches the
#   device's memory (await_earlier in kernels/common.cuh) but for one copy of a TMA product, and reads nothing through the
#   read-only cache, which another kernel's writes do not reach;
#   each wait for a barrier in shared memory traps at the end of its bound (mbarrier_wait in kernels/tma.cuh);
#   a warp group that gave registers back uses those alone that it kept;
#   wgmma's products run beside the warps that start them: ptxas puts in no wait of its own (its notes C7510 to C7519).
#
#   scripts/cuda/static.sh [--table] [--only GENERATION] [KERNEL...]
#
# --table prints each product's registers, shared memory and blocks a multiprocessor. KERNEL is a name in kernels/, or the
# path of a .cu file below it (planted faults: kernels/tests/faults/static, by scripts/cuda/sanitize.sh). Machine code is kept
# in .cuda/static and compiled anew when a source has changed. The last line counts what passed and failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
scripts/cuda/toolkit.sh || exit 2
. .cuda/env
table=
if [ "${1:-}" = --table ]; then table=1 && shift; fi
generations=(80 86 89 90a 100 120)
if [ "${1:-}" = --only ]; then generations=("$2") && shift 2; fi
kernels=()
for kernel in "$@"; do kernel=${kernel#kernels/} && kernels+=("${kernel%.cu}"); done
[ $# -gt 0 ] || for file in kernels/*.cu; do kernels+=("$(basename "$file" .cu)"); done

# generation: shared memory of a block at most, of a multiprocessor, in bytes (a block takes 1 KiB beside its own)
limits() {
  case $1 in
    80) echo 166912 167936 ;;
    86 | 89) echo 101376 102400 ;;
    90a | 100) echo 232448 233472 ;;
    120) echo 101376 102400 ;;
  esac
}
registers_of_block=65536 # and of a multiprocessor

newest=$(cat kernels/*.cuh kernels/*.h "$0" "$NVCC" .cuda/wheels.stamp | sha256sum)
key() { echo "$newest $(sha256sum <"kernels/$1.cu")"; } # of the sources and compiler of a kernel's machine code

compile() { # compile GENERATION KERNEL: machine code, what ptxas says of it, and its instructions
  local out=.cuda/static/$1/$2
  mkdir -p "$(dirname "$out")"
  [ "$(cat "$out.stamp" 2>/dev/null)" = "$(key "$2")" ] && return
  "$NVCC" -O3 -std=c++17 --fmad=false -Werror all-warnings -arch="sm_$1" -cubin \
    --ptxas-options=-v "kernels/$2.cu" -o "$out.cubin" >"$out.ptxas" 2>&1 || return
  nvdisasm -c "$out.cubin" >"$out.sass" 2>"$out.nvdisasm" || { cat "$out.nvdisasm" && return 1; }
  key "$2" >"$out.stamp"
}
export -f compile key
export NVCC newest

# "NAME registers spilled stack static-shared waits" for each function of a log of ptxas.
sizes() {
  awk '
    /\(C751[0-9]\)/ { split($0, quoted, "\047"); waits[quoted[2]]++ }
    /Compiling entry function/ { split($0, quoted, "\047"); name = quoted[2]; stack = spilled = 0 }
    /stack frame/ { stack = $1; spilled = $5 + $9 }
    /Used [0-9]+ registers/ {
      registers = shared = 0
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^registers/) registers = $(i - 1)
        if ($i ~ /^smem/) shared = $(i - 2)
      }
      print name, registers, spilled, stack, shared, waits[name] + 0
    }' "$1"
}

# "NAME count.." of the instructions that are looked for, for each function of a listing.
instructions() {
  awk '
    function hex(digits, i, n) {
      for (i = 1; i <= length(digits); i++) n = n * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
      return n
    }
    function registers_from(first, line, n) { # how often a line has a register that is not among the first ones
      while (match(line, /[^A-Z]R[0-9]+/)) {
        n += substr(line, RSTART + 2, RLENGTH - 2) + 0 >= first
        line = substr(line, RSTART + RLENGTH)
      }
      return n
    }
    function flush() { if (name) print name, n["HMMA"] + 0, n["LDGSTS"] + 0, n["LDSM"] + 0, n["FFMA"] + 0, n["local"] + 0, n["UTMALDG"] + 0, n["ACQBULK"] + 0, n["PREEXIT"] + 0, n["sooner"] + 0, n["over"] + 0, n["cached"] + 0, n["try"] + 0, n["trap"] + 0 }
    /^\.text\./ { flush(); name = substr($1, 7); sub(/:$/, "", name); delete n; kept = 0 }
    kept { n["over"] += registers_from(kept, $0) }
    kept && / EXIT/ && !/@/ { kept = 0 }
    / USETMAXREG\.DEALLOC/ && match($0, /0x[0-9a-f]+/) { kept = hex(substr($0, RSTART + 2, RLENGTH - 2)) }
    name {
      if (/ HMMA\.16816\.F32\.BF16/ || / HGMMA\.64x[0-9]+x16\.F32\.BF16/) n["HMMA"]++
      else if (/ LDGSTS\.E\.BYPASS\.128/) n["LDGSTS"]++
      else if (/ LDSM\./) n["LDSM"]++
      else if (/ UTMALDG/) n["UTMALDG"]++
      else if (/ FFMA/) n["FFMA"]++
      else if (/ (LDL|STL)/) n["local"]++
      else if (/ ACQBULK/) n["ACQBULK"]++
      else if (/ PREEXIT/) n["PREEXIT"]++
      else if (/ SYNCS[.A-Z0-9]*\.TRYWAIT/) n["try"]++
      else if (/ BPT\.TRAP/) n["trap"]++
      if (/ LDG[.A-Z0-9]*\.CONSTANT/) n["cached"]++
      early = / UTMALDG/ && n["UTMALDG"] == 1 && name ~ /^gemm_[a-z0-9]+_tma_[0-9x]+(_split|_merged)?$/
      if (/ (LD|ST|LDG|STG|ATOM|ATOMG|RED|REDG|LDGSTS|UTMALDG|UTMASTG)[. ]/ && !n["ACQBULK"] && !early) n["sooner"]++
    }
    END { flush() }' "$1"
}

tile() { # tile NAME: threads and dynamic shared memory of a product, also of the split and grouped ones, and of attention
  case $1 in
    attend_*_d*_t*)
      local sizes=${1#attend_*_d}
      awk -v dim="${sizes%_t*}" -v queries="${sizes#*_t}" '$1 == dim && $2 == queries { print $4, $3 }' kernels/tests/attend_shared.txt
      ;;
    tail | sort_pairs) echo 1024 0 ;;
    gemm_silu_tma_* | gemm_gelu_tma_*) tile "gemm_bf16_tma_${1#gemm_????_tma_}" ;;
    gemm_heads_tma_*) tile "gemm_bf16_tma_${1#gemm_heads_tma_}" ;;
    *)
      local tile=${1%_split}
      tile=${tile%_grouped}
      tile=${tile%_gated}
      awk -v name="${tile%_merged}" '$1 == name { print $5, $6; found = 1 } END { if (!found) print 256, 0 }' kernels/tests/tiles.txt
      ;;
  esac
}

passed=0 failed=0
refuse() { failed=$((failed + 1)) && echo "FAILED  sm_$generation $name: $1"; }

# Another generation's kernel: it stops at once.
foreign() { [[ $name == *_wgmma_* || $name == *_tma_* ]] && [ "$generation" != 90a ]; }

check_function() { # with generation, name and all of its numbers set
  local block_limit all_shared blocks wanted before=$failed
  read -r block_limit all_shared < <(limits "$generation")
  read -r threads dynamic < <(tile "$name")
  [ "$spilled" = 0 ] || refuse "$spilled bytes of spilled registers"
  [ "$stack" = 0 ] || refuse "$stack bytes of local memory"
  [ "$waits" = 0 ] || refuse "ptxas made products wait in $waits places"
  [ "$local" = 0 ] || refuse "$local instructions that use local memory"
  [ $((registers * threads)) -le $registers_of_block ] || refuse "$threads threads with $registers registers each"
  if ! foreign && [ $((static + dynamic)) -gt "$block_limit" ]; then
    # crates/cuda/src/tiles.rs leaves out tiles of attention that a device has no room for; the smallest always fits.
    case $name in attend_*_t32 | attend_*_t64) ;; *) refuse "$((static + dynamic)) bytes of shared memory" ;; esac
  fi
  [ "$tries" -le "$traps" ] || refuse "$tries tries of a barrier, and $traps waits that end by a trap"
  [ "$over" = 0 ] || refuse "$over uses of registers that were given back"
  if [ "${generation%a}" -ge 90 ]; then
    [ "$acquires" -gt 0 ] && [ "$releases" -gt 0 ] || refuse "no await_earlier"
    [ "$sooner" = 0 ] || refuse "$sooner instructions touch memory before await_earlier"
    [ "$cached" = 0 ] || refuse "$cached loads through the read-only cache"
  fi
  case $name in
    gemm_*_*x* | attend_*_d*_t*)
      if foreign; then passed=$((passed + 1)) && return; fi
      [ "$hmma" -gt 0 ] || refuse "no tensor core"
      if [[ $name == *_tma_* ]]; then
        [ "$tma" -gt 0 ] || refuse "no TMA copy"
      else
        [ "$ldgsts" -gt 0 ] || refuse "no asynchronous copy of 16 bytes"
        [ "$ldsm" -gt 0 ] || [[ $name == *_wgmma_* ]] || refuse "no matrix load"
      fi
      blocks=$((registers_of_block / (threads * ((registers + 7) / 8 * 8))))
      wanted=$((all_shared / (static + dynamic + 1024)))
      [ -z "$table" ] || printf 'sm_%-4s %-28s %3d registers  %6d bytes shared  blocks %2d by registers, %d by memory\n' \
        "$generation" "$name" "$registers" "$((static + dynamic))" "$blocks" "$wanted"
      [ "$blocks" -ge "$((wanted < 2 ? wanted : 2))" ] || refuse "$blocks blocks by registers, $wanted by memory"
      ;;
    gemm_bf16 | gemm_bf16_grouped | gemm_bf16_gated | gemm_q*) [ "$hmma" -gt 0 ] || refuse "no tensor core" ;;
  esac
  case $name in
    gemm_bf16*_gated) ;; # the gate has some
    gemm_bf16* | gemm_merge | dequantize_* | take_rows_* | copy_blocks)
      [ "$ffma" = 0 ] || refuse "$ffma fused multiply-adds, and none is written" ;;
  esac
  [ "$failed" -gt "$before" ] || passed=$((passed + 1))
}

for generation in "${generations[@]}"; do printf "$generation %s\n" "${kernels[@]}"; done |
  xargs -P "$(nproc)" -L 1 bash -c 'compile "$@"' _ || true
for generation in "${generations[@]}"; do
  for kernel in "${kernels[@]}"; do
    out=.cuda/static/$generation/$kernel
    name=$kernel
    if [ "$(cat "$out.stamp" 2>/dev/null)" != "$(key "$kernel")" ]; then
      refuse "does not compile" && cat "$out.ptxas"
      continue
    fi
    while read -r name registers spilled stack static waits hmma ldgsts ldsm ffma local tma acquires releases sooner over cached tries traps; do
      check_function
    done < <(join <(sizes "$out.ptxas" | sort) <(instructions "$out.sass" | sort))
  done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
