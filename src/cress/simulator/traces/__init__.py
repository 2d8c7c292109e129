"""Where workloads come from. A new format is one new file with a ``load`` and one line here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from cress.model.errors import InputError
from cress.simulator.workload import Cluster, Workload

# Suffix of the file → the module that reads it, imported when it is needed.
FORMATS: dict[str, str] = {
    ".swf": "cress.simulator.traces.swf",
    ".swf.gz": "cress.simulator.traces.swf",
    ".csv": "cress.simulator.traces.table",
    ".csv.gz": "cress.simulator.traces.table",
    ".parquet": "cress.simulator.traces.table",
    ".jsonl": "cress.simulator.traces.dag",
    ".jsonl.gz": "cress.simulator.traces.dag",
}
GENERATED = "generated"


def load_workload(source: str, cluster: Cluster | None, seed: int) -> Workload:
    """The workload of a file, or a generated one: ``generated`` or ``generated:jobs=1000,load=0.9,…``.

    ``cluster`` is that of ``--cluster``; formats that bring none need it. Raises ``InputError``.
    """
    if source == GENERATED or source.startswith(GENERATED + ":"):
        from cress.simulator.traces import generated

        return generated.load(source.removeprefix(GENERATED).removeprefix(":"), cluster, seed)
    path = Path(source)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise InputError(what, hint="a file " + ", ".join(FORMATS) + f" or `{GENERATED}`", file=source)
    for suffix, module in FORMATS.items():
        if path.name.lower().endswith(suffix):
            workload: Workload = import_module(module).load(path, cluster)
            return workload
    raise InputError("the format of this trace is not known", hint="one of " + ", ".join(FORMATS), file=source)
