"""Dags in a job file: one job for the dag, and one for each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from cress.model.errors import MAX_ERRORS, InputError, MoreErrors
from cress.model.family import Dag, StepEnd
from cress.model.job import Condition, Job, JobType
from cress.model.jobfile import values
from cress.model.jobfile.job import JobSpec, has_steps, read_spec, source_of, type_of
from cress.model.jobfile.key import CRON, DAG
from cress.model.jobfile.keys import ALIASES, INHERITED, KEYS, TABLE
from cress.model.jobfile.misplaced import misplaced
from cress.model.jobfile.reader import Reader, below, mapping_of, plain
from cress.model.jobfile.schemas import MAX_STEPS
from cress.model.jobfile.values import MAX_NAME_LENGTH, NAME, as_text, raise_all, shown
from cress.model.resources import Dimensions
from cress.model.step_condition import HINT, parse_condition, references
from cress.model.step_values import OUTPUT, variable
from cress.model.units import one_of

# Maximum number of steps of a cycle in an error.
MOST_SHOWN = 20

_HINT = "steps: {load: {command: …}, train: {command: …, after: [load]}}"
_NOTHING: tuple[tuple[str, Condition | None], ...] = ()
_NO_STEPS: dict[str, Mapping[str, object]] = {}


class _Step(msgspec.Struct):
    """A step as written: its dependencies, its condition, and the flag that later steps go on when it fails."""

    name: str
    after: tuple[tuple[str, Condition | None], ...]
    goes_on: bool
    spec: JobSpec
    when: str = ""


def parse_dag(
    mapping: Mapping[str, object], *, dimensions: Dimensions, user: str, base: int
) -> tuple[list[JobSpec], list[InputError]]:
    """Read a dag and its steps, which follow ``base`` in the submit; return them with all mistakes.

    The steps of a cron job whose runs are dags are part of its spec, and are counted as in a submit of their own.
    """
    type_ = type_of(mapping)
    is_cron = type_ is JobType.CRON
    base = 0 if is_cron else base
    reader = Reader(mapping, KEYS, aliases=ALIASES, misplaced=lambda key: misplaced(key, type_))
    reader.read("type", values.job_type, JobType.DAG)
    whole = read_spec(reader, type_, dimensions=dimensions, user=user)
    name = whole.job.name if "name" in reader.given else type_.value
    entries = reader.read("steps", _entries, _NO_STEPS)
    if "steps" not in reader.given:
        reader.errors.append(InputError("is missing", hint=_HINT, field="steps"))
    written = reader.given.get("steps", "steps")
    defaults = {key: reader.values[key] for key in INHERITED if key in reader.given}
    steps: list[_Step] = []
    for called, entry in entries.items():
        if len(reader.errors) > MAX_ERRORS:
            break
        step, wrong = _step(called, entry, defaults, f"{name}.{called}", dimensions, user)
        steps.append(step)
        reader.errors += [below(mistake, f"{written}.{called}") for mistake in wrong]
    if len(steps) == len(entries):
        wrong = _wrong_order(steps)
        reader.errors += [below(mistake, written) for mistake in wrong or _wrong_conditions(steps)]
    if is_cron and "wait_for" in reader.given:
        reader.wrong("wait_for", "belongs to a step here", "the first step waits, the others come after it")
    source = source_of(mapping, reader)
    plan = whole.job.plan if is_cron else Dag(steps=tuple(entries))
    tasks = 1 if is_cron else len(steps)
    job = msgspec.structs.replace(whole.job, name=name, tasks=tasks, plan=plan)
    run = msgspec.structs.replace(whole.run, name=name, tasks=tasks, source=source)
    places = {step.name: base + number for number, step in enumerate(steps, 1)}
    goes_on = {step.name for step in steps if step.goes_on}
    specs = [msgspec.structs.replace(whole, job=job, run=run)]
    for step in steps:
        after = tuple(
            (-places[previous] - 1, condition or (Condition.ANY if previous in goes_on else Condition.OK))
            for previous, condition in step.after
            if previous in places
        )
        member = msgspec.structs.replace(step.spec.job, group=job.group, after=after, family=-base - 1, when=step.when)
        run = msgspec.structs.replace(step.spec.run, group=job.group)
        specs.append(msgspec.structs.replace(step.spec, job=member, run=run, place=f".{written}.{step.name}"))
    if is_cron:
        members = tuple(specs[1:])
        run = msgspec.structs.replace(specs[0].run, steps=tuple(spec.run for spec in members))
        specs = [msgspec.structs.replace(specs[0], run=run, steps=members)]
    return specs, reader.errors


def _entries(value: object) -> dict[str, Mapping[str, object]]:
    found = mapping_of(value, _HINT)
    if not found:
        raise InputError("is empty", hint=_HINT)
    if len(found) > MAX_STEPS:
        raise InputError(f"{len(found)} steps are too many", hint=f"at most {MAX_STEPS}; many alike: tasks")
    entries: dict[str, Mapping[str, object]] = {}
    errors: list[InputError] = []
    for written, entry in found.items():
        if len(errors) > MAX_ERRORS:
            break
        try:
            name = values.name(written)
            entries[name] = mapping_of(entry, "command: … for each step")
        except InputError as error:
            errors.append(error.at(field=shown(written).strip("'\"")))
    raise_all(errors)
    return entries


def alike_steps(specs: Sequence[JobSpec]) -> list[InputError]:
    """Return the errors of steps whose values later steps would find under the same names.

    They are errors of new files only, and only if values are handed on: earlier releases have accepted all names, and
    what was submitted there can still be resumed.
    """
    families: dict[int, list[JobSpec]] = {}
    for spec in specs:
        if spec.job.family:
            families.setdefault(-spec.job.family - 1, []).append(spec)
    errors: list[InputError] = []
    for position, whole in enumerate(specs):
        prefixes: dict[str, str] = {}
        for step in whole.steps or families.get(position, ()):
            name = step.job.name.removeprefix(f"{whole.job.name}.")
            other = prefixes.setdefault(variable(name, ""), name)
            if other != name and OUTPUT in whole.run.source:
                what = f"later steps find its values under the same names as those of {other}"
                errors.append(
                    InputError(what, hint="names that differ in more than case and punctuation").at(field=step.place)
                )
    return errors[:MAX_ERRORS]


def _step(
    step: str, entry: Mapping[str, object], defaults: Mapping[str, object], name: str, dimensions: Dimensions, user: str
) -> tuple[_Step, list[InputError]]:
    reader = Reader(entry, KEYS, aliases=ALIASES, misplaced=lambda key: misplaced(key, None), defaults=defaults)
    for key in {"environment", "secrets"} & reader.given.keys():
        _merge(reader, key)
    after = reader.read("after", _after, _NOTHING)
    # Names of steps are not names of jobs.
    reader.values["after"] = []
    goes_on = reader.read(
        "continue", lambda value: values.truth(value, "those behind it start however it ended"), False
    )
    when = reader.read("when", _condition, "")
    spec = read_spec(reader, JobType.BATCH, dimensions=dimensions, user=user)
    if len(name) > MAX_NAME_LENGTH:
        reader.errors.append(
            InputError(f"its job would be called {name[:40]}…, which is too long", hint=f"at most {MAX_NAME_LENGTH}")
        )
    job = msgspec.structs.replace(spec.job, name=name)
    spec = msgspec.structs.replace(spec, job=job, run=msgspec.structs.replace(spec.run, name=name))
    return _Step(step, after, goes_on, spec, when), reader.errors


def _merge(reader: Reader, key: str) -> None:
    """Merge the dag's variables or secrets into those of a step; the step's take precedence."""
    ours, theirs = reader.values[key], reader.defaults.get(key)
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        reader.values[key] = {**theirs, **ours}


def _after(value: object) -> tuple[tuple[str, Condition | None], ...]:
    """Parse names of steps, each with an optional condition."""
    if isinstance(value, (Mapping, list, tuple)) and len(value) > MAX_STEPS:
        raise InputError(f"{len(value):,} steps are too many", hint=f"at most {MAX_STEPS:,}")
    if isinstance(value, Mapping):
        pairs = [(_named(previous), values.condition(word)) for previous, word in value.items()]
        found: list[tuple[str, Condition | None]] = [*pairs]
    else:
        found = [(_named(previous), None) for previous in (value if isinstance(value, (list, tuple)) else [value])]
    twice = values.first_twice([previous for previous, _ in found])
    if twice is not None:
        raise InputError(f"step {twice} is named twice", hint="one condition for each step")
    return tuple(found)


def _condition(value: object) -> str:
    """Parse the condition of a step."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise InputError(f"{shown(value)} is not a condition", hint=HINT)
    parse_condition(text)
    return " ".join(text.split("\n"))


