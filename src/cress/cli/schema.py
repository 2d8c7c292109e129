"""``cress schema``: the JSON Schema of job files."""

from __future__ import annotations

from cress.cli.errors import told

EPILOG = """\
\b
Examples:
  cress schema > cress.schema.json
  In VS Code: "yaml.schemas": {"./cress.schema.json": "*.job.yaml"}

\b
The schema (JSON Schema 2020-12) contains the keys that this version of Cress reads. No center is needed.
Exit codes: 0 done.
"""


def schema() -> None:
    """Print the JSON Schema of job files."""
    with told("schema"):
        from cress.model.jobfile.schema import schema_text

        print(schema_text())
