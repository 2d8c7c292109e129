"""Settings that only ``cress up`` has."""

from __future__ import annotations

from cress.model.program_settings.setting import UP, Setting, ValueType

LOCAL_SETTINGS = (
    Setting(
        name="executors",
        about="How many executors to start.",
        programs=(UP,),
        value_type=ValueType.NUMBER,
        default=1,
        least=1,
        most=1000,
        field="",
    ),
    Setting(
        name="node-resource",
        about="What each executor offers, as <cpu, memory, network, disk>. Default: its part of this machine.",
        programs=(UP,),
        metavar="RESOURCE",
        field="",
    ),
    Setting(
        name="racks",
        about="The racks of the executors in their order; one name: that of all.",
        programs=(UP,),
        metavar="NAME,…",
        field="",
    ),
)
