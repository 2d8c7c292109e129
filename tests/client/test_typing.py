"""The types that a user's type checker sees: those of results and handles, and mistakes in keys."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SNIPPET = """
    import cress

    def length(word: str) -> int:
        return len(word)

    client = cress.Client()
    job = cress.Job("true", tasks=3, time_limit="1h")
    reveal_type(client.submit(job))                             # JobHandle
    reveal_type(client.submit([job, {"command": "x"}]))         # list[JobHandle]
    reveal_type(client.submit(job).result())                    # JobView
    reveal_type(client.map(length, ["a", "b"], retries=3))      # Results[int]
    reveal_type(next(client.map(length, ["a"])))                # int
    reveal_type(client.map(length, ["a"]).as_completed())       # Iterator[tuple[int, int]]
    with cress.Executor(client, group="web") as executor:
        reveal_type(executor.submit(length, "a"))               # Future[int]
        executor.submit(length, 3)                              # error: Argument 2 to "submit"
    reveal_type(cress.Dag("etl").step("a", command="x"))        # Step
    cress.Job("true", taks=3)                                   # error: Unexpected keyword argument "taks"
    cress.Service("web", "run", retries=3)                      # error: Unexpected keyword argument "retries"
    cress.Cron("tidy", command="x")                             # error: Missing positional argument "when"
    client.map(length, ["a"], tasks=3)                          # error: Unexpected keyword argument "tasks"

    async def main(client: cress.AsyncClient) -> None:
        reveal_type(await client.submit(job))                   # AsyncJobHandle
        reveal_type([each async for each in await client.map(length, ["a"])])  # list[int]
"""


@pytest.mark.long  # mypy reads all that cress imports: ten seconds
def test_what_mypy_says_about_a_users_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SNIPPET))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(program)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    said: dict[int, str] = {}
    for number, text in re.findall(r"^program\.py:(\d+): (.*)$", found.stdout, re.MULTILINE):
        said[int(number)] = said.get(int(number), "") + re.sub(
            r"\b(?:cress|builtins|typing|concurrent|collections)\.(?:\w+\.)*", "", text
        )
    lines = program.read_text().splitlines()
    wanted = {number: line.rpartition("# ")[2] for number, line in enumerate(lines, 1) if "# " in line}
    assert len(wanted) > 12, found.stderr
    assert set(said) == set(wanted), found.stdout
    for number, text in wanted.items():
        kind = text if text.startswith("error") else f'Revealed type is "{text}"'
        assert kind in said[number], (text, said[number])
