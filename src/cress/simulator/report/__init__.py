"""``report.html``: one self-contained page that compares the runs; it needs no network."""

from __future__ import annotations

from cress.simulator.report.page import plotly_script, write_report

__all__ = ["plotly_script", "write_report"]
