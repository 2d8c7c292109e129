"""The key ``wait_for``: what a job waits for, as job files say it."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.jobfile.waits import wait_for
from cress.model.waits import WaitFor


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("/data/in.csv", WaitFor("path", "/data/in.csv")),
        ("db:5432", WaitFor("address", "db:5432")),
        ({"time": "90min"}, WaitFor("time", "90m")),
        ({"time": "2026-12-01 8:00"}, WaitFor("time", "2026-12-01 08:00:00")),
        ({"time": "2026-12-01 08:00 +02:00"}, WaitFor("time", "2026-12-01 06:00:00 Z")),
    ],
)
def test_things_to_wait_for(value: object, found: WaitFor) -> None:
    assert wait_for(value) == (found,)
    # What is stored is read again.
    assert wait_for({found.kind: found.name}) == (found,)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"time": "soon"}, "'soon' is not a time to wait for"),
        ({"time": "2026-12-01"}, "'2026-12-01' has no time of day"),
        ({"time": "400d"}, "'400d' is longer than a year"),
        ({"time": "9999-12-31 23:59:59 -01:00"}, "is beyond the calendar"),
        ({"time": "2h", "timeout": "3h"}, "does not belong to a time"),
        ({"time": "2h", "path": "/x"}, "are two things"),
    ],
)
def test_what_is_nothing_to_wait_for_is_refused(value: object, what: str) -> None:
    with pytest.raises(InputError) as caught:
        wait_for(value)
    assert what in str(caught.value)
