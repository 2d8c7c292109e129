"""The log of a center on standard error: sentences for people, or one JSON object a line for collectors of logs."""

from __future__ import annotations

import json
import logging
import sys
import time

from cress.model.log_format import LogFormat


class JsonLines(logging.Formatter):
    """Writes a record as an object: ``time`` (UTC, ISO 8601), ``level``, ``logger``, ``message``, ``error``.

    ``error`` is a traceback, if there is one; line breaks are escaped, so that a record is always one line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def begin_log(form: LogFormat) -> None:
    """Write warnings and errors of this process on standard error in this form."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("cress center: %(message)s")
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else text)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
