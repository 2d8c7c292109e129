"""The cost of decisions in calls of functions: a gate that does not depend on the machine (``tests/counted.py``).

Each bound is what was counted, and a tenth. Whoever makes decisions cheaper, lowers it; whoever must raise it says why.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cress.model.options import Options
from cress.simulator import request, run
from cress.simulator.groups import configure, parse_policy, place
from cress.simulator.traces import generated
from tests.counted import calls_of

JOBS = 300
# 300 jobs of 5 groups on 12 nodes, all at once: nearly saturated, so that jobs wait, and groups preempt.
WORKLOAD = f"jobs={JOBS},nodes=12,groups=5"
# Policy and preemption: calls for each job, counted on 2026-11-28 with Python 3.11.
COUNTED = {
    ("FIFO", "off"): 637.0,
    ("BackFill", "off"): 824.0,
    ("BackFill", "on"): 986.0,
    ("Capacity", "off"): 1091.0,
    ("FIFO", "on"): 813.0,
    ("Urgency", "on"): 1526.0,
}


def _played(policy: str, preemption: str) -> request.Result:
    options = dataclasses.replace(Options(), preemption=preemption)
    work = configure(generated.load(WORKLOAD, None, 1), None, options.accounting)
    names, group_of = place(work)
    plan = request.Plan(
        request=request.Request(trace="test", out=Path()),
        workload=work,
        options=options,
        choices=(parse_policy(policy),),
        group_names=names,
        group_of=group_of,
    )
    return run.simulate(plan, plan.choices[0])


@pytest.mark.parametrize(("policy", "preemption"), COUNTED)
def test_a_job_costs_so_many_calls(policy: str, preemption: str) -> None:
    _played(policy, preemption)  # what is loaded or compiled at first is no cost of a decision
    counted = calls_of(lambda: _played(policy, preemption)) / JOBS
    bound = 1.1 * COUNTED[policy, preemption]
    assert counted <= bound, f"{counted:.0f} calls for each job, at most {bound:.0f}"


def test_the_search_for_victims_is_a_small_part() -> None:
    """It was 1.20 times as many calls on 2026-11-28; the goal for large clusters is 1.3."""
    _played("BackFill", "on")
    without = calls_of(lambda: _played("BackFill", "off"))
    assert calls_of(lambda: _played("BackFill", "on")) <= 1.3 * without
