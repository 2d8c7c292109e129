"""Keys over domains, and labels of jobs: which clauses they become, and what is told of mistakes."""

from __future__ import annotations

import pytest

from cress.language.parser import parse_requirement
from cress.model.errors import InputError
from cress.model.jobfile import domains

WRITTEN = [
    (domains.spread, "zone", ["spread(zone)"]),
    (domains.spread, "zone && f(x) = (Waittime > 5min)", ["spread(zone) && f(x) = (Waittime > 5min)"]),
    (
        domains.spread,
        {"by": "zone", "MostSkew": 2, "soft": "5min", "weight": 2},
        ["spread(zone, 2) && f(x, weight=2) = (Waittime > 5m)"],
    ),
    (domains.spread, {"by": "zone", "targets": {"a": "50%", 1: "30.5 %"}}, ['spread(zone, "a=50%, 1=30.5%")']),
    (domains.spread, ["zone", {"by": "rack", "soft": True}], ["spread(zone)", "spread(rack) && f(x) = (True)"]),
    (domains.spread, {"by": "zone", "soft": False}, ["spread(zone)"]),
    (domains.away_from, "db", ['away_from("db")']),
    (domains.away_from, "tier=db, env!=test", ['away_from("tier=db, env!=test")']),
    (
        domains.away_from,
        {"jobs": 'Job.User = "ann" && Job.Gang', "by": "rack", "soft": "ClusterLoad > 80%"},
        [r'away_from("Job.User = \"ann\" && Job.Gang", rack) && f(x) = (ClusterLoad > 80%)'],
    ),
    (
        domains.near,
        'Job.User = "ann" && Job.Gang && f(x) = True',
        [r'near("Job.User = \"ann\" && Job.Gang") && f(x) = True'],
    ),
    (domains.near, [{"job": "x", "by": "zone"}, "self"], ['near("x", zone)', 'near("self")']),
    (
        domains.within,
        [{"by": "switch", "soft": 600}, "zone"],
        ["within(switch) && f(x) = (Waittime > 10m)", "within(zone)"],
    ),
]


@pytest.mark.parametrize(("read", "value", "texts"), WRITTEN)
def test_a_key_becomes_clauses_of_the_language(read: object, value: object, texts: list[str]) -> None:
    made = [each.text for each in read(value)]  # type: ignore[operator]
    assert made == texts
    for text in made:
        (clause,) = parse_requirement(text).clauses
        assert parse_requirement(str(clause)).clauses == (clause,)


MISTAKES = [
    (
        domains.spread,
        {"most_skew": 2},
        "by: is missing (zone, or {by: zone, most_skew: 1, targets: {a: 50%}, soft: 5min})",
    ),
    (domains.spread, {"by": "zone", "most_skew": 0}, "most_skew: 0 is too small (a whole number from 1 to 1000000)"),
    (domains.spread, {"by": "zone", "targets": {"a": "x"}}, "targets.a: 'x' is not a share (a percentage, 0% to 100%)"),
    (domains.spread, {"by": "zone", "targets": {"a": 0.5}}, "targets.a: 0.5 is not a share (a percentage, 0% to 100%)"),
    (domains.spread, {"by": "zone", "targets": {"a": 50}}, "targets.a: 50 is not a share (a percentage, 0% to 100%)"),
    (
        domains.spread,
        {"by": "zone", "soft": "banana"},
        (
            "soft: 'banana' is neither a time nor a condition (true, a time such as 5min, or a condition such as "
            "ClusterLoad < 80%)"
        ),
    ),
    (domains.labels, {"tier": ["a", "b"]}, "tier: a list is not the text of a label (one text: a label has one value)"),
    (domains.spread, ["zone", {"by": "rack", "wieght": 2}], "[1].wieght: unknown key 'wieght' (did you mean weight?)"),
    (domains.spread, {"by": "a b"}, "by: 'a b' is not an attribute of nodes (such as zone, rack or switch)"),
    (
        domains.within,
        {"by": "switch", "weight": 2},
        "weight: is that of a soft clause, and it never turns soft (soft: true, or soft: 5min)",
    ),
    (
        domains.within,
        {"by": "switch", "soft": "f(x) = True"},
        "soft: 'f(x) = True' has f(x) in it (only the condition in its parentheses: Waittime > 5min)",
    ),
    (
        domains.away_from,
        {"by": "rack"},
        "jobs: is missing (a job or label (db, tier=db), or {jobs: db, by: zone, soft: 5min})",
    ),
    (
        domains.labels,
        {"a b": 1},
        "a b: 'a b' is not a name of a label (letters, digits, `_`, `-` and `.`, beginning with a letter, at most 64)",
    ),
    (domains.labels, "tier=db, Tier=x", "label Tier is given twice (each name once)"),
]


@pytest.mark.parametrize(("read", "value", "sentence"), MISTAKES)
def test_mistakes(read: object, value: object, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read(value)  # type: ignore[operator]
    assert str(caught.value) == sentence


def test_labels_are_texts() -> None:
    assert domains.labels({"tier": "db", "n": 3, "new": True}) == (("n", "3"), ("new", "true"), ("tier", "db"))
    assert domains.labels("tier=db, env=test") == (("env", "test"), ("tier", "db"))
