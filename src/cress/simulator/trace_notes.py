"""Notes on a trace: irregular entries and their treatment, counted, with the first few line numbers."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN_LINES = 5

# Kind → treatment, in the order of the report; docs/simulate.md explains each kind.
TREATMENTS: dict[str, str] = {
    "malformed line": "left out",
    "unknown column": "ignored",
    "unknown submit time": "left out",
    "unknown run time": "left out",
    "zero processors": "left out",
    "uses more than it asks for": "used as it is",
    "unknown requested time": "run time taken as time limit",
    "no time limits in the trace": "run times taken as time limits",
    "run time above time limit": "run cut at the limit",
    "soft deadline": "first of its times taken as deadline",
    "not started in the trace": "run taken as from its creation to its deletion",
    "no times in the trace": "one pod a second, in the order of the file; each stays for a year",
    "submitted before its predecessor": "submitted with it",
    "submit out of order": "sorted by submit time",
    "duplicate job id": "kept",
    "unknown predecessor": "not waited for",
    "think time": "not waited for: there is no preceding job after whose end it begins",
    "gap in the event log": "jobs in the gap are missing, or their ends",
    "groups changed in the log": "the last ones taken for the whole time",
    "job from before the log": "submitted at its beginning, with the rest of its work",
    "task of a service, database or lease": "taken as a job that runs as long as it did",
    "running at the end of the log": "time limit taken as run time, else the time so far",
    "not started in the log": "time limit taken as run time",
    "requested memory": "not asked for: a log has processors only",
    "number of processors not in the header": "peak of the processors in use at once taken",
    "offered load above 1": "the queue grows until the last submission, so waiting times depend on the trace's length",
    "start time not in the header": "second 0 taken as a Monday, 00:00",
    "note on the groups": "used as they are",
    "limit at submit": "does not hold: jobs of a trace were accepted",
    "group without jobs": "keeps its quota",
    "no group named": "in the group default, which --groups does not have",
    "fits no node": "rejected",
    "not accepted": "refused",
    "dependency failed": "cancelled",
    "never finished": "waiting or running at the end",
}

# Kinds that make the figures misleading, and are warnings.
LOUD = ("offered load above 1",)

# Kinds of jobs that are missing from the figures: left out in reading, or not brought to their end by the run.
LEFT_OUT = ("malformed line", "unknown submit time", "unknown run time", "zero processors")
UNDONE = (*LEFT_OUT, "fits no node", "not accepted", "dependency failed", "never finished")


class TraceNotes:
    """Counts per kind, with the first ``SHOWN_LINES`` line numbers (1 = first line of the file)."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lines: dict[str, list[int]] = {}
        self._details: dict[str, list[str]] = {}

    def add(self, kind: str, lines: Iterable[int] = (), *, count: int = 0, detail: str = "") -> None:
        """Count one occurrence of ``kind`` per line, or ``count`` occurrences without a line.

        ``detail`` is added to the sentence, such as the name of an unknown group; the first few are kept.
        """
        if kind not in TREATMENTS:
            raise KeyError(kind)
        places = list(lines)
        total = len(places) + count
        if not total:
            return
        self._counts[kind] = self._counts.get(kind, 0) + total
        # Lines come in file order from each caller, but several callers may add to one kind.
        self._lines[kind] = sorted([*self._lines.get(kind, []), *places])[:SHOWN_LINES]
        details = self._details.setdefault(kind, [])
        if detail and detail not in details and len(details) < SHOWN_LINES:
            details.append(detail)

    def copy(self) -> TraceNotes:
        """Return an independent copy, since a run adds its own notes to those of the trace."""
        other = TraceNotes()
        other._counts = dict(self._counts)
        other._lines = {kind: list(lines) for kind, lines in self._lines.items()}
        other._details = {kind: list(details) for kind, details in self._details.items()}
        return other

    def __bool__(self) -> bool:
        return bool(self._counts)

    def count(self, kind: str) -> int:
        """Return the number of occurrences of ``kind``."""
        return self._counts.get(kind, 0)

    @property
    def left_out(self) -> int:
        """Return the number of jobs that were left out in reading."""
        return sum(map(self.count, LEFT_OUT))

    def warning(self, read: int) -> str:
        """Return a sentence on the jobs that did not end in the run, by reason; empty if all ended.

        ``read`` is the number of jobs that were not left out in reading.
        """
        undone = {kind: self.count(kind) for kind in UNDONE if self.count(kind)}
        if not undone:
            return ""
        lost, whole = sum(undone.values()), read + self.left_out
        reasons = ", ".join(f"{count:,} × {kind}" for kind, count in undone.items())
        return f"{lost:,} of {whole:,} jobs of the trace did not run to their end, and the figures lack them: {reasons}"

    def as_data(self) -> list[dict[str, object]]:
        """Return the notes for ``summary.json``: kind, count, treatment, lines and details, in the order above."""
        return [
            {
                "kind": kind,
                "count": self._counts[kind],
                "treatment": treatment,
                "lines": self._lines[kind],
                "details": self._details[kind],
            }
            for kind, treatment in TREATMENTS.items()
            if kind in self._counts
        ]

    def sentences(self) -> list[str]:
        """Return sentences such as ``3 × run time above time limit: run cut at the limit (lines 7, 9, 12)``."""
        return [self._sentence(kind) for kind in TREATMENTS if kind in self._counts and kind not in LOUD]

    def warnings(self, read: int) -> list[str]:
        """Return sentences on what makes the figures misleading; the last one is ``warning``, if there is one."""
        found = [f"{kind}: {TREATMENTS[kind]} ({'; '.join(self._details[kind])})" for kind in LOUD if self.count(kind)]
        missing = self.warning(read)
        return [*found, missing] if missing else found

    def _sentence(self, kind: str) -> str:
        count, lines = self._counts[kind], self._lines[kind]
        text = f"{count:,} × {kind}: {TREATMENTS[kind]}"
        if lines:
            more = ", …" if count > len(lines) else ""
            text += f" (line{'s' if count > 1 else ''} {', '.join(map(str, lines))}{more})"
        if self._details[kind]:
            text += f" [{'; '.join(self._details[kind])}]"
        return text
