"""The lock file installs on every supported Python, with hashes, from whatever index the reader has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRIES = re.split(r"(?<!\\)\n(?! )", LOCK.strip())
LOCKED = {
    canonicalize_name(requirement.name): requirement
    for requirement in (Requirement(re.split(r"\s*\\\n", entry)[0]) for entry in ENTRIES if entry[0] != "#")
}


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, extras included, without the project itself."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    requirements = [Requirement(text) for group in groups for text in group]
    return [requirement for requirement in requirements if requirement.name != PROJECT["name"]]


def test_every_entry_is_one_version_with_hashes() -> None:
    for entry in ENTRIES:
        if not entry.startswith("#"):
            assert re.match(r"[a-z0-9-]+==[^ ]+( ; .+)? \\\n    --hash=sha256:[0-9a-f]{64}", entry), entry


def test_no_index_is_named() -> None:
    assert "://" not in LOCK
    assert "index" not in LOCK


def test_every_dependency_is_locked_within_its_bounds() -> None:
    for requirement in declared():
        locked = LOCKED[canonicalize_name(requirement.name)]
        (version,) = {specifier.version for specifier in locked.specifier}
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}: run `make lock`"


def test_direct_dependencies_are_the_same_on_every_python() -> None:
    # Numbers come out the same everywhere only if the libraries that make them are the same.
    for requirement in declared():
        marker = LOCKED[canonicalize_name(requirement.name)].marker
        for version in ("3.11", "3.12", "3.13"):
            environment = {**default_environment(), "python_version": version, "python_full_version": version + ".0"}
            assert marker is None or marker.evaluate({key: str(value) for key, value in environment.items()})
