"""Lists for other programs: ``-o yaml``."""

from __future__ import annotations

import pytest
import yaml

from cress.cli.outputs import written


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a\nb",
        "a\nb\n",
        "a\nb\n\n\n",
        "\n",
        "\n\na",
        " x\n y\n",
        "a\n\n  b\t\n",
        "a\r\nb",
        "#!/bin/sh\nx: y\n- z\n",
    ],
)
def test_yaml_gives_back_what_was_written(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in ({"k": text, "z": 1}, {"k": [text, "e"], "n": {"m": text, "o": [[text], {"q": text}]}}, [text, []]):
        written(value, "yaml", lambda: ((), ()), ())
        assert yaml.safe_load(capsys.readouterr().out) == value


def test_a_script_is_a_block_that_people_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    written({"command": ["sh", "-c", "cd /tmp\n./run.sh\n"]}, "yaml", lambda: ((), ()), ())
    assert capsys.readouterr().out == 'command:\n  - "sh"\n  - "-c"\n  - |2\n    cd /tmp\n    ./run.sh\n'
