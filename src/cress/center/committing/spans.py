"""Spans of a job's way for OpenTelemetry (docs/metrics.md#spans); loaded only with ``--otlp-endpoint``."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

import cress
from cress.lifecycle.effects import StepResult
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveJob
from cress.model.events import Outcome
from cress.model.records import AttemptRecord, JobRecord, JobState

# Attempts of one job that have spans.
MOST_ATTEMPTS = 100
_MICRO = 1_000  # ns


class _Ids(RandomIdGenerator):
    """Ids of new spans: those of ``root`` for the next one, if there are some."""

    root: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return self.root[0] if self.root is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.root[1] if self.root is not None else super().generate_span_id()


class Spans:
    """Makes the spans of the jobs of a cluster. A part ``ratio`` (0 to 1) of the jobs is chosen by their ids."""

    def __init__(self, cluster: str, ratio: float, processor: SpanProcessor) -> None:
        self._cluster = cluster
        self._ids = _Ids()
        self._sampler = TraceIdRatioBased(ratio)
        resource = Resource.create(
            {"service.name": "cress", "service.version": cress.__version__, "service.namespace": cluster}
        )
        self._provider = TracerProvider(
            resource=resource, id_generator=self._ids, sampler=ParentBased(self._sampler), shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("cress.center", cress.__version__)
        self._told: dict[int, int] = {}  # attempts that have spans, by unfinished job

    def stepped(self, machine: Machine, step: StepResult, decided: float, stored: float) -> None:
        """Make the spans of a stored step, which took ``decided`` seconds, and its commit ``stored`` seconds."""
        ended = {record.id: record for record in step.jobs}
        now = time.time_ns()
        for reply in step.replies:
            for number in reply if isinstance(reply, tuple) else ():
                job = machine.jobs.get(number) or ended.get(number)
                if job is not None:
                    self._submitted(number, job.submitted, now, decided, stored)
        for attempt in step.attempts:
            job = machine.jobs.get(attempt.job) or ended.get(attempt.job)
            if job is not None:
                self._attempt(attempt, job)
        for record in step.jobs:
            self._ended(record)

    def close(self) -> None:
        """Send what is left, for at most a few seconds."""
        self._provider.shutdown()

    def _of(self, job: int, submitted: int) -> SpanContext | None:
        """Return the root of a job's trace; None if the job is not chosen."""
        digest = hashlib.sha256(f"{self._cluster}/{job}/{submitted}".encode()).digest()
        trace, span = int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1
        if self._sampler.should_sample(None, trace, "job").decision is Decision.DROP:
            return None
        return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def _span(
        self, parent: SpanContext, name: str, begin: int, end: int, attributes: dict[str, str | int] | None = None
    ) -> SpanContext:
        """Make a span with times in ns."""
        context = set_span_in_context(NonRecordingSpan(parent))
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=begin)
        span.end(max(begin, end))
        return span.get_span_context()

    def _submitted(self, job: int, submitted: int, now: int, decided: float, stored: float) -> None:
        root = self._of(job, submitted)
        if root is None:
            return
        # The clock of the cluster may be behind; the commit has ended now.
        begun_store = now - int(stored * 1e9)
        begun = begun_store - int(decided * 1e9)
        submit = self._span(root, "submit", min(submitted * _MICRO, begun), now)
        self._span(submit, "decide", begun, begun_store)
        self._span(submit, "store", begun_store, now)

    def _attempt(self, attempt: AttemptRecord, job: LiveJob | JobRecord) -> None:
        root = self._of(attempt.job, job.submitted)
        told = self._told.get(attempt.job, 0)
        if root is None or told >= MOST_ATTEMPTS:
            return
        self._told[attempt.job] = told + 1
        about: dict[str, str | int] = {
            "cress.attempt": attempt.attempt,
            "cress.task": attempt.task,
            "cress.node": attempt.node,
        }
        for name, begin, end in _parts(attempt, job.submitted):
            context = set_span_in_context(NonRecordingSpan(root))
            span = self._tracer.start_span(name, context, attributes=about, start_time=begin * _MICRO)
            if end == attempt.ended:
                span.set_attribute("cress.outcome", attempt.outcome.value)
                if attempt.code is not None:
                    span.set_attribute("process.exit.code", attempt.code)
                if attempt.outcome is not Outcome.SUCCEEDED:
                    span.set_status(Status(StatusCode.ERROR, attempt.error or attempt.outcome.value))
            span.end(max(begin, end) * _MICRO)

    def _ended(self, record: JobRecord) -> None:
        self._told.pop(record.id, None)
        root = self._of(record.id, record.submitted)
        if root is None:
            return
        self._ids.root = root.trace_id, root.span_id
        try:
            span = self._tracer.start_span(
                "job",
                Context(),
                SpanKind.SERVER,
                {
                    "cress.job": record.id,
                    "cress.name": record.name,
                    "cress.group": record.group,
                    "enduser.id": record.user,
                    "cress.tasks": record.tasks,
                    "cress.state": record.state.value,
                },
                start_time=record.submitted * _MICRO,
            )
        finally:
            self._ids.root = None
        if record.state is not JobState.SUCCEEDED:
            span.set_status(Status(StatusCode.ERROR, record.reason or record.state.value))
        span.end(max(record.submitted, record.ended) * _MICRO)


def _parts(attempt: AttemptRecord, submitted: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, begin and end (µs) of the parts of an attempt."""
    yield "wait", submitted, attempt.placed
    if attempt.started:
        yield "start", attempt.placed, attempt.started
        yield "run", attempt.started, attempt.ended
    else:
        yield "start", attempt.placed, attempt.ended


def spans_to(endpoint: str, ratio: float, cluster: str) -> Spans:
    """Return spans that are sent to a collector by OTLP over HTTP."""
    url = endpoint if endpoint.rstrip("/").endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"
    return Spans(cluster, ratio, BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=10)))
