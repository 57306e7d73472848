"""Devices that cannot be used are refused in our words, with what to use instead."""

from __future__ import annotations

import pytest
import torch

from unmask.errors import InvalidValueError
from unmask.models.device import choose_device
from unmask.models.load import load_model


def refused(name: str) -> InvalidValueError:
    with pytest.raises(InvalidValueError) as caught:
        load_model("unmask-tiny", device=name)
    error = caught.value
    assert error.param == "device"
    assert name in error.message
    assert error.hint
    assert len(str(error).splitlines()) == 1
    return error


def test_what_is_there():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda")


@pytest.mark.parametrize("name", ["meta", "cuda:-1", "cuda:x", "cpu:1", "mps:0", "gpu", "cuda:\u0661", ""])
def test_what_is_no_device_for_a_model(name):
    assert "is no device" in refused(name).message


def test_no_accelerator(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    for name in ("cuda", "cuda:1", "xpu"):
        error = refused(name)
        assert error.message == f"Device '{name}' cannot be used."
        assert "--device cpu" in error.hint
        assert name.partition(":")[0] in error.hint
    assert choose_device("auto").type == "cpu"


def test_a_number_beyond_the_last(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert "There are 2" in refused("cuda:2").hint


def test_apples_gpus_lack_the_numbers():
    assert "float64" in refused("mps").hint


def test_a_driver_that_fails_says_why_in_one_line(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported\nelsewhere")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "empty", broken)
    with pytest.raises(InvalidValueError, match=r"cannot be used: CUDA error: out of memory Use cpu"):
        choose_device("cuda:0")
