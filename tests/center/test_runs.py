"""How members of families are run: from the run of their template, in the store and in the history."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cress.lifecycle.inputs import Cancel, Scale, Update
from cress.model.run import Run
from tests.center.inside import Inside, inside


def _run(center: Inside, number: int) -> Run:
    run = center.committer.run(number)
    assert run is not None
    return run


def test_members_run_by_their_template_until_they_are_history(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        committer = center.committer
        await center.join()
        web = await center.submit(name="web", type="service", tasks=2, command=["one"])
        family = committer.machine.families[web]
        old = [family.members[index] for index in range(2)]
        for number in old:
            run = _run(center, number)
            assert (run.job, run.family, run.tasks, run.command) == (number, web, 2, ("one",))
        assert (_run(center, web).job, _run(center, web).family) == (web, 0)

        spec = msgspec.structs.replace(family.job, id=0)
        new = msgspec.structs.replace(_run(center, web), command=("two",))
        (template,) = await committer.submit(Update(job=web, spec=spec), [new])
        assert template == family.template
        assert center.store.run(template) is not None
        assert _run(center, web).command == ("two",)
        assert _run(center, old[1]).command == ("one",)
        await committer.submit(Scale(job=web, tasks=3))
        assert _run(center, family.members[2]).command == ("two",)
        assert [_run(center, number).tasks for number in family.members.values()] == [3, 3, 3]
        assert center.committer.machine.jobs[family.members[2]].template == template

        await committer.submit(Cancel(job=web))
        for member in list(family.members.values()):
            await center.end(member)
        assert web not in committer.machine.families
        runs = {number: _run(center, number) for number in (web, *old)}
        await center.mover.work()
        assert [center.store.run(number) for number in (web, template)] == [None, None]
        for number, run in runs.items():
            past = await committer.history.job(number)
            assert past is not None
            assert past.run == run

    inside(tmp_path, story)


def test_an_update_that_runs_alike_replaces_nothing(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        committer = center.committer
        await center.join()
        web = await center.submit(name="web", type="service", tasks=2, command=["one"])
        family = committer.machine.families[web]
        before = dict(family.members)
        spec = msgspec.structs.replace(family.job, id=0, tasks=3)
        run = msgspec.structs.replace(_run(center, web), source="as it is written now", tasks=3, user="eve")
        (template,) = await committer.submit(Update(job=web, spec=spec), [run])
        assert {index: family.members[index] for index in before} == before
        assert {committer.machine.jobs[number].template for number in family.members.values()} == {template}
        assert (_run(center, web).source, _run(center, web).user) == ("as it is written now", family.job.user)
        assert family.version == 1

    inside(tmp_path, story)
