"""The allow list: what a person frees beforehand, and what is wrong with rules that free nothing.

A rule is the name of a tool, a category (``info``, ``edit``, ``exec``, ``mcp``), or a tool with the beginning of a
command: ``ExecCommand(git status)``, which may be written ``ExecCommand: git status``, too.

A command begins so if it is those words and nothing else follows, or a space does. Whatever a shell could make more
of than words never fits: operators, substitutions, redirections, variables, patterns, escapes, comments, line feeds.
It need not be understood for that: all but a few characters are left to a person to judge. What the program itself
does with the rest of the line is the rule's affair: ``ExecCommand(find)`` frees ``find -delete``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

_NAME: Final = re.compile(r"[^\s()]{1,128}").fullmatch
_COMMAND_RULE: Final = re.compile(r"([^\s():]+)(?:\((.*)\)|:\s+(.*))", re.DOTALL).fullmatch

_WORDS: Final = re.compile(r"[A-Za-z0-9_./=:,@+-]+(?: [A-Za-z0-9_./=:,@+-]+)*").fullmatch
"""The beginning of a command as a rule may say it: plain words."""

_HARMLESS: Final = re.compile(r"""(?:[A-Za-z0-9_./:,+'" -]|(?<![ '",])[=@])*""").fullmatch
"""Characters that no shell takes for more than a part of a word, or for quotes around some. At the beginning of a word,
also behind quotes that hold nothing, two are more: to zsh an equals sign makes it the path of a program, to PowerShell
an at sign makes it a variable's values."""


LONGEST: Final = 4096
"""Characters of a command that may be free by its beginning: a longer one is for a person to read."""


class AllowList(Struct, frozen=True):
    """Rules that were read."""

    names: frozenset[str] = frozenset()
    """Of tools and categories."""
    commands: dict[str, tuple[str, ...]] = {}
    """By tool, the beginnings that are free."""

    def frees(self, tool: str, command: str) -> bool:
        """Whether a command of that tool begins as a rule says, and is nothing more than a command."""
        begins = any(command == words or command.startswith(f"{words} ") for words in self.commands.get(tool, ()))
        return begins and len(command) <= LONGEST and _HARMLESS(command) is not None


@lru_cache(maxsize=64)
def allow_list(rules: frozenset[str]) -> AllowList:
    """Read rules. What is none frees nothing; :func:`without_effect` says so."""
    names: set[str] = set()
    commands: dict[str, tuple[str, ...]] = {}
    for rule in sorted(rules):
        tool, words = _read(rule)
        if tool and not words:
            names.add(tool)
        elif tool:
            commands[tool] = (*commands.get(tool, ()), words)
    return AllowList(frozenset(names), commands)


def without_effect(
    rules: Iterable[str],
    *,
    tools: Collection[str],
    categories: Collection[str],
    runs: Sequence[str] = (),
    more: bool = False,
) -> list[str]:
    """One line for each rule that frees nothing, with what to write instead.

    ``tools`` are the names that the model is offered, ``runs`` are those of them that run commands, the usual one
    first. With ``more``, tools may come that are not known yet, and a name that is not known is taken for one of them.
    """
    found = []
    for rule in dict.fromkeys(rules):
        tool, words = _read(rule)
        # A name with two underscores is one that a host or a server gave.
        named = bool(tool) and (more or "__" in tool or tool in tools or tool in categories)
        if not (tool in runs if words else named):
            why = _instead(rule, [*tools, *categories], next(iter(runs), ""))
            found.append(f"The rule {rule!r} of the allow list frees nothing: {why}")
    return found


def _read(rule: str) -> tuple[str, str]:
    """The tool or category of a rule, and the beginning of a command or ``""``; two empty ones: it is no rule."""
    if match := _COMMAND_RULE(rule.strip()):
        tool, words = match[1], match[2] if match[3] is None else match[3]
        return (tool, words) if _WORDS(words) else ("", "")
    return (rule, "") if _NAME(rule) else ("", "")


def _instead(rule: str, known: Sequence[str], runs: str) -> str:
    match = _COMMAND_RULE(rule.strip())
    command = (match[2] if match[3] is None else match[3]) if match else rule
    command = " ".join(re.sub(r"[\s:*]+$", "", command).split())  # as others write "and so on"
    if match and not runs:
        return "the names of tools and categories are all that counts here"
    if match and not command:
        return f"write '{runs}'"
    if not match and (alike := next((name for name in known if name.casefold() == rule.casefold()), "")):
        return f"write '{alike}'"
    if runs and _WORDS(command):
        return f"to free commands that begin so, write '{runs}({command})'"
    commands = f", or {runs}(WORDS) with the plain words that a command begins with" if runs else ""
    return f"write one of {', '.join(known)}{commands}"
