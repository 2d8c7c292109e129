"""Imported where programs are forked: what `cress` and a center import, and the kernels of the usual scheduler from
their cache. What they import at their first request or option is here as well.
"""

# ruff: noqa: F401 – imported to be there
import encodings.idna
import gc

import anyio._backends._asyncio
import httpcore
import httpx
import rich.table
import typer._adapters
import typer._click.decorators
import uvicorn.lifespan.off
import uvicorn.protocols.websockets.websockets_sansio_impl
import websockets.sync.client
import yaml

import cress.center.run
import cress.cli.jobfile
import cress.cli.main
import cress.cli.relay
import cress.cli.standard_input
import cress.client.aio.client
import cress.client.blocking.client
import cress.client.route
import cress.executor.agent
import cress.executor.keeper
import cress.executor.supervisor
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
