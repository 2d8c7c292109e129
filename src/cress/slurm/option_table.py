"""The table of options of sbatch, srun and salloc: what each becomes in Cress.

A row is understood, passed over with a note, or refused. Command line, directives of scripts and the page
docs/slurm.md use it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Fate(StrEnum):
    """The treatment of an option."""

    UNDERSTOOD = "understood"
    PASSED_OVER = "passed over"
    REFUSED = "refused"


class Takes(StrEnum):
    """The need of an option for a value; an optional one follows ``=`` or the letter directly."""

    NOTHING = "nothing"
    VALUE = "a value"
    MAYBE = "a value, optional"


class Option(NamedTuple):
    """One option. ``about``: what it becomes, why it is passed over, or what to write instead."""

    name: str
    short: str
    takes: Takes
    fate: Fate
    about: str


# Second names that Slurm takes for an option.
ALIASES = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "licences": "licenses"}


def _rows(fate: Fate, text: str) -> list[Option]:
    rows = []
    for line in text.strip().splitlines():
        word, _, about = line.strip().partition(" | ")
        word, equals, _ = word.partition("=")
        takes = Takes.MAYBE if word.endswith("[") else Takes.VALUE if equals else Takes.NOTHING
        name, _, short = word.rstrip("[").partition(",")
        rows.append(Option(name.strip(), short.strip(), takes, fate, about.strip()))
    return rows


_UNDERSTOOD = """
account,A= | `group`, by [the table of groups](#partitions-accounts-and-qos)
array,a= | `tasks`, `max_running`; elements are numbered as written
begin= | `wait_for` with a `time`: `16:00`, `2026-12-01T08:00`, `now+2hours`, `tomorrow`
chdir,D= | `directory`
comment= | kept, shown by `scontrol` and `sacct`
constraint,C= | `requirement`, by [the table of features](#partitions-accounts-and-qos), or an expression of Cress
cpus-per-gpu= | `cpu`, for each GPU
cpus-per-task,c= | `cpu` of each Slurm task
deadline= | `deadline`: `16:00`, `2026-12-01T08:00`, `now+2hours`
dependency,d= | `after`: `afterok`, `afterany`, `afternotok`, `aftercorr`, `singleton`
error,e= | the file for standard error, with patterns
exclude,x= | `requirement` on the name of the node
export= | `environment`: `ALL` (the default of sbatch), `NONE`, `NIL`, `NAME`, `NAME=value`
export-file= | `environment`, from a file of `NAME=value`
gpus,G= | `gpu` of the whole job
gpus-per-node= | `gpu` of each node; `a100:2` also requires the model
gpus-per-task= | `gpu` of each Slurm task
gres= | `gpu:2`, `gpu:a100:2`; other kinds by the name of the dimension
hold,H | `hold`
ignore-pbs | `#PBS` lines are not read
input,i= | the file for standard input
job-name,J= | `name`; other letters become `-`
licenses,L= | `licences`
mem= | `memory` of each node
mem-per-cpu= | `memory`, for each CPU
mem-per-gpu= | `memory`, for each GPU
nice[= | `priority`, with the other sign
no-requeue | `job_failure: false`: a task that is lost with its node has failed
nodelist,w= | `nodes`
nodes,N= | a gang with one Cress task on each node; of `2-4` the least number
ntasks,n= | the number of Slurm tasks; without `--nodes` a gang of as many Cress tasks
ntasks-per-gpu= | the number of Slurm tasks, for each GPU
ntasks-per-node= | the number of Slurm tasks on each node
open-mode= | `append` or `truncate` (the default) for the files of output
output,o= | the file for standard output, with patterns
parsable | prints the id alone
partition,p= | `group`, by [the table of groups](#partitions-accounts-and-qos)
priority= | `priority`
qos,q= | `group`, by [the table of groups](#partitions-accounts-and-qos)
quiet,Q | no notes
signal= | a signal before the time limit: `USR1@90` to the steps, `B:USR1@90` to the script
test-only | checks whether the job could run; submits nothing
time,t= | `time_limit`
verbose,v | prints the job that is submitted
wait,W | waits for the end; the exit code is the highest of the tasks
wrap= | a command line instead of a script
"""

_PASSED_OVER = """
acctg-freq= | usage is measured always
bell | there is no bell
clusters,M= | the cluster is that of the installed commands
consolidate-segments | nodes have no order; `within` keeps tasks in one rack or switch
contiguous | nodes have no order; `within` keeps tasks in one rack or switch
core-spec,S= | cores are not set aside
cores-per-socket= | processors are counted by threads, without sockets
cpu-bind= | processes are not bound to processors
cpu-freq= | frequencies are not set
delay-boot= | nodes are not booted
distribution,m= | ranks are distributed in blocks
exact | steps get exactly what they ask for
exclusive[= | other jobs may run on the nodes; a request for all CPUs of a node keeps them off
extra= | `labels` in a job file mark a job
extra-node-info,B= | processors are counted by threads, without sockets
get-user-env[= | the environment of the submission is passed on
gid= | the account decides
gpu-bind= | tasks see the GPUs that they have
gpu-freq= | frequencies are not set
gres-flags= | devices are chosen by Cress
hint= | processors are counted by threads
immediate,I[= | the job waits
kill-on-invalid-dep= | such a job is always cancelled
mail-type= | `cress events --follow` reports the end
mail-user= | `cress events --follow` reports the end
mcs-label= | rights come from groups
mem-bind= | memory is not bound
mincpus= | `--cpus-per-task` sets the processors
mpi= | srun offers no PMI; `mpirun` starts the ranks of MPI
network= | networks are not configured
no-kill,k | a gang restarts when it loses a node
ntasks-per-core= | processors are counted by threads
ntasks-per-socket= | processors are counted by threads, without sockets
oom-kill-step[= | a task that uses too much memory is killed alone
overcommit,O | each task gets its CPUs
oversubscribe,s | nodes are shared always
prefer= | `rank` in a job file prefers nodes
profile= | usage is measured always
propagate[= | limits are those of the executor
reboot | nodes are not booted
requeue | tasks that are lost or preempted always run again
reservation= | a job uses the [reservations](reservations.md) of its group
segment= | nodes have no order; `within` keeps tasks in one rack or switch
share | nodes are shared always
sockets-per-node= | processors are counted by threads, without sockets
spread-job | `spread` in a job file distributes tasks
stepmgr | steps need no manager
switches= | `within: switch` in a job file keeps tasks together
thread-spec= | cores are not set aside
threads-per-core= | processors are counted by threads
time-min= | the time limit is `--time`
tmp= | disk space is not counted; `disk` of a resource is its speed
tres-bind= | tasks see the GPUs that they have
use-min-nodes | Cress chooses the nodes
wait-all-nodes= | all tasks of a gang start together
wckey= | there are no such keys; `labels` in a job file mark a job
"""

_REFUSED = """
batch= | use `--constraint`
bb= | there are no burst buffers: copy with `files:` and `outputs:` of a job file
bbf= | there are no burst buffers: copy with `files:` and `outputs:` of a job file
cluster-constraint= | there is one cluster: use `--constraint`
container= | use `image:` of a job file (docs/containers.md)
container-id= | use `image:` of a job file (docs/containers.md)
gpus-per-socket= | use `--gpus-per-node`
het-group= | use `parts:` of a job file (docs/jobs.md)
nodefile,F= | use `--nodelist`
power= | power is not managed
tres-per-task= | use `--cpus-per-task`, `--gpus-per-task`
uid= | `run_as:` of a job file names the account (docs/task-accounts.md)
"""

# Options of srun and salloc alone.
_SRUN = """
jobid= | the allocation whose nodes the step uses
kill-on-bad-exit,K[= | the other tasks end when one fails
label,l | each line begins with the number of its task
multi-prog | a file with a program for each range of tasks
no-shell | salloc: the allocation stays until `scancel`
external-launcher | as `--overlap`: the step starts daemons, which start programs
overlap | the step shares CPUs with other steps
pty[= | a terminal for the first task
relative,r= | the number of the node of the allocation on which the step begins
unbuffered,u | output is written as it comes
"""
_SRUN_PASSED_OVER = """
bcast[= | programs are read from the shared file system
compress[= | programs are read from the shared file system
debugger-test | nothing is debugged
disable-status,X | Ctrl-C ends the step
epilog= | nothing runs after a step
export-all | the environment is passed on
interactive | steps are passed on as they are
preserve-env,E | the numbers of the step are its own
prolog= | nothing runs before a step
resv-ports[= | ports are not reserved
slurmd-debug= | `cress job` shows what happened
task-epilog= | nothing runs after a step
task-prolog= | nothing runs before a step
treewidth= | nothing is forwarded by nodes
x11[= | windows are not passed on
"""

SBATCH = (
    *_rows(Fate.UNDERSTOOD, _UNDERSTOOD),
    *_rows(Fate.PASSED_OVER, _PASSED_OVER),
    *_rows(Fate.REFUSED, _REFUSED),
)
# For srun and salloc, --wait and -W are seconds for the last tasks.
_WITHOUT = {"wait", "wrap", "array", "parsable", "test-only", "ignore-pbs", "kill-on-invalid-dep", "batch"}
STEP = (
    *(option for option in SBATCH if option.name not in _WITHOUT),
    *_rows(Fate.UNDERSTOOD, _SRUN),
    *_rows(Fate.PASSED_OVER, _SRUN_PASSED_OVER),
    Option("wait", "W", Takes.VALUE, Fate.PASSED_OVER, "srun waits for all tasks"),
)


def table(options: tuple[Option, ...], fate: Fate) -> str:
    """Return the options of one fate as a Markdown table, for docs/slurm.md."""
    heads = {Fate.UNDERSTOOD: "in Cress", Fate.PASSED_OVER: "why", Fate.REFUSED: "write instead"}
    rows = [f"| option | {heads[fate]} |", "|---|---|"]
    for option in sorted(options):
        if option.fate is fate:
            short = f", `-{option.short}`" if option.short else ""
            rows.append(f"| `--{option.name}`{short} | {option.about} |")
    return "\n".join(rows) + "\n"
