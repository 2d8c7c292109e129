"""Keys of job files as options of ``cress submit``, made from the table of keys; and as ``#CRESS`` directives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.core import TyperCommand

from cress.cli.errors import told
from cress.model.errors import InputError
from cress.model.foreign_words import meant_by
from cress.slurm.command_line import Given, parse
from cress.slurm.option_table import Fate, Option, Takes

if TYPE_CHECKING:
    from cress.model.jobfile.key import Key

# Keys that no text on one line can give, and those that options of the command itself give.
NOT_OPTIONS = frozenset({"command", "parts", "steps", "continue", "timetable"})
OWN_OPTIONS = frozenset({"deadline", "licences", "workload"})
# Second names of options.
SECOND = {
    "environment": "--env",
    "requirement": "--require",
    "ports": "--port",
    "secrets": "--secret",
    "directory": "--dir",
    "files": "--file",
    "outputs": "--output",
}
# Keys whose values are mappings: the option gives one entry and may be repeated.
PAIRS = {
    "environment": "KEY=VALUE",
    "secrets": "KEY=SECRET",
    "labels": "NAME=VALUE",
    "files": "FILE|PATH=ADDRESS",
    "outputs": "PATH=ADDRESS",
}
# Keys that may have several values: the option may be repeated.
SEVERAL = frozenset(
    {"requirement", "nodes", "data_locality", "tolerates", "after", "ports", "within", "near", "away_from"}
)
# Where the parts of a command line are kept in the context of the command.
VALUES, COMMAND, SCRIPT = "cress.values", "cress.command", "cress.script"


class KeyValue(NamedTuple):
    """The value of one option: its key, the text, and the option as written."""

    key: str
    text: str
    option: str


def flag_of(name: str) -> str:
    """Return the option of a key: ``--time-limit`` of ``time_limit``."""
    return "--" + name.replace("_", "-")


@lru_cache(maxsize=1)
def keys_with_options() -> tuple[Key, ...]:
    """Return the keys that are options."""
    from cress.model.jobfile.keys import TABLE

    return tuple(key for key in TABLE if key.name not in NOT_OPTIONS)


def _is_truth(key: Key) -> bool:
    from cress.model.jobfile.schemas import CLAUSE_GANG, CLAUSE_TRUTH, TRUTH

    return key.schema in (TRUTH, CLAUSE_TRUTH, CLAUSE_GANG)


def metavar_of(key: Key) -> str:
    """Return what stands for the value in the help."""
    from cress.model.jobfile.schemas import DURATION, PATH, SIZE

    if key.name in PAIRS:
        return PAIRS[key.name]
    if _is_truth(key):
        return "[true]"
    return {id(DURATION): "DURATION", id(PATH): "DIR", id(SIZE): "SIZE"}.get(id(key.schema), "VALUE")


class JobCommand(TyperCommand):
    """A command that takes keys of job files as options, and a command after ``--`` or a script with its arguments.

    The keys are read before the other options, so that the table of keys is imported only when the command runs.
    """

    @property
    def key_options(self) -> list[str]:
        """The options that keys of job files are."""
        return ["--set", *(f"--{row.name}" for row in key_rows()[0])]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, and below them the keys of jobs."""
        super().format_options(ctx, formatter)
        with formatter.section("Keys of the job (docs/commands.md#job-files)"):
            rows = [(f"{_flags(key)} {metavar_of(key)}", _help(key)) for key in keys_with_options()
                    if key.name not in OWN_OPTIONS]  # fmt: skip
            formatter.write_dl([*rows, ("--set KEY=VALUE", "Any key; KEY may be a path such as resource.cpu.")])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set keys, and a command or a script with its arguments, apart; read the rest."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        left, rest, values = list(args), list[str](), list[KeyValue]()
        rows, by_name = key_rows()
        own = {name: not param.is_flag for param in self.get_params(ctx) if hasattr(param, "is_flag")
               for name in param.opts}  # fmt: skip
        with told(str(self.name)):
            while left:
                word = left.pop(0)
                name = word.partition("=")[0]
                if word == "--":
                    ctx.meta[COMMAND], left = left, []
                elif name in own or not word.startswith("-") or word == "-":
                    if not word.startswith("-") and not _files(rest, own) and starts_as_script(word):
                        ctx.meta[SCRIPT], left = (word, left), []
                        continue
                    rest.append(word)
                    if own.get(name) and word == name and left:
                        rest.append(left.pop(0))
                elif word.startswith("--"):
                    end = 1 if "=" in word or _takes(rows, name) is not Takes.VALUE else 2
                    known = [*rows, *(Option(other[2:], "", Takes.NOTHING, Fate.UNDERSTOOD, "") for other in own)]
                    meant = meant_by(name, [f"--{row.name}" for row in known])
                    hint = f"did you mean {meant}?" if meant else "`cress submit --help` lists them"
                    given, _ = parse([word, *left[: end - 1]], known, hint=hint)
                    del left[: end - 1]
                    values += values_given(given, by_name)
                else:
                    rest.append(word)
        ctx.meta[VALUES] = values
        return super().parse_args(ctx, rest)


