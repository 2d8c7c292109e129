"""The shell text with which a task begins: it sets the variables of Slurm and becomes the script.

Its first argument are assignments. ``mode`` is ``batch`` (the script follows in pieces) or ``hold`` (the task waits
until SIGTERM, or SIGUSR1, with which it fails). ``pieces`` is the number of pieces. ``output``, ``error`` and ``input``
are patterns, or empty. ``open`` is ``append`` or ``truncate``. ``array`` is its text, or empty. ``places``, ``cpus``,
``slots`` and ``ntasks`` are those of the layout. ``limit`` is in seconds, ``warn`` like ``USR1@90``; both may be empty.
"""

HEAD = r"""
eval "$1"
shift
job=$CRESS_JOB_ID own=$CRESS_JOB_ID task=$CRESS_TASK_INDEX
if [ "$mode" = hold ] || { [ "$mode" = batch ] && [ "$places" -gt 1 ] && [ "$task" -gt 0 ]; }; then
  trap 'exit 0' TERM
  trap 'exit 1' USR1
  while :; do
    sleep 3600 &
    wait $!
  done
fi
if [ -n "$array" ]; then
  left=$task element=
  IFS=,
  for part in $array; do
    first=${part%%-*} step=1 last=${part#*-}
    case $last in *:*) step=${last#*:} last=${last%%:*} ;; esac
    count=$(((last - first) / step + 1))
    if [ -z "$element" ] && [ "$left" -lt "$count" ]; then element=$((first + left * step)); fi
    left=$((left - count))
  done
  unset IFS
  own=$(((task + 1) * 1000000000 + job))
  export SLURM_ARRAY_JOB_ID="$job" SLURM_ARRAY_TASK_ID="$element" PBS_ARRAY_INDEX="$element" PBS_ARRAYID="$element"
fi
url=${CRESS_URL-} token=${CRESS_TOKEN-} hosts=$CRESS_NODE
if [ "$places" -gt 1 ] && [ "$mode" = batch ]; then
  if ! [ -x "$SLURM_CRESS_BIN/scontrol" ]; then
    echo "$SLURM_CRESS_BIN/scontrol is not on node $CRESS_NODE: jobs on several nodes need the commands there" >&2
    exit 127
  fi
  hosts=$("$SLURM_CRESS_BIN/scontrol" cress-places) || hosts=$CRESS_HOSTS
fi
unset CRESS_URL CRESS_TOKEN
export SLURM_JOB_ID="$own" SLURM_JOBID="$own" SLURMD_NODENAME="$CRESS_NODE" SLURM_TASK_PID=$$ PBS_JOBID="$own"
export SLURM_JOB_NODELIST="$hosts" SLURM_NODELIST="$hosts" SLURM_PROCID=0 SLURM_LOCALID=0
export SLURM_NODEID=0 SLURM_GTIDS=0 SLURM_JOB_UID="$(id -u)" SLURM_JOB_GID="$(id -g)"
export SLURM_JOB_USER="$(id -un)" SLURM_JOB_START_TIME="$(date +%s)" PBS_O_WORKDIR="${SLURM_SUBMIT_DIR-}"
[ -z "$limit" ] || export SLURM_JOB_END_TIME=$((SLURM_JOB_START_TIME + limit))
[ -z "$warn" ] || export SLURM_CRESS_WARN="$warn"
[ "${CRESS_RESTARTS:-0}" -eq 0 ] || export SLURM_RESTART_COUNT="$CRESS_RESTARTS"
[ -z "${CUDA_VISIBLE_DEVICES-}" ] || export SLURM_JOB_GPUS="$CUDA_VISIBLE_DEVICES"
[ -z "${SLURM_CRESS_BIN-}" ] || command -v srun >/dev/null 2>&1 || PATH=$PATH:$SLURM_CRESS_BIN
fill() {
  rest=$1 filled=
  while [ -n "$rest" ]; do
    case $rest in
    %*)
      rest=${rest#%} width=
      while case $rest in [0-9]*) ;; *) false ;; esac do
        width=$width${rest%"${rest#?}"} rest=${rest#?}
      done
      letter=${rest%"${rest#?}"} rest=${rest#?}
      case $letter in
      %) value=% ;;
      A) value=$job ;;
      a) value=${SLURM_ARRAY_TASK_ID-4294967294} ;;
      J | j) value=$own ;;
      N) value=${CRESS_NODE%%.*} ;;
      n | t) value=0 ;;
      s) value=batch ;;
      u) value=$SLURM_JOB_USER ;;
      x) value=$SLURM_JOB_NAME ;;
      *) value=%$width$letter width= ;;
      esac
      case $width$value in *[!0-9]* | '') ;; *) [ -z "$width" ] || value=$(printf "%0${width}d" "$value") ;; esac
      filled=$filled$value
      ;;
    *)
      plain=${rest%%%*}
      filled=$filled$plain rest=${rest#"$plain"}
      ;;
    esac
  done
}
if [ -n "$input" ]; then fill "$input" && exec <"$filled"; fi
if [ -n "$output" ]; then
  fill "$output"
  case $filled in /*) echo "output goes to $filled" ;; *) echo "output goes to $PWD/$filled" ;; esac
  errors=
  if [ -n "$error" ]; then
    out=$filled
    fill "$error"
    errors=$filled filled=$out
    [ "$errors" != "$out" ] || errors=
  fi
  if [ -n "$errors" ]; then
    if [ "$open" = append ]; then exec 2>>"$errors"; else exec 2>"$errors"; fi
  fi
  if [ "$open" = append ]; then exec >>"$filled"; else exec >"$filled"; fi
  [ -n "$errors" ] || exec 2>&1
elif [ -n "$error" ]; then
  fill "$error"
  if [ "$open" = append ]; then exec 2>>"$filled"; else exec 2>"$filled"; fi
fi
case $warn in B:*)
  (
    name=${warn#B:} before=${warn##*@}
    sleep $((limit > before ? limit - before : 0))
    kill -s "${name%@*}" $$
  ) >/dev/null 2>&1 &
  ;;
esac
printf '%s\n' "places=$places" "slots=$slots" "cpus=$cpus" "ntasks=$ntasks" "hosts=$hosts" \
  >"$CRESS_DIRECTORY/allocation"
script=$CRESS_DIRECTORY/slurm_script
: >"$script"
while [ "$pieces" -gt 0 ]; do
  printf %s "$1" >>"$script"
  shift
  pieces=$((pieces - 1))
done
chmod 700 "$script"
read -r first <"$script"
case "$first ${SLURM_CRESS_BIN:+commands}" in '#!'*bash*' -'*l*commands)
  # The profile of a login shell sets PATH anew; the commands are added after it.
  export SLURM_CRESS_BASH_ENV="${BASH_ENV-}" BASH_ENV="$CRESS_DIRECTORY/slurm_profile"
  cat >"$BASH_ENV" <<'PROFILE'
case :$PATH: in *:"$SLURM_CRESS_BIN":*) ;; *) PATH=$PATH:$SLURM_CRESS_BIN ;; esac
if [ -n "${SLURM_CRESS_BASH_ENV-}" ]; then BASH_ENV=$SLURM_CRESS_BASH_ENV && . "$BASH_ENV"; else unset BASH_ENV; fi
PROFILE
  ;;
esac
if grep -q '^#PBS' "$script"; then
  export PBS_JOBNAME="${SLURM_JOB_NAME-}" PBS_O_HOST="${SLURM_SUBMIT_HOST-}" PBS_QUEUE="${SLURM_JOB_PARTITION-}"
  export PBS_NODEFILE="$CRESS_DIRECTORY/nodes" NCPUS="$cpus" PBS_NUM_NODES="$places" PBS_NUM_PPN="$slots"
  export PBS_NP="$ntasks" PBS_O_HOME="$HOME" PBS_O_LOGNAME="$SLURM_JOB_USER"
  names=$CRESS_NODE
  [ "$places" -le 1 ] || names=$("$SLURM_CRESS_BIN/scontrol" show hostnames "$hosts")
  for name in $names; do
    count=0
    while [ $((count += 1)) -le "$slots" ]; do echo "$name"; done
  done >"$PBS_NODEFILE"
fi
if [ "$places" -le 1 ]; then
  unset job own task left element part first step last count names name url token hosts rest filled width letter
  exec "$script" "$@"
fi
trap : TERM INT HUP USR1 USR2
"$script" "$@"
code=$?
[ $code -ne 0 ] || CRESS_URL=$url CRESS_TOKEN=$token "$SLURM_CRESS_BIN/scontrol" cress-release
exit $code
"""
