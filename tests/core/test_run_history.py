"""Estimates of runs: narrative cases, and a plain twin that must agree for every history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cress.core.estimator import MOST_AGAIN, Estimator
from cress.core.run_history import GROUP_RUNS, LIMIT_WEIGHT, MOST_KEYS, MOST_RUNS, RunHistory
from cress.model.estimates import RunEstimate
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.times import NEVER

ADA = ("ada", "train", "lab")
SMALL, LARGE = (1,), (8,)
HOUR = 3600

RUNS = st.lists(
    st.tuples(
        st.sampled_from([ADA, ("bob", "train", "lab"), ("ada", "train", "web")]),
        st.sampled_from([SMALL, LARGE]),
        st.sampled_from([10, 60, 100, 10**16, NEVER]),
        st.one_of(st.integers(0, 150), st.integers(10**15, 10**17)),
    ),
    max_size=2 * GROUP_RUNS,
)


def twin(
    runs: list[tuple[tuple[str, str, str], tuple[int, ...], int, int]], request: tuple[int, ...], limit: int
) -> RunEstimate:
    """Estimate ADA's next run by looking at all runs again."""
    recent = [run for key, _, _, run in runs if key[2] == "lab"][-GROUP_RUNS:]
    group = sorted(recent)
    likely = limit if limit < NEVER else (group[(len(group) - 1) // 2] if group else NEVER)
    alike = [(min(run, of), of) for _, _, of, run in runs if of < NEVER and of.bit_length() == limit.bit_length()]
    mean = likely
    if limit < NEVER and alike:
        mean = limit * sum(run for run, _ in alike) // sum(of for _, of in alike)
    mine = [(asked, run, of) for key, asked, of, run in runs if key == ADA][::-1][:MOST_RUNS]
    if not mine:
        return RunEstimate(0, mean, likely, likely)
    weights = [10**6 * 9**age // 10**age // (1 if asked == request else 10) for age, (asked, *_) in enumerate(mine)]
    total = sum(weights) + LIMIT_WEIGHT
    sample = [(min(run, limit), weight) for (_, run, _), weight in zip(mine, weights, strict=True)]
    parts = [
        (10**6 * min(run, of) // of if of < NEVER else 10**6, weight)
        for (_, run, of), weight in zip(mine, weights, strict=True)
    ]
    parts.append((10**6, LIMIT_WEIGHT))
    product = sum(run * weight for run, weight in sample) + mean * LIMIT_WEIGHT
    sample.append((likely, LIMIT_WEIGHT))

    def quantile(percent: int, sample: list[tuple[int, int]] = sample) -> int:
        return min(
            value
            for value, _ in sample
            if 100 * sum(weight for run, weight in sample if run <= value) >= percent * total
        )

    least = max(1, limit * quantile(10, parts) // 10**6) if limit < NEVER else 0
    # Only runs of the same name show how short one can be.
    named = any(key == ADA for key, *_ in runs)
    return RunEstimate(quantile(10) if named else 0, product // total, quantile(90), quantile(50), least)


@given(RUNS, st.sampled_from([SMALL, LARGE]), st.sampled_from([10, 60, 100, 10**16, NEVER]))
def test_the_history_agrees_with_its_plain_twin(
    runs: list[tuple[tuple[str, str, str], tuple[int, ...], int, int]], request: tuple[int, ...], limit: int
) -> None:
    history = RunHistory()
    for key, asked, of, run in runs:
        history.add(key, asked, of, run)
    found = history.estimate(ADA, request, limit)
    assert found == twin(runs, request, limit)
    assert found.optimistic <= found.run <= found.pessimistic <= limit
    assert found.mean <= limit


def test_without_history_the_limit_is_the_estimate_and_a_run_may_be_short() -> None:
    assert RunHistory().estimate(ADA, SMALL, HOUR) == RunEstimate(0, HOUR, HOUR, HOUR)


def test_where_limits_are_right_the_least_is_the_limit_however_much_runs_differ() -> None:
    history = RunHistory()
    for run in (10, 60, HOUR):
        history.add(ADA, SMALL, run, run)
    found = history.estimate(ADA, SMALL, HOUR)
    assert (found.optimistic, found.least) == (10, HOUR)


def test_where_a_user_asks_for_too_much_the_least_is_a_part_of_the_limit() -> None:
    history = RunHistory()
    for run in (72, 36, HOUR):
        history.add(ADA, SMALL, HOUR, run)
    assert history.estimate(ADA, SMALL, 10 * HOUR).least == 360


def test_without_history_and_limit_the_median_of_the_group_is_the_estimate() -> None:
    history = RunHistory()
    for run in (10, 20, 90):
        history.add(("bob", "other", "lab"), SMALL, NEVER, run)
    assert history.estimate(ADA, SMALL, NEVER).run == 20
    assert history.estimate(("ada", "train", "web"), SMALL, NEVER).run == NEVER


def test_runs_of_the_same_request_weigh_more_than_newer_ones_of_another() -> None:
    history = RunHistory()
    history.add(ADA, SMALL, HOUR, 60)
    history.add(ADA, LARGE, HOUR, 3000)
    assert history.estimate(ADA, SMALL, HOUR).run == 60


def test_a_job_with_a_new_name_is_estimated_by_what_its_user_ran_before() -> None:
    history = RunHistory()
    history.add(("ada", "train-1", "lab"), SMALL, HOUR, 60)
    assert history.estimate(("ada", "train-2", "lab"), SMALL, HOUR).run == 60
    history.add(("ada", "train-2", "lab"), SMALL, HOUR, 600)
    assert history.estimate(("ada", "train-2", "lab"), SMALL, HOUR).run == 600


def test_of_too_many_names_those_that_ran_longest_ago_are_forgotten() -> None:
    history = RunHistory()
    history.add(ADA, SMALL, HOUR, 60)
    for number in range(MOST_KEYS):
        history.add((f"user{number}", "", "lab"), SMALL, HOUR, 5)
    assert history.estimate(ADA, SMALL, HOUR).run == HOUR


def test_waiting_jobs_are_estimated_again_when_a_run_of_their_user_ends() -> None:
    waiting = {1, 2, 3}
    estimator = Estimator(lambda jobs: [each for each in jobs if each not in waiting])
    jobs = [
        Job(id=number, name="train", user="ada", group="lab", request=SMALL, time_limit=HOUR) for number in (1, 2, 3)
    ]
    other = Job(id=4, name="train", user="bob", group="lab", request=SMALL, time_limit=HOUR)
    assert [estimator.submitted(each).run for each in (*jobs, other)] == [HOUR] * 4
    waiting.discard(1)
    found = estimator.ended(jobs[0], 60)
    assert [(each.jobs, each.estimate.run) for each in found] == [((2, 3), 60)]
    waiting.clear()
    assert estimator.ended(jobs[1], 60) == []


def test_a_limit_of_nothing_is_an_estimate_too() -> None:
    # Logs have such jobs; job files may not.
    history = RunHistory()
    history.add(ADA, SMALL, 0, 0)
    assert history.estimate(ADA, SMALL, 0) == RunEstimate(0, 0, 0, 0, 1)
    assert history.estimate(("bob", "train", "lab"), SMALL, 0).run == 0


def test_jobs_without_a_group_are_estimated_again_with_those_that_name_the_default_one() -> None:
    estimator = Estimator(lambda _: [])
    first, second = (
        Job(id=number, name="train", user="ada", group=group, request=SMALL, time_limit=HOUR)
        for number, group in ((1, ""), (2, DEFAULT_GROUP))
    )
    estimator.submitted(first)
    estimator.submitted(second)
    (found,) = estimator.ended(first, 60)
    assert (found.jobs, found.estimate.run) == ((1, 2), 60)


def test_an_estimator_forgets_the_jobs_of_users_of_whom_no_run_ends() -> None:
    estimator = Estimator(list)
    for number in range(1, 10 * MOST_AGAIN):
        estimator.submitted(Job(id=number, name="x", user="ada", group="lab", request=SMALL))
    assert estimator.kept <= 2 * MOST_AGAIN


def test_after_runs_of_jobs_with_a_limit_of_zero_one_more_is_expected_to_take_no_time() -> None:
    history = RunHistory()
    history.add(ADA, SMALL, 0, 0)
    assert history.estimate(("bob", "test", "web"), SMALL, 0) == RunEstimate(0, 0, 0, 0)
