"""The ``options`` of a request."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from unmask.serving.extension import UnmaskOptions
from unmask.serving.stop import Stop
from unmask.serving.wire import Only, WireModel


class Options(WireModel):
    """How to decode. ``Only`` options pass with values that ask for nothing. Those at the end say how to load a model,
    or belong to an option that is refused: they change nothing.
    """

    foreign_names: ClassVar[dict[str, str]] = {
        "max_tokens": "num_predict",
        "max_completion_tokens": "num_predict",
        "max_output_tokens": "num_predict",
        "max_new_tokens": "num_predict",
        "n_predict": "num_predict",
        "n_ctx": "num_ctx",
        "max_context": "num_ctx",
        "stop_sequences": "stop",
        "repetition_penalty": "repeat_penalty",
    }

    num_predict: int | None = None
    num_ctx: Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    seed: int | None = None
    stop: Stop | None = None
    unmask: UnmaskOptions | None = None

    mirostat: Annotated[Any, Only(0)] = None
    tfs_z: Annotated[Any, Only(1)] = None
    typical_p: Annotated[Any, Only(1)] = None
    embedding_only: Annotated[Any, Only(False)] = None
    logits_all: Annotated[Any, Only(False)] = None
    vocab_only: Annotated[Any, Only(False)] = None

    f16_kv: bool | None = None
    low_vram: bool | None = None
    main_gpu: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None
    num_batch: int | None = None
    num_gpu: int | None = None
    num_keep: int | None = None
    num_thread: int | None = None
    numa: bool | None = None
    penalize_newline: bool | None = None
    use_mlock: bool | None = None
    use_mmap: bool | None = None
