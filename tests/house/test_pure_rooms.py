"""The pure rooms read no clock, file, socket or random source, and the check that says so bites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house.pure import PURE_ROOMS, check_source, pure_files

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "cress"


def test_the_pure_rooms_are_pure() -> None:
    files = list(pure_files(PACKAGE))
    assert {path.relative_to(PACKAGE).parts[0] for path in files} >= {"model", "core"}
    findings = [finding for path in files for finding in check_source(path.read_text(encoding="utf-8"), str(path))]
    assert findings == []


def test_only_pure_rooms_are_read(tmp_path: Path) -> None:
    for room in (*PURE_ROOMS, "cli", "simulator"):
        (tmp_path / room / "deep").mkdir(parents=True)
        (tmp_path / room / "deep" / "a.py").touch()
    assert [path.relative_to(tmp_path).parts[0] for path in pure_files(tmp_path)] == list(PURE_ROOMS)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        # clocks
        ("import time", "import of time"),
        ("import time as t\nt.time()", "import of time"),
        ("from time import monotonic as m\nm()", "import of time"),
        ("def f():\n    from time import sleep", "import of time"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now reads the clock"),
        ("from datetime import datetime as d\nd.utcnow()", "datetime.datetime.utcnow reads the clock"),
        ("import datetime as d\nd.datetime.now(d.UTC)", "datetime.datetime.now reads the clock"),
        ("import datetime\ndatetime.date.today()", "datetime.date.today reads the clock"),
        ("from datetime import datetime\nclock = datetime.now", "datetime.datetime.now reads the clock"),
        ("from datetime import datetime\nd = datetime\nd.now()", "datetime.datetime.now reads the clock"),
        ("def f(moment):\n    return moment.now()", ".now() reads a clock"),
        ("def f(moment):\n    return moment.astimezone()", ".astimezone() without a zone"),
        ("from zoneinfo import ZoneInfo\nZoneInfo('Asia/Shanghai')", "zoneinfo.ZoneInfo reads a file"),
        ("import zoneinfo as z\nz.ZoneInfo.no_cache('UTC')", "zoneinfo.ZoneInfo.no_cache reads a file"),
        # random sources
        ("import random", "import of random"),
        ("from random import random", "import of random"),
        ("from secrets import token_hex", "import of secrets"),
        ("import uuid", "import of uuid"),
        ("from os import urandom", "import of os"),
        ("import numpy as np\nnp.random.default_rng(1)", "numpy.random is a random source"),
        ("import numpy\nn = numpy\nn.random.rand()", "numpy.random is a random source"),
        ("from numpy import random", "numpy.random is a random source"),
        ("from numpy.random import default_rng", "numpy.random is a random source"),
        ("import numpy.random as r", "numpy.random is a random source"),
        ("def f(self):\n    return hash('text') % 8", "hash differs"),
        ("def f(task):\n    return id(task)", "id is an address"),
        ("def f(id):\n    return id\n\ndef g(task):\n    return id(task)", "id is an address"),
        # files
        ("open('x')", "open reads or writes a file"),
        ("o = open\no('x')", "open reads or writes a file"),
        ("import io", "import of io"),
        ("import os.path", "import of os.path"),
        ("from pathlib import Path", "import of pathlib"),
        ("import json\njson.load(f)", "json.load reads a file"),
        ("import numpy as np\nnp.load('x')", "numpy.load reads or writes a file"),
        ("def f(table):\n    table.tofile('x')", ".tofile() writes a file"),
        ("import tempfile, shutil", "import of shutil"),
        ("import logging", "import of logging"),
        # the rest of the world
        ("import socket", "import of socket"),
        ("import asyncio", "import of asyncio"),
        ("async def f(): ...", "async def"),
        ("import threading", "import of threading"),
        ("from concurrent.futures import ThreadPoolExecutor", "import of concurrent.futures"),
        ("import subprocess as s", "import of subprocess"),
        ("import sys", "import of sys"),
        ("print('hello')", "print writes"),
        ("input()", "input reads"),
        # ways round the check
        ("eval('1')", "eval runs text as code"),
        ("exec('import time')", "exec runs text as code"),
        ("__import__('time')", "__import__ imports what this check cannot see"),
        ("import importlib", "import of importlib"),
        ("import builtins\nbuiltins.open('x')", "import of builtins"),
        ("__builtins__['open']", "__builtins__ reaches"),
        ("from math import *", "from math import *"),
        ("from . import clock", "relative import"),
    ],
)
def test_what_is_not_pure_is_found(source: str, said: str) -> None:
    findings = check_source(source)
    assert any(said in finding.what for finding in findings), findings


@pytest.mark.parametrize(
    "source",
    [
        (
            "from datetime import datetime\ndef f(utc, zone):\n    return datetime.fromtimestamp(utc, "
            "zone).astimezone(zone)"
        ),
        "from zoneinfo import ZoneInfo\ndef f(zone: ZoneInfo): ...",
        "def f(event):\n    return event.now + event.time",
        "class D:\n    def __hash__(self):\n        return hash(self.names)",
        "class Job:\n    id: int\n    def same(self, other):\n        return self.id == other.id",
        "class Job:\n    def __init__(self, id):\n        self.id = id",
        "import numpy as np\nnp.zeros(3)",
        "import json\njson.loads('{}')",
        "import heapq, math\nfrom dataclasses import dataclass",
        "from cress.model.times import SECOND",
    ],
)
def test_what_is_pure_passes(source: str) -> None:
    assert check_source(source) == []


def test_a_finding_says_where() -> None:
    (finding,) = check_source("import math\n\nimport time\n", "core/clock.py")
    assert str(finding).startswith("core/clock.py:3: import of time")