def _wrong_conditions(steps: Sequence[_Step]) -> list[InputError]:
    """Return the errors of conditions that read values of steps which are not awaited."""
    errors: list[InputError] = []
    known = {step.name for step in steps}
    for step in steps:
        before = [name for name, _ in step.after]
        for read in references(parse_condition(step.when)) if step.when else ():
            if read.step in before:
                continue
            what = f"reads {read.step}.{read.key}, and {read.step} is not in `after`"
            hint = f"after: [{', '.join([*before, read.step])}]"
            if read.step not in known:
                what = f"reads {read.step}.{read.key}, and there is no step {read.step}"
                hint = f"{one_of(read.step, sorted(known))}; a text with a dot in quotes: '{read.step}.{read.key}'"
            errors.append(InputError(what, hint=hint, field=f"{step.name}.when"))
    return errors[:MAX_ERRORS]


def _named(value: object) -> str:
    text = "" if isinstance(value, (Mapping, list, tuple, bool, float)) or value is None else as_text(value).strip()
    if not NAME.fullmatch(text):
        raise InputError(
            f"{shown(value)} is not a name of a step", hint="a list of steps, or `step: condition` for each"
        )
    return text


def _wrong_order(steps: Sequence[_Step]) -> list[InputError]:
    """Return the errors of dependencies on unknown steps, and of cycles."""
    known = sorted(step.name for step in steps)
    names = set(known)
    missing = ((step.name, previous) for step in steps for previous, _ in step.after if previous not in names)
    errors = [
        InputError(f"there is no step {previous}", hint=one_of(previous, known), field=f"{name}.after")
        for name, previous in islice(missing, MAX_ERRORS)
    ]
    if errors:
        more = sum(1 for _ in missing)
        return [*errors, MoreErrors(more)] if more else errors
    followers: dict[str, list[str]] = {}
    for step in steps:
        for previous, _ in step.after:
            followers.setdefault(previous, []).append(step.name)
    open_ = {step.name: len(step.after) for step in steps}
    free = [name for name, count in open_.items() if not count]
    while free:
        name = free.pop()
        del open_[name]
        for follower in followers.get(name, ()):
            open_[follower] -= 1
            if not open_[follower]:
                free.append(follower)
    if not open_:
        return []
    circle = _circle({step.name: {previous for previous, _ in step.after} for step in steps if step.name in open_})
    told = circle if len(circle) <= MOST_SHOWN else [*circle[:MOST_SHOWN], "…", circle[-1]]
    what = f"comes after itself: {' after '.join(told)}"
    return [InputError(what, hint="a dag must not have cycles", field=f"{circle[0]}.after")]


