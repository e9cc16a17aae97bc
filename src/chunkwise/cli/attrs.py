"""``chunkwise attrs``: show, set and remove the attributes of an array or group."""

from __future__ import annotations

import argparse
import json

from chunkwise import Attributes
from chunkwise.cli.command import UsageError, show
from chunkwise.cli.options import parse_json
from chunkwise.cli.servers import add_action_arguments
from chunkwise.copying.resolve import resolve
from chunkwise.core.trees.attributes import check_changeable
from chunkwise.core.trees.node_attributes import with_path
from chunkwise.errors import NotFoundError
from chunkwise.extension import JSON
from chunkwise.extension.inside import MISSING, dump, get_attribute, parse_attribute_path, shown_text
from chunkwise.extension.trees import Node, read_attributes

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise attrs PATH                          show all attributes
  chunkwise attrs PATH get KEY                  show one
  chunkwise attrs PATH set KEY JSON [KEY JSON]  set one or several: numbers, "text", [1, 2], {"a": null} ...
  chunkwise attrs PATH rm KEY                   remove one

In every format KEY is a name, or a path into the value such as multiscales[0]/name; an attribute whose name
is exactly KEY comes first.  If a value along the path is not the object or list that the path needs, it is
replaced.  Several are set in one atomic write.  Members of N5 metadata that say how blocks are stored are
protected.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="array or group")
    actions = parser.add_subparsers(dest="action", metavar="get | set | rm")
    get = actions.add_parser("get", help="show one attribute")
    change = actions.add_parser("set", help="set attributes")
    remove = actions.add_parser("rm", help="remove one attribute")
    for action in (get, change, remove):
        action.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="JSON", help="the value; text needs quotes")
    change.add_argument(
        "more", metavar="KEY JSON", nargs="*", help="more attributes to set in the same write"
    )
    for action in (get, change, remove):
        add_action_arguments(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = resolve(arguments.path)
    if found.array is not None:
        raise UsageError(
            f"{shown_text(arguments.path)} is {found.what}, and has no attributes of its own; "
            "`chunkwise info` says what it is"
        )
    node = found.as_node()
    drivers = [None if at is None else at.store_spec.driver for at in (found.asked, node.location)]
    if arguments.action in ("set", "rm") and drivers[1] == "zip" != drivers[0]:
        text = node.location.text
        raise UsageError(f'{shown_text(arguments.path)} is an archive, which is changed only as "{text}"')
    if arguments.action == "get":
        value = _get(node, arguments.key)
        show(arguments, value, _text(value))
        return 0
    if arguments.action == "set":
        _set(node, _pairs([arguments.key, arguments.value, *arguments.more]))
    elif arguments.action == "rm":
        _remove(node, arguments.key)
    if arguments.json or arguments.action is None:
        attributes = read_attributes(node.location)
        show(arguments, attributes, *(f"{name} = {_text(value)}" for name, value in attributes.items()))
    return 0


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pairs(words: list[str]) -> list[tuple[str, JSON]]:
    if len(words) % 2:
        raise UsageError(f'attrs set: "{words[-1]}" has no value')
    pairs = zip(words[::2], words[1::2], strict=True)
    return [(key, parse_json(value, f'attrs set "{key}"')) for key, value in pairs]


def _get(node: Node, key: str) -> JSON:
    if node.rules.own_members(node.kind):  # what makes a dataset can be looked at too
        value = get_attribute(dict(node.document), key)
    else:
        attributes = Attributes(node)
        value = attributes[key] if key in attributes else attributes.get_path(key, MISSING)
    if value is MISSING:
        raise _missing(node, key)
    return value


def _set(node: Node, pairs: list[tuple[str, JSON]]) -> None:
    keeps_null = node.rules.keeps_null

    def change(stored: dict[str, JSON]) -> dict[str, JSON]:
        for key, value in pairs:
            if key in stored and keeps_null:
                stored = {**stored, key: value}
            else:
                stored = with_path(stored, key, value, keep_nulls=keeps_null)
        return stored

    Attributes(node, non_finite="literal").change(change)


def _remove(node: Node, key: str) -> None:
    attributes = Attributes(node, non_finite="literal")
    for name in parse_attribute_path(key)[:1]:
        check_changeable(str(name), node)
    try:
        if key in attributes and node.rules.keeps_null:
            attributes.pop(key)
        else:
            attributes.remove_path(key)
    except KeyError:
        raise _missing(node, key) from None


def _missing(node: Node, key: str) -> NotFoundError:
    return NotFoundError(f"{node.location.text} has no attribute {dump(key)}")
