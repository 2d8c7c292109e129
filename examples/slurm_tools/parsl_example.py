"""An app of Parsl over SlurmProvider, with both launchers (https://parsl.readthedocs.io)."""

import sys

import parsl
from parsl import python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SingleNodeLauncher, SrunLauncher
from parsl.providers import SlurmProvider


@python_app
def square(x):
    """Square a number."""
    return x * x


for launcher, nodes in ((SingleNodeLauncher(), 1), (SrunLauncher(), 2)):
    config = Config(
        executors=[
            HighThroughputExecutor(
                label="slurm",
                address="127.0.0.1",
                max_workers_per_node=1,
                encrypted=False,
                provider=SlurmProvider(
                    partition="default",
                    nodes_per_block=nodes,
                    init_blocks=1,
                    max_blocks=1,
                    walltime="00:10:00",
                    launcher=launcher,
                ),
            )
        ],
        run_dir=sys.argv[1],
    )
    with parsl.load(config):
        print(type(launcher).__name__, sum(future.result() for future in [square(i) for i in range(10)]))
