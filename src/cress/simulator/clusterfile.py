"""The cluster to simulate, read from a YAML file written by hand or a CSV table from programs (docs/simulate.md)."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path

from cress.model.errors import InputError
from cress.simulator.files import UNREADABLE, text_of
from cress.simulator.workload import SimulatedCluster

# Suffix of the file → the module whose ``read`` returns the cluster of a text.
FORMATS: dict[str, str] = {
    ".yaml": "cress.simulator.clusteryaml",
    ".yml": "cress.simulator.clusteryaml",
    ".csv": "cress.simulator.clustercsv",
    ".csv.gz": "cress.simulator.clustercsv",
}


def load_cluster(path: Path) -> SimulatedCluster:
    """Read a cluster file. Raise ``InputError`` with file, line and field for every mistake found."""
    try:
        with text_of(path) as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise InputError("is not a text file", hint="YAML or CSV in UTF-8", file=str(path)) from error
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    name = path.name.lower()
    for suffix, module in FORMATS.items():
        if name.endswith(suffix):
            # Parsers are imported only when they are needed.
            try:
                cluster: SimulatedCluster = import_module(module).read(text, str(path))
            except csv.Error as error:
                raise InputError(f"is not valid CSV: {error}", file=str(path)) from error
            return cluster
    raise InputError(f"unknown suffix {path.suffix!r}", hint="one of " + ", ".join(FORMATS), file=str(path))
