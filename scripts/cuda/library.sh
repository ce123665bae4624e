#!/usr/bin/env bash
# Builds the emulated driver, libcuda.so.1, over kernels: `library.sh FOLDER [--sanitize KIND] KERNELS.cu...`.
# KIND is thread, address or undefined. Only what has changed since the last time is compiled. FOLDER/host_flags has
# the flags for host tests (`g++ $(cat FOLDER/host_flags) kernels/tests/NAME.cpp`). Needs .cuda/env.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1 && shift
sanitize=() driver=$(dirname "$folder")/driver # the driver is the same over all kernels
if [ "$1" = --sanitize ]; then
  sanitize=("-fsanitize=$2" -fno-omit-frame-pointer) driver=$driver-$2
  shift 2
fi
: "${CUDA_HOME:?hint: run \`. .cuda/env\`}"

# No contraction: a fused multiply-add is one that the kernel writes. Variables start as rubbish, not by luck as zero.
flags=(-std=c++17 -O2 -g -march=x86-64-v3 -ffp-contract=off -ftrivial-auto-var-init=pattern -fPIC
  -Wall -Wextra -Werror -Wno-unknown-pragmas -isystem "$CUDA_HOME/include" -I kernels/emulated "${sanitize[@]}")
mkdir -p "$folder/objects" "$driver"

# For threads the kernels alone are instrumented; the driver says itself what comes before what.
driver_flags=()
if [ "${sanitize[0]-}" = -fsanitize=thread ]; then driver_flags=(-fno-sanitize=thread -D__SANITIZE_THREAD__=1); fi

compiler=$(g++ --version | sed -n 1p)
hash_of() { sha256sum <<<"$compiler ${flags[*]}$(cat "$@" 2>/dev/null | sha256sum)" | cut -d' ' -f1; }

compile() { # compile SOURCE OBJECT FLAGS...: unless the object is of these very sources and flags
  local source=$1 object=$2
  if [ -e "$object.hash" ] && [ "$(cat "$object.hash")" = "$(hash_of $(cat "$object.from"))" ]; then return; fi
  g++ "${flags[@]}" "${@:3}" -MMD -MF "$object.d" -c "$source" -o "$object"
  sed 's/^[^:]*://; s/\\$//' "$object.d" | tr -s ' \n' '\n' | sed '/^$/d' >"$object.from"
  # shellcheck disable=SC2046 # a list of files
  hash_of $(cat "$object.from") >"$object.hash"
}

jobs=0
later() { # later SOURCE OBJECT FLAGS...: a compilation in the background, as many at a time as there are cores
  if [ "$jobs" -ge "${JOBS:-$(nproc)}" ]; then wait -n; jobs=$((jobs - 1)); fi
  compile "$@" &
  jobs=$((jobs + 1))
}

# A file that includes a kernel's source and registers its `extern "C" __global__` functions by their signatures.
register() { # register KERNEL.cu OUT.cpp
  {
    echo "#include \"$PWD/$1\""
    echo '#include "registry.h"'
    g++ "${flags[@]}" -DHOST_LIST_KERNELS -include host.h -x c++ -E -P "$1" | tr '\n' ' ' |
      grep -oE 'extern "C" +host_kernel_mark +void +(__attribute__ *\(\([^)]*\)\) *)?\w+ *\(' |
      sed -E 's/.*[ )](\w+) *\($/HOST_KERNEL(\1)/'
  } >"$2.new"
  if cmp -s "$2.new" "$2"; then rm "$2.new"; else mv "$2.new" "$2"; fi
}

objects=()
for source in kernels/emulated/driver/*.cpp; do
  object=$driver/$(basename "$source" .cpp).o
  later "$source" "$object" "${driver_flags[@]}"
  objects+=("$object")
done
for kernel in "$@"; do
  name=kernel_$(basename "$kernel" .cu)
  register "$kernel" "$folder/objects/$name.cpp"
  later "$folder/objects/$name.cpp" "$folder/objects/$name.o" -include host.h
  objects+=("$folder/objects/$name.o")
done
while [ "$jobs" -gt 0 ]; do wait -n; jobs=$((jobs - 1)); done
echo "${flags[*]} -include host.h" >"$folder/host_flags"
changed=
for object in "${objects[@]}"; do [ "$folder/libcuda.so.1" -nt "$object" ] || changed=1; done
if [ -n "$changed" ] || [ "$(cat "$folder/linked" 2>/dev/null)" != "${objects[*]}" ]; then
  echo '{ global: cu*; local: *; };' >"$folder/exports"
  g++ -shared "${sanitize[@]}" -o "$folder/libcuda.so.1" -Wl,-soname,libcuda.so.1 \
    -Wl,--version-script="$folder/exports" "${objects[@]}"
  ln -sf libcuda.so.1 "$folder/libcuda.so" # the name that is tried first
  echo "${objects[*]}" >"$folder/linked"
fi
