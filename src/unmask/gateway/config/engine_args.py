"""Flags of a model's own for the program that serves it, and which of them are refused. Pure.

Refused is what would move the engine from the address, the secret or the model that Unmask gives it, let others reach
it, fetch from the network or run code that comes with a model; and what the configuration has a key of its own for.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from unmask.errors import InvalidConfigError
from unmask.gateway.config.wanted import WantedModel
from unmask.gateway.lane import PACKAGE, Lane, LaneKind
from unmask.refusal import Refusal

_ADDRESS = "Unmask chooses the address"
_SECRET = "Unmask chooses the secret that requests must carry"
_MODEL = "the model is that of its 'path', under its name here"
_OPENS = "it lets others reach the engine, or the engine reach others"
_SAVES = "'session_store' of the file as a whole says what is kept of conversations"
_FILE = "what stands in that file cannot be looked at"
_CODE = "it has the engine run code that comes with a model or a request"


def _key(name: str) -> str:
    return f"the model's own '{name}' says it"


# By kind of engine and by the reason, what is refused. "*" stands for whatever follows.
_REFUSED: Mapping[LaneKind, Mapping[str, str]] = {
    "llama.cpp": {  # by b11549
        _ADDRESS: "--host --port --reuse-port --api-prefix --server-base",
        _SECRET: "--api-key --api-key-file --ssl-*",
        _MODEL: "-m --model -a --alias --models-*",
        _OPENS: "--model-url -mu --mmproj-url -mmu --docker-repo -dr -hf* --hf-* --spec-draft-hf --rpc --cors-* --path "
        "--media-path --embd-gemma-* --embd-bge-* --embd-e5-* --fim-* --gpt-oss-* --vision-* --tts-oute-*",
        _CODE: "--agent -ag --tools --tools-runtime --mcp-* --ui-mcp-proxy --webui-mcp-proxy",
        _SAVES: "--slot-save-path --log-prompts-dir",
        _key("context"): "--ctx-size -c",
        _key("slots"): "--parallel -np",
        _key("threads"): "--threads -t --threads-batch -tb",
        _key("gpu_layers"): "--gpu-layers --n-gpu-layers -ngl",
    },
    "vllm": {
        _ADDRESS: "--host --port --uds --root-path --headless",
        _SECRET: "--api-key --ssl-*",
        _MODEL: "--model --model-tag --served-model-name --tokenizer --tokenizer-revision --revision --code-revision "
        "--hf-config-path --hf-token",
        _FILE: "--config",
        _OPENS: "--allow-credentials --allowed-origins --allowed-methods --allowed-headers --master-* --nnodes "
        "--node-rank --grpc* --data-parallel-address -dpa --data-parallel-rpc-port -dpp --kv-transfer-config "
        "--ec-transfer-config --kv-events-config --otlp-traces-endpoint --tool-server --allowed-local-media-path",
        _CODE: "--trust-remote-code --middleware --worker-cls --worker-extension-cls --scheduler-cls "
        "--logits-processors --tool-parser-plugin --reasoning-parser-plugin --io-processor-plugin",
        _key("context"): "--max-model-len",
    },
    "sglang": {
        _ADDRESS: "--host --port --fastapi-root-path --grpc*",
        _SECRET: "--api-key --admin-api-key --ssl-*",
        _MODEL: "--model --model-path --served-model-name --tokenizer-path --revision",
        _FILE: "--config",
        _OPENS: "--nccl-* --dist-init-addr --nnodes --node-rank --disaggregation-* --remote-* --kv-events-config "
        "--otlp-traces-endpoint --tool-server",
        _CODE: "--trust-remote-code --enable-custom-logit-processor",
        _key("context"): "--context-length",
    },
}


def takes_arguments(lane: Lane) -> bool:
    """Whether flags can be given to the program of ``lane``. That of the package is ours, and takes no others."""
    return lane.kind in _REFUSED and lane.name != PACKAGE


def refused_arguments(entry: WantedModel, lane: Lane) -> Refusal | None:
    """Why ``entry`` is not served by ``lane`` with the flags that it says; None if they are left to the engine."""
    if not entry.engine_args:
        return None
    where = f"'engine_args' of the model '{entry.name}' ({entry.origin})"
    if not takes_arguments(lane):
        return Refusal(
            InvalidConfigError.code,
            f"{where} cannot be given to the engine that it goes to, {lane.name}.",
            "Name with 'lane' an engine that takes them, a llama-server, SGLang or vLLM that was made known with "
            "'unmask engine add'; or leave them out.",
        )
    for word in entry.engine_args:
        if why := _objection(word, lane.kind):
            message = f"{where} must not have '{word.partition('=')[0]}': {why}."
            return Refusal(InvalidConfigError.code, message, "Leave it out.")
    return None


def _objection(word: str, kind: LaneKind) -> str:
    """Why ``word`` is refused, "" if it is not. Python's engines take flags that are cut short, or have underscores; a
    value may stand behind ``=``. vLLM takes parts of an object as flags of their own: ``--kv-events-config.endpoint``.
    """
    flag = word.partition("=")[0].replace("_", "-")
    if kind == "vllm":
        flag = flag.partition(".")[0]
    shortened = kind != "llama.cpp" and flag.startswith("--") and len(flag) > len("--")
    for why, names in _REFUSED[kind].items():
        for name in names.split():
            if fnmatchcase(flag, name) or (shortened and name.startswith(flag)):
                return why
    return ""
