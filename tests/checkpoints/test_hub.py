"""Models of the hub: from the cache without the library or a network, else downloaded, else one clear error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import types

import pytest

from tests.foreign_models import tiny_copy
from unmask.checkpoints.directory import find_checkpoint, open_checkpoint
from unmask.checkpoints.hub import HubModel, cache_directory
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError, UnmaskError

COMMIT, OTHER = "0123456789abcdef" * 2 + "01234567", "f" * 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no network."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "hub"


def put(cache, commit=COMMIT, ref="main", repo="org--name", **changes):
    """Put the embedded model into the cache, as the hub's library lays it out; return its directory."""
    folder = cache / f"models--{repo}"
    blobs = tiny_copy(folder / "blobs" / commit, **changes)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    if ref:
        (folder / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
    return snapshot


class FakeHub:
    """Stands in for ``huggingface_hub``: has one model, and notes what it was asked."""

    def __init__(self, monkeypatch, source=None, error=None):
        self.source, self.error, self.asked, self.options = source, error, [], {}
        module = types.ModuleType("huggingface_hub")
        module.HfApi = lambda: self
        module.snapshot_download = self.snapshot_download
        monkeypatch.setitem(sys.modules, "huggingface_hub", module)
        monkeypatch.delenv("HF_HUB_OFFLINE")

    def model_info(self, repo, *, revision, timeout):
        assert timeout < 30
        self.asked.append((repo, revision))
        if self.error is not None:
            raise self.error

    def snapshot_download(self, repo, **options):
        self.options = options
        return str(self.source(options["cache_dir"]))


@pytest.mark.parametrize(
    ("text", "repo", "revision"),
    [
        ("GSAI-ML/LLaDA-8B-Instruct", "GSAI-ML/LLaDA-8B-Instruct", "main"),
        ("org/name@v1.0", "org/name", "v1.0"),
        ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
        (f"org/name@{COMMIT}", "org/name", COMMIT),
    ],
)
def test_ids(text, repo, revision):
    assert HubModel.parse(text) == HubModel(repo, revision)


@pytest.mark.parametrize(
    "text",
    ["name", "/org/name", "./org/name", "../name", "~/name", "a/b/c", "org/", "/name", "org/name@", "org/name@../x",
     "org/name@a/../../b", "org/name@/etc", "org/.name", "o" * 97 + "/name", "org/na me", "org/näme", "a/b\n", ""],
)  # fmt: skip
def test_what_is_no_id(text):
    assert HubModel.parse(text) is None


def test_the_cache_is_where_the_library_has_it(cache, tmp_path, monkeypatch):
    assert cache_directory() == cache
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "huggingface" / "hub"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "huggingface" / "hub"


def test_a_cached_model_opens_under_its_id(cache):
    snapshot = put(cache)
    for model in ("org/name", "org/name@main", f"org/name@{COMMIT}"):
        checkpoint = open_checkpoint(model)
        assert (checkpoint.name, checkpoint.path) == ("org/name", snapshot)


def test_each_revision_is_a_model_of_its_own(cache):
    put(cache)
    branch = put(cache, OTHER, "refs/pr/1")
    assert open_checkpoint("org/name@refs/pr/1").path == branch
    assert open_checkpoint(f"org/name@{OTHER}").path == branch
    assert open_checkpoint("org/name").path != branch
    with pytest.raises(CheckpointNotFoundError, match="org/name"):
        open_checkpoint("org/name@v2")


def test_a_path_wins(cache, tmp_path):
    put(cache)
    (tmp_path / "org").mkdir()
    tiny_copy(tmp_path / "org" / "name")
    checkpoint = open_checkpoint("org/name")
    assert checkpoint.path.resolve() == tmp_path / "org" / "name"
    assert checkpoint.name == "name"


def test_a_cached_model_needs_no_library(cache):
    put(cache)
    code = (
        "import sys; from unmask.checkpoints.directory import open_checkpoint; open_checkpoint('org/name');"
        "assert not {'huggingface_hub', 'torch'} & set(sys.modules)"
    )
    environment = os.environ | {"HF_HOME": str(cache.parent)}
    environment.pop("HF_HUB_OFFLINE")
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors", "shard", "blob"])
def test_half_a_model_is_as_good_as_none(cache, lacking):
    snapshot = put(cache)
    if lacking == "shard":
        (snapshot / "model.safetensors.index.json").write_text(
            '{"weight_map": {"a": "model-00002-of-00002.safetensors"}}'
        )
    elif lacking == "blob":
        (snapshot / "model.safetensors").resolve().unlink()
    else:
        (snapshot / lacking).unlink()
    with pytest.raises(CheckpointNotFoundError, match="whole model"):
        open_checkpoint("org/name")


def test_what_else_is_cached_is_refused_by_name(cache):
    adapter, pickled = put(cache, repo="org--adapter"), put(cache, repo="org--pickled")
    (adapter / "config.json").rename(adapter / "adapter_config.json")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    put(cache, repo="org--llama", architectures=["LlamaForCausalLM"], model_type=None, mask_token_id=None)
    codes = {}
    for name in ("adapter", "pickled", "llama"):
        with pytest.raises(UnmaskError) as caught:
            open_checkpoint(f"org/{name}")
        codes[name] = caught.value.code
    assert codes == {"adapter": "adapter_not_model", "pickled": "pickle_refused", "llama": "autoregressive_model"}


@pytest.mark.parametrize("content", [b"", b"../../../etc", b"\xff\xfe", b"x" * 5000, b"/etc"])
def test_a_hostile_reference(cache, content):
    put(cache)
    (cache / "models--org--name" / "refs" / "main").write_bytes(content)
    with pytest.raises(CheckpointNotFoundError):
        open_checkpoint("org/name")


def test_a_reference_that_is_no_file(cache):
    put(cache)
    ref = cache / "models--org--name" / "refs" / "main"
    ref.unlink()
    os.mkfifo(ref)
    with pytest.raises(CheckpointNotFoundError):
        open_checkpoint("org/name")


def test_what_is_not_cached_offline(cache):
    with pytest.raises(CheckpointNotFoundError) as caught:
        open_checkpoint("org/name@v1")
    assert str(cache) in caught.value.message
    assert "HF_HUB_OFFLINE" in caught.value.message
    assert "hf download org/name --revision v1" in caught.value.hint


def test_a_download_fetches_what_unmask_reads(cache, monkeypatch):
    hub = FakeHub(monkeypatch, source=lambda cache_dir: put(cache_dir))
    checkpoint = open_checkpoint("org/name")
    assert (checkpoint.name, hub.asked) == ("org/name", [("org/name", "main")])
    assert hub.options["cache_dir"] == cache
    wanted, unwanted = hub.options["allow_patterns"], hub.options["ignore_patterns"]
    assert not any(pattern.endswith((".py", ".bin", "*")) for pattern in wanted)
    assert unwanted == ["*/*"]
    open_checkpoint("org/name")
    assert len(hub.asked) == 1  # it is in the cache now


def test_the_library_takes_the_patterns_as_meant(cache, monkeypatch):
    from huggingface_hub.utils import filter_repo_objects

    hub = FakeHub(monkeypatch, source=lambda cache_dir: put(cache_dir))
    open_checkpoint("org/name")
    files = [
        "config.json", "model-00001-of-00002.safetensors", "tokenizer.json", "chat_template.jinja", "modeling.py",
        "tokenization.py", "pytorch_model.bin", "model.gguf", "original/model.safetensors", "README.md",
    ]  # fmt: skip
    patterns = {name: hub.options[name] for name in ("allow_patterns", "ignore_patterns")}
    assert list(filter_repo_objects(files, **patterns)) == files[:4]


def test_half_a_download_is_said_to_be_half(cache, monkeypatch):
    def half(cache_dir):
        snapshot = put(cache_dir)
        (snapshot / "model.safetensors").unlink()
        return snapshot

    FakeHub(monkeypatch, source=half)
    with pytest.raises(InvalidCheckpointError, match="lacks its weights"):
        open_checkpoint("org/name")


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("404: no such model\nsecond line"), KeyError()])
def test_a_failed_download_is_one_error(cache, monkeypatch, error):
    FakeHub(monkeypatch, error=error)
    with pytest.raises(CheckpointNotFoundError) as caught:
        open_checkpoint("org/name")
    assert "downloading it failed" in caught.value.message
    assert "\n" not in caught.value.message
    assert "hf download org/name" in caught.value.hint


def test_inspection_downloads_nothing(cache, monkeypatch):
    hub = FakeHub(monkeypatch)
    with pytest.raises(CheckpointNotFoundError, match="'unmask serve'"):
        find_checkpoint("org/name", download=False)
    assert hub.asked == []


def test_without_a_network_the_real_library_gives_up_quickly(cache, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # read when the library is first imported
    shutil.rmtree(cache, ignore_errors=True)
    begun = time.monotonic()
    code = "from unmask.checkpoints.directory import open_checkpoint; open_checkpoint('org/name')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "CheckpointNotFoundError" in done.stderr
    assert "downloading it failed" in done.stderr
    assert time.monotonic() - begun < 30
