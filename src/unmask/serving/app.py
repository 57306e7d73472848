"""The HTTP application: which routes there are, and what surrounds them."""

from __future__ import annotations

from fastapi import FastAPI

from unmask import __version__
from unmask.serving import health
from unmask.serving.dialects.anthropic_messages import models as anthropic_models
from unmask.serving.dialects.anthropic_messages import routes as anthropic_messages
from unmask.serving.dialects.anthropic_messages.envelope import envelope as anthropic_envelope
from unmask.serving.dialects.openai_chat import routes as openai_chat
from unmask.serving.dialects.openai_common import models as openai_models
from unmask.serving.dialects.openai_common.envelope import envelope as openai_envelope
from unmask.serving.dialects.openai_completions import routes as openai_completions
from unmask.serving.dialects.vllm_tokenizer import routes as vllm_tokenizer
from unmask.serving.errors import ErrorResponder
from unmask.serving.middleware import ApiKey, BodyLimit, RequestScope
from unmask.serving.served_model import ServedModel
from unmask.serving.settings import ServerSettings


def create_app(model: ServedModel, settings: ServerSettings) -> FastAPI:
    """The application that serves ``model``. Cross-origin requests are not allowed."""
    app = FastAPI(title="Unmask", version=__version__, docs_url=None, redoc_url=None)
    app.state.model = model
    app.state.settings = settings
    app.include_router(anthropic_models.router)  # before OpenAI's, which have the same paths
    for room in (anthropic_messages, openai_chat, openai_completions, openai_models, vllm_tokenizer, health):
        app.include_router(room.router)
    errors = ErrorResponder({"/": openai_envelope, "/v1/messages": anthropic_envelope})
    errors.install(app)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if settings.api_key is not None:
        app.add_middleware(ApiKey, key=settings.api_key, errors=errors)
    app.add_middleware(RequestScope, metrics=model.metrics, errors=errors)
    return app
