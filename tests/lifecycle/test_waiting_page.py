"""The page "My job waits": each reason has a row, to which the command line refers."""

from __future__ import annotations

import re
from pathlib import Path

from cress.cli.waiting_page import REASONS, what_to_do
from cress.core.placing.vetoes import Verdict
from cress.lifecycle.jobs.reasons import NO_EXECUTOR, USES, told
from tests.lifecycle.builders import World, job

PAGE = Path(__file__).parents[2] / REASONS


def test_each_kind_of_reason_has_one_row() -> None:
    anchors = re.findall(r'<a id="([^"]+)">', PAGE.read_text(encoding="utf-8"))
    kinds = {verdict.value.replace(" ", "-") for verdict in Verdict if verdict is not Verdict.PLACED}
    assert sorted(anchors) == sorted({*kinds, NO_EXECUTOR, USES})
    # Each row says what it means, until when, and what to do.
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if '<a id="' in line]
    assert all(len(row.split(" | ")) == 4 for row in rows)


def test_the_kind_of_a_reason_is_that_of_its_sentence() -> None:
    world = World()
    (first,) = world.submit(job(1))
    assert told(world.machine, first) == ("no_executor", "no executor is connected")
    world.join("n1", 1)
    (second,) = world.submit(job(1))
    assert told(world.machine, second).kind in ("no_room", "behind")
    assert told(world.machine, second).text
    assert told(world.machine, first) == ("", "")
    assert what_to_do(told(world.machine, second).kind).startswith("docs/waiting.md#")
