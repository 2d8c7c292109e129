"""Keys of the configuration of the cluster, differences between revisions, and its document in an editor."""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cress.model.errors import InputError
from cress.model.option_text import find_option
from cress.model.units import closest, parse_count

if TYPE_CHECKING:
    from cress.client import Client, ConfigView

LICENCES, GROUPS, OPTIONS = "licences", "groups", "options"
MOST_LICENCES = 2**31


def value_of(view: ConfigView, key: str) -> str:
    """Return the value of a key: ``grace``, ``licences.NAME``, or a section. Raise InputError."""
    section, _, name = key.partition(".")
    if section == LICENCES and name:
        if name not in view.licences:
            raise InputError(f"there is no licence {name!r}", hint="`cress licences` lists them", field=key)
        return str(view.licences[name])
    if key in (OPTIONS, LICENCES, GROUPS):
        return section_of(view.text, key)
    return view.options[option_of(key)]


def option_of(key: str) -> str:
    """Return the option that a key names, with or without ``options.`` before it. Raise InputError."""
    found = find_option(key.removeprefix(f"{OPTIONS}."))
    if found is None:
        from cress.model.options import Options

        near = closest(key.removeprefix(f"{OPTIONS}."), Options.__dataclass_fields__)
        guess = f"did you mean {near}? " if near else ""
        raise InputError("is not a key", hint=f"{guess}an option (docs/groups.md), licences.NAME, or groups", field=key)
    return found


def section_of(text: str, name: str) -> str:
    """Return a section of a document; groups as the text of ``Group.conf``."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            inside = line.startswith(f"{name}:")
        elif inside:
            lines.append(line.removeprefix("  "))
    return "\n".join(lines)


def count_of(key: str, text: str) -> int:
    """Return the number of a licence. Raise InputError."""
    try:
        return parse_count(text, least=0, most=MOST_LICENCES)
    except InputError as error:
        raise error.at(field=key) from None


def difference(before: str, after: str, names: tuple[str, str] = ("before", "after")) -> list[str]:
    """Return the lines of a difference between two documents; empty if they are the same."""
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    return list(found)


def revision_text(client: Client, number: int) -> tuple[str, str]:
    """Return the document of a revision and its name; for 0 the present one."""
    if not number:
        view = client.config()
        return view.text, f"revision {view.revision}"
    return client.config_revision(number).text, f"revision {number}"


def in_editor(text: str) -> tuple[Path, str]:
    """Open a document in the editor; return the file, which is kept, and its text. Raise InputError."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    folder = Path(tempfile.mkdtemp(prefix="cress-config-"))
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        done = subprocess.run([*shlex.split(command), str(path)], check=False)
    except (OSError, ValueError) as error:
        forget(path)
        raise InputError(f"the editor {command!r} cannot be started: {error}", hint="set EDITOR") from None
    if done.returncode:
        what = f"the editor ended with code {done.returncode}; nothing was changed, and the text is in {path}"
        raise InputError(what, hint=f"cress config edit --file {path}")
    try:
        return path, path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise InputError("is no longer valid text; nothing was changed", file=str(path)) from None


def forget(path: Path) -> None:
    """Remove the file of an edit, and its folder."""
    path.unlink(missing_ok=True)
    path.parent.rmdir()
