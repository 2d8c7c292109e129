"""What all tests share: hypothesis profiles, the real traces, and skips that nobody can overlook."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.budget import Budget
from tests.examples import LONGER, USUAL, seed
from tests.servers.postgresql import PostgreSql
from tests.servers.zookeeper import Ensemble

settings.register_profile(
    "default",
    max_examples=USUAL,
    # Continuous integration draws by the seed, too; Hypothesis would try the same examples for ever there.
    derandomize=False,
    deadline=None,
    # What failed elsewhere is found by its seed, not by a file that only one machine has.
    database=None,
    # What fails is told at once. Making a story smaller takes minutes: ``--hypothesis-profile=shrink`` does that.
    phases=(Phase.explicit, Phase.generate, Phase.target),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "shrink",
    parent=settings.get_profile("default"),
    phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
)
settings.register_profile(
    "long",
    parent=settings.get_profile("default"),
    max_examples=LONGER * USUAL,
    phases=tuple(Phase),
    # What it finds comes again by ``@reproduce_failure`` with what is printed.
    print_blob=True,
)
settings.load_profile("default")

# Hypothesis also draws numbers and texts that stand in the modules loaded so far: what is drawn would depend on which
# tests a process ran before.
providers._get_local_constants = Constants

# A shell lets programs that it runs in the background ignore Ctrl-C, and what they start inherits that; programs of
# tests are to obey it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# `cress up` starts a portal only in the tests that ask for one.
os.environ["CRESS_NO_PORTAL"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take ``-n``."""
    group = parser.getgroup("several processes")
    # Short options in small letters are kept for pytest itself, which has none of this name.
    group._addoption(
        "-n",
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="run the tests in N processes; 0 (default): in this one",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Measure every test, and draw the examples of properties from the seed of this source."""
    config.pluginmanager.register(Budget(), "budget")
    if config.getoption("workers"):
        from tests.workers import Workers

        config.pluginmanager.register(Workers(config.getoption("workers")), "workers")
    if config.getoption("--hypothesis-seed") is None and config.getoption("--hypothesis-profile") != "long":
        config.option.hypothesis_seed = str(seed())


# How many more objects than were removed let Python look for garbage; it looks through older ones every 20th time.
# What a test leaves behind is small, and looking for it at the usual 700 took a tenth of the run.
GARBAGE = (20_000, 20, 20)
_unfreeze = gc.unfreeze
_thawed: list[bool] = []


def _unfreeze_for_now() -> None:
    """Unfreeze, in the place of ``gc.unfreeze``, and note that all is to be frozen again after the test."""
    _unfreeze()
    _thawed.append(True)


gc.unfreeze = _unfreeze_for_now


def pytest_sessionstart() -> None:
    """Look for no garbage while tests are imported: what is imported stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but never through all that was imported and collected; read the authorities of the
    system once, not for every HTTP client.
    """
    if httpx := sys.modules.get("httpx"):
        httpx._transports.default.create_ssl_context = cache(httpx.create_ssl_context)
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Freeze again what a simulation or a center of the test has unfrozen."""
    if _thawed:
        _thawed.clear()
        gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Say which examples of properties are tried."""
    chosen = config.getoption("--hypothesis-seed")
    return "examples: others each time" if chosen is None else f"examples: CRESS_SEED={chosen} repeats them"


NO_TRACES = "CRESS_TRACES is not set: point it to the folder of the real traces to run this"


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of the real traces; the test is skipped, loudly, when ``CRESS_TRACES`` does not name one."""
    folder = os.environ.get("CRESS_TRACES", "")
    if not folder:
        pytest.skip(NO_TRACES)
    path = Path(folder)
    if not path.is_dir():
        # Set and wrong is a mistake, not a choice.
        pytest.fail(f"CRESS_TRACES={folder} is not a folder")
    return path


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """A ZooKeeper server of this test process."""
    ensemble = Ensemble(tmp_path_factory.mktemp("zookeeper"))
    yield ensemble
    ensemble.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    """A PostgreSQL server of this test process."""
    server = PostgreSql()
    yield server
    server.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """After everything else, say what was skipped and why: a skipped test has shown nothing."""
    yield
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if not reasons:
        return
    terminalreporter.section(f"{reasons.total()} SKIPPED: these showed nothing", sep="!", yellow=True, bold=True)
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count:5d}  {reason}", yellow=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped, without the file and line that pytest puts before it."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr or "no reason given")