def _files(rest: Sequence[str], own: Mapping[str, bool]) -> bool:
    """Return whether words hold a file already: a word that is neither an option nor its value."""
    takes = False
    for word in rest:
        if not takes and not word.startswith("-"):
            return True
        takes = not takes and own.get(word, False)
    return False


def _takes(rows: Sequence[Option], name: str) -> Takes:
    return next((row.takes for row in rows if f"--{row.name}" == name.replace("_", "-")), Takes.VALUE)


def _flags(key: Key) -> str:
    return ", ".join([flag_of(key.name), *([SECOND[key.name]] if key.name in SECOND else [])])


def starts_as_script(file: str) -> bool:
    """Return whether a file begins as a script: with ``#!``, or with comments and a directive of PBS."""
    from cress.slurm.script import MOST_HEAD, begins_script

    try:
        with Path(file).open("rb") as stream:
            head = stream.read(MOST_HEAD).decode(errors="replace")
    except OSError:
        return False
    # The comments of a job file may speak of PBS.
    return begins_script(head) and (head.startswith("#!") or Path(file).suffix not in (".yaml", ".yml", ".json"))


def _set(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    return (key, value) if equals else (text, "")


def _help(key: Key) -> str:
    """Return the first statement about a key, without examples."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", key.about)
    text = re.sub(r"^`(true|false)`: (?:all )?", "", text) if _is_truth(key) else text
    # Colons and semicolons inside examples end nothing.
    plain = re.sub(r"`[^`]*`", lambda found: found[0].replace(":", "\0").replace(";", "\1"), text)
    first = re.split(r"; |: |\. ", plain)[0].replace("\0", ":").replace("\1", ";").replace("`", "")
    if _is_truth(key) and key.about.startswith("`false`"):
        # The option alone means true.
        first = f"if false, {first}"
    return f"{first[:1].upper()}{first[1:].rstrip('.')}."


def values_of(ctx: Any) -> list[KeyValue]:
    """Return the values that options of the command line gave."""
    found: list[KeyValue] = ctx.meta.get(VALUES, [])
    return found


@lru_cache(maxsize=1)
def key_rows() -> tuple[list[Option], dict[str, str]]:
    """Return the rows of all keys for the reader of options, and the key of each option without ``--``."""
    rows = [Option("set", "", Takes.VALUE, Fate.UNDERSTOOD, "")]
    by_name = {}
    for key in keys_with_options():
        takes = Takes.MAYBE if _is_truth(key) else Takes.VALUE
        for flag in (flag_of(key.name), SECOND.get(key.name, ""), "--licence" if key.name == "licences" else ""):
            if flag:
                by_name[flag[2:]] = key.name
                rows.append(Option(flag[2:], "", takes, Fate.UNDERSTOOD, ""))
    return rows, by_name


def values_given(given: Sequence[Given], by_name: Mapping[str, str]) -> list[KeyValue]:
    """Return the values of options that were read by the rows of ``key_rows``."""
    values = []
    for one in given:
        key, text = _set(one.value) if one.option.name == "set" else (by_name[one.option.name], one.value)
        truth = one.option.takes is Takes.MAYBE and not text
        option = f"--set {key}" if one.option.name == "set" and key else f"--{one.option.name}"
        values.append(KeyValue(key, "true" if truth else text, option))
    return values


def directive_values(words: Sequence[str], file: str, line: int) -> list[KeyValue]:
    """Return the values of a ``#CRESS`` directive. Raises InputError with file and line."""
    rows, by_name = key_rows()
    given, rest = parse(words, rows, file=file, line=line, mixed=True, hint="docs/commands.md lists the keys")
    if rest:
        raise InputError(f"{rest[0]!r} is not an option", hint="#CRESS --NAME=VALUE", file=file, line=line)
    return values_given(given, by_name)


def with_values(mapping: Mapping[str, object], values: Iterable[KeyValue]) -> dict[str, object]:
    """Return the job with these values of keys; entries of a mapping are added to those of the job. Raises InputError.

    A path such as ``resource.cpu`` sets one entry.
    """
    from cress.cli.common import pairs

    result = dict(mapping)
    by_key: dict[str, list[KeyValue]] = {}
    for value in values:
        by_key.setdefault(value.key, []).append(value)
    for name, found in by_key.items():
        texts, option = [value.text for value in found], found[-1].option
        if not name:
            raise InputError("names no key", hint="--set KEY=VALUE", field=option)
        outer, dot, inner = name.partition(".")
        if dot:
            before = _of(result, outer)
            whole = dict(before) if isinstance(before, Mapping) else {}
            result = with_key(result, outer, {**whole, inner: texts[-1]})
        elif name == "files" and not texts[-1].startswith(("{", "[")):
            result = with_key(result, name, with_files(_of(result, name), texts))
        elif name in PAIRS or (name == "ports" and any("=" in text for text in texts)):
            before = _of(result, name)
            given = pairs(texts, option, PAIRS.get(name, "NAME=PORT"))
            result = with_key(result, name, {**(before if isinstance(before, Mapping) else {}), **given})
        elif name in SEVERAL and len(texts) > 1:
            result = with_key(result, name, texts)
        else:
            result = with_key(result, name, _value(texts[-1], option))
    return result


def with_files(before: object, texts: Sequence[str]) -> list[object]:
    """Return files of a job with more of them: files from where the user stands, and ``PATH=ADDRESS``."""
    whole: list[object] = []
    if isinstance(before, Mapping):
        whole = [{"path": path, "source": source} for path, source in before.items()]
    elif isinstance(before, list):
        whole = list(before)
    elif before is not None:
        whole = [before]
    for text in texts:
        path, equals, source = text.partition("=")
        whole.append({"path": path, "source": source} if equals else text)
    return whole


def with_key(mapping: dict[str, object], key: str, value: object) -> dict[str, object]:
    """Return the job with this value of a key, in whatever spelling the job has the key."""
    from cress.model.jobfile.keys import ALIASES
    from cress.model.jobfile.reader import plain

    spellings = {plain(alias) for alias, name in ALIASES.items() if name == key} | {plain(key)}
    return {**{name: old for name, old in mapping.items() if plain(name) not in spellings}, key: value}


def _of(mapping: Mapping[str, object], key: str) -> object:
    from cress.model.jobfile.reader import plain

    return next((value for name, value in mapping.items() if plain(name) == plain(key)), None)


def _value(text: str, option: str) -> object:
    """Return a text, or the value of one that is a list or mapping in YAML."""
    if not text.startswith(("{", "[")) or option == "--require":
        return text
    from cress.cli.jobfile import TEXTS
    from cress.formats.yaml_text import ValueMaker, documents

    for node in documents(f"value: {text}", option, "a list or a mapping in YAML"):
        made: Any = ValueMaker(what="one value", texts=TEXTS).make(node)
        return made["value"]
    return text
