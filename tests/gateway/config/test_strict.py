"""Whatever stands in a file, it is a configuration, or an error that names a key."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from unmask.errors import InvalidConfigError
from unmask.gateway.config.config import Config
from unmask.gateway.config.document import Document
from unmask.gateway.config.making import make_config
from unmask.gateway.config.reading import read_config
from unmask.gateway.config.schema import ConfigTable, DecodingTable, DefaultsTable, ModelTable

KEYS = sorted({key for table in (ConfigTable, ModelTable, DefaultsTable, DecodingTable) for key in table.model_fields})
WORDS = st.sampled_from([*KEYS, "unmask-tiny", "http://a/v1", "5m", "80%", "8GiB", "auto", "a b", "", "\0", "<<"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), WORDS, st.dates(), st.binary(max_size=4)
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, LEAVES), inner, max_size=4)),
    max_leaves=20,
)

# Almost right: the file's own keys, most of them with values that fit.
VALUES = {
    "path": st.sampled_from(["unmask-tiny", "x", "org/name", "~", "/"]),
    "url": st.sampled_from(["http://a/v1", "https://[::1]:80", "http://[", "http://a:b", "x"]),
    "aliases": st.lists(st.sampled_from(["a", "b", "c:d", "x y"]), max_size=3),
    "lora": st.dictionaries(st.sampled_from(["a", "b", "/"]), st.sampled_from(["x", "y"]), max_size=2),
    "keep_alive": st.sampled_from([-1, 0, 5, "5m", "x", None]),
    "service_classes": st.dictionaries(
        st.sampled_from(["a", "b"]), st.fixed_dictionaries({"floor": st.floats(0, 1), "relaxes_at": st.floats(0, 1)})
    ),
}
NUMBERS = st.one_of(st.integers(-1, 5000), st.booleans(), st.floats(), st.sampled_from(["cpu", "none", "full"]))
MODEL = st.fixed_dictionaries(
    {}, optional={key: VALUES.get(key, st.one_of(NUMBERS, ANYTHING)) for key in ModelTable.model_fields}
)
ALMOST = st.fixed_dictionaries(
    {},
    optional={
        **{key: st.one_of(NUMBERS, WORDS, ANYTHING) for key in ConfigTable.model_fields},
        "models": st.dictionaries(st.sampled_from(["a", "b", "c:d", "a:b", "x y"]), MODEL, max_size=3),
    },
)


def error_of(make) -> InvalidConfigError | None:
    """What ``make`` raises; any other error than this ends the test."""
    try:
        assert isinstance(make(), Config)
    except InvalidConfigError as error:
        return error
    return None


def judged(value: dict) -> None:
    """It is a configuration, or an error that says where."""
    error = error_of(lambda: make_config(Document(value, "x.yaml"), Path("/nowhere")))
    if error is None:
        return
    assert len(error.message) < 1000
    assert "\n" not in error.message
    if error.param is None:  # a key of the whole file that is none
        assert any(not isinstance(key, str) or len(key) > 200 for key in value)


@given(st.dictionaries(st.one_of(WORDS, LEAVES), ANYTHING, max_size=5))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@example({"models": {"a": {"url": "http://a:99999999/v1", "model": "m"}}})
@example({"models": {"a": {"path": "x" * 4000}}})
@example({"models": {"a": {"path": "\ud800"}}})
@example({"models": {"a": {"path": "x", "step_log": "~nobody/\0"}}})
@example({"models": {"a": {"path": "x", "defaults": {"seed": 10**400}}}})
@example({"memory_budget": 10**400})
@example({"idle_seconds": 10**400})
@example({"idle_seconds": "9" * 400 + "h"})
def test_any_mapping(value):
    judged(value)


@given(ALMOST)
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_almost_right(value):
    judged(value)


TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="ab:-{}[]&*!<>'\"\\ \n#|,?%@", max_size=80),
    ANYTHING.map(lambda value: yaml.safe_dump(value, allow_unicode=True)),
    ALMOST.map(yaml.safe_dump),
    st.sampled_from(["toml", "yaml"]),
)


@given(TEXTS, st.sampled_from([".yaml", ".toml"]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@example('a: "\\UFFFFFFFF"', ".yaml")
@example("%YAML 9.9\n---\na: 1", ".yaml")
@example("? [a, b]\n: 1", ".yaml")
@example("!<tag:yaml.org,2002:map> {a: 1}", ".yaml")
@example("!!map [a]", ".yaml")
@example("!!null {}", ".yaml")
@example("a: !!timestamp x", ".yaml")
@example("a: 1_000:99:99", ".yaml")
@example("a: 0o9", ".yaml")
@example("a: ._", ".yaml")
@example("=: 1", ".yaml")
def test_any_text(tmp_path, text, suffix):
    file = tmp_path / f"x{suffix}"
    file.write_text(text, errors="surrogatepass")
    error = error_of(lambda: read_config(file))
    assert error is None or str(file) in error.message
