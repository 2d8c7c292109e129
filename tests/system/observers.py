"""Users of a cluster under faults: each keeps a record, and judges it at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable

from cress.client import Client, ClientError, NotFound, Refused, Unavailable, Unreachable
from cress.client.calls import PreparedCall as Request
from cress.protocol.calls import job_calls
from cress.protocol.job_views import JobView
from tests.job_histories import ABSENT, CANCELLED, DONE, JOB, REFUSED, SERVICE
from tests.linearizability import UNKNOWN, Call, violations
from tests.system.cluster import wait_until
from tests.system.site import MARGIN, TERM, Site

# How often a task writes down that it runs, and how often a short one does.
BEAT, BEATS = 0.1, 3
# What a service may be below its task count: the term of the node, and the time to decide, start and import on a loaded
# machine.
START = 8.0


def submitted(site: Site, job: dict[str, object]) -> int:
    """Submit a job with a key until there is an answer; its id."""

    def ask() -> int:
        with contextlib.suppress(Unreachable, Unavailable), site.client() as client:
            return client.submit([job], key=f"{site.folder}-{job['name']}").jobs[0].id
        time.sleep(0.2)
        return 0

    return wait_until(ask, f"a submit of {job['name']}")


class User:
    """A thread that does ``work`` with a client, again and again, with another client after an error."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    with self.client() as client:
                        while not self._over.is_set():
                            self.work(client)
                except ClientError:
                    time.sleep(0.2)
        except BaseException as error:  # noqa: BLE001 – raised again where the test can see it
            self._failure = error

    def client(self) -> Client:
        """Return a client of a center that answers."""
        return self.site.client()

    def work(self, client: Client) -> None:
        """Do one thing."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise what has ended the thread."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.check()


class Stream(User):
    """Submits small jobs, one after the other; ``ids`` are those that were acknowledged by name, and ``times`` when."""

    def __init__(self, site: Site, url: str = "") -> None:
        """``url`` is the center that it calls, and whose redirections it follows; empty: one that answers."""
        self.ids: dict[str, int] = {}
        self.times: list[float] = []
        self._number = self._judged = 0
        self._url = url
        self._mark = f"s{site.urls.index(url)}-" if url else "s"
        self._place = site.folder / f"ran{self._mark}"
        super().__init__(site)

    def client(self) -> Client:
        """Return a client of the center that it calls; it does not wait long for one that sleeps."""
        return Client(self._url, self.site.token, timeout=1) if self._url else super().client()

    def work(self, client: Client) -> None:
        self._number += 1
        name = f"{self._mark}{self._number}"
        note = f'echo "$CRESS_JOB_NAME $CRESS_ATTEMPT $(date +%s.%N)" >> {self._place}; sleep {BEAT}; '
        job = {"command": note * BEATS, "name": name, "resource": "<0.2, 1M>"}
        self.ids[name] = client.submit([job]).jobs[0].id
        self.times.append(time.time())
        time.sleep(0.1)

    def has(self, count: int) -> bool:
        """Whether so many jobs were acknowledged."""
        self.check()
        return len(self.ids) >= count

    def runs(self) -> dict[str, dict[str, list[float]]]:
        """When the attempts of each job were seen to run."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for line in self._place.read_text().splitlines() if self._place.exists() else ():
            name, attempt, at = line.split()
            found[name][attempt].append(float(at))
        return found

    def judge(self, client: Client) -> None:
        """All that was acknowledged has run and succeeded, and no two attempts of a job at the same time."""
        ran = self.runs()
        assert [name for name in self.ids if name not in ran] == [], "lost"
        ended = {name: client.job(id).state for name, id in list(self.ids.items())[self._judged :]}
        assert set(ended.values()) <= {"succeeded"}, ended
        self._judged += len(ended)
        self.check_overlaps()

    def check_overlaps(self) -> None:
        """No two attempts of a job have run at the same time."""
        for name, attempts in self.runs().items():
            spans = sorted((min(times), max(times), attempt) for attempt, times in attempts.items())
            for (_, end, first), (begin, _, second) in itertools.pairwise(spans):
                assert end <= begin, f"{name}: attempts {first} and {second} ran at the same time"


