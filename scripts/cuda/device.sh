#!/usr/bin/env bash
# The first half hour on a GPU, in stages of one command each: at most ten minutes, no network, less than 64 MiB of
# files. On the machine that builds: `scripts/cuda/build.sh --tests`; then bring the repository and, of dist/, what the
# stage needs (built-at with each).
#
#   scripts/cuda/device.sh 1 [--tiny]   the tensor core's sums, the kernels' and the engine's tests, tiny models beside
#                                       the CPU, a wait that traps, compute-sanitizer   (tribunal.gz tribunal-tests.gz)
#   scripts/cuda/device.sh 2 [--tiny]   keeps the first half of SmolLM2-135M; products of the smallest shape
#                                       (tribunal-bench.gz smollm2.gguf.1)
#   scripts/cuda/device.sh 3 [--tiny]   joins and checks it; FSP on the GPU beside the CPU, and under every setting
#                                       (tribunal.gz tribunal-bench.gz smollm2.gguf.2 smollm2.sha256)
#   scripts/cuda/device.sh 4 [--tiny]   Qwen2.5 and Llama 3.1 by shape: launches by kernel, prompts and documents also by
#                                       kernels that no card has run, products, answers, chats, the fastest kernels of
#                                       products (lines of crates/cuda/src/products/h100.txt), and other programs beside
#                                       them where torch is there   (tribunal-bench.gz)
#
# Finished steps are kept in target/device/ and not done again: a stage that was cut off goes on where it was. Results
# are printed and written to OUT (default: target/device/results): stageN.json, stageN.txt and stageN.md, the tables for
# BENCHMARKS.md. Exit code 1: a step failed; 3: time was up before every step was done, so start the stage again.
#
# --tiny is the rehearsal without a card: `scripts/cuda/emulated.sh scripts/cuda/device.sh 1 --tiny`. It builds its
# programs where dist/ has none. STAGE_SECONDS: when to stop (540). STAGE_SHAPES: the shapes of stage 4.
# STAGE_SANITIZERS: the tools of compute-sanitizer that stage 1 runs (memcheck racecheck synccheck).
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
stage=${1:-} tiny=''
case $stage in 1 | 2 | 3 | 4) ;; *) usage ;; esac
case ${2:-} in --tiny) tiny=1 ;; '') ;; *) usage ;; esac

kept=$root/target/device${tiny:+-tiny}
out=${OUT:-$kept/results}
limit=${STAGE_SECONDS:-540}
mkdir -p "$kept/steps" "$out"
brought=dist # where the files are that a stage is given
[ -z "$tiny" ] || brought=$kept/brought
text=$out/stage$stage.txt
: >"$text"
failed=0 cut_off=0 summary=()

say() { echo "$*" | tee -a "$text"; }

# step NAME COMMAND...: unless it is done. What it prints is its result: JSON where it is one line of that.
step() {
  local name=$1 began=$SECONDS rc=0
  local log=$kept/steps/$stage-$name
  shift
  if [ ! -e "$log.done" ]; then
    if [ "$SECONDS" -ge "$limit" ]; then cut_off=1 && return; fi
    say "== $name: $*"
    # Some commands are functions of this file.
    timeout --kill-after=10 $((limit - SECONDS + 30)) bash -c '"$@"' step "$@" >"$log.out" 2>"$log.err" || rc=$?
    # 124 and 137: time was up. The step begins anew next time.
    if [ $rc = 124 ] || [ $rc = 137 ]; then cut_off=1 && return; fi
    echo "$rc $((SECONDS - began))" >"$log.done"
  fi
  local seconds
  read -r rc seconds <"$log.done"
  tail -c 20000 "$log.out" "$log.err" >>"$text"
  say "$name: exit code $rc after $seconds s"
  if [ "$rc" != 0 ]; then
    failed=$((failed + 1))
    tail -n 20 "$log.err" "$log.out"
    rm "$log.done" # tried again next time
  fi
  local result
  result=$(tail -n 1 "$log.out")
  case $result in '{'*'}') ;; *) result=null ;; esac
  summary+=("{\"step\":\"$name\",\"exit_code\":$rc,\"seconds\":$seconds,\"result\":$result}")
}

# unpack NAME: a program of dist/.
unpack() {
  [ ! -e "dist/$1.gz" ] || [ "dist/$1" -nt "dist/$1.gz" ] || { gzip -dc "dist/$1.gz" >"dist/$1" && chmod +x "dist/$1"; }
}

