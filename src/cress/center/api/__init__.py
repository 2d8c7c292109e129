"""The API for people and programs: REST under ``/v1``, described in ``docs/api.md`` and by ``/openapi.json``."""
