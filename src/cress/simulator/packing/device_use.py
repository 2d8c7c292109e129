"""The use of the devices in a replay: over time, and of all of them at chosen moments."""

from __future__ import annotations

from dataclasses import dataclass

from cress.simulator.series import Steps


@dataclass(frozen=True)
class Moment:
    """All devices at a moment of the trace (µs): for each node the allocated thousandths of each device."""

    name: str
    time: int
    devices: list[list[int]]


@dataclass(frozen=True, kw_only=True)
class DeviceUse:
    """Allocated and unusable devices over time, as shares of the ``count`` devices.

    The means are from ``start`` to ``until`` (µs of the trace). **Unusable** devices are idle ones that the next task
    could not use, by the most frequent shapes of the workload.
    """

    count: int
    start: int
    until: int
    allocated: Steps
    unusable: Steps
    moments: tuple[Moment, ...]

    def summary(self) -> dict[str, float]:
        """Return the keys of ``summary.json``."""
        allocated, unusable = (steps.mean(self.start, self.until) for steps in (self.allocated, self.unusable))
        return {
            "devices_allocated_mean": allocated,
            "devices_unusable_mean": unusable,
            "devices_unusable_of_idle": unusable / (1.0 - allocated) if allocated < 1.0 else 0.0,
        }
