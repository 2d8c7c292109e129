"""The types of jobs that may have a key, and the error of a key that stands where it may not."""

from __future__ import annotations

from cress.model.errors import InputError
from cress.model.job import JobType
from cress.model.jobfile.key import BATCH
from cress.model.jobfile.keys import BY_NAME, TABLE


def misplaced(key: str, type_: JobType | None, *, assumed: bool = False) -> InputError | None:
    """Return the error of a key that a job of this type, or a step of a dag (``None``), may not have.

    ``assumed`` says that the job names no type, so that its type is the default.
    """
    known = BY_NAME[key]
    if type_ is None:
        if known.only_steps or (known.step and (BATCH in known.types or not known.types)):
            return None
        if BATCH in known.types:
            hint = "the step is called as its key" if key == "name" else "it holds for all steps"
            return InputError("belongs to the whole dag", hint=hint if key != "type" else "steps are batch jobs")
    elif type_ in known.types:
        return None
    if not known.types:
        return InputError("belongs to a step of a dag", hint="steps: {NAME: {…, continue: true}}")
    types = [job_type.value for job_type in JobType if job_type in known.types]
    listed = " or ".join(filter(None, (", ".join(types[:-1]), types[-1])))
    if type_ is None:
        here = "this is a step of a dag"
    elif assumed:
        here = f"a job without a type is of type {type_.value}; add {' or '.join(f'type: {name}' for name in types)}"
    else:
        here = f"this one is of type {type_.value}"
    return InputError(f"belongs to jobs of type {listed}", hint=here)


def keys_table() -> str:
    """Return the keys of a batch job as a Markdown table, for docs/commands.md."""
    rows = [f"| `{key.name}` | {key.about} | {key.default} |" for key in TABLE if misplaced(key.name, BATCH) is None]
    return "\n".join(["| key | meaning | default |", "|---|---|---|", *rows]) + "\n"