built() { # programs of the rehearsal, made where dist/ has none
  . .cuda/env
  cargo build --locked -p tribunal -p tribunal-bench --features tribunal/cuda --bins 2>>"$text" &&
    cargo test --locked --package tribunal-engine --features cuda --test all --no-run --message-format json 2>>"$text" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

# Programs that were built elsewhere look for the repository and for the binary where they were built.
settle() {
  local at=() place here
  mapfile -t at <dist/built-at
  for here in 0 1; do
    place=${at[$here]}
    [ -e "$place" ] && continue
    mkdir -p "$(dirname "$place")"
    if [ $here = 0 ]; then ln -s "$root" "$place"; else cp "$tribunal" "$place"; fi ||
      { say "device: cannot put anything at $place, where the tests were built to look" && exit 2; }
  done
}

mkdir -p dist
unpack tribunal
unpack tribunal-bench
unpack tribunal-tests
if [ -e dist/tribunal ] || [ -e dist/tribunal-bench ]; then
  tribunal=$root/dist/tribunal tests=$root/dist/tribunal-tests
else
  tests=$(built)
  [ -n "$tests" ] || { tail -n 20 "$text" >&2 && echo "device: nothing was built" >&2 && exit 2; }
  tribunal=$(dirname "$(dirname "$tests")")/tribunal
fi

# fsp DEVICE MODEL FOLDER ARGUMENTS...: the examples judged by FSP.
fsp() {
  local device=$1 model=$2 folder=$3
  shift 3
  local examples=$root/examples/en-de rc=0
  rm -rf "$folder"
  "$tribunal" score -s "$examples/source.txt" -t "$examples/system-a.txt" --docs "$examples/docs.txt" -l en-de \
    --model "$model" --device "$device" --quiet --out "$folder" "$@" >/dev/null || rc=$?
  [ $rc -le 1 ] # 1: a verdict is missing, which tiny models are free to do
}

# beside MODEL ARGUMENTS...: FSP on the CPU and on the GPU, compared. A few tokens of a mixture take other experts.
beside() {
  local model=$1 folder=$kept/runs/$(basename "$1") beyond=0
  case $model in *moe | *gpt-oss) beyond=0.1 ;; esac
  shift
  fsp cpu "$model" "$folder-cpu" --activations float "$@" && fsp cuda "$model" "$folder-cuda" "$@" &&
    python3 scripts/cuda/beside.py --beyond $beyond "$folder-cpu" "$folder-cuda"
}

# A tiny model that takes long prompts.
long() {
  local model=$kept/models/$1
  mkdir -p "$kept/models"
  rm -rf "$model" && cp -r "models/tiny/$1" "$model"
  sed -i 's/"max_position_embeddings": 512/"max_position_embeddings": 8192/' "$model/config.json"
  echo "$model"
}

traps() { nvcc -arch=sm_90a -o "$kept/traps" kernels/tests/traps.cu && "$kept/traps"; }

sanitize() { # compute-sanitizer TOOL over a test of the engine
  # Calls that fail on purpose (a parameter past the last one is asked for, to count them) are no errors of memory.
  local more=()
  [ "$1" != memcheck ] || more=(--report-api-errors no)
  compute-sanitizer --tool "$1" "${more[@]}" --error-exitcode 9 --target-processes all \
    "$tests" --test-threads 1 cuda::logits_are_near cuda::a_row_does_not
}

export -f fsp beside traps sanitize
export root kept tribunal tests

stage1() {
  [ ! -e dist/built-at ] || settle
  export TRIBUNAL_TEST_GPU=1
  local skipped=()
  # The binary's own run under faults needs no second rehearsal here.
  if [ -n "$tiny" ]; then skipped=(--skip cuda::every_gguf --skip cuda::fsp_runs --skip cuda::replies --skip cuda::adapters::replies); fi
  step tensor-core "$tests" --nocapture cuda::tensor_core
  step tests "$tests" --nocapture cuda:: "${skipped[@]}"
  local models=(qwen2 llama gemma3 qwen3 qwen3-moe qwen3-5 qwen3-5-moe gemma4 gpt-oss)
  local arguments=(--method fsp:shots=0 --max-tokens 24 --kv-cache 256MiB)
  if [ -n "$tiny" ]; then models=(qwen2) arguments=(--method gemba-da --max-tokens 4 --limit 2 --kv-cache 4MiB); fi
  local model
  for model in "${models[@]}"; do step "beside-cpu-$model" beside "$(long "$model")" "${arguments[@]}"; done
  # It has code of the host, which scripts/cuda/nvcc.py does not compile.
  if [ -z "$tiny" ] && grep -q "compiler driver" <<<"$(nvcc --version 2>/dev/null)"; then step traps traps; else say "traps: not run"; fi
  if [ -z "$tiny" ] && command -v compute-sanitizer >/dev/null; then
    for tool in ${STAGE_SANITIZERS-memcheck racecheck synccheck}; do step "sanitizer-$tool" sanitize "$tool"; done
  else
    say "compute-sanitizer: not run"
  fi
}

# Puts away the halves that are here, and joins them when both are.
join_model() {
  local half
  for half in 1 2; do [ ! -e "$brought/smollm2.gguf.$half" ] || cp "$brought/smollm2.gguf.$half" "$kept/"; done
  [ ! -e "$brought/smollm2.sha256" ] || cp "$brought/smollm2.sha256" "$kept/"
  model=$kept/smollm2-135m-instruct.gguf
  [ ! -e "$model" ] || return 0
  for half in 1 2; do
    [ -e "$kept/smollm2.gguf.$half" ] || { say "half $half of the model is not here" && return 1; }
  done
  cat "$kept"/smollm2.gguf.[12] >"$model.joined"
  if [ "$(sha256sum <"$model.joined" | cut -d' ' -f1)" != "$(cat "$kept/smollm2.sha256")" ]; then
    say "the halves of the model do not make the file that was cut" && rm "$model.joined" && return 1
  fi
  mv "$model.joined" "$model"
}

