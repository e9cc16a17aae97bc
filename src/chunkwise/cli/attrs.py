"""``chunkwise attrs``: show, set and remove the attributes of an array or group."""

from __future__ import annotations

import argparse
import json

from chunkwise.api.attributes import (
    get_attribute_value,
    read_attributes,
    remove_attribute_value,
    set_attribute_value,
)
from chunkwise.api.location import locate
from chunkwise.cli.command import print_json
from chunkwise.cli.options import parse_json

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise attrs PATH                      show all attributes
  chunkwise attrs PATH get KEY              show one
  chunkwise attrs PATH set KEY JSON         set one: numbers, "text", [1, 2], {"a": null} ...
  chunkwise attrs PATH rm KEY               remove one

In N5, KEY is a path such as multiscales[0]/name.  Members that say how blocks are stored are protected.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="array or group")
    actions = parser.add_subparsers(dest="action", metavar="get | set | rm")
    get = actions.add_parser("get", help="show one attribute")
    change = actions.add_parser("set", help="set one attribute")
    remove = actions.add_parser("rm", help="remove one attribute")
    for action in (get, change, remove):
        action.add_argument("key", metavar="KEY")
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    change.add_argument("value", metavar="JSON", help="the value; text needs its quotes")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    location = locate(arguments.path)
    if arguments.action == "set":
        value = parse_json(arguments.value, f'attrs set "{arguments.key}"')
        set_attribute_value(location, arguments.key, value)
        return 0
    if arguments.action == "rm":
        remove_attribute_value(location, arguments.key)
        return 0
    if arguments.action == "get":
        value = get_attribute_value(location, arguments.key)
        if arguments.json:
            print_json(value)
        else:
            print(json.dumps(value, ensure_ascii=False))
        return 0
    attributes = read_attributes(location)
    if arguments.json:
        print_json(attributes)
        return 0
    for name, value in attributes.items():
        print(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    return 0
