"""Spans of a job's way, from the steps of a center to what a collector gets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cress.center.committing.spans import MOST_ATTEMPTS, Spans, spans_to
from cress.lifecycle.effects import StepResult
from cress.lifecycle.machine import Machine
from cress.model.events import Outcome
from cress.model.options import Options
from cress.model.records import AttemptRecord, JobRecord, JobState
from cress.model.resources import Dimensions
from cress.model.times import SECOND


def job(number: int = 7, state: JobState = JobState.SUCCEEDED) -> JobRecord:
    return JobRecord(
        id=number, name="etl", group="lab", user="ann", type="batch", tasks=1, gang=False, priority=0, time_limit=None,
        request=(1,), state=state, submitted=10 * SECOND, started=14 * SECOND, ended=20 * SECOND, succeeded=1, failed=0,
        cancelled=0,
    )  # fmt: skip


def attempt(number: int = 1, outcome: Outcome = Outcome.SUCCEEDED, started: int = 14) -> AttemptRecord:
    return AttemptRecord(
        attempt=number, job=7, task=0, node="n1", outcome=outcome, final=True, placed=13 * SECOND,
        started=started * SECOND, ended=20 * SECOND, code=0 if outcome is Outcome.SUCCEEDED else 3,
    )  # fmt: skip


def told(*steps: StepResult, ratio: float = 1.0) -> Sequence[ReadableSpan]:
    exporter = InMemorySpanExporter()
    spans = Spans("prod", ratio, SimpleSpanProcessor(exporter))
    machine = Machine(Dimensions(), Options())
    for step in steps:
        spans.stepped(machine, step, 0.002, 0.003)
    spans.close()
    return exporter.get_finished_spans()


def test_a_job_is_one_trace() -> None:
    found = told(StepResult(replies=[(7,), None], jobs=[job()], attempts=[attempt()]))
    by_name = {span.name: span for span in found}
    assert sorted(by_name) == ["decide", "job", "run", "start", "store", "submit", "wait"]
    root = by_name["job"].context
    assert len({span.context.trace_id for span in found}) == 1
    assert by_name["job"].parent is None
    for name in ("submit", "wait", "start", "run"):
        parent = by_name[name].parent
        assert parent is not None
        assert parent.span_id == root.span_id, name
    for name in ("decide", "store"):
        parent = by_name[name].parent
        assert parent is not None
        assert parent.span_id == by_name["submit"].context.span_id, name
    times = {
        name: ((span.start_time or 0) // 10**9, (span.end_time or 0) // 10**9)
        for name, span in by_name.items()
        if name in ("job", "wait", "start", "run")
    }
    assert times == {"job": (10, 20), "wait": (10, 13), "start": (13, 14), "run": (14, 20)}
    assert by_name["store"].end_time == by_name["submit"].end_time
    assert (by_name["job"].attributes or {})["cress.group"] == "lab"
    assert (by_name["run"].attributes or {})["process.exit.code"] == 0
    # Another center makes the same trace.
    again = told(StepResult(jobs=[job()]))
    assert again[0].context.span_id == root.span_id


def test_failures_are_errors_and_what_never_ran_has_no_run() -> None:
    found = told(StepResult(jobs=[job(state=JobState.FAILED)], attempts=[attempt(outcome=Outcome.FAILED, started=0)]))
    status = {span.name: span.status.status_code.name for span in found}
    assert status == {"job": "ERROR", "wait": "UNSET", "start": "ERROR"}


def test_a_job_of_many_attempts_and_jobs_that_are_not_chosen() -> None:
    steps = [StepResult(jobs=[], attempts=[attempt(number)]) for number in range(3)]
    # Attempts of jobs that nobody knows tell nothing.
    assert told(*steps) == ()
    many = StepResult(jobs=[job()], attempts=[attempt(number) for number in range(MOST_ATTEMPTS + 50)])
    assert len(told(many)) == 3 * MOST_ATTEMPTS + 1
    assert told(many, ratio=0.0) == ()
    chosen = {
        span.context.trace_id for number in range(1, 200) for span in told(StepResult(jobs=[job(number)]), ratio=0.5)
    }
    assert 60 < len(chosen) < 140


def test_a_collector_gets_them() -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    spans = spans_to(f"http://127.0.0.1:{server.server_port}", 1.0, "prod")
    spans.stepped(Machine(Dimensions(), Options()), StepResult(jobs=[job()]), 0.0, 0.0)
    spans.close()
    server.shutdown()
    server.server_close()
    message = ExportTraceServiceRequest.FromString(bodies[0])
    (sent,) = message.resource_spans[0].scope_spans[0].spans
    assert sent.name == "job"
    assert {pair.key: pair.value.string_value for pair in message.resource_spans[0].resource.attributes}[
        "service.namespace"
    ] == "prod"
