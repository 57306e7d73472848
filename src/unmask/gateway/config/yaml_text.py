"""YAML as plain values, safely: no tags of others, no key twice, and no more values than the text seems to hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from unmask.gateway.config.document import MOST_DEPTH, MOST_VALUES, Document, Path, check_key
from unmask.shown import cut, shown

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset({f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float", "str")})
_AS_TEXT = frozenset({f"{_TAG}{kind}" for kind in ("timestamp", "value")})  # what only looks like something else
_MERGE = f"{_TAG}merge"
_LONGEST_NUMBER = 100


def read_yaml(text: str, file: str) -> Document:
    """The values of ``text``, the content of ``file``. Raises ``InvalidConfigError``."""
    document = Document(None, file)
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return replace(document, value={})
        return replace(document, value=_Builder(loader, document).build(node, ()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        words = ", ".join(filter(None, [error.context, error.problem]))
        raise document.fault((), f"is not YAML{where}: {cut(words)}.") from None
    except RecursionError:
        raise document.fault((), f"lies over {MOST_DEPTH} levels deep.") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise document.fault((), f"is not YAML: {cut(str(error).splitlines()[0] if str(error) else error)}.") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Builder:
    """Makes values of nodes. An alias is built again wherever it stands, so that it counts again."""

    def __init__(self, loader: yaml.SafeLoader, document: Document) -> None:
        self._loader, self._document = loader, document
        self._count = 0

    def build(self, node: yaml.Node, path: Path) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._document.fault((), f"has over {MOST_VALUES} values.")
        if len(path) > MOST_DEPTH:
            raise self._document.fault(path, f"lies over {MOST_DEPTH} levels deep.")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.build(inner, (*path, number)) for number, inner in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        raise self._foreign(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = self._merged(value_node, path) | merged
                continue
            key = self.build(key_node, path)
            check_key(self._document, path, key)
            line = key_node.start_mark.line + 1
            if key in own:
                raise self._document.fault((*path, key), f"is there again in line {line}.")
            self._document.lines[(*path, key)] = line
            own[key] = self.build(value_node, (*path, key))
        return merged | own

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        """What ``<<`` brings in; of several mappings the earlier ones win."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for inner in nodes:
            if not isinstance(inner, yaml.MappingNode):
                raise self._document.fault(path, "has a '<<' that is no mapping.")
            found = self.build(inner, (*path, "<<")) | found
        return found

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        if node.tag in _AS_TEXT:
            return node.value
        if node.tag not in _SCALARS:
            raise self._foreign(node, path)
        if node.tag in (f"{_TAG}int", f"{_TAG}float") and len(node.value) > _LONGEST_NUMBER:
            raise self._document.fault(path, f"is a number of over {_LONGEST_NUMBER} characters.")
        try:
            return self._loader.construct_object(node)
        except (ValueError, KeyError, yaml.YAMLError):  # a tag that was written out, over another kind of text
            raise self._document.fault(path, f"is {shown(node.value)}, which its tag does not fit.") from None

    def _foreign(self, node: yaml.Node, path: Path) -> Exception:
        return self._document.fault(path, f"has the tag {shown(node.tag)}; only plain values are read.")
