"""Templates of configuration files that follow the places of jobs."""

from __future__ import annotations

import pytest

from cress.cli.place_template import PlaceTemplate
from cress.client import PlaceView
from cress.model.errors import InputError


def place(job: int, task: int, address: str, **ports: int) -> PlaceView:
    return PlaceView(job=job, name="x", task=task, attempt=task, group="g", node=f"n{task}", rack="r", address=address,
                     ports=ports, since=0.0)  # fmt: skip


PLACES = {
    "web": [place(1, 0, "10.0.0.1", http=80, admin=81), place(1, 1, "fd00::1", http=8080, admin=1)],
    "db": [place(2, 0, "10.0.0.9")],
}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "upstream web {\n  {{each web}}\n  server {{address}}:{{port}}; # {{task}} {{node}}\n  {{end}}\n}\n",
            "upstream web {\n  server 10.0.0.1:80; # 0 n0\n  server fd00::1:8080; # 1 n1\n}\n",
        ),
        ("{{each web}}{{port.admin}} {{end}}{{db}}", "81 1 10.0.0.9"),
        ("one={{ web }} all={{all  web}}\n", "one=10.0.0.1:80 all=10.0.0.1:80,[fd00::1]:8080\n"),
        ("{{each web}}\n{{db}} {{rack}}\n{{end}}\n", "10.0.0.9 r\n10.0.0.9 r\n"),
        ("{a} {{db}} {b}{{}}{{ }}", "{a} 10.0.0.9 {b}{{}}{{ }}"),
    ],
)
def test_places_stand_where_the_template_says(text: str, written: str) -> None:
    assert PlaceTemplate(text, "t").render(PLACES) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no words\n", "t: names no job"),
        ("\n{{each web}}\n", "t:2: {{each …}} has no {{end}}"),
        ("{{web}}\n{{end}}\n", "t:2: {{end}} ends nothing"),
        ("{{each web}}{{each db}}{{end}}{{end}}", "t:1: {{each db}} stands inside another {{each …}}"),
        ("{{db}}\n{{address}}", "t:2: {{address}} stands outside of {{each …}}"),
        ("{{a b}}", "t:1: {{a b}} is not the name of a job"),
    ],
)
def test_a_mistake_names_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        PlaceTemplate(text, "t")
    assert str(caught.value).startswith(message)


def test_a_port_that_a_job_lacks_is_named() -> None:
    template = PlaceTemplate("\n{{each web}}{{port.ssh}}{{end}}", "t")
    assert list(template.names) == ["web"]
    with pytest.raises(InputError, match=r"t:2: \{\{port.ssh\}\} job 1 has no such port \(its ports: http, admin\)"):
        template.render(PLACES)
