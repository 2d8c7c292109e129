"""``/metrics``: what is counted, bounded labels, and that Prometheus, its rules and the dashboard agree with it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cress.center.committing.counters import WORK, Histogram
from cress.center.views import metrics
from tests.center.program import Center, eventually
from tests.ports import free_port

EXAMPLES = Path(__file__).parents[2] / "examples" / "prometheus"
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
GROUPS = "Name: ads\nResourceQuota: 2\n\nName: web\nResourceQuota: 2\n"


def scraped(center: Center) -> dict[tuple[str, ...], float]:
    """The samples of a scrape: by name and the values of labels, in the order of the labels' names."""
    answer = center.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_numbers_of_a_small_cluster(center: Center) -> None:
    center.put_groups(GROUPS, moves={"default": "ads"})
    with center.executor("n1") as n1:
        first = center.submit(name="one", group="ads", resource="<3, 1G>", deadline="1s")
        (launch,) = n1.launches()
        n1.started(launch.attempt)
        center.submit(name="two", group="ads", resource="<2, 1G>", tasks=3)
        eventually(lambda: center.get(f"/v1/jobs/{first}")["started"])
        found = scraped(center)
        assert found["cress_leader",] == 1
        assert found["cress_nodes", "up"] == 1
        assert found["cress_executors",] == 1
        assert found["cress_used", "cpu"] == 3
        assert found["cress_used", "memory"] == 2**30
        assert found["cress_tasks_running",] == 1
        assert found["cress_group_used_ratio", "ads"] == 1.5
        assert found["cress_group_waiting_tasks", "ads"] == 3
        assert found["cress_group_running_tasks", "web"] == 0
        # A group has its series before the first event, or an alert on their increase would not see that one.
        assert found["cress_group_waiting_tasks", "web"] == found["cress_deadlines_missed_total", "web"] == 0
        assert found["cress_waiting_tasks", "ads", "no room"] == 3
        assert found["cress_jobs_submitted_total", "ads"] == 2
        assert found["cress_job_wait_seconds_count", "ads"] == 1
        assert found["cress_dispatch_seconds_count",] == 1
        assert found["cress_step_seconds_count",] == found["cress_commit_seconds_count",] > 0
        n1.ended(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{first}")["state"] == "succeeded")
        found = scraped(center)
        assert found["cress_jobs_ended_total", "ads", "succeeded"] == 1
        assert found["cress_attempts_ended_total", "ads", "succeeded"] == 1
    # Without a token nothing is told.
    assert httpx.get(center.address["url"] + "/metrics", trust_env=False).status_code == 401


def test_groups_beyond_the_bound_are_added_up(center: Center) -> None:
    text = "".join(f"Name: g{number:03}\nResourceQuota: 1\n\n" for number in range(metrics.MOST_GROUPS + 20))
    center.put_groups(text, moves={"default": "g000"})
    for number in (0, 215, 216, 217):
        center.submit(name=f"j{number}", group=f"g{number:03}", hold=True)
    found = scraped(center)
    groups = {labels[0] for name, *labels in found if name == "cress_group_waiting_tasks"}
    assert len(groups) == metrics.MOST_GROUPS + 1
    assert groups >= {"g000", metrics.OTHERS}
    assert found["cress_group_waiting_tasks", metrics.OTHERS] == 3
    assert found["cress_jobs_submitted_total", metrics.OTHERS] == 3
    assert found["cress_waiting_tasks", metrics.OTHERS, "held"] == 3
    assert len([name for name, *_ in found if name == "cress_group_used_ratio"]) == metrics.MOST_GROUPS


def test_buckets_count_what_is_at_or_below_their_bound() -> None:
    found = Histogram(WORK)
    for seconds in (0.0, 0.0005, 0.0006, 4.0, 6.0):
        found.observe(seconds)
    assert found.counts[:2] == [2, 1]
    assert found.counts[-2:] == [1, 1]
    assert found.sum == pytest.approx(10.0011)


def test_each_metric_of_page_rules_and_dashboard_exists(center: Center) -> None:
    with center.executor("n1") as n1:
        center.submit(name="one")
        (launch,) = n1.launches()
        n1.ended(launch.attempt)
        eventually(lambda: center.get("/v1/jobs/1")["state"] == "succeeded")
        text = center.http.get("/metrics").text
    # A family without a sample has its header all the same.
    known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    samples = known | {name + end for name in known for end in ("_bucket", "_sum", "_count")}
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    asked += (EXAMPLES / "alerts.yml").read_text() + DOCS.read_text()
    wanted = set(re.findall(r"\b(?:cress|process)_[a-z0-9_]+[a-z0-9]\b", asked))
    assert wanted <= samples
    told = set(re.findall(r"`(cress_\w+)`", DOCS.read_text()))
    assert {name for name in known if name.startswith("cress_")} == told


needs_prometheus = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="no prometheus (Debian's package prometheus)"
)


@needs_prometheus
def test_promtool_accepts_metrics_and_rules(center: Center) -> None:
    text = center.http.get("/metrics").text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=EXAMPLES, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    rules = set(re.findall(r"alert: (\w+)", (EXAMPLES / "alerts.yml").read_text()))
    assert set(re.findall(r"alertname: (\w+)", (EXAMPLES / "alerts_test.yml").read_text())) == rules


@needs_prometheus
@pytest.mark.long  # Prometheus takes five seconds before it scrapes for the first time
def test_prometheus_scrapes_a_center(center: Center, tmp_path: Path) -> None:
    port = free_port()
    text = (EXAMPLES / "prometheus.yml").read_text().replace("15s", "200ms")
    text = text.replace("127.0.0.1:7411", center.address["url"].removeprefix("http://"))
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "alerts.yml").write_text((EXAMPLES / "alerts.yml").read_text())
    (tmp_path / "cress-token").write_text(center.token)
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "said").open("w") as said:
        server = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
             f"--web.listen-address=127.0.0.1:{port}"],
            cwd=tmp_path, stdout=said, stderr=said,
        )  # fmt: skip

    def leader() -> list[object]:
        try:
            answer = httpx.get(url + "/api/v1/query", params={"query": "cress_leader"}, trust_env=False).json()
        except (httpx.TransportError, json.JSONDecodeError):
            return []
        found: list[object] = answer.get("data", {}).get("result", [])
        return found

    try:
        (found,) = eventually(leader)
        assert found["value"][1] == "1"
        targets = httpx.get(url + "/api/v1/targets", trust_env=False).json()["data"]["activeTargets"]
        assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")]
    finally:
        server.kill()
        server.wait()
