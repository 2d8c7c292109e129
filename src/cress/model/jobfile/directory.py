"""The default directory of a job: the current directory of its user."""

from __future__ import annotations

from collections.abc import Mapping

_FETCHED = ("files", "workdir", "image")
_OWN = frozenset({"directory", "dir", *_FETCHED})


def needs_folder(mapping: Mapping[str, object]) -> bool:
    """Return whether a job names neither a directory nor files (with files each attempt has a directory of its own)."""
    return not any(str(key).lower() in _OWN for key in mapping)


def in_folder(mapping: Mapping[str, object], folder: str) -> dict[str, object]:
    """Return the job with this directory, if it needs one. In a dag with steps that have files, the other
    steps get it.
    """
    if not needs_folder(mapping):
        return dict(mapping)
    for key, steps in mapping.items():
        if str(key).lower() == "steps" and isinstance(steps, Mapping) and not all(map(_may_share, steps.values())):
            placed = {
                name: in_folder(step, folder) if isinstance(step, Mapping) else step for name, step in steps.items()
            }
            return {**mapping, key: placed}
    return {**mapping, "directory": folder}


def _may_share(step: object) -> bool:
    """Return whether a step may use the directory of its dag; its own directory or files take precedence."""
    return not isinstance(step, Mapping) or not any(str(key).lower() in _FETCHED for key in step)
