"""docs/core.md says what the code says: vetoes, invariants, policies, options, and an example that runs."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import fields
from pathlib import Path

from cress.core.diagnostics.sentences import _SENTENCES as SENTENCES
from cress.core.invariants import HAS_VETO, INVARIANTS
from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.model.group import SchedPolicy
from cress.model.options import Options
from cress.model.resources import Dimensions

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")


def marked(name: str) -> list[str]:
    """The lines between the marks of a part that follows the code."""
    return GUIDE.partition(f"<!-- {name}: begin -->\n")[2].partition(f"<!-- {name}: end -->")[0].splitlines()


def test_every_kind_of_veto_is_in_the_guide_with_its_sentence() -> None:
    # A unit that was placed waits for nothing.
    kinds = [kind for kind in Verdict if kind is not Verdict.PLACED]
    assert marked("vetoes") == [f"| `{kind.value}` | {SENTENCES[kind]} |" for kind in kinds]


def test_every_invariant_is_in_the_guide() -> None:
    assert marked("invariants") == [f"- {name}" for name in (*INVARIANTS, HAS_VETO)]


def test_the_example_prints_what_the_guide_says() -> None:
    code, printed = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", GUIDE, re.DOTALL).groups()  # type: ignore[union-attr]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert out.getvalue() == printed


def test_every_policy_and_every_option_is_explained() -> None:
    assert {policy.value for policy in SchedPolicy} <= set(re.findall(r"`(\w+)`", GUIDE))
    # The weights and shares of a file of groups are explained in docs/groups.md, with all options in one table.
    elsewhere = {"accounting", "default_group_quota", "balance_dimensions", "balance_weights", "initial_weights"}
    # And these are none of the core's business.
    elsewhere |= {
        "term",
        "term_margin",
        "backoff_most",
        "start_tries",
        "start_backoff",
        "start_rest_most",
        "start_failures",
        "rebalance",
        "rebalance_moves",
        "rebalance_lost",
    }
    named = set(re.findall(r"`(\w+)(?:=\w+)?`", GUIDE))
    missing = {option.name for option in fields(Options)} - named - elsewhere
    assert missing == set()


def test_the_calls_in_the_guide_exist() -> None:
    table = GUIDE.partition("| call | what it does |")[2].partition("\n\n")[0]
    calls = re.findall(r"`(?:Scheduler\.)?([\w.]+)\(", table)
    assert len(calls) == 13
    core = Scheduler(Dimensions(), Options())
    for call in calls:
        assert hasattr(core, call) or call == "groups.priority_values"


def test_the_files_in_the_guide_are_the_files_of_the_core() -> None:
    table = GUIDE.partition("| file in `src/cress/core/` | what |")[2]
    named = set(re.findall(r"`([\w./]+)`", table))
    core = ROOT / "src" / "cress" / "core"
    here = {
        str(path.relative_to(core)) + "/" * path.is_dir()
        for path in core.rglob("*")
        if "__pycache__" not in path.parts and path.name != "__init__.py"
    }
    listed_as_a_whole = ("kernels/", "groups/policies/")
    assert named == {each for each in here if each in listed_as_a_whole or not each.startswith(listed_as_a_whole)}
