"""Directives of PBS and Torque as options of sbatch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.slurm.option_table import SBATCH, Fate, Option, Takes

# What a directive of PBS may become: an option of sbatch, or the number of threads of each rank, for which sbatch has
# no option.
THREADS = Option("pbs-threads", "", Takes.VALUE, Fate.UNDERSTOOD, "the variable OMP_NUM_THREADS")
OPTIONS = (*SBATCH, THREADS)

# Options of qsub: the letter, what it becomes (a function of its value, or None for a refusal), and the text for the
# page docs/slurm.md.
_DEPENDENCIES = {kind + array: kind for kind in ("afterok", "afterany", "afternotok") for array in ("", "array")}


def _same(name: str) -> Callable[[str], list[str]]:
    return lambda value: [f"--{name}={value}"]


def _nothing(_value: str) -> list[str]:
    return []


def _clock(value: str) -> list[str]:
    """PBS counts plain numbers as seconds, Slurm as minutes."""
    if (seconds := whole_number(value)) is not None:
        hours, rest = divmod(seconds, 3600)
        return [f"--time={hours}:{rest // 60:02d}:{rest % 60:02d}"]
    if value.count(":") == 1:
        return [f"--time=0:{value}"]
    return [f"--time={value}"]


def _amount(value: str) -> str:
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", value.lower())
    if found is None:
        raise InputError(f"{value!r} is not an amount of memory", hint="such as 4gb")
    if not found[2]:
        return f"{max(int(found[1]) >> 10, 1)}K"
    return f"{found[1]}{found[2].upper()}"


def _resources(value: str) -> list[str]:
    """``-l``: ``walltime=1:00:00,mem=4gb``, ``nodes=2:ppn=4``, ``select=2:ncpus=4:mem=8gb:ngpus=1:mpiprocs=4``."""
    words: list[str] = []
    for item in value.split(","):
        name, _, amount = item.partition("=")
        name = name.strip().lower()
        if name == "walltime":
            words += _clock(amount)
        elif name in ("mem", "vmem"):
            words.append(f"--mem={_amount(amount)}")
        elif name in ("pmem", "pvmem"):
            # Torque counts these for each process.
            words.append(f"--mem-per-cpu={_amount(amount)}")
        elif name == "procs":
            words.append(f"--ntasks={amount}")
        elif name == "ncpus":
            words.append(f"--cpus-per-task={amount}")
        elif name == "ngpus":
            words.append(f"--gpus-per-node={amount}")
        elif name == "nodes":
            words += _chunk(amount, {**_AMOUNTS, "ppn": "ntasks-per-node", "gpus": "gpus-per-node"})
        elif name == "select":
            # PBS sets OMP_NUM_THREADS for chunks.
            words += _chunk(amount, {**_AMOUNTS, "ngpus": "gpus-per-node"}, threads=True)
        elif name not in ("place", "cput", "file", "nice", "software", "arch", "host"):
            raise InputError(
                f"unknown resource {name!r}",
                hint="walltime, mem, pmem, ncpus, ngpus, procs, nodes or select",
                field="-l",
            )
    return words


# The amounts of any chunk, and what they become; `_chunk` itself reads those that become nothing here.
_AMOUNTS = {"ncpus": "", "mem": "mem", "mpiprocs": "ntasks-per-node", "ompthreads": ""}


def _chunk(text: str, meanings: dict[str, str], *, threads: bool = False) -> list[str]:
    """Return the options for one kind of chunks: a number of nodes or the name of one, amounts, and properties.

    ``threads``: each rank has as many threads as processors if it does not say how many.
    """
    if "+" in text:
        raise InputError(
            f"{text!r} has chunks of several kinds", hint="`parts:` of a job file (docs/jobs.md)", field="-l"
        )
    count, *parts = text.split(":")
    given = dict(part.partition("=")[::2] for part in parts if "=" in part)
    if "=" in count:
        # `select=ncpus=4` is one chunk.
        given, count = {**dict([count.partition("=")[::2]]), **given}, "1"
    if not count:
        raise InputError(f"{text!r} names no number of nodes", hint="such as nodes=2:ppn=4", field="-l")
    words = [f"--nodes={count}"] if whole_number(count) is not None else ["--nodes=1", f"--nodelist={count}"]
    properties = [part for part in parts if "=" not in part]
    if properties:
        words.append(f"--constraint={'&'.join(properties)}")
    for name, value in given.items():
        meaning = meanings.get(name)
        if name in ("host", "vnode"):
            words.append(f"--nodelist={value}")
        elif meaning:
            words.append(f"--{meaning}={_amount(value) if meaning == 'mem' else value}")
        elif meaning is None:
            known = ", ".join(sorted({*meanings, "host"}))
            raise InputError(
                f"unknown resource {name!r} of a chunk",
                hint=f"{known}; `#CRESS --requirement` chooses nodes", field="-l",
            )  # fmt: skip
    ranks = whole_number(given.get("mpiprocs") or given.get("ppn", "")) or 1
    cpus = whole_number(given.get("ncpus", ""))
    per_rank = max((cpus or 1) // ranks, 1)
    if cpus is not None:
        words.append(f"--cpus-per-task={per_rank}")
    if "ompthreads" in given and whole_number(given["ompthreads"]) is None:
        raise InputError(f"{given['ompthreads']!r} is no number of threads", hint="such as ompthreads=2", field="-l")
    if threads or "ompthreads" in given:
        words.append(f"--{THREADS.name}={given.get('ompthreads', per_rank)}")
    return words


def _attributes(value: str) -> list[str]:
    """``-W``: ``depend=afterok:12:13``, ``block=true``; files cannot be staged, all else is passed over."""
    words = []
    # A comma separates attributes, and also the conditions of `depend`.
    for item in re.split(r"[;,](?=\s*\w+=)", value):
        name, _, what = item.strip().partition("=")
        if name == "depend":
            conditions = []
            for one in what.split(","):
                kind, _, jobs = one.partition(":")
                if kind not in _DEPENDENCIES:
                    raise InputError(
                        f"unknown dependency {kind!r}", hint="afterok, afterany or afternotok", field="-W depend"
                    )
                ids = ":".join(re.sub(r"[.\[].*", "", id) for id in jobs.split(":"))
                conditions.append(f"{_DEPENDENCIES[kind]}:{ids}")
            words.append(f"--dependency={','.join(conditions)}")
        elif name == "block" and what.lower() == "true":
            words.append("--wait")
        elif name in ("stagein", "stageout"):
            raise InputError(
                "is not supported", hint="`#CRESS --files=…`, or copy in the script (docs/files.md)",
                field=f"-W {name}",
            )  # fmt: skip
    return words


def _file(option: str) -> Callable[[str], list[str]]:
    """``-o host:/path`` names a file on a shared file system, ``-o folder/`` a file of the usual name in a folder."""

    def words(value: str) -> list[str]:
        path = re.sub(r"^[\w.-]+:(?=/)", "", value)
        return [f"--{option}={path}{f'%x.{option[0]}%j' if path.endswith('/') else ''}"]

    return words


def _array(value: str) -> list[str]:
    return [f"--array={value}"]


def _begin(value: str) -> str:
    """Return ``[[CC]YY]MMDDhhmm[.SS]`` or ``hhmm`` as a time of sbatch; without a year it is the next one."""
    found = re.fullmatch(r"(?:(?:(\d\d)?(\d\d))?(\d\d)(\d\d))?(\d\d)(\d\d)(?:\.\d\d)?", value)
    if found is None:
        raise InputError(f"{value!r} is not a time", hint="YYYYMMDDhhmm, YYMMDDhhmm, MMDDhhmm or hhmm", field="-a")
    century, year, month, day, hour, minute = found.groups()
    if month is None:
        return f"{hour}:{minute}"
    clock = f"{hour}:{minute}"
    return f"{century or '20'}{year}-{month}-{day}T{clock}" if year else f"{month}/{day}-{clock}"


def _mail(_value: str) -> list[str]:
    return ["--mail-type=NONE"]


_TABLE: dict[str, tuple[Callable[[str], list[str]] | None, bool, str]] = {
    "A": (_same("account"), True, "`--account`"),
    "J": (_array, True, "`--array`"),
    "t": (_array, True, "`--array`"),
    "N": (_same("job-name"), True, "`--job-name`"),
    "l": (
        _resources,
        True,
        (
            "`walltime`, `mem`, `pmem`, `ncpus`, `ngpus`, `procs`, `nodes=2:ppn=4:feature`, "
            "`select=2:ncpus=4:mem=8gb:mpiprocs=4:ompthreads=1`"
        ),
    ),
    "q": (_same("partition"), True, "`--partition`"),
    "P": (_same("account"), True, "`--account`"),
    "o": (_file("output"), True, "`--output`"),
    "e": (_file("error"), True, "`--error`"),
    "j": (_nothing, True, "`oe`: standard error goes to the file of standard output"),
    "d": (_same("chdir"), True, "`--chdir`"),
    "h": (lambda _value: ["--hold"], False, "`--hold`"),
    "p": (_same("priority"), True, "`--priority`"),
    "v": (_same("export"), True, "`--export`"),
    "V": (lambda _value: ["--export=ALL"], False, "`--export=ALL`"),
    "W": (
        _attributes,
        True,
        "`depend=`: `--dependency`; `block=true`: `--wait`; `stagein` is refused; the rest is passed over",
    ),
    "r": (lambda value: ["--no-requeue"] if value == "n" else [], True, "`n`: `--no-requeue`"),
    "m": (_mail, True, "passed over: `cress events --follow` reports the end"),
    "M": (_mail, True, "passed over: `cress events --follow` reports the end"),
    "k": (_nothing, True, "passed over: output goes to its file as it is written"),
    "C": (None, True, "refused: directives begin with `#PBS`"),
    "D": (None, True, "refused: `-d` sets the directory"),
    "R": (_nothing, True, "passed over: files of output are kept"),
    "T": (None, True, "refused: call the prologue in the script"),
    "b": (_nothing, True, "passed over: a submit waits until the center answers"),
    "c": (_nothing, True, "passed over: running programs are not saved"),
    "f": (_nothing, False, "passed over: lost tasks always run again"),
    "n": (lambda _value: ["--exclusive"], False, "`--exclusive`, which is passed over"),
    "w": (_same("chdir"), True, "`--chdir`"),
    "z": (_nothing, False, "passed over: the id of the job is printed"),
    "S": (_nothing, True, "the interpreter of a script whose first line names none; else it must be the same"),
    "I": (None, False, "refused: `salloc`"),
    "X": (None, False, "refused: windows are not passed on"),
    "a": (lambda value: [f"--begin={_begin(value)}"], True, "`--begin`"),
    "u": (None, True, "refused: `run_as:` of a job file names the account"),
}


def pbs_words(words: Sequence[str]) -> list[str]:
    """Return the words of a directive of PBS as those of sbatch, by the table ``OPTIONS``. Raises InputError."""
    left = list(words)
    found: list[str] = []
    while left:
        word = left.pop(0)
        letter = word[1:2]
        row = _TABLE.get(letter) if word.startswith("-") else None
        if row is None:
            known = " ".join(f"-{known}" for known in sorted(_TABLE))
            raise InputError(f"unknown option {word}", hint=f"of PBS: {known}")
        become, takes, about = row
        value = word[2:]
        if takes and not value:
            if not left:
                raise InputError("needs a value", hint=f"-{letter} VALUE", field=f"-{letter}")
            value = left.pop(0)
        if become is None:
            raise InputError("is not supported", hint=about.removeprefix("refused: "), field=f"-{letter}")
        found += become(value)
    return found


def pbs_table() -> str:
    """Return the options of PBS as a Markdown table, for docs/slurm.md."""
    rows = [f"| `-{letter}` | {about} |" for letter, (_, _, about) in sorted(_TABLE.items())]
    return "\n".join(["| option of `qsub` | becomes |", "|---|---|", *rows]) + "\n"
