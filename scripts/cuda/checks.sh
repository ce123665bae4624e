# Checks side by side, for scripts that source this: `results` names the folder for what they print. JOBS run at a time
# (default: one for each core); the last line that `tally` prints counts what passed and failed.
rm -rf "$results"
mkdir -p "$results"

check() { # check NAME COMMAND...: shows the command's output if it fails
  local log=$results/${1//[ \/,:]/_} TIMEFORMAT='(%U s)'
  local took
  took=$({ time "${@:2}" >"$log.log" 2>&1 || touch "$log.failed"; } 2>&1)
  if [ ! -e "$log.failed" ]; then
    touch "$log.ok"
    echo "ok      $1 $took"
  else
    { echo "FAILED  $1 $took" && cat "$log.log"; }
  fi
}

jobs=0
later() { # later NAME COMMAND...: a check in the background
  if [ "$jobs" -ge "${JOBS:-$(nproc)}" ]; then wait -n; jobs=$((jobs - 1)); fi
  check "$@" &
  jobs=$((jobs + 1))
}

tally() { # waits for all checks; fails if one of them did
  wait
  local passed failed
  passed=$(find "$results" -name '*.ok' | wc -l) failed=$(find "$results" -name '*.failed' | wc -l)
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
