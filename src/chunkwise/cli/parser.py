"""The parser of every command: its errors suggest names, and options have aliases that people try."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from chunkwise.cli.command import WRONG_USAGE, message
from chunkwise.errors import hint, nearest

__all__ = ["CommandParser", "grouped"]

# Aliases of options, in every command that has them; Python's functions say `chunks` and `shards`.
_FURTHER = {"--chunk": "--chunks", "--shard": "--shards", "--codec": "--codecs", "--quiet": "-q"}

# Options of other programs, and what they are called here.
_OTHERS = {
    "-L": "--depth",
    "--bind": "--host",
    "--chunk-shape": "--chunk",
    "--chunk-size": "--chunk",
    "--compression": "--codec",
    "--compressor": "--codec",
    "--clobber": "--overwrite",
    "--downscale": "--factors",
    "--convention": "--layout",
    "--force": "--overwrite",
    "--format": "--convention",
    "--jobs": "--on",
    "--layout": "--convention",
    "--max_layer": "--levels",
    "--n-levels": "--levels",
    "--processes": "--on",
    "--scale-factors": "--factors",
    "--shard-shape": "--shard",
    "--threads": "--on",
    "--units": "--scale",
    "--workers": "--on",
    "--zarr-format": "--format",
    "--zarr-version": "--format",
    "--zarr_version": "--format",
}

_REGION = re.compile(r"\[?[-\d:.,]*\]?")


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors have the usage of their own command, and suggest the nearest name."""

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Declare an argument; an option also under its alias."""
        names += tuple(_FURTHER[name] for name in names if name in _FURTHER)
        return super().add_argument(*sorted(names, key=lambda name: name.startswith("--")), **how)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an argument that is left over is an error of the command that it was given to."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._left_over(left))
        return found, left

    def error(self, text: str) -> NoReturn:
        """Print usage and `text`, and exit."""
        self.print_usage(sys.stderr)
        message(text)
        raise SystemExit(WRONG_USAGE)

    def below(self, name: str) -> CommandParser:
        """Return the parser of a command, or of an action of this one; exit if there is none."""
        commands = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        if not commands:
            self.error(f'there is no action "{name}": this command has none')
        try:
            self._check_value(commands[0], name)
        except argparse.ArgumentError as e:
            self.error(e.message)
        parser: CommandParser = commands[0].choices[name]
        return parser

    def _left_over(self, words: Sequence[str]) -> str:
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if option is None:
            return f"too many arguments: {' '.join(words)}{self._meant_by(words)}"
        own = _OTHERS.get(option)
        known = self._option_string_actions
        near = f'did you mean "{own}"?' if own in known else nearest(option, known)
        return f"there is no option {option}" + (f"; {near}" if near else "")

    def _meant_by(self, words: Sequence[str]) -> str:
        """Return what words that look like numbers or a region are to be written as."""
        if all(word.isdecimal() for word in words) and "--chunk" in self._option_string_actions:
            return "; sizes are one argument, with commas, such as --chunk 64,64"
        if "--region" in self._option_string_actions and all(map(_REGION.fullmatch, words)):
            return f"; a region is an option: --region '{','.join(word.strip('[],') for word in words)}'"
        return ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = hint(str(value), map(str, action.choices))
            if isinstance(action, argparse._SubParsersAction):
                what = "command" if action.metavar == "COMMAND" else "action"
                before = [str(one.metavar) for one in self._get_positional_actions() if one is not action]
                order = f"; {before[0]} comes first: {self.prog} {before[0]} …" if before else ""
                raise argparse.ArgumentError(None, f'there is no {what} "{value}"; {known}{order}')
            raise argparse.ArgumentError(action, f'there is no "{value}"; {known}')

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        # Two names of one option are not ambiguous.
        by_action = {id(found[0]): found for found in super()._get_option_tuples(option_string)}
        return list(by_action.values())


def grouped(headings: Mapping[str, str]) -> type[argparse.RawDescriptionHelpFormatter]:
    """Return a formatter of help with commands under `headings`, each before the command it names."""

    class Formatter(argparse.RawDescriptionHelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            text = super()._format_action(action)
            is_command = not action.option_strings and action.dest in headings
            return f"\n  {headings[action.dest]}:\n{text}" if is_command else text

    return Formatter
