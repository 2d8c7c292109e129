"""Kernels run interpreted until the cache has their machine code."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cress.language.kernels import Kernels

_SOURCE = """
import numpy as np
from numba import njit

@njit(cache=True, nogil=True, error_model="numpy")
def halved(values):
    return values[0] / values[1], np.int64(7)

@njit(cache=True, nogil=True, error_model="numpy")
def twice(values):
    return halved(values), np.float32(2) * values[0] > 1
"""


def test_a_kernel_is_interpreted_until_the_cache_has_it_and_returns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_up.py").write_text(_SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("made_up")
    kernels = Kernels(module)
    kernels.interpret()

    def called() -> Any:
        # Division by zero gives what the compiled kernel gives, without a warning.
        return module.twice(np.array([1, 0]))

    interpreted = called()
    assert kernels.missing
    assert module.twice.signatures == []
    assert [type(each) for each in (*interpreted[0], interpreted[1])] == [float, int, bool]

    program = "import made_up, numpy as np; made_up.twice(np.array([1, 0]))"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert called() == interpreted
    assert module.twice.signatures == [], "the cache is looked at once"
    kernels.interpret()
    assert called() == interpreted
    assert not kernels.missing
    assert len(module.twice.signatures) == 1
    assert sum(module.twice.stats.cache_hits.values()) == 1

    kernels.compile()
    module.twice(np.array([1.0, 0.0]))
    assert len(module.twice.signatures) == 2
