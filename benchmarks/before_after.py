"""The same measurements in an older tree and in this one, in turn, as a table: ``python -m benchmarks.before_after
TREE``.

``TREE`` has the sources of before, e.g. made by ``git worktree add TREE ae271ab``. Each measurement runs in a process
of its own, once to warm up and then in turn in both trees; what is compared are the best of all rounds, which noise
moves least. Programs that compute are measured in processor time. It takes about ten minutes; ``--only WORD`` chooses,
``--rounds N``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1]
CRESS = [sys.executable, "-m", "cress"]
# Nodes and tasks of the restart: with more nodes the older tree takes minutes.
NODES, TASKS = 1_000, 100_000

Measure = Callable[[Path], dict[str, float]]


@dataclass(frozen=True)
class Figure:
    """How a figure is called, its unit, and whether more is better."""

    name: str
    unit: str
    more: bool = False


def environment(tree: Path) -> dict[str, str]:
    """The environment in which the programs of a tree run.

    They may keep bytecode, as installed programs do. Without it, every run would compile all modules again, and the
    tree with more modules would seem slower.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": f"{tree / 'src'}:{tree}"}


def code(tree: Path, text: str) -> dict[str, float]:
    """Figures that a piece of code prints as JSON, run with the modules of a tree."""
    ran = subprocess.run(
        [sys.executable, "-c", text], env=environment(tree), cwd=tree, stdout=subprocess.PIPE, check=True
    )
    figures: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def simulate(log: str) -> Measure:
    """A whole command on a real log: seconds of processor time, and on the clock."""

    def measure(tree: Path) -> dict[str, float]:
        path = str(Path(os.environ["CRESS_TRACES"]) / "swf" / f"{log}.swf.gz")
        with tempfile.TemporaryDirectory() as out:
            words = ("simulate", path, "--policy", "BackFill", "--events", "one-by-one", "--out", out)
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([*CRESS, *words], env=environment(tree), cwd=tree, check=True, stdout=subprocess.DEVNULL)
            wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {f"simulate {log}, whole command, processor": spent, f"simulate {log}, whole command, clock": wall}

    return measure


def core(tree: Path) -> dict[str, float]:
    """Placements a second: the choice of nodes, and the whole cycle."""
    return code(
        tree,
        "import json; from benchmarks.core import cycle, node_choice\n"
        "print(json.dumps({'node choice, 10,000 nodes': node_choice(10_000),"
        " 'cycle, 10,000 nodes, 100 groups': cycle(10_000, 100)}))",
    )


def of_this_tree(tree: Path, modules: tuple[str, ...], *words: str) -> dict[str, float]:
    """The figures that a benchmark of this tree prints, run with the sources of ``tree``."""
    with tempfile.TemporaryDirectory() as folder:
        # A package of this name comes first: it has the other modules of the tree too.
        package = Path(folder) / "benchmarks"
        package.mkdir()
        for name in (*modules, "result"):
            (package / f"{name}.py").write_text((HERE / "benchmarks" / f"{name}.py").read_text("utf-8"), "utf-8")
        ran = subprocess.run(
            [sys.executable, *words],
            env=environment(tree) | {"PYTHONPATH": f"{folder}:{tree / 'src'}"},
            cwd=folder,
            stdout=subprocess.PIPE,
            check=True,
        )
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


def live(tree: Path) -> dict[str, float]:
    """A center and two executors: latency, an array of ``/bin/true``, submits."""
    text = (
        "import json; from benchmarks.live import results\n"
        "found, told = {}, results()\n"
        "for each in told:\n"
        "    found[each.name] = each.value\n"
        "    if each.unit == 'submits/s': break\n"
        "told.close(); print(json.dumps(found))"
    )
    return of_this_tree(tree, ("live",), "-c", text)


def restart(tree: Path) -> dict[str, float]:
    """A snapshot of 100,000 running tasks, restored, and its executors come back."""
    figures = of_this_tree(tree, ("reconcile",), "-m", "benchmarks.reconcile", str(NODES), str(TASKS))
    return {
        "100,000 running tasks: restored": figures["restore"],
        f"100,000 running tasks: {NODES:,} executors come back": figures["reconcile"],
        "100,000 running tasks: memory": figures["memory"],
    }


def command(tree: Path) -> dict[str, float]:
    """The start of the command line, in processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(10):
        subprocess.run([*CRESS, "--help"], env=environment(tree), cwd=tree, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cress --help": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 10}


MEASURES: dict[str, Measure] = {
    "KTH-SP2": simulate("KTH-SP2"),
    "SDSC-SP2": simulate("SDSC-SP2"),
    "core": core,
    "command": command,
    "live": live,
    "restart": restart,
}


def unit(name: str) -> Figure:
    """The unit of a figure, by its name."""
    if "submits," in name:
        return Figure(name, "submits/s", more=True)
    if "/bin/true" in name:
        return Figure(name, "tasks/s", more=True)
    if name.startswith(("node choice", "cycle")):
        return Figure(name, "placements/s", more=True)
    if "memory" in name:
        return Figure(name, "MB")
    return Figure(name, "ms" if "process started" in name else "s")


def row(name: str, before: list[float], after: list[float]) -> str:
    """A line of the table: best and median of each tree, and how many times better this one is."""
    figure = unit(name)
    best = max if figure.more else min
    ratio = best(after) / best(before) if figure.more else best(before) / best(after)
    middle = statistics.median(after) / statistics.median(before)
    middle = middle if figure.more else 1 / middle
    return (
        f"{figure.name:<52} {figure.unit:<12} {best(before):>12,.4g} {best(after):>12,.4g} "
        f"{ratio:>6.2f}× {statistics.median(before):>12,.4g} {statistics.median(after):>12,.4g} {middle:>6.2f}×"
    )


def main() -> None:
    """Measure both trees in turn and print the table."""
    parser = argparse.ArgumentParser(description="Compare an older tree with this one.")
    parser.add_argument("tree", type=Path, help="the sources of before")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", action="append", choices=tuple(MEASURES), help="only this; may be given several times"
    )
    arguments = parser.parse_args()
    trees = (arguments.tree.resolve(), HERE)
    told: dict[str, tuple[list[float], list[float]]] = {}
    heads = ("best before", "best after", "", "median before", "median after", "")
    print(f"{'':<52} {'':<12} {heads[0]:>12} {heads[1]:>12} {heads[2]:>7} {heads[3]:>12} {heads[4]:>12}", flush=True)
    for name in arguments.only or MEASURES:
        if name.endswith("SP2") and "CRESS_TRACES" not in os.environ:
            print(f"no real logs: set CRESS_TRACES to measure {name}", file=sys.stderr)
            continue
        figures: dict[str, tuple[list[float], list[float]]] = {}
        for number in range(-1, arguments.rounds):
            # Whoever comes second finds a warmer machine: they take turns.
            for which in (0, 1) if number % 2 else (1, 0):
                for figure, value in MEASURES[name](trees[which]).items():
                    if number >= 0:
                        figures.setdefault(figure, ([], []))[which].append(value)
        for figure, (before, after) in figures.items():
            print(row(figure, before, after), flush=True)
        told |= figures
    target = HERE / "build" / "before_after.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({name: {"before": old, "after": new} for name, (old, new) in told.items()}, indent=2))
    print(f"written: {target}")


if __name__ == "__main__":
    main()
