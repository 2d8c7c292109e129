"""The files of the audit log: nothing in them is overwritten or lost with what a full disk cut off."""

from __future__ import annotations

from pathlib import Path

from cress.center.keeping.audit import CURRENT, Audit, latest
from cress.protocol.access_views import AuditEntry


def told(audit: Audit) -> list[str]:
    return [each.what for each in latest(audit.folder, 100, lambda _: True)]


def test_a_file_that_an_operator_moved_away_makes_no_other_one_overwritten(tmp_path: Path) -> None:
    audit = Audit(tmp_path, full=1)
    for what in ("a", "b", "c"):
        audit.write(AuditEntry(at=1.0, what=what))
    assert told(audit) == ["c", "b", "a"]
    (audit.folder / "audit-000001.jsonl").unlink()
    audit.write(AuditEntry(at=1.0, what="d"))
    assert told(audit) == ["d", "c", "b"]


def test_a_line_that_was_cut_off_costs_no_other_one(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    audit.write(AuditEntry(at=1.0, what="before"))
    path = audit.folder / CURRENT
    path.chmod(0o400)
    path.rename(audit.folder / "kept")
    path.mkdir()
    audit.write(AuditEntry(at=1.0, what="lost"))
    path.rmdir()
    (audit.folder / "kept").rename(path)
    path.chmod(0o600)
    with path.open("ab") as file:
        file.write(b'{"at":1.0,"wh')
    audit.write(AuditEntry(at=1.0, what="after"))
    assert told(audit) == ["after", "before"]
