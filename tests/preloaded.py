"""Imported where programs are forked: what `cress` and a center import, and the kernels of the usual scheduler from
their cache.
"""

import gc

import httpx  # noqa: F401
import rich.table  # noqa: F401
import typer._adapters  # noqa: F401 – imported at the first option of a command
import yaml  # noqa: F401

import cress.center.run
import cress.cli.main
import cress.client.aio.client
import cress.client.blocking.client
import cress.executor.agent
import cress.executor.supervisor  # noqa: F401
from cress.center.process import watchdog
from cress.center.process.compilation import load_kernels
from cress.cli.verb_table import TABLE
from cress.cli.verbs import found
from cress.core.warm import KERNELS
from cress.model.options import Options
from cress.model.resources import Dimensions

for verb in TABLE:
    found(verb.place)
# None is compiled here; a program that is forked may.
KERNELS.interpret()
load_kernels(Dimensions(), Options())
KERNELS.compile()
# Half a dozen centers wait in a run, and looked seventy times a second whether they are late: a tenth of all that they
# did. tests/center/test_watchdog.py has the true times.
watchdog.TICK, watchdog.LOOK = 0.2, 0.1
# What is loaded stays for ever: no forked program looks through it for garbage.
gc.collect()
gc.freeze()