def _circle(left: Mapping[str, set[str]]) -> list[str]:
    """Return one cycle among steps, each of which comes after another one of them."""
    seen: dict[str, None] = {}
    name = next(iter(left))
    while name not in seen:
        seen[name] = None
        name = min(left[name] & left.keys())
    names = list(seen)
    return [*names[names.index(name) :], name]


def without_done(
    specs: Sequence[JobSpec], done: Iterable[str], resumed: int, ends: Iterable[StepEnd] = ()
) -> list[JobSpec]:
    """Return a dag and its steps, as ``parse_jobs`` gives them (alone in their submit), without the steps in ``done``.

    Steps that can no longer start are left out too: those that wait for the failure of a finished step, and those that
    wait for their success. ``resumed`` is the id of the earlier dag, ``ends`` are the ends of its steps.
    """
    whole, *steps = specs
    assert isinstance(whole.job.plan, Dag)
    names = dict(zip(whole.job.plan.steps, range(2, len(specs) + 1), strict=True))
    over = {names[done_step] for done_step in done if done_step in names}
    never: set[int] = set()
    jobs = dict(enumerate((spec.job for spec in steps), 2))
    followers: dict[int, list[int]] = {}
    for place, job in jobs.items():
        for number, _ in job.after:
            followers.setdefault(-number, []).append(place)
    unsure = list(jobs)
    while unsure:
        place = unsure.pop()
        if place in over or place in never:
            continue
        if any(_cannot(-number, condition, over, never) for number, condition in jobs[place].after):
            never.add(place)
            unsure += followers.get(place, ())
    kept = [place for place in jobs if place not in over and place not in never]
    if not kept:
        return []
    moved = {place: number for number, place in enumerate(kept, 2)}
    before = tuple(end for end in ends if names.get(end.name) not in moved)
    left = tuple(name for name, place in names.items() if place in moved)
    plan = Dag(steps=left, resumed=resumed, before=before)
    job = msgspec.structs.replace(whole.job, plan=plan, tasks=len(kept), after=())
    run = msgspec.structs.replace(whole.run, tasks=len(kept), before=before)
    made = [msgspec.structs.replace(whole, job=job, run=run)]
    for place in kept:
        spec = specs[place - 1]
        made.append(msgspec.structs.replace(spec, job=_left_after(spec.job, moved)))
    return made


