"""Outlines of languages with braces: one pass over brackets, one look at what stands before `{`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sqlindex.parsing.code_outline import Definition, MaskedCode, mask

MAX_NESTING = 1_000
"""Brackets nested deeper are not written by people: such a file has no outline."""

MAX_HEADER_CHARS = 2_000
"""How much of what stands before a `{` is looked at."""


_BEFORE_HEADER = re.compile(r"[\s)\],]*+")
_AT_MARGIN = re.compile(r"^\w", re.MULTILINE)


class Scope(Enum):
    """Where a `{` stands."""

    OUTER = 1
    """At top level or in a namespace."""
    CLASS = 2
    """Directly in the body of a class."""
    FUNCTION = 3
    """In a function or an expression."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a header says.

    Attributes:
        names: see `Definition`; empty for a block whose content is that of its parent.
        start: offset of the definition in the header.
        name: offset of its name in the header.
        inside: scope of the text between its braces.
    """

    names: tuple[str, ...]
    start: int
    name: int
    inside: Scope


class Inline:
    """The braces are part of the header: a type, an initialiser."""


INLINE = Inline()

Classify = Callable[[str, Scope], Found | Inline | None]


@dataclass(frozen=True, slots=True)
class BraceLanguage:
    """A language with braces.

    Attributes:
        skipped: strings and comments, see `mask`.
        classify: what the text before a `{` opens there; None for a block without a name.
        prepare: makes of a file and its masked code the code whose brackets are counted, as long.
        has_inner_functions: whether functions are defined in functions.
        tokens: the brackets, and a `=> (` where an expression in parentheses is a body.
    """

    skipped: re.Pattern[str]
    classify: Classify
    prepare: Callable[[str, str], str] | None = None
    has_inner_functions: bool = False
    tokens: re.Pattern[str] = re.compile(r"[{}();]")


@dataclass(slots=True, eq=False)
class _Block:
    """An open bracket that holds statements, or the file.

    Attributes:
        statement: offset after the last complete statement in it.
        scope: of the text in it.
        members: where definitions in it go.
        owner: the definition whose body it is, or None.
        closer: the bracket that ends it; empty for the file.
        is_inline: whether the statement around it goes on behind it.
        parentheses: how many are open in its present statement.
    """

    statement: int
    scope: Scope
    members: list[Definition]
    owner: Definition | None = None
    closer: str = "}"
    is_inline: bool = False
    parentheses: int = 0


def brace_outline(text: str, language: BraceLanguage) -> tuple[MaskedCode, list[Definition]]:
    """Outline of a source file, in time linear in its length.

    Brackets that do not match are passed over. A definition at the margin that stands inside of
    a function or of parentheses closes all that is open: a bracket is missing above it.
    """
    masked = mask(text, language.skipped)
    code = language.prepare(text, masked.text) if language.prepare else masked.text
    outline: list[Definition] = []
    blocks = [_Block(0, Scope.OUTER, outline, closer="")]
    last_break = 0
    for token in language.tokens.finditer(code):
        kind, top = token[0], blocks[-1]
        if kind == "(":
            top.parentheses += 1
            continue
        end = token.end()
        if kind == ")":
            if top.parentheses:
                top.parentheses -= 1
            elif top.closer == ")":
                _close(blocks, end)
            continue
        if kind == ";":
            if not top.parentheses:
                top.statement = end
        elif kind == "}":
            while blocks[-1].closer == ")":
                _close(blocks, end)
            _close(blocks, end)
        else:
            bracket = end - 1
            if _is_at_margin(code, last_break, bracket, top, language):
                while len(blocks) > 1:
                    _close(blocks, last_break)
                top = blocks[0]
                top.statement, top.parentheses = last_break, 0
            closer = "}" if kind == "{" else ")"
            blocks.append(_opened(code, bracket, top, closer, language))
            if len(blocks) > MAX_NESTING:
                return masked, []
        last_break = end
    for block in blocks:
        if block.owner is not None:
            block.owner.end_char = len(text)
    return masked, outline


def _opened(code: str, at: int, top: _Block, closer: str, language: BraceLanguage) -> _Block:
    """The block that a bracket at `at` opens."""
    end = at + 1
    if not top.parentheses and (top.scope is not Scope.FUNCTION or language.has_inner_functions):
        start = _header_start(code, top.statement, at)
        found = language.classify(code[start:at], top.scope)
        if isinstance(found, Inline):
            return _Block(end, Scope.FUNCTION, top.members, closer=closer, is_inline=True)
        if found is not None and not found.names:
            return _Block(end, found.inside, top.members, closer=closer)
        if found is not None:
            owner = Definition(found.names, start + found.start, start + found.name, end)
            top.members.append(owner)
            return _Block(end, found.inside, owner.members, owner, closer)
    return _Block(end, Scope.FUNCTION, top.members, closer=closer)


def _is_at_margin(
    code: str, last_break: int, at: int, top: _Block, language: BraceLanguage
) -> bool:
    """Whether a bracket opens a definition at the margin although something above is open."""
    if not top.parentheses and top.scope is not Scope.FUNCTION:
        return False
    start = _header_start(code, last_break, at)
    header = code[start:at]
    if header.count("(") > header.count(")") or not _AT_MARGIN.search(header):
        return False
    found = language.classify(header, Scope.OUTER)
    if not isinstance(found, Found) or not found.names:
        return False
    start += found.start
    return code[max(start - 1, 0) : start] in ("", "\n")


def _header_start(code: str, statement: int, at: int) -> int:
    """Offset of the header behind a statement and what closes it, or of its last part."""
    blank = _BEFORE_HEADER.match(code, statement, at)
    return max(blank.end() if blank else statement, at - MAX_HEADER_CHARS)


def _close(blocks: list[_Block], end: int) -> None:
    """Close the innermost block, but not the file."""
    if len(blocks) == 1:
        blocks[0].statement, blocks[0].parentheses = end, 0
        return
    block = blocks.pop()
    if block.owner is not None:
        block.owner.end_char = end
    if not block.is_inline and not blocks[-1].parentheses:
        blocks[-1].statement = end
