"""Jobs that spread, keep apart and together, and nodes that choose their jobs, for the random stories."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from cress.model.job import Job
from cress.model.node import Node

# Zones are compared without regard to capitals.
ZONES = ("a", "a", "b", "B", "c", "")
DOMAINS = (
    "spread(Zone)",
    "spread(Zone)",
    "spread(Zone, 2)",
    'spread(Zone, "a=50%, b=30%")',
    "spread(Rack, 2)",
    "spread(Name)",
    'away_from("self", Zone)',
    'away_from("self")',
    'away_from("tier=db", Zone)',
    'away_from("job1*")',
    'away_from("tier=web")',
    'near("tier=db", Zone)',
    'near("self", Zone)',
    'near("job2", Rack)',
    "within(Zone)",
    "within(Rack)",
)
DOMAIN_RELAXATIONS = ("", "", "", "", " && f(x) = (Waittime > 10s)", " && f(x) = True")
# What nodes accept, and what that means.
ACCEPTS: dict[str, Callable[[Job, str], bool]] = {
    "": lambda _job, _group: True,
    "Job.User in (ann, bob)": lambda job, _group: job.user in ("ann", "bob"),
    'Job.Labels.Tier != "web"': lambda job, _group: ("tier", "web") not in job.labels,
    'Job.Group = "batch" || Job.CPU <= 1': lambda job, group: group == "batch" or job.request[0] <= 1000,
}


def selective(job: Job, rng: Random) -> Job:
    """The job with a label, and with others or itself in mind, or with none of it."""
    clauses = rng.sample(DOMAINS, rng.choice((0, 1, 1, 1, 2)))
    texts = [
        *([job.requirement] if job.requirement else []),
        *(each + rng.choice(DOMAIN_RELAXATIONS) for each in clauses),
    ]
    if job.gang and rng.random() < 0.2:
        texts.append(f"IssueAsWhole = {rng.randint(1, job.tasks)} && f(x) = (Waittime > 10s)")
    rank = job.rank or rng.choice(("", "", "", "spread(Zone)", '2 × near("tier=db", Zone)', "CPU - 3 × spread(Rack)"))
    return msgspec.structs.replace(
        job,
        requirement=" && ".join(texts),
        rank=rank,
        labels=(("tier", rng.choice(("db", "web", "x"))),),
        tolerates=rng.choice(((), ("slow",))),
    )


def choosing(node: Node, rng: Random) -> Node:
    """The node in a zone, or in none; it takes all jobs, or not all of them."""
    zone = rng.choice(ZONES)
    attributes = tuple(each for each in node.attributes if each[0] != "zone")
    return msgspec.structs.replace(
        node,
        attributes=(*attributes, ("zone", zone)) if zone else attributes,
        accepts=rng.choice(tuple(ACCEPTS)) if rng.random() < 0.4 else "",
        repels=("slow",) if rng.random() < 0.3 else (),
    )
