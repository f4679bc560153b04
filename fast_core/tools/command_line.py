"""Commands as functions: what their parameters are annotated with is what can be typed.

On argparse, which costs a command nothing to import; nothing else of FastLoop is imported here.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

Run = Callable[..., int]
WRONG_USE = 2
_METAVARS: dict[object, str] = {int: "N", float: "X", Path: "PATH", str: "TEXT"}
_WIDTH = 100
# What other programs call a command.
_OTHER_NAMES = {
    **dict.fromkeys(("run", "start"), "launch"),
    **dict.fromkeys(("learn", "fit"), "train"),
    **dict.fromkeys(("evaluate", "test"), "eval"),
    **{"enjoy": "play", "ls": "list", "tune": "sweep", "help": "--help", "kill": "stop"},
}


@dataclass(frozen=True)
class Argument:
    """A parameter that is given by its place.

    Attributes:
        metavar: What stands for it in the usage.
        help: A sentence.
        words: What completes it, see `fast_core.tools.completion`.
    """

    metavar: str
    help: str
    words: str = ""


@dataclass(frozen=True)
class Option:
    """A parameter that is given by its name.

    Attributes:
        names: ``-o --output``, or for switches ``--yes/--no``; by default from the parameter's
            name.
        help: A sentence.
        metavar: What stands for its value.
        least, most: Limits of a number.
        words: What completes its value, see `fast_core.tools.completion`.
    """

    names: str = ""
    help: str = ""
    metavar: str = ""
    least: float | None = None
    most: float | None = None
    words: str = ""


class WrongUse(Exception):
    """What was typed is none of the command's forms."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # -1e3 too; no option begins so

    def error(self, message: str) -> NoReturn:
        raise WrongUse(message)


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: As it is typed, ``list`` or ``config schema``.
        run: What carries it out and returns the exit status.
        examples: Lines that work, the most usual first.
        rest: Whether everything behind its arguments belongs to another program.
    """

    name: str
    run: Run
    examples: tuple[str, ...]
    rest: bool = False

    @property
    def summary(self) -> str:
        """The first line of what is said of it."""
        return (self.run.__doc__ or "").partition("\n")[0]

    def parameters(self) -> Iterator[tuple[str, object, Argument | Option, object]]:
        """Name, type, declaration and default of each parameter."""
        hints = typing.get_type_hints(self.run, include_extras=True)
        for name, parameter in inspect.signature(self.run).parameters.items():
            kind, declared = typing.get_args(hints[name])[:2]
            yield name, kind, declared, parameter.default

    def parser(self) -> argparse.ArgumentParser:
        """What reads its arguments."""
        shown = "".join(f"\n  {line}" for line in self.examples)
        parser = _Parser(
            prog=f"fastloop {self.name}",
            description=inspect.getdoc(self.run),
            epilog=f"examples:{shown}" if shown else None,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=_WIDTH),
            allow_abbrev=False,
        )
        for name, kind, declared, default in self.parameters():
            if isinstance(declared, Argument):
                _add_argument(parser, name, kind, declared, default, rest=self.rest)
            else:
                _add_option(parser, name, kind, declared, default)
        return parser

    def options(self) -> list[str]:
        """What it takes with dashes."""
        return [name for action in self.parser()._actions for name in action.option_strings]

    def __call__(self, given: Sequence[str]) -> int:
        """Carry it out.

        Raises:
            WrongUse: It can't be given that.
        """
        parser = self.parser()
        if self.rest:
            return self.run(**vars(parser.parse_args(given)))
        values, unknown = parser.parse_known_intermixed_args(given)
        if unknown:
            raise WrongUse(f"no such option: {unknown[0]}{_meant(unknown[0], self.options())}")
        # argparse has an empty list for none
        found = {name: value for name, value in vars(values).items() if value != []}
        return self.run(**found)


def _add_argument(
    parser: argparse.ArgumentParser,
    name: str,
    kind: object,
    declared: Argument,
    default: object,
    *,
    rest: bool,
) -> None:
    bare, several = _bare(kind)
    free = default is not inspect.Parameter.empty
    nargs: str | None = ("*" if free else "+") if several else ("?" if free else None)
    if rest and several:
        nargs = argparse.REMAINDER
    keywords: dict[str, Any] = {"default": default} if free else {}
    metavar, text = declared.metavar, declared.help.replace("%", "%%")
    added = parser.add_argument(
        name, nargs=nargs, type=bare, metavar=metavar, help=text, **keywords
    )
    added.required = not free  # argparse takes a rest for needed


def _add_option(
    parser: argparse.ArgumentParser, name: str, kind: object, declared: Option, default: object
) -> None:
    bare, several = _bare(kind)
    dashed = f"--{name.replace('_', '-')}"
    text = declared.help.replace("%", "%%")
    if bare is bool:
        both = default is not False and not declared.names
        yes, _, no = (declared.names or dashed).partition("/")
        no = f"--no-{dashed[2:]}" if both else no
        parser.add_argument(yes, dest=name, action="store_true", default=default, help=text)
        if no:
            parser.add_argument(no, dest=name, action="store_false", default=default)
        return
    names = declared.names.split() or [dashed]
    parser.add_argument(
        *names,
        dest=name,
        action="append" if several else "store",
        type=_within(bare, declared.least, declared.most),
        metavar=declared.metavar or _METAVARS[bare],
        default=None if (required := default is inspect.Parameter.empty) else default,
        required=required,
        help=text,
    )


def _bare(kind: object) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if typing.get_origin(kind) is types.UnionType:
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    if typing.get_origin(kind) is list:
        return typing.get_args(kind)[0], True
    return kind, False


def _within(kind: Any, least: float | None, most: float | None) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            value = kind(text)
        except ValueError as error:
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {what}; got {text!r}") from error
        if least is not None and not value >= least:  # as NaN is not
            raise argparse.ArgumentTypeError(f"must be at least {least}; got {text!r}")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"must be at most {most}; got {text!r}")
        return value

    return read


def _meant(typed: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(typed.partition("=")[0], known, n=1, cutoff=0.7)
    return f". Did you mean {near[0]}?" if near else ""


class Program:
    """All commands."""

    def __init__(self, summary: str, version: str) -> None:
        self.commands: dict[str, Command] = {}
        self._summary, self._version = summary, version

    def command(self, name: str, *examples: str, rest: bool = False) -> Callable[[Run], Run]:
        """Make a function a command; see `Command`."""

        def register(run: Run) -> Run:
            self.commands[name] = Command(name, run, examples, rest)
            return run

        return register

    def options(self, name: str) -> list[str]:
        """What a command, or the first of a group, takes with dashes."""
        found = [each for key, each in self.commands.items() if key.split()[0] == name]
        return [option for each in found for option in each.options()]

    def help(self, group: str = "") -> str:
        """What there is for people, who are given examples; a line each."""
        of = [each for each in self.commands.values() if each.examples]
        of = [each for each in of if f"{each.name} ".startswith(group)]
        width = max(len(each.name) for each in of)
        indent = " " * (width + 4)
        lines = [
            textwrap.fill(
                f"  {each.name:<{width}}  {each.summary}", _WIDTH, subsequent_indent=indent
            )
            for each in of
        ]
        usage = f"usage: fastloop {group}COMMAND ...\n\n"
        about = "" if group else f"{self._summary}\n\n"
        end = "" if group else "\n\n`fastloop COMMAND --help` shows its options and examples.\n"
        return f"{usage}{about}commands:\n" + "\n".join(lines) + (end or "\n")

    def __call__(self, given: Sequence[str]) -> int:
        """Carry out what was typed.

        Raises:
            WrongUse: It is no command, or can't be given that.
            SystemExit: Help was shown.
        """
        groups = {name.partition(" ")[0] for name in self.commands if " " in name}
        first = given[0] if given else "--help"
        if first == "--version":
            print(f"fastloop {self._version}")
            return 0
        if first in ("--help", "-h"):
            print(self.help(), end="")
            return 0 if given else WRONG_USE
        if first in groups:
            if len(given) == 1 or given[1] in ("--help", "-h"):
                print(self.help(f"{first} "), end="")
                return 0 if len(given) > 1 else WRONG_USE
            first, given = f"{first} {given[1]}", given[1:]
        if first not in self.commands:
            meant = _OTHER_NAMES.get(first) or ("launch " + first if Path(first).is_file() else "")
            hint = f". Did you mean `fastloop {meant}`?" if meant else ""
            group, inside, _ = first.rpartition(" ")
            known = [each for each in [*self.commands, *groups] if each.startswith(group + inside)]
            hint = hint or _meant(first, known) or f". `fastloop {group + inside}--help` lists them"
            raise WrongUse(f"no such command: {first}{hint}")
        command = self.commands[first]
        try:
            return command(given[1:])
        except WrongUse as error:
            such = f"\nFor example: {command.examples[0]}" if command.examples else ""
            more = f"\n`fastloop {command.name} --help` shows all that there is."
            raise WrongUse(f"{error}{such}{more}") from error