def as_dag(entry: object) -> object:
    """Return the job file of a dag, without the keys of a cron job if its runs are dags; anything else unchanged."""
    if not isinstance(entry, Mapping) or type_of(entry) is not JobType.CRON or not has_steps(entry):
        return entry
    left_out = {"type", *(key.name for key in TABLE if DAG not in key.types and CRON in key.types)}
    known = {plain(name): name for name in KEYS} | {plain(alias): name for alias, name in ALIASES.items()}
    kept = {key: value for key, value in entry.items() if known.get(plain(str(key))) not in left_out}
    return {"type": JobType.DAG.value, **kept}


def behind(specs: Sequence[JobSpec], steps: Iterable[str]) -> set[str]:
    """Return these steps of a dag with all steps behind them, under whatever conditions."""
    whole, *members = specs
    assert isinstance(whole.job.plan, Dag)
    names = dict(enumerate(whole.job.plan.steps, 2))
    followers: dict[str, list[str]] = {}
    for place, spec in enumerate(members, 2):
        for number, _ in spec.job.after:
            followers.setdefault(names.get(-number, ""), []).append(names[place])
    found: dict[str, None] = {}
    left = list(steps)
    while left:
        name = left.pop()
        if name not in found:
            found[name] = None
            left += followers.get(name, ())
    return set(found)


def _cannot(place: int, condition: Condition, over: set[int], never: set[int]) -> bool:
    if place in never:
        return condition is not Condition.ANY
    return place in over and condition is Condition.FAILED


def _left_after(job: Job, moved: Mapping[int, int]) -> Job:
    """Return the job with dependencies on the remaining steps; dependencies outside of the dag have ended."""
    after = tuple((-moved[-number], condition) for number, condition in job.after if -number in moved)
    return msgspec.structs.replace(job, after=after)
