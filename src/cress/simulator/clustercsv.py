"""A cluster file in CSV: a row for one node or several equal ones; also the nodes of cluster-trace-gpu-v2023."""

from __future__ import annotations

import csv

from cress.model.errors import InputError
from cress.model.node import Node
from cress.model.resources import BASE_DIMENSIONS, Dimensions
from cress.simulator.clusterbuilder import Builder
from cress.simulator.traces import openb
from cress.simulator.workload import SimulatedCluster

TABLE_KEYS = ("name", "count", "rack")


def read(text: str, file: str) -> SimulatedCluster:
    """Return the cluster of this table. Raise ``InputError`` with file, line and field for every mistake."""
    reader = csv.reader(text.splitlines())
    header = [cell.strip() for cell in next(reader, [])]
    if openb.is_nodes(header):
        return openb.load_nodes(text, file)
    if openb.is_pods(header):
        raise InputError("this is a list of pods, not of nodes", hint=openb.HOW, file=file)
    if "name" not in header:
        raise InputError("the first line has no column `name`", hint="name,count,rack,cpu,memory,…", file=file, line=1)
    custom = tuple(cell for cell in header if cell not in TABLE_KEYS and cell not in BASE_DIMENSIONS)
    try:
        dimensions = Dimensions(custom)
    except InputError as error:
        raise error.at(file=file, line=1) from error
    builder = Builder(dimensions, file)
    for row in reader:
        line = reader.line_num
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            builder.wrong(InputError(f"{len(row)} cells", hint=f"{len(header)}, as in the first line", line=line))
            continue
        cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
        given = {name: cell for name, cell in cells.items() if name not in TABLE_KEYS and cell}
        capacity = builder.amounts(given, line)
        if capacity is not None:
            node = Node(name="", capacity=capacity, rack=cells.get("rack", ""))
            builder.add(line, cells["name"], cells.get("count", ""), node)
    return builder.cluster()
