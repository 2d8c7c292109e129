"""Calls about files: those that submitters upload, and those that tasks leave."""

from __future__ import annotations

from cress.protocol.bodies import UploadBody
from cress.protocol.calls.row import CallRow
from cress.protocol.file_views import FilesPage, UploadsPage, UploadView
from cress.protocol.queries import FileQuery, FilesQuery, UploadQuery
from cress.protocol.rights import Action

UPLOADS = CallRow(
    "GET",
    "/v1/uploads",
    UploadsPage,
    about="the [uploads](files.md#from-where-you-stand) of the caller, with the limits of the center",
)
UPLOAD = CallRow(
    "POST",
    "/v1/uploads/{digest}",
    UploadView,
    body=UploadBody,
    shown='{"size": 5, "offset": 0, "data": "BASE64"}',
    needs=Action.SUBMIT,
    about=(
        "a part of a file for jobs of the caller; `digest` is the SHA-256 of the whole file, `size` its length. The "
        "answer says how many bytes have been `received`: the next part begins there, also after a break. With "
        "`complete` jobs may name the file as `upload:DIGEST`"
    ),
)
UPLOAD_CONTENT = CallRow(
    "GET",
    "/v1/uploads/{digest}/content",
    bytes,
    query=UploadQuery,
    about="the content of an upload of the caller from byte `offset` on; with a job token, of one that its job uses",
)
FILES = CallRow(
    "GET",
    "/v1/jobs/{id}/files",
    FilesPage,
    query=FilesQuery,
    steers=True,
    about=(
        "the files that a task has in its directory, by path, while the node keeps them; `next` of a page is `after` "
        "of the following one. `written`: without the input files that the program left unchanged"
    ),
)
FILE = CallRow(
    "GET",
    "/v1/jobs/{id}/files/content",
    bytes,
    query=FileQuery,
    steers=True,
    about="the content of one of these files from byte `offset` on, as it is at this moment. Links are not followed",
)
