"""Words of Slurm, Kubernetes, Nomad, HTCondor and PBS, and their equivalents here.

One table for keys of job files, names of resources, options and verbs of the command line. Words are compared without
case, ``_``, ``-`` and ``.``.
"""

from __future__ import annotations

from collections.abc import Collection

from cress.model.units import closest

# Meaning → the words for it in other systems.
_WORDS: dict[str, str] = {
    "cpu": "cpus cores core ncpus vcpu vcpus cpuspertask requestcpus numcpus processors millicpu",
    "memory": "mem ram memorymb mempercpu memlimit requestmemory memorylimit rss vmem",
    "gpu": "gpus gres requestgpus numgpus nvidiacomgpu gpuspertask accelerator accelerators cuda",
    "network": "net bandwidth mbits networkmbps",
    "disk": "requestdisk diskspace storage ephemeralstorage tmpdisk iops",
    "resource": "resources requests limits request limit requirementsresources select",
    "group": "partition queue account project namespace qos tenant accountinggroup team bank",
    "after": "dependency depends dependson dependencies needs requires parents parent waitfor upstream",
    "environment": "env envs environments export variables vars envfrom getenv",
    "time_limit": "walltime time timeout timelimit maxtime maxwalltime hrt activedeadlineseconds duration runtimelimit",
    "tasks": "ntasks replicas count instances copies array parallelism completions numtasks jobarray size",
    "requirement": "constraint constraints requirements nodeselector affinity nodeaffinity nodelist exclude require "
    "features feature selector tolerations",
    "image": "image container docker dockerimage containerimage singularity apptainer",
    "command": "script executable exec cmd entrypoint args arguments program run wrap shell",
    "directory": "cwd workdir chdir workingdir workingdirectory initialdir dir wd",
    "output": "output",
    "logs": "error stdout stderr log logfile errorfile outputfile",
    "name": "jobname title label",
    "retries": "restart restarts restartpolicy maxretries attempts backofflimit requeue retry reschedule",
    "cron": "schedule cron periodic crontab",
    "run_as": "user runasuser uid username securitycontext",
    "priority": "nice priorityclass priorityclassname jobprio",
    "ports": "port expose containerport hostport",
    "alive": "livenessprobe healthcheck liveness health",
    "ready": "readinessprobe readiness startupprobe",
    "stop_grace": "terminationgraceperiodseconds terminationgraceperiod killtimeout grace graceperiod",
    "max_running": "concurrency maxparallel maxconcurrent throttle",
    "overlap": "concurrencypolicy prohibitoverlap",
    "max_unavailable": "maxsurge rollingupdate updatestrategy maxparallelupdates",
    "zone": "timezone tz",
    "files": "volumes volumemounts mounts transferinputfiles inputs artifact artifacts inputfiles",
    "outputs": "transferoutputfiles outputsfiles results",
    "licences": "license licenses licence",
    "secrets": "secret secretkeyref secretref secretname vault",
    "gang": "allornothing minavailable mpi",
    "hold": "suspend suspended held",
    "tail": "tail lines",
    "json": "format o json yaml",
    "follow": "watch tailf",
}
_MEANING = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}

# Words of other systems for a time limit that never comes.
UNLIMITED = frozenset(("unlimited", "infinite", "infinity", "inf", "none", "nolimit", "no limit", "forever", "-1"))

RESOURCES = ("cpu", "memory", "gpu", "network", "disk")
# The job file form of meanings without a key of the same name.
_LOGS = "`cress logs`, which shows what tasks write; outputs: saves files"
_IN_A_FILE = {
    "cpu": "resource: {cpu: 4}",
    "memory": "resource: {memory: 4G}",
    "gpu": "resource: {gpu: 1}",
    "network": "resource: {network: 100M}",
    "disk": "resource: {disk: 50M}",
    "logs": _LOGS,
    "output": _LOGS,
    "cron": "type: cron, with when: and the moments",
}
# The command line form: the option, or what to write in place of one.
_AS_OPTION = {
    **dict.fromkeys(("cpu", "memory", "gpu", "network", "disk", "resource"), "--resource"),
    "time_limit": "--time-limit",
    "requirement": "--require",
    "environment": "--env",
    "secrets": "--secret",
    "ports": "--port",
    "licences": "--licence",
    "run_as": "--user",
    "output": "--json",
}
_EXAMPLES = {"--resource": "--resource '<cpu=4, memory=8G>'", "--env": "--env KEY=VALUE"}
_VERBS: dict[str, str] = {
    "jobs": "ps list ls squeue qstat queue q condorq pods get history sacct",
    "cancel": "kill delete rm remove stop scancel qdel condorrm abort terminate",
    "submit": "sbatch qsub condorsubmit create add enqueue batch",
    "run": "srun start salloc qrsh",
    "job": "describe inspect info show task scontrol",
    "nodes": "node sinfo pbsnodes hosts machines condorstatus",
    "exec": "attach ssh shell sh enter login",
    "logs": "tail log output cat speek",
    "status": "top health cluster",
    "up": "init dev server daemon",
    "executor": "agent worker client kubelet slurmd",
    "groups": "quota quotas queues partitions namespaces sacctmgr",
    "scale": "resize replicas",
    "secret": "secrets vault",
    "usage": "report sreport accounting",
}
_VERB_OF = {word: verb for verb, words in _VERBS.items() for word in words.split()}


def key_for(word: str) -> str:
    """Return the job file equivalent of a word of another system; empty if unknown."""
    meaning = _meaning(word)
    if meaning in ("tail", "json", "follow"):
        return ""
    return _IN_A_FILE.get(meaning, meaning)


def resource_for(word: str) -> str:
    """Return the resource that a word of another system means; empty if unknown."""
    meaning = _meaning(word)
    return meaning if meaning in RESOURCES else ""


def option_for(word: str, verb: str, options: Collection[str]) -> str:
    """Return what to write in place of an option (``--mem``) that a verb with these ``options`` does not have; else
    empty.
    """
    plain = word.lstrip("-")
    meaning = _meaning(plain) or plain
    option = _AS_OPTION.get(meaning, f"--{meaning.replace('_', '-')}")
    if option in options:
        return _EXAMPLES.get(option, option)
    if verb == "run" and key_for(plain).isidentifier():
        return f"--set {key_for(plain)}=VALUE"
    if verb in ("submit", "apply", "run") and key_for(plain):
        return f"`{key_for(plain)}` in the job file" if "`" not in key_for(plain) else key_for(plain)
    return ""


def meant_by(word: str, options: Collection[str]) -> str:
    """Return the option that a mistyped one probably stands for, also if it is a mistyped word of another system.

    Empty if none is near.
    """
    plain = word.lstrip("-").replace("_", "-")
    names = {option.lstrip("-"): option for option in options}
    near = closest(plain, names)
    if near:
        return names[near]
    foreign = {}
    for other, meaning in _MEANING.items():
        option = _AS_OPTION.get(meaning, f"--{meaning.replace('_', '-')}")
        if option in options:
            foreign[other] = option
    near = closest(_plain(plain), foreign)
    return foreign[near] if near else ""


def verb_for(word: str) -> str:
    """Return the verb that a verb of another system means; empty if unknown."""
    return _VERB_OF.get(_plain(word), "")


def _meaning(word: str) -> str:
    return _MEANING.get(_plain(word), "")


def _plain(word: str) -> str:
    return "".join(character for character in word[:40].lower() if character not in "_-./")