class Caller(User):
    """Submits a service that is held, or such a job, then scales, reads and cancels it; others read and scale the same.

    ``history`` has every call. Callers of one site share ``current``, the object that is alive, and its id.
    """

    def __init__(self, site: Site, name: str, shared: dict[str, int], seed: int) -> None:
        self.history: list[Call] = []
        self._name, self._shared = name, shared
        self._chance = random.Random(seed)
        self._number = 0
        super().__init__(site)

    def work(self, client: Client) -> None:
        part, id = self._chance.choice(list(self._shared.items()) or [("", 0)])
        what = self._chance.choice(["submit", "scale", "scale", "read", "read", "read", "read", "cancel"])
        if (what == "submit" and len(self._shared) > 3) or (not id and what != "submit"):
            what = "read"
        time.sleep(0.05)
        if what == "submit":
            self._number += 1
            self._submit(f"{self._chance.choice(['job', 'service'])}-{self._name}-{self._number}")
        elif id:
            if what == "scale" and part.startswith("service"):
                count = self._chance.randint(1, 4)
                self._call(part, ("scale", count), lambda: client.scale(id, count))
            elif what == "cancel":
                self._call(part, ("cancel",), lambda: client.cancel(id))
                # The other callers look for a while at what is over.
                threading.Timer(2.0, self._shared.pop, (part, None)).start()
            else:
                read = Request(job_calls.JOB, job_calls.JOB.at(id), {"stale": "no"})
                self._call(part, ("read",), lambda: client.ask(read))

    def _submit(self, part: str) -> None:
        """Submit with a key until there is an answer: it is one call."""
        job: dict[str, object] = {"command": "true", "name": part, "resource": "<0.1, 1M>", "hold": True}
        what: tuple[object, ...] = ("submit",)
        if part.startswith("service"):
            job |= {"type": "service", "tasks": 2}
            what = ("submit", 2)
        begin = time.monotonic()
        id = submitted(self.site, job)
        self.history.append(Call(part, what, begin, time.monotonic(), "taken"))
        self._shared[part] = id

    def _call(self, part: str, what: tuple[object, ...], ask: Callable[[], JobView]) -> None:
        begin = time.monotonic()
        result: Hashable = UNKNOWN
        failure: ClientError | None = None
        seen: Hashable = None
        try:
            seen = _seen(ask())
            result = seen if what == ("read",) else DONE
        except NotFound:
            result = ABSENT
        except Refused as error:
            assert "has ended" in str(error), error
            result = REFUSED
        except ClientError as error:
            failure = error
        end = time.monotonic()
        self.history.append(Call(part, what, begin, end, result))
        if result == DONE:
            self.history.append(Call(part, ("read",), begin, end, seen))
        if failure is not None:
            raise failure


def _seen(view: JobView) -> int | str:
    if view.state == "cancelled" or view.reason.startswith("cancelled by"):
        return CANCELLED
    if view.service is not None:
        return view.service.wanted
    return view.state if view.state not in ("waiting", "running") else "alive"


def judge(callers: list[Caller]) -> int:
    """Return the number of calls, when their histories are linearizable together."""
    history = [call for caller in callers for call in caller.history]
    for model, kind in ((SERVICE, "service"), (JOB, "job")):
        found = violations([call for call in history if str(call.part).startswith(kind)], model)
        assert found == [], "\n\n".join(map(str, found))
    return len(history)


_INSTANCE = f"""
import http.server, os, sys, threading, time
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(sys.argv[2], "ab", buffering=0) as place:
    while True:
        place.write(f"{{os.environ['CRESS_JOB_ID']}}.{{os.environ['CRESS_TASK_INDEX']}} {{os.environ['CRESS_ATTEMPT']}} {{time.time()}}\\n".encode())
        time.sleep({BEAT})
"""  # noqa: E501


