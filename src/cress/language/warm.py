"""Preparation of the machine before it is needed, since it is compiled at its first call."""

from __future__ import annotations

import numpy as np

from cress.language.columns import Columns
from cress.language.parser import parse_expression
from cress.language.program import Program
from cress.model.node import Node
from cress.model.resources import Dimensions


def warm_up() -> None:
    """Parse a text and run it once in every way."""
    dimensions = Dimensions()
    columns = Columns(dimensions)
    columns.set_node(0, Node(name="n1", capacity=(1,) * len(dimensions)))
    program = Program(columns, parse_expression('Name = "n1" && IdleCPU > 0'))
    nodes = np.ones((1, 2 * len(dimensions)), np.int64)
    program.truths(nodes, np.zeros(1, np.int8), np.zeros(1, np.int64))
    program.values(nodes, np.zeros(1, np.float32), np.zeros(1, np.int64))
    program.truth(nodes, 0)
