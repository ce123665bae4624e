#!/usr/bin/env bash
# A run on a real Slurm: three nodes on this machine, one of them drained, one task killed and requeued. The merged
# shards must be the bytes of a run without Slurm. Each node has two GPUs as far as Slurm can tell, and every task that asks
# for some has them for itself. It installs Debian's Slurm and munge where they are missing (as root,
# in a container or on a CI machine) and starts them on ports and in folders of their own; nothing of an existing
# cluster is touched. Usage: scripts/slurm_test.sh [TRIBUNAL]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

program=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/tribunal}")
[ -x "$program" ] || die "\`$program\` is missing; hint: cargo build, or name the program"

step "Slurm"
if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
  [ "$(id -u)" = 0 ] || die "Slurm is not installed; hint: apt-get install slurm-wlm munge, or run this as root"
  command -v apt-get >/dev/null || die "Slurm is not installed, and this is not a Debian to install it on"
  apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null || {
    echo "not run: Slurm is not installed here and cannot be" >&2
    exit 77
  }
fi
[ "$(id -u)" = 0 ] || die "slurmd starts tasks as their users and so runs as root; hint: run this as root"

root=$(mktemp -d "${TMPDIR:-/tmp}/tribunal-slurm.XXXXXX")
chmod 755 "$root"
pids=()
finish() {
  # Only what was started here, by its number.
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$root"
}
trap finish EXIT

# munge insists on folders that only its user can write to.
install -d -m 755 "$root/munge"
dd if=/dev/urandom of="$root/munge/key" bs=1024 count=1 status=none
chmod 400 "$root/munge/key"
munged --foreground --key-file="$root/munge/key" --socket="$root/munge/socket" --pid-file="$root/munge/pid" \
  --log-file="$root/munge/log" --seed-file="$root/munge/seed" --force >"$root/munge/out" 2>&1 &
pids+=($!)

host=$(hostname -s)
port=$((20000 + RANDOM % 20000))
cores=$(nproc)
cat >"$root/slurm.conf" <<CONF
ClusterName=tribunal
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$port
SlurmctldPidFile=$root/slurmctld.pid
SlurmctldLogFile=$root/slurmctld.log
SlurmdPidFile=$root/slurmd-%n.pid
SlurmdLogFile=$root/slurmd-%n.log
SlurmdSpoolDir=$root/spool-%n
StateSaveLocation=$root/state
AuthType=auth/munge
AuthInfo=socket=$root/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MinJobAge=600
JobRequeue=1
SwitchType=switch/none
MpiDefault=none
GresTypes=gpu
TaskProlog=$root/begins
TaskEpilog=$root/ends
NodeName=n[1-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 3))] CPUs=$cores Gres=gpu:2 State=UNKNOWN
PartitionName=test Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
CONF
# Any two devices are GPUs to Slurm. What a task is given is written down when it begins, and whether another has it.
for device in /dev/null /dev/zero; do
  echo "NodeName=n[1-3] Name=gpu File=$device Flags=nvidia_gpu_env"