# bring HALF: of the rehearsal's model, a tiny one that is cut in two as the real one is; the sum comes with the second.
bring() {
  local file=models/tiny/qwen2/model.safetensors
  rm -rf "$brought" && mkdir -p "$brought"
  split --number=2 --numeric-suffixes=1 --suffix-length=1 "$file" "$kept/cut."
  cp "$kept/cut.$1" "$brought/smollm2.gguf.$1"
  [ "$1" = 1 ] || sha256sum <"$file" | cut -d' ' -f1 >"$brought/smollm2.sha256"
}

# The rehearsal's model as a folder that can be judged with.
tiny_folder() {
  rm -rf "$kept/models/smollm2" && mkdir -p "$kept/models"
  cp -r models/tiny/qwen2 "$kept/models/smollm2" && cp "$model" "$kept/models/smollm2/model.safetensors"
  model=$kept/models/smollm2
}

stage2() {
  if [ -n "$tiny" ]; then rm -f "$kept"/smollm2* && bring 1; fi
  join_model || say "it is kept; stage 3 needs the other one"
  bench "${tiny:+tiny}" products
}

stage3() {
  local model='' arguments=(--method fsp) asked=(--groups 2)
  if [ -n "$tiny" ]; then
    if [ ! -e "$kept/smollm2.gguf.1" ]; then bring 1 && join_model; fi
    bring 2 && join_model && tiny_folder || { failed=1 && return; }
    arguments=(--method gemba-da --max-tokens 4 --limit 2 --kv-cache 4MiB)
    asked=(--method gemba-da --groups 1 --max-tokens 2 --kv-cache 4MiB)
  else
    join_model || { failed=1 && return; }
  fi
  step beside-cpu beside "$model" "${arguments[@]}"
  local examples=$root/examples/en-de
  step invariance "$tribunal-bench" invariance --model "$model" --device cuda --json -s "$examples/source.txt" \
    -t "$examples/system-a.txt" --docs "$examples/docs.txt" -l en-de "${asked[@]}"
}

# bench SHAPE PARTS [KERNELS]: one step for each part, so that a stage that is cut off loses one at the most.
bench() {
  local shape=${1:-qwen2.5-0.5b} part kernels=${3:-auto} more=()
  if [ -n "$tiny" ]; then more=(--kv-cache 4MiB --batch 4); fi
  for part in ${2//,/ }; do
    step "$shape-$part${3:+-$3}" "$tribunal-bench" gpu --device cuda --shape "$shape" --parts "$part" --json \
      --gpu-kernels "$kernels" "${more[@]}"
  done
}

stage4() {
  local shapes=${STAGE_SHAPES:-qwen2.5-7b llama-3.1-8b qwen2.5-32b qwen2.5-14b qwen2.5-0.5b} shape
  if [ -n "$tiny" ]; then shapes=tiny; fi
  for shape in $shapes; do
    bench "$shape" kernels
    bench "$shape" kernels,prefill,documents new # also by those that no card has run
    bench "$shape" products,prefill,decode,documents,chats
    step "$shape-tune" "$tribunal-bench" gpu --device cuda --shape "$shape" --parts tune
  done
  local quantised='qwen2.5-72b:q4_k qwen2.5-7b:q8_0 qwen2.5-7b:q6_k' # the first: what most labs can run on one card
  if [ -n "$tiny" ]; then quantised=tiny:q8_0; fi
  for shape in $quantised; do
    bench "$shape" products
    bench "$shape" products new # rounded to bf16
  done
  if [ -z "$tiny" ] && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    step torch-gemm python3 scripts/peers/torch_gemm.py --shapes crates/bench/src/shapes.json --names $shapes
    step continuous-batching python3 scripts/peers/continuous_batching.py --shapes crates/bench/src/shapes.json \
      --name llama-3.1-8b
  else
    say "torch: not run"
  fi
}

about=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | sed -n 1p || true)
say "stage $stage on ${about:-a GPU without nvidia-smi}"
"stage$stage"
{
  printf '{"stage":%s,"gpu":"%s","date":"%s","seconds":%s,"failed":%s,"finished":%s,"steps":[' "$stage" "$about" \
    "$(date -u +%F)" "$SECONDS" "$failed" "$([ $cut_off = 0 ] && echo true || echo false)"
  (IFS=, && echo "${summary[*]}]}")
} >"$out/stage$stage.json"
python3 scripts/cuda/table.py "$out/stage$stage.json" >"$out/stage$stage.md" || failed=$((failed + 1))
say "stage $stage: ${#summary[@]} steps, $failed failed$([ $cut_off = 0 ] || echo '; time was up, start it again')"
[ "$failed" = 0 ] || exit 1
[ $cut_off = 0 ] || exit 3
