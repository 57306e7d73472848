"""What clients are told of models that are not served: the names of files, never where these are."""

from __future__ import annotations

import pytest

from unmask.errors import InsufficientMemoryError, ModelRefusedError
from unmask.refusal import Refusal, without_folders


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("'/srv/a b/x.gguf' is cut short.", "'x.gguf' is cut short."),
        ("'/srv/models/' holds no checkpoint.", "'models/' holds no checkpoint."),
        ("/srv/models/x.gguf: no such file", "x.gguf: no such file"),
        ("(/etc/unmask/models.yaml:3)", "(models.yaml:3)"),
        ("'~/models/x' and '/x/y'", "'x' and 'y'"),
        ("http://host:80/v1/models, a/b, HTTP/1.1", "http://host:80/v1/models, a/b, HTTP/1.1"),
    ],
)  # fmt: skip
def test_folders_are_left_out(text, told):
    assert without_folders(text) == told


def test_too_little_memory_has_a_status_of_its_own():
    large = Refusal("insufficient_memory", "It needs 3 GiB.", "Buy some.").answer("a")
    assert isinstance(large, InsufficientMemoryError)
    other = Refusal("checkpoint_not_found", "No '/a/b'.", "").answer("a")
    assert isinstance(other, ModelRefusedError)
    assert other.message == "Model 'a' is not served: No 'b'. [checkpoint_not_found]"
