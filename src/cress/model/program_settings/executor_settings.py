"""Settings of ``cress executor``, and those shared with ``cress up`` for all its executors."""

from __future__ import annotations

from cress.model.node import DYNAMIC_PORTS
from cress.model.program_settings import readers
from cress.model.program_settings.setting import EXECUTOR, UP, Setting, ValueType

ONE, BOTH = (EXECUTOR,), (EXECUTOR, UP)
PATH, SWITCH = ValueType.PATH, ValueType.SWITCH

EXECUTOR_SETTINGS = (
    Setting(
        name="center",
        about="Address at which the center listens for executors; several if centers share a store.",
        programs=ONE,
        metavar="URL[,URL…]",
        needed=True,
        variable="CRESS_CENTER",
        field="center_url",
    ),
    Setting(
        name="token-file",
        about="File with the center's token. Default: token in ~/.local/share/cress.",
        programs=ONE,
        metavar="FILE",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="tls",
        about="Directory with the bundle from `cress tls issue`, for wss:// (docs/tls.md). It replaces the token.",
        programs=ONE,
        metavar="DIR",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="name",
        about="Name of the node. Default: the host name.",
        programs=ONE,
        metavar="NAME",
        field="",
    ),
    Setting(
        name="data",
        about="Directory for journal and logs. Default: executors/NAME in ~/.local/share/cress.",
        programs=ONE,
        metavar="DIR",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="resource",
        about="Capacity of the node. Default: that of the machine.",
        programs=ONE,
        metavar="RESOURCE",
    ),
    Setting(
        name="rack",
        about="Rack of the node. Default: from the center's topology.",
        programs=ONE,
        metavar="NAME",
    ),
    Setting(
        name="label",
        about="Attribute for constraints, such as ssd=true. Repeatable.",
        programs=BOTH,
        metavar="NAME=VALUE",
        many=True,
        field="labels",
        read=readers.labels,
    ),
    Setting(
        name="accepts",
        about="Jobs that the node accepts, such as 'Job.Group in (lab, web)'. Default: all.",
        programs=BOTH,
        metavar="EXPR",
    ),
    Setting(
        name="repel",
        about="Accept only jobs that tolerate this name. Repeatable.",
        programs=BOTH,
        metavar="NAME",
        many=True,
        field="repels",
        read=readers.once_each,
    ),
    Setting(
        name="address",
        about="Address at which tasks of the node are reached. Default: the address from which it reaches the center.",
        programs=BOTH,
        metavar="ADDRESS",
    ),
    Setting(
        name="ports",
        about="Ports for tasks that ask for any port.",
        programs=ONE,  # the executors of `cress up` share the default ones
        metavar="FIRST-LAST",
        default=f"{DYNAMIC_PORTS[0]}-{DYNAMIC_PORTS[1]}",
        read=readers.ports,
    ),
    Setting(
        name="runtime",
        about="Runtime of jobs that choose none: process, container, or auto (docs/containers.md).",
        programs=BOTH,
        metavar="RUNTIME",
        default="process",
        read=readers.runtime,
    ),
    Setting(
        name="writable",
        about="Directory to which containers may write. Repeatable.",
        programs=BOTH,
        metavar="DIR",
        value_type=PATH,
        many=True,
        field="",
    ),
    Setting(
        name="hide",
        about="Directory that is hidden from containers, such as that of a center. Repeatable.",
        programs=BOTH,
        metavar="DIR",
        value_type=PATH,
        many=True,
        field="",
    ),
    Setting(
        name="task-env",
        about="Environment variable that tasks inherit from the executor. Repeatable.",
        programs=BOTH,
        metavar="NAME",
        many=True,
        read=readers.inherited,
    ),
    Setting(
        name="allow-host",
        about="Host that jobs may use for files and outputs: any, a name, *.DOMAIN, an address or network, with or "
        "without :PORT (docs/files.md). Default: any, except this node and the center. Repeatable.",
        programs=BOTH,
        metavar="HOST",
        many=True,
        field="",
    ),
    Setting(
        name="allow-scheme",
        about="Scheme that jobs may use for files and outputs, instead of the usual ones. Repeatable.",
        programs=BOTH,
        metavar="SCHEME",
        many=True,
        field="",
    ),
    Setting(
        name="map-user",
        about="Account that runs a user's tasks, if its name differs (docs/task-accounts.md). Repeatable.",
        programs=BOTH,
        metavar="USER=ACCOUNT",
        many=True,
        field="",
    ),
    Setting(
        name="root-group",
        about="Group whose tasks may run as root and as system accounts. Repeatable.",
        programs=BOTH,
        metavar="GROUP",
        many=True,
        field="",
    ),
    Setting(name="keep-tasks", about="Let tasks run on when this program stops.", programs=BOTH, value_type=SWITCH),
    Setting(
        name="keep-logs",
        about="How long to keep the output of tasks (docs/history.md).",
        programs=BOTH,
        metavar="DURATION",
        default="7d",
        read=readers.seconds,
    ),
    Setting(
        name="keep-logs-size",
        about="Maximum size of all kept output of tasks.",
        programs=BOTH,
        metavar="SIZE",
        default="1G",
        read=readers.size,
    ),
    Setting(
        name="egress",
        about="Limit the egress of containers on this interface. Cress replaces its queueing discipline.",
        programs=ONE,  # several executors cannot share one queue
        metavar="INTERFACE",
    ),
    Setting(
        name="log-size",
        about="Size kept of the end of each output stream of a task, if its job sets none.",
        programs=BOTH,
        metavar="SIZE",
        default="64M",
        read=readers.size,
    ),
    Setting(
        name="no-overload",
        about="Accept tasks even if the node is overloaded; its load is only reported.",
        programs=ONE,  # always on in `cress up`: measurements of the machine do not describe a single executor
        value_type=SWITCH,
        field="judged",
        read=readers.opposite,
    ),
    Setting(
        name="devices",
        about="File with the disks, GPUs and other devices of the node (docs/devices.md).",
        programs=BOTH,
        metavar="FILE",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="data-path",
        about="Paths of data that jobs may prefer to be near, such as '/data/sets/*' (docs/data.md). Repeatable.",
        programs=BOTH,
        metavar="PATTERN",
        many=True,
        field="",
    ),
    Setting(
        name="no-discovery",
        about="Do not detect disks and GPUs; offer only those in --devices.",
        programs=ONE,  # always on in `cress up`: two executors would offer the same device
        value_type=SWITCH,
        field="discover",
        read=readers.opposite,
    ),
)
