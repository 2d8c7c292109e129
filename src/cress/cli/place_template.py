"""Templates of configuration files that follow the places of jobs.

``{{each db}}`` … ``{{end}}`` repeats the text between them for each place of the job ``db``, with ``{{address}}``,
``{{port}}`` (the first one), ``{{port.http}}``, ``{{node}}``, ``{{rack}}`` and ``{{task}}``. Anywhere, ``{{db}}`` is
``HOST:PORT`` of its first place, and ``{{all db}}`` of all, with commas between them. A line with nothing but
``{{each …}}`` or ``{{end}}`` leaves no line behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import PlaceView

# A word in braces; one that begins or ends a repetition takes its whole line with it.
_WORD = re.compile(
    r"^[ \t]*\{\{\s*(?P<line>each\s+[^{}\s]+|end)\s*\}\}[ \t]*\n|\{\{\s*(?P<word>[^{}\s][^{}\n]*?)\s*\}\}", re.MULTILINE
)
_FIELDS = ("address", "node", "port", "rack", "task")
HINT = (
    "{{each JOB}} … {{end}} with {{address}}, {{port}}, {{port.NAME}}, {{node}}, {{rack}}, {{task}}; {{JOB}}; "
    "{{all JOB}}"
)


class TemplatePart(NamedTuple):
    """A piece of a template: the text before a word, and the word with its line; the last one has no word."""

    text: str
    word: str
    line: int


class PlaceTemplate:
    """A template, and the ``names`` of the jobs whose places it needs. Raises InputError with the line."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._pieces = list(_pieces(text))
        self.names: dict[str, None] = {}
        self._check()

    def render(self, places: Mapping[str, Sequence[PlaceView]]) -> str:
        """Return the file for the places of its names, of which each has at least one. Raises InputError."""
        return "".join(self._rendered(self._pieces, places, None))

    def _check(self) -> None:
        repeated = 0
        for piece in self._pieces:
            if piece.word.startswith("each "):
                if repeated:
                    raise self._wrong(piece, "stands inside another {{each …}}")
                repeated = piece.line
                self.names[piece.word.split(None, 1)[1]] = None
            elif piece.word == "end":
                if not repeated:
                    raise self._wrong(piece, "ends nothing")
                repeated = 0
            elif piece.word and not _is_field(piece.word):
                self.names[piece.word.removeprefix("all ").strip()] = None
            elif piece.word and not repeated:
                raise self._wrong(piece, "stands outside of {{each …}}")
        if repeated:
            raise InputError("{{each …}} has no {{end}}", hint=HINT, file=self._file, line=repeated)
        if not self.names:
            raise InputError("names no job", hint=HINT, file=self._file)
        for name in self.names:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                line = next(piece.line for piece in self._pieces if name in piece.word)
                raise InputError(f"{{{{{name}}}}} is not the name of a job", hint=HINT, file=self._file, line=line)

    def _rendered(
        self, pieces: Sequence[TemplatePart], places: Mapping[str, Sequence[PlaceView]], here: PlaceView | None
    ) -> Iterator[str]:
        at = 0
        while at < len(pieces):
            piece = pieces[at]
            yield piece.text
            if piece.word.startswith("each "):
                end = next(place for place in range(at, len(pieces)) if pieces[place].word == "end")
                inside = [*pieces[at + 1 : end], TemplatePart(pieces[end].text, "", 0)]
                for one in places[piece.word.split(None, 1)[1]]:
                    yield from self._rendered(inside, places, one)
                at = end
            elif _is_field(piece.word):
                assert here is not None, "fields outside of a repetition were refused"
                yield self._field(piece, here)
            elif piece.word.startswith("all "):
                yield ",".join(map(_endpoint, places[piece.word.removeprefix("all ").strip()]))
            elif piece.word:
                yield _endpoint(places[piece.word][0])
            at += 1

    def _field(self, piece: TemplatePart, place: PlaceView) -> str:
        name, _, port = piece.word.partition(".")
        if name != "port":
            return str(getattr(place, name))
        if not place.ports or (port and port not in place.ports):
            there = ", ".join(place.ports) or "none"
            raise self._wrong(piece, f"job {place.job} has no such port", f"its ports: {there}")
        return str(place.ports[port] if port else next(iter(place.ports.values())))

    def _wrong(self, piece: TemplatePart, what: str, hint: str = HINT) -> InputError:
        return InputError(f"{{{{{piece.word}}}}} {what}", hint=hint, file=self._file, line=piece.line)


def _pieces(text: str) -> Iterator[TemplatePart]:
    done = 0
    for found in _WORD.finditer(text):
        word = " ".join((found["line"] or found["word"] or "").split())
        yield TemplatePart(text[done : found.start()], word, text.count("\n", 0, found.start()) + 1)
        done = found.end()
    yield TemplatePart(text[done:], "", 0)


def _is_field(word: str) -> bool:
    return word in _FIELDS or word.startswith("port.")


def _endpoint(place: PlaceView) -> str:
    address = f"[{place.address}]" if ":" in place.address else place.address
    return f"{address}:{next(iter(place.ports.values()))}" if place.ports else address
