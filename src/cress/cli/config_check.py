"""Check of configuration files, and the resulting values, each with its origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from cress.cli.common import read_text
from cress.cli.config_keys import keys_of, without_passwords
from cress.cli.configured import FOLDER, MOST_BYTES, Origin
from cress.cli.programs import PROGRAMS, command_of
from cress.model.errors import InputError
from cress.model.toml_text import TomlText
from cress.model.units import one_of

CLIENT = "client"
KINDS = (*PROGRAMS, CLIENT)


class Value(NamedTuple):
    """A resulting value, as text, and its origin."""

    key: str
    text: str
    origin: Origin


def files_of(files: list[Path], kind: str) -> Iterator[tuple[Path, str]]:
    """Yield each file with its kind; without files, the existing ones of those read by default. Raise InputError."""
    from cress.client.config_file import config_file

    if kind and kind not in KINDS:
        raise InputError(f"{kind!r} is not a kind of file", hint=one_of(kind, KINDS), field="--kind")
    usual = [(FOLDER / f"{program}.toml", program) for program in PROGRAMS] + [(config_file(), CLIENT)]
    if not files:
        found = [(path, program) for path, program in usual if path.exists() and kind in ("", program)]
        if not found:
            raise InputError("no file was found", hint=", ".join(str(path) for path, _ in usual))
        yield from found
    for file in files:
        yield file, kind or _kind(file)


def values_of(file: Path, kind: str) -> list[Value]:
    """Check a file, and return the resulting values.

    Raise InputError; raise typer.Exit after printing the mistakes.
    """
    if kind == CLIENT:
        return _clusters(file)
    command = command_of(kind)
    context: Any = command.make_context(kind, ["--config", str(file), "--check"])
    try:
        with context:
            command.invoke(context)
    except typer.Exit as end:
        if end.exit_code:
            raise
    return [
        Value(name, _shown(context.params[key.option.name]), command.origin(context, key))
        for name, key in keys_of(command).items()
    ]


def _kind(file: Path) -> str:
    name = file.name.lower()
    named = [program for program in PROGRAMS if program in name]
    if len(named) == 1:
        return named[0]
    keys = set(TomlText(read_text(file, "a configuration", most=MOST_BYTES), str(file)).values)
    if name == "config.toml" or "clusters" in keys:
        return CLIENT
    fits = [program for program in PROGRAMS if keys and keys <= set(keys_of(command_of(program)))]
    if len(fits) != 1:
        raise InputError("the kind of this file is unclear", hint="--kind center, executor or client", file=str(file))
    return fits[0]


def _clusters(file: Path) -> list[Value]:
    from cress.client.config import check_url
    from cress.client.config_file import read_client_file

    text = TomlText(read_text(file, "a configuration", most=MOST_BYTES), str(file))
    found = read_client_file(file)
    values: list[tuple[str, str, tuple[str, ...]]] = []
    if found.default:
        values.append(("default", found.default, ("default",)))
    for name, cluster in found.clusters.items():
        for url in cluster.url:
            try:
                check_url(url, "")
            except InputError as error:
                raise text.wrong(error, "clusters", name, "url") from None
        parts = (
            ("url", ",".join(cluster.url)),
            ("socket", cluster.socket),
            ("data", cluster.data),
            ("token-file", cluster.token_file),
            ("ca", cluster.ca),
        )
        values += [(f"clusters.{name}.{key}", str(part), ("clusters", name, key)) for key, part in parts if part]
    return [Value(key, shown, Origin("file", f"{file}:{text.line_of(*path)}")) for key, shown, path in values]


def _shown(value: Any) -> str:
    if value is None or value in ("", [], ()):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return without_passwords(", ".join(map(str, value)))
    return without_passwords(str(getattr(value, "value", value)))
