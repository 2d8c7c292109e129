"""Files that jobs bring from where the user stands: sent before the jobs are submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cress.cli.common import STANDARD_INPUT
from cress.cli.placed import in_file
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.cli.jobfile import JobInFile
    from cress.client import Client


def base_of(entry: JobInFile) -> Path:
    """Return the folder of a job's relative paths: that of its job file; else, as for scripts, the current one."""
    return Path() if entry.is_script or entry.file in (STANDARD_INPUT, "") else Path(entry.file).parent


def with_inputs(
    client: Client,
    entries: Sequence[JobInFile],
    jobs: Sequence[Mapping[str, object]],
    options: Mapping[str, str] | None = None,
    *,
    send: bool = True,
) -> list[Mapping[str, object]]:
    """Return the jobs with uploads in place of paths, and send the files. Raises InputError with file and line."""
    from cress.client.inputs import brings_files

    if not any(map(brings_files, jobs)):
        return list(jobs)
    from cress.client.blocking.uploads import with_uploads

    # A path on the command line is one from where the user stands.
    given = {"files", "workdir"} & (options or {}).keys()
    bases = [Path() if given else base_of(entry) for entry in entries]
    try:
        return with_uploads(jobs, client, bases, send=send)
    except InputError as error:
        raise in_file(error, entries, options) from None


def with_inputs_of_command(client: Client, job: Mapping[str, object]) -> Mapping[str, object]:
    """Return the job of a command with uploads in place of paths, and send the files. Raises InputError."""
    from cress.cli.jobfile import JobInFile

    options = {"files": "--file", "workdir": "--workdir"}
    return with_inputs(client, [JobInFile(dict(job), "", 0)], [job], options)[0]
