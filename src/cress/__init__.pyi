from cress.client.aio.client import AsyncClient as AsyncClient
from cress.client.aio.handles import AsyncJobHandle as AsyncJobHandle
from cress.client.blocking.client import Client as Client
from cress.client.blocking.handles import JobHandle as JobHandle
from cress.client.errors import ClientError as ClientError
from cress.client.errors import JobFailed as JobFailed
from cress.client.executor import Executor as Executor
from cress.client.jobs import Cron as Cron
from cress.client.jobs import Dag as Dag
from cress.client.jobs import Database as Database
from cress.client.jobs import Job as Job
from cress.client.jobs import Service as Service

__version__: str
__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ClientError",
    "Cron",
    "Dag",
    "Database",
    "Executor",
    "Job",
    "JobFailed",
    "JobHandle",
    "Service",
]
