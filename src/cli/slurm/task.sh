finish() {
  kill -TERM "$child" 2>/dev/null || true
  wait "$child" || true
}
stop() { finish; exit 143; }
again() { finish; scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"; exit 143; }
trap stop TERM
trap again USR1

"${command[@]}" &
child=$!
code=0
wait "$child" || code=$?
# 1 says that some segments have no verdict, which the merged run tells; 2 and more are failures.
if [ "$code" -le 1 ]; then exit 0; fi
exit "$code"