done >"$root/gres.conf"
mkdir -p "$root/held"
touch "$root/given"
cat >"$root/begins" <<SH
#!/bin/bash
for gpu in \${CUDA_VISIBLE_DEVICES//,/ }; do
  mkdir "$root/held/\$SLURMD_NODENAME-\$gpu" || echo "\$SLURMD_NODENAME-\$gpu is another's" >>"$root/given"
done
echo "\$SLURM_ARRAY_JOB_ID \$SLURM_ARRAY_TASK_ID gpus=\$CUDA_VISIBLE_DEVICES" >>"$root/given"
SH
cat >"$root/ends" <<SH
#!/bin/bash
for gpu in \${CUDA_VISIBLE_DEVICES//,/ }; do rmdir "$root/held/\$SLURMD_NODENAME-\$gpu"; done
SH
chmod +x "$root/begins" "$root/ends"
export SLURM_CONF=$root/slurm.conf
mkdir -p "$root/state" "$root"/spool-n{1,2,3}
slurmctld -D >"$root/slurmctld.out" 2>&1 &
pids+=($!)
for n in 1 2 3; do
  slurmd -D -N "n$n" >"$root/slurmd-n$n.out" 2>&1 &
  pids+=($!)
done
ready() { [ "$(sinfo --noheader --format '%t %D' 2>/dev/null | awk '$1 == "idle" { n += $2 } END { print n + 0 }')" = 3 ]; }
for _ in $(seq 120); do ready && break; sleep 0.5; done
ready || { tail -n 5 "$root"/*.log "$root"/*.out "$root/munge/log" >&2; die "the nodes did not come up"; }
sinfo

step "a run without Slurm"
work=$root/work
mkdir -p "$work/prompts/gemba_scales"
printf '{{ source }}\n{{ target }}\nScore as JSON:\n' >"$work/prompts/gemba_scales/sqm.j2"
examples=$PWD/examples/en-de
score=(-s "$examples/source.txt" -t "$examples/system-a.txt" "$examples/system-b.txt" --docs "$examples/docs.txt" -l en-de
  --method gemba-sqm --prompts "$work/prompts" --max-tokens 24 --model "$PWD/models/tiny/qwen2" --kv-cache 8MiB
  --threads 1 --jobs 1 --progress off)
# The tiny model writes nonsense, so segments without a verdict are no failure.
"$program" score "${score[@]}" --out "$work/whole" >/dev/null || [ $? = 1 ]

step "the same as an array of six shards on two of three nodes"
scontrol update NodeName=n3 State=DRAIN Reason=test
cd "$work"
"$program" slurm submit "${score[@]}" --out run --nodes 3 --time 10 --shards 6
array=$(sed -n 's/.*"array": "\([0-9]*\)".*/\1/p' run/slurm/jobs.json)
merge=$(sed -n 's/.*"merge": "\([0-9]*\)".*/\1/p' run/slurm/jobs.json)

# A node dies under the first task, as far as the task can tell: the processes are killed, and Slurm puts it back.
for _ in $(seq 200); do [ -s run/shards/1/run.json ] && break; sleep 0.05; done
scontrol requeue "${array}_1" && echo "task 1 was killed and requeued" || echo "task 1 was done too soon to be killed"

state() { scontrol show job "$1" --oneliner 2>/dev/null | tr ' ' '\n' | sed -n 's/^JobState=//p' | sort | uniq -c | tr '\n' ' '; }
await() { # await JOB: until all of it is over
  for _ in $(seq 1200); do
    case "$(state "$1")" in *COMPLETED*) break ;; *FAILED* | *CANCELLED*) break ;; esac
    sleep 0.5
  done
}
await "$merge"
"$program" slurm status run || true
case "$(state "$merge")" in
  *COMPLETED*) ;;
  *) tail -n 20 run/slurm/*.log >&2; die "the jobs ended as: array $(state "$array"), merge $(state "$merge")" ;;
esac
scontrol show job "${array}_1" --oneliner | tr ' ' '\n' | grep '^Restarts='
grep -h 'NodeList=n3' <(scontrol show job "$array" --oneliner) && die "the drained node was given a task"

step "the same bytes"
cmp run/merged/verdicts.jsonl whole/verdicts.jsonl
"$program" verify run/merged
echo "six shards on Slurm are the run without it, byte for byte"

step "a GPU for each task, and two for each where a model has two"
job_of() { sed -n "s/.*\"$2\": \"\([0-9]*\)\".*/\1/p" "$1/slurm/jobs.json"; } # job_of RUN array|merge
given() { grep "^$1 " "$root/given" | sed 's/.* //' | sort | uniq -c | sed 's/^ *//'; } # given JOB: how often, and what
scontrol update NodeName=n2 State=DRAIN Reason=test # n3 is drained already: one node is left
"$program" slurm submit "${score[@]}" --device cpu --out alone --nodes 1 --gpus-per-node 2 --time 10 --shards 4
await "$(job_of alone merge)"
scontrol show job "$(job_of alone array)_1" --oneliner | tr ' ' '\n' | grep '^TresPerNode=' | grep 'gpu:1$'
given "$(job_of alone array)"
[ "$(given "$(job_of alone array)" | sed 's/[0-9]* //' | tr '\n' ' ')" = "gpus=0 gpus=1 " ] || die "one GPU for each task, both of them used"
cmp alone/merged/verdicts.jsonl whole/verdicts.jsonl
# What a task does with two GPUs that are not there is to say so; they are given to it all the same.
device=cuda
if ! grep -q '^features .*cuda' <<<"$("$program" --version)"; then
  # A build that cannot use GPUs is not given any, unless it is told to leave them alone.
  "$program" slurm submit "${score[@]}" --device cuda --out none --nodes 1 --gpus-per-node 2 --time 10 --dry-run >none.out 2>&1 &&
    die "GPUs for a build without GPU support"
  grep 'this binary was built without CUDA' none.out
  device=cpu
fi
"$program" slurm submit "${score[@]}" --device "$device" --tensor-parallel 2 --out two --nodes 1 --gpus-per-node 2 --time 10 --shards 2
await "$(job_of two merge)"
scontrol show job "$(job_of two array)_1" --oneliner | tr ' ' '\n' | grep '^TresPerNode=' | grep 'gpu:2$'
given "$(job_of two array)"
[ "$(given "$(job_of two array)")" = "2 gpus=0,1" ] || die "both GPUs for each task"
! grep "another's" "$root/given" || die "a task was given what another has"
