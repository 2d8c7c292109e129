"""The common part of the handles in both halves of the client."""

from __future__ import annotations

from cress.client.job_keywords import Named


class Handle(Named):
    """The common part of handles: id, name and note of the submit."""

    def __init__(self, id: int, name: str = "", note: str = "") -> None:
        self.id = id
        self.name = name
        self.note = note

    def __repr__(self) -> str:
        return f"<job {self.id}{f' {self.name}' if self.name else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash((type(self), self.id))