class Web:
    """A service whose tasks are probed by the executors, and write down every tenth of a second that they run."""

    def __init__(self, site: Site, tasks: int) -> None:
        self.tasks = tasks
        self._place, program = site.folder / "probed", site.folder / "web.py"
        program.write_text(_INSTANCE)
        job = {
            "name": "web",
            "type": "service",
            "tasks": tasks,
            "resource": "<0.2, 32M>",
            "ports": {"http": "dynamic"},
            "command": f"exec {sys.executable} -S -E {program} $CRESS_PORT_http {self._place}",
            "ready": {"url": "/", "on": "http", "every": "1s"},
        }
        self.id = submitted(site, job)

    def is_whole(self) -> bool:
        """Return whether all tasks run at this moment."""
        now = time.time()
        return sum(times[-1] > now - 5 * BEAT for times in self._times().values()) >= self.tasks

    def _times(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for line in self._place.read_text().splitlines() if self._place.exists() else ():
            task, attempt, at = line.split()
            found[f"{task} {attempt}"].append(float(at))
        return found

    def shortages(self) -> list[tuple[float, float]]:
        """Return when fewer tasks ran than there should be, from the first moment at which all did until the last
        note.
        """
        changes: list[tuple[float, int]] = []
        for times in self._times().values():
            first = last = times[0]
            for at in times[1:]:
                # A loaded machine may let a task sleep for longer.
                if at > last + 10 * BEAT:
                    changes += [(first, 1), (last, -1)]
                    first = at
                last = at
            changes += [(first, 1), (last, -1)]
        end = max(at for at, _ in changes)
        found, count, since, begun = [], 0, 0.0, False
        for at, change in sorted(changes):
            count += change
            if count >= self.tasks:
                if begun and since:
                    found.append((since, at))
                begun, since = True, 0.0
            elif begun and not since and at < end - 10 * BEAT:
                since = at
        return [*found, (since, end)] if since else found

    def judge(self, disturbed: list[float]) -> float:
        """Return the longest shortage; none goes on for longer than term and start behind a moment at which something
        was ``disturbed``.

        A new leader counts the terms from its own start, and what starts on a host that is struck is lost in its turn.
        """
        longest = 0.0
        for begin, end in self.shortages():
            moments = [begin, *(at for at in disturbed if begin < at < end), end]
            longest = max(longest, *(after - before for before, after in itertools.pairwise(moments)))
        assert longest <= TERM + MARGIN + START, (
            f"fewer tasks than {self.tasks} for {longest:.1f} s: {self.shortages()}"
        )
        return longest


class Reader:
    """``cress logs --follow`` of a job that counts until it is told to end."""

    def __init__(self, site: Site) -> None:
        self._site, self._go, self._seen = site, site.folder / "go", site.folder / "seen"
        count = (
            f"i=0; while [ ! -e {self._go} ]; do i=$((i + 1)); echo $CRESS_ATTEMPT $i; sleep {BEAT}; done; echo "
            "$CRESS_ATTEMPT last"
        )
        self.id = submitted(site, {"command": count, "name": "log", "resource": "<0.1, 1M>"})
        with self._seen.open("wb") as out, (site.folder / "reader.log").open("wb") as told:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cress", "logs", str(self.id), "--follow"],
                stdout=out,
                stderr=told,
                env={**os.environ, "CRESS_URL": ",".join(site.urls), "CRESS_TOKEN": site.token},
            )

    def size(self) -> int:
        """Bytes that have been read so far."""
        return self._seen.stat().st_size

    def wait_for_more(self, why: str) -> None:
        size = self.size()
        wait_until(lambda: self.size() > size or self._process.poll() is not None, f"the follower of a log: {why}")
        assert self._process.poll() is None, f"{why}: the follower has ended: {self._told()}"

    def _told(self) -> str:
        return (self._site.folder / "reader.log").read_text()

    def finish(self) -> None:
        """Let the job end, and the reader with it."""
        self._go.touch()
        assert self._process.wait(60) == 0, self._told()

    def judge(self) -> int:
        """Return the number of lines: each came once, in order, of the last attempt up to the last one."""
        attempts: dict[str, list[str]] = defaultdict(list)
        for line in self._seen.read_text().splitlines():
            attempt, _, number = line.partition(" ")
            attempts[attempt].append(number)
        for position, lines in enumerate(attempts.values(), 1):
            expected = [str(each) for each in range(1, len(lines) + 1)]
            # What a lost attempt wrote at its end may be lost with its node.
            if position == len(attempts):
                expected[-1] = "last"
            wrong = [pair for pair in zip(lines, expected, strict=True) if pair[0] != pair[1]]
            assert not wrong, f"attempt {position} of {len(attempts)}, read and expected: {wrong[:10]}"
        return sum(map(len, attempts.values()))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
