"""The check of a submit: what its jobs use exists, and their users may use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.center.secrets.checks import check_secrets
from cress.model.errors import MAX_ERRORS, InputError
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.reader import below
from cress.model.jobfile.values import raise_all
from cress.model.uploads import uploads_of

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer


def check_used(committer: Committer, specs: Sequence[JobSpec], *, dry_run: bool = False) -> None:
    """Raise InputError, or InputErrors with all mistakes, for secrets and uploads that the jobs' users do not have.

    A dry run does not need the uploads, since clients send none for it.
    """
    check_secrets(committer.machine, specs)
    errors: list[InputError] = []
    for spec in specs if not dry_run else ():
        for key, digest in uploads_of(spec.run) if len(errors) <= MAX_ERRORS else ():
            if not committer.uploads.has(spec.run.user, digest):
                what = f"{spec.run.user} has no upload {digest}"
                hint = "submit the job from its files again; unused uploads are removed after a while"
                errors.append(below(InputError(what, hint=hint, field=key), spec.place))
    raise_all(errors)
