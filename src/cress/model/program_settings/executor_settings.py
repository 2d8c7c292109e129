"""Settings of ``cress executor``, and those that ``cress up`` shares with it, for all its executors."""

from __future__ import annotations

from cress.model.node import DYNAMIC_PORTS
from cress.model.program_settings import readers
from cress.model.program_settings.setting import EXECUTOR, UP, Setting, ValueType

ONE, BOTH = (EXECUTOR,), (EXECUTOR, UP)
PATH, SWITCH = ValueType.PATH, ValueType.SWITCH

EXECUTOR_SETTINGS = (
    Setting(
        name="center",
        about="Where the center listens for executors; several, if several centers share a store.",
        programs=ONE,
        metavar="URL[,URL…]",
        needed=True,
        variable="CRESS_CENTER",
        field="center_url",
    ),
    Setting(
        name="token-file",
        about="The center's token. Default: token in ~/.local/share/cress.",
        programs=ONE,
        metavar="FILE",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="tls",
        about="The executor's bundle from `cress tls issue`, for wss:// (docs/tls.md); no token then.",
        programs=ONE,
        metavar="DIR",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="name",
        about="Name of the node. Default: the host's name.",
        programs=ONE,
        metavar="NAME",
        field="",
    ),
    Setting(
        name="data",
        about="Where journal and logs are kept. Default: executors/NAME in ~/.local/share/cress.",
        programs=ONE,
        metavar="DIR",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="resource",
        about="The capacity of the node. Default: that of the machine.",
        programs=ONE,
        metavar="RESOURCE",
    ),
    Setting(
        name="rack",
        about="The node's rack. Default: that of the center's topology.",
        programs=ONE,
        metavar="NAME",
    ),
    Setting(
        name="label",
        about="An attribute for constraints, such as ssd=true; several times.",
        programs=BOTH,
        metavar="NAME=VALUE",
        many=True,
        field="labels",
        read=readers.labels,
    ),
    Setting(
        name="accepts",
        about="The jobs that the node takes, such as 'Job.Group in (lab, web)'. Default: all.",
        programs=BOTH,
        metavar="EXPR",
    ),
    Setting(
        name="repel",
        about="The node takes only jobs that tolerate this name; several times.",
        programs=BOTH,
        metavar="NAME",
        many=True,
        field="repels",
        read=readers.once_each,
    ),
    Setting(
        name="address",
        about="Where tasks of the node are reached. Default: as it reaches the center.",
        programs=BOTH,
        metavar="ADDRESS",
    ),
    Setting(
        name="ports",
        about="The ports that tasks are given if they ask for any one.",
        programs=ONE,  # the executors of `cress up` share the usual ones
        metavar="FIRST-LAST",
        default=f"{DYNAMIC_PORTS[0]}-{DYNAMIC_PORTS[1]}",
        read=readers.ports,
    ),
    Setting(
        name="runtime",
        about="For jobs that do not say: process, container, or auto (docs/containers.md).",
        programs=BOTH,
        metavar="RUNTIME",
        default="process",
        read=readers.runtime,
    ),
    Setting(
        name="writable",
        about="A folder that containers may write to; several times.",
        programs=BOTH,
        metavar="DIR",
        value_type=PATH,
        many=True,
        field="",
    ),
    Setting(
        name="hide",
        about="A folder that containers do not see, such as a center's; several times.",
        programs=BOTH,
        metavar="DIR",
        value_type=PATH,
        many=True,
        field="",
    ),
    Setting(
        name="task-env",
        about="An environment variable that tasks inherit from the executor; several times.",
        programs=BOTH,
        metavar="NAME",
        many=True,
        read=readers.inherited,
    ),
    Setting(
        name="allow-host",
        about="A host that files and outputs of jobs may name: any, a name, *.DOMAIN, an address or network, with "
        ":PORT; several times (docs/files.md). Default: any, which leaves out this node and the center.",
        programs=BOTH,
        metavar="HOST",
        many=True,
        field="",
    ),
    Setting(
        name="allow-scheme",
        about="A kind of addresses that they may name, instead of the usual ones; several times.",
        programs=BOTH,
        metavar="SCHEME",
        many=True,
        field="",
    ),
    Setting(
        name="map-user",
        about="The account that runs a user's tasks, if it has another name (docs/task-accounts.md); several times.",
        programs=BOTH,
        metavar="USER=ACCOUNT",
        many=True,
        field="",
    ),
    Setting(
        name="root-group",
        about="A group whose tasks may run as root and as accounts of the system; several times.",
        programs=BOTH,
        metavar="GROUP",
        many=True,
        field="",
    ),
    Setting(name="keep-tasks", about="Leave tasks running when this stops.", programs=BOTH, value_type=SWITCH),
    Setting(
        name="keep-logs",
        about="How long the output of tasks is kept (docs/history.md).",
        programs=BOTH,
        metavar="DURATION",
        default="7d",
        read=readers.seconds,
    ),
    Setting(
        name="keep-logs-size",
        about="How much of the output of tasks is kept at most.",
        programs=BOTH,
        metavar="SIZE",
        default="1G",
        read=readers.size,
    ),
    Setting(
        name="egress",
        about="Limit the egress of containers on this interface; Cress replaces its queue.",
        programs=ONE,  # one queue cannot be that of several executors
        metavar="INTERFACE",
    ),
    Setting(
        name="log-size",
        about="Bytes kept of each stream of a task, if its job sets no limit.",
        programs=BOTH,
        metavar="SIZE",
        default="64M",
        read=readers.size,
    ),
    Setting(
        name="no-overload",
        about="Only report the node's load: it takes tasks even if overloaded.",
        programs=ONE,  # of `cress up` always: what is measured of the machine says nothing of any one executor
        value_type=SWITCH,
        field="judged",
        read=readers.opposite,
    ),
    Setting(
        name="devices",
        about="The disks, GPUs and other devices of the node, one by one (docs/devices.md).",
        programs=BOTH,
        metavar="FILE",
        value_type=PATH,
        field="",
    ),
    Setting(
        name="data-path",
        about="Paths that jobs may want to be near, such as '/data/sets/*' (docs/data.md).",
        programs=BOTH,
        metavar="PATTERN",
        many=True,
        field="",
    ),
    Setting(
        name="no-discovery",
        about="No disks and GPUs but those that --devices names.",
        programs=ONE,  # of `cress up` always: two executors would offer the same device
        value_type=SWITCH,
        field="discover",
        read=readers.opposite,
    ),
)
