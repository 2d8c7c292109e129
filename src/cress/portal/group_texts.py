"""Groups as text: the keywords of one group in ``Group.conf``, and the text with some of them changed."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Keywords of the form, in its order. Administrators of a group may change those of ``LIMITS``.
KEYWORDS = (
    "ResourceQuota",
    "MaxQuota",
    "Lendable",
    "Weight",
    "SchedPolicy",
    "PreemptiveSchedPolicy",
    "PreemptPriority",
    "Users",
    "Admins",
)
LIMITS = (
    "Submit",
    "MaxRunningJobs",
    "MaxRunningJobsPerUser",
    "MaxJobs",
    "MaxJobsPerUser",
    "MaxWaitingJobs",
    "MaxWaitingJobsPerUser",
    "MaxTasks",
    "MaxJobSize",
    "MaxTimeLimit",
    "DefaultTimeLimit",
)
# Keywords that the center computes.
COMPUTED = frozenset({"priority", "usedresource"})
_LINE = re.compile(r"^\s*([A-Za-z_][\w-]*)\s*:\s*(.*?)\s*$")


def keywords_of(text: str, name: str) -> dict[str, str]:
    """Return the keywords of a group in a text of groups, without its name and what is computed; empty: not there."""
    for block in _blocks(text):
        found = {match[1]: match[2] for line in block if (match := _LINE.match(line))}
        if found.get("Name") == name:
            return {key: value for key, value in found.items() if key != "Name" and key.lower() not in COMPUTED}
    return {}


def changed_text(text: str, name: str, values: Mapping[str, str | None]) -> str:
    """Return the text of all groups in which keywords of one group have other values; ``None`` leaves one out."""
    blocks = []
    for block in _blocks(text):
        named = any((match := _LINE.match(line)) and match[1] == "Name" and match[2] == name for line in block)
        if named:
            kept = [line for line in block if not ((match := _LINE.match(line)) and match[1] in values)]
            block = [*kept, *(f"{key}: {value}" for key, value in values.items() if value is not None)]
        blocks.append("\n".join(block))
    return "\n\n".join(blocks) + "\n"


def _blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in re.split(r"\n\s*\n", text.strip()) if block.strip()]
