"""A scheduler that was warmed up meets no kernel that is not compiled yet; interpreted kernels decide the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cress.core.kernels import cache
from tests.core.settings import CONSTRAINED, PLACED, seeded_operations, seeded_setting
from tests.core.stories import Player, digest

_CHECK = """
import sys
from cress.core.kernels import balance, choice, devices, domains, holding, timeline, victims
from cress.core.warm import warm_up
from cress.language import machine
from cress.model.options import Options
from cress.model.resources import Dimensions
from numba.core.dispatcher import Dispatcher
from tests.core.settings import CONSTRAINED, PLACED, seeded_operations, seeded_setting
from tests.core.stories import Player

def compiled():
    return {
        f"{module.__name__}.{name}": set(each.signatures)
        for module in (balance, choice, devices, domains, holding, machine, timeline, victims)
        for name, each in vars(module).items()
        if isinstance(each, Dispatcher)
    }

met = {}
for seed in range(4):
    setting = seeded_setting(seed, constrained=seed % 3 == 1, placed=seed % 3 == 2)
    warm_up(Dimensions(setting.custom), Options(**setting.options))
    before = compiled()
    Player(setting, check=False).play(seeded_operations(seed, 120, PLACED if setting.placed else CONSTRAINED))
    met |= {name: seed for name, now in compiled().items() if now - before[name]}
print("not ready:", met)
sys.exit(bool(met))
"""


def test_after_warming_up_no_kernel_is_compiled_in_the_middle_of_work() -> None:
    # In a process of its own: other tests have called kernels already.
    done = subprocess.run([sys.executable, "-c", _CHECK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_change_of_any_kernel_makes_all_compiled_ones_stale() -> None:
    """They contain constants of each other, and each other."""
    files = Path(cache.__file__).parent.glob("*.py")
    assert {path.name for path in files if "@njit" in path.read_text(encoding="utf-8")} == set(cache.FILES)


_INTERPRETED = """
from cress.core.warm import KERNELS, warm_up
KERNELS.interpret()
from cress.model.options import Options
from cress.model.resources import Dimensions
from tests.core.test_warm import decided
warm_up(Dimensions(), Options(), lambda: KERNELS.missing)
print(KERNELS.missing, decided(), sep="\\n")
"""


def decided() -> str:
    """A fingerprint of the decisions of stories of all kinds."""
    placed = Player(seeded_setting(2, placed=True), check=False).play(seeded_operations(2, 60, PLACED))
    constrained = Player(seeded_setting(1, constrained=True), check=False).play(seeded_operations(1, 60, CONSTRAINED))
    return f"{digest(range(4), 40)} {placed.decisions} {constrained.decisions}"


def test_interpreted_kernels_decide_the_same_and_none_is_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _INTERPRETED],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    missing, _, interpreted = done.stdout.partition("\n")
    assert missing == "True", done.stderr[-2000:]
    assert interpreted.strip() == decided()
    assert not list(tmp_path.rglob("*.nb?"))
