"""The HTTP application: which routes there are, and what surrounds them."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from unmask import __version__
from unmask.serving import health, not_served
from unmask.serving.access_log import AccessLog
from unmask.serving.dialects.anthropic_messages import models as anthropic_models
from unmask.serving.dialects.anthropic_messages import routes as anthropic_messages
from unmask.serving.dialects.anthropic_messages.envelope import envelope as anthropic_envelope
from unmask.serving.dialects.ollama import catalog as ollama_models
from unmask.serving.dialects.ollama import routes as ollama
from unmask.serving.dialects.ollama import running as ollama_running
from unmask.serving.dialects.ollama.envelope import envelope as ollama_envelope
from unmask.serving.dialects.openai_chat import routes as openai_chat
from unmask.serving.dialects.openai_common import models as openai_models
from unmask.serving.dialects.openai_common.envelope import envelope as openai_envelope
from unmask.serving.dialects.openai_completions import routes as openai_completions
from unmask.serving.dialects.openai_responses import routes as openai_responses
from unmask.serving.dialects.vllm_tokenizer import routes as vllm_tokenizer
from unmask.serving.errors import ErrorResponder
from unmask.serving.house import House
from unmask.serving.journal import Journal
from unmask.serving.journalling import Journalling
from unmask.serving.middleware import BodyLimit, HeaderLimit, RequestScope
from unmask.serving.observers.observers import Observers
from unmask.serving.operation import routes as operation
from unmask.serving.playground import routes as playground
from unmask.serving.response_store import ResponseStore
from unmask.serving.security.authorization import Authorization
from unmask.serving.security.key_ring import KeyRing
from unmask.serving.security.needs import Needs, needs
from unmask.serving.security.site_guard import SiteGuard
from unmask.serving.settings import ServerSettings

# What scripts of an allowed origin may read besides the body.
TOLD = ["x-request-id", "retry-after", "x-should-retry"] + [
    f"x-ratelimit-{what}-{unit}" for what in ("limit", "remaining", "reset") for unit in ("requests", "tokens")
]


def create_app(house: House, settings: ServerSettings, responses: ResponseStore | None = None) -> FastAPI:
    """The application that serves the models of ``house``. Raises ``InvalidKeyFileError``.

    ``responses``: where finished responses are kept; None keeps them in memory.
    """
    app = FastAPI(title="Unmask", version=__version__, docs_url=None, redoc_url=None)
    app.state.house = house
    app.state.settings = settings
    app.state.observers = Observers(house.metrics, settings)
    app.state.responses = ResponseStore() if responses is None else responses
    app.state.journal = Journal()
    # Anthropic's list of models comes before OpenAI's, which has the same paths.
    anthropic = (anthropic_models, anthropic_messages)
    openai = (openai_chat, openai_completions, openai_responses, openai_models, vllm_tokenizer)
    ollamas = (ollama, ollama_models, ollama_running)
    routers = [room.router for room in (*anthropic, *openai, *ollamas, operation, health, playground)]
    routes = [route for router in (*routers, not_served.router) for route in router.routes]
    for own in app.routes:  # FastAPI's: /openapi.json
        needs("models")(own.endpoint)  # type: ignore[attr-defined]
    all_needs = Needs([*app.routes, *routes])
    for router in (*routers, not_served.router):
        app.include_router(router)
    envelopes = {"": openai_envelope, "/v1/messages": anthropic_envelope, "/api/": ollama_envelope}
    errors = ErrorResponder(envelopes, {route.path for route in routes})
    errors.install(app)
    app.state.errors = errors
    _surround(app, house, settings, errors, all_needs)
    return app


def _surround(app: FastAPI, house: House, settings: ServerSettings, errors: ErrorResponder, all_needs: Needs) -> None:
    """What requests pass before they are looked at, from the inside out."""
    app.add_middleware(Journalling, journal=app.state.journal)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes, seconds=settings.receive_seconds)
    if settings.api_key is not None or settings.keys is not None:
        ring = KeyRing(settings.api_key, settings.keys)
        app.add_middleware(Authorization, ring=ring, needs=all_needs, metrics=house.metrics, errors=errors)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=TOLD,
        )
    app.add_middleware(
        SiteGuard,
        host=settings.host,
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        errors=errors,
    )
    app.add_middleware(HeaderLimit, errors=errors)
    if settings.access_log:
        app.add_middleware(AccessLog)
    app.add_middleware(RequestScope, metrics=house.metrics, errors=errors)
