"""Settings that only ``cress up`` has."""

from __future__ import annotations

from cress.model.program_settings.setting import UP, Setting, ValueType

LOCAL_SETTINGS = (
    Setting(
        name="executors",
        about="Number of executors to start.",
        programs=(UP,),
        value_type=ValueType.NUMBER,
        default=1,
        least=1,
        most=1000,
        field="",
    ),
    Setting(
        name="node-resource",
        about="Capacity of each executor, as <cpu, memory, network, disk>. Default: its share of this machine.",
        programs=(UP,),
        metavar="RESOURCE",
        field="",
    ),
    Setting(
        name="racks",
        about="Racks of the executors, in order; a single name holds for all.",
        programs=(UP,),
        metavar="NAME,…",
        field="",
    ),
    Setting(
        name="no-portal",
        about="Start no portal, the pages of the cluster in a browser.",
        programs=(UP,),
        value_type=ValueType.SWITCH,
        variable="CRESS_NO_PORTAL",
        field="",
    ),
    Setting(
        name="portal-port",
        about="Port of the portal; 0: that of the last time, or a free one.",
        programs=(UP,),
        value_type=ValueType.NUMBER,
        default=0,
        least=0,
        most=65535,
        field="",
    ),
)
