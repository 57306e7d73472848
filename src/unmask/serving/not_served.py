"""Endpoints that clients of the dialects, and of vLLM, may ask for and that are not served here: they say why."""

from __future__ import annotations

from fastapi import APIRouter

from unmask.errors import NotServedError
from unmask.serving.security.needs import needs

router = APIRouter(include_in_schema=False)

_FIXED = "This server serves the models that it was started with; start 'unmask serve' with others."
_NO_VECTORS = "The model writes text; it makes no vectors of it."
_NO_SCORES = "The model writes text; it does not rank or classify any."
_TEXT_ONLY = "The model reads and writes text only."
_NO_FILES = "No files are kept here; what the model shall read goes into the request."
_NO_BATCHES = (
    "Send the requests as they are, many at a time; those with the option 'priority': \"batch\" of the 'unmask' object "
    "let others go first."
)
_NO_CONVERSATIONS = "Send the conversation with each request, or go on from 'previous_response_id' in /v1/responses."
_NO_TRAINING = "Nothing is trained here; adapters are given to 'unmask serve' with --lora."

# A path stands for all below it too.
NOT_SERVED = {
    "/api/pull": _FIXED,
    "/api/push": _FIXED,
    "/api/create": _FIXED,
    "/api/copy": _FIXED,
    "/api/delete": _FIXED,
    "/api/blobs": _FIXED,
    "/api/embed": _NO_VECTORS,
    "/api/embeddings": _NO_VECTORS,
    "/v1/embeddings": _NO_VECTORS,
    "/pooling": _NO_VECTORS,
    "/v1/rerank": _NO_SCORES,
    "/v2/rerank": _NO_SCORES,
    "/rerank": _NO_SCORES,
    "/v1/score": _NO_SCORES,
    "/score": _NO_SCORES,
    "/classify": _NO_SCORES,
    "/v1/moderations": _NO_SCORES,
    "/v1/audio": _TEXT_ONLY,
    "/v1/images": _TEXT_ONLY,
    "/v1/videos": _TEXT_ONLY,
    "/v1/files": _NO_FILES,
    "/v1/uploads": _NO_FILES,
    "/v1/vector_stores": _NO_FILES,
    "/v1/batches": _NO_BATCHES,
    "/v1/messages/batches": _NO_BATCHES,
    "/v1/conversations": _NO_CONVERSATIONS,
    "/v1/threads": _NO_CONVERSATIONS,
    "/v1/assistants": _NO_CONVERSATIONS,
    "/v1/fine_tuning": _NO_TRAINING,
}


def _refuse(path: str, reason: str) -> None:
    @router.api_route(path, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
    @router.api_route(path + "/{below:path}", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
    @needs("generate")
    async def refused() -> None:
        raise NotServedError(f"{path} is not served.", hint=reason)


for _path, _reason in NOT_SERVED.items():
    _refuse(_path, _reason)
