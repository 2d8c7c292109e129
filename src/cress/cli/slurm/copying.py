"""``sbcast``: copy a file to every node of an allocation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from cress.cli.slurm.layout import find_allocation, ranks_of, step_number
from cress.cli.slurm.queue import VALUE, option
from cress.model.errors import InputError
from cress.slurm.arrays import parse_job
from cress.slurm.command_line import parse, values_of

# What a node runs: the destination, the name of the file for a folder, "force" or "", the mode, the size, and the times
# of access and of the last change, or "". In a folder that others may write to, `set -C` follows no link of theirs.
RECEIVE = """
to=$1
case $to in */) to=$to$2 ;; *) if [ -d "$to" ]; then to=$to/$2; fi ;; esac
if [ -z "$3" ] && [ -e "$to" ]; then echo "$to exists already; --force replaces it" >&2; exit 1; fi
part=$to.$$
set -C
exec 3>"$part" || exit 1
trap 'rm -f "$part"' EXIT
cat >&3 || exit 1
exec 3>&-
size=$(($(wc -c <"$part")))
if [ "$size" -ne "$5" ]; then echo "$size of $5 bytes of $2 have come" >&2; exit 1; fi
chmod "$4" "$part" || exit 1
if [ -n "$6" ]; then TZ=UTC0 touch -a -t "$6" "$part" && TZ=UTC0 touch -m -t "$7" "$part" || exit 1; fi
mv -f "$part" "$to"
"""

OPTIONS = (
    option("force", "f"),
    option("jobid", "j", VALUE),
    option("preserve", "p"),
    option("verbose", "v"),
    option("compress", "C"),
    option("size", "s", VALUE),
    option("fanout", "F", VALUE),
    option("timeout", "t", VALUE),
)


def sbcast(name: str, words: Sequence[str]) -> int:
    """Copy a file to the nodes of the allocation of this program, or of ``--jobid``."""
    from cress.cli.slurm.running import RunningStep, run_step

    given, files = parse(words, OPTIONS, mixed=True)
    values = values_of(given)
    if len(files) != 2:
        raise InputError("a file and its destination are needed", hint="sbcast program /tmp/program")
    source, to = Path(files[0]), files[1]
    if not source.is_file():
        raise InputError("is no file on this machine", hint="a file to copy", field=str(source))
    if not to.startswith("/"):
        to = str(Path.cwd() / to) + ("/" if to.endswith("/") else "")
    job = values.get("jobid", "").partition(".")[0]
    found = find_allocation(str(parse_job(job).id) if job else "")
    if found is None:
        raise InputError("there is no allocation", hint="run it in a job, or name one: --jobid=12")
    # Several places may be on one node.
    first = {place.node: place for place in reversed(found.places)}
    facts = source.stat()
    times = [_time(facts.st_atime), _time(facts.st_mtime)] if "preserve" in values else ["", ""]
    force, mode = "force" if "force" in values else "", f"{facts.st_mode & 0o777:o}"
    command = ["/bin/sh", "-c", RECEIVE, name, to, source.name, force, mode, str(facts.st_size), *times]
    ranks = ranks_of([place for place in found.places if first[place.node] is place], [1] * len(first))
    step = RunningStep(
        name=name,
        job=found.job,
        number=step_number(found.folder),
        ranks=ranks,
        here=found.here,
        variables={},
        # A pattern: its % are doubled.
        input=str(source.resolve()).replace("%", "%%"),
    )
    return run_step(step, [command] * len(ranks))


def _time(at: float) -> str:
    """Return a moment as `touch -t` reads it in UTC."""
    return time.strftime("%Y%m%d%H%M.%S", time.gmtime(at))
