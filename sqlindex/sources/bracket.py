"""Bracket expressions in patterns of `.gitignore` files, as git reads them: `[a-z]`, `[!x]`."""

from __future__ import annotations

import string

_BYTES_BY_CLASS = {
    name: frozenset(characters.encode())
    for name, characters in {
        "alnum": string.ascii_letters + string.digits,
        "alpha": string.ascii_letters,
        "blank": " \t",
        "cntrl": "".join(map(chr, range(32))) + "\x7f",
        "digit": string.digits,
        "graph": string.ascii_letters + string.digits + string.punctuation,
        "lower": string.ascii_lowercase,
        "print": string.ascii_letters + string.digits + string.punctuation + " ",
        "punct": string.punctuation,
        "space": string.whitespace,
        "upper": string.ascii_uppercase,
        "xdigit": string.hexdigits,
    }.items()
}
_ANY_BUT_SLASH = frozenset(range(256)) - {ord("/")}


def read_bracket(glob: bytes, start: int) -> tuple[bytes, int]:
    """Translate the expression whose `[` is just before `start`.

    Returns:
        A regex that matches the same single bytes, never a slash; and the position behind the
        closing bracket.

    Raises:
        ValueError: it is not closed, or names an unknown class; git then matches nothing.
    """
    position = start
    is_negated = glob[position : position + 1] in (b"!", b"^")
    position += is_negated
    members: set[int] = set()
    range_start: int | None = None
    is_first = True
    while is_first or glob[position : position + 1] != b"]":
        is_first = False
        char = _byte_at(glob, position)
        follows = glob[position + 1 : position + 2]
        if char == ord("-") and range_start is not None and follows not in (b"", b"]"):
            range_end, position = _escaped(glob, position + 1)
            members.update(range(range_start, range_end + 1))
            range_start = None
        elif char == ord("[") and follows == b":" and _class_end(glob, position) is not None:
            end = _class_end(glob, position)
            assert end is not None
            name = glob[position + 2 : end - 2].decode("ascii", "replace")
            if name not in _BYTES_BY_CLASS:
                raise ValueError(f"unknown character class [:{name}:]")
            members |= _BYTES_BY_CLASS[name]
            range_start, position = None, end
        else:
            char, position = _escaped(glob, position)
            members.add(char)
            range_start = char
    matched = _ANY_BUT_SLASH - members if is_negated else _ANY_BUT_SLASH & members
    return _regex_of(matched), position + 1


def _byte_at(glob: bytes, position: int) -> int:
    if position >= len(glob):
        raise ValueError("a bracket without its end")
    return glob[position]


def _escaped(glob: bytes, position: int) -> tuple[int, int]:
    """The byte meant at `position` and the position behind it; a backslash means the next byte."""
    char = _byte_at(glob, position)
    if char == ord("\\"):
        position += 1
        char = _byte_at(glob, position)
    return char, position + 1


def _class_end(glob: bytes, position: int) -> int | None:
    """The position behind `:]` for the `[:` at `position`; None if it is an ordinary bracket."""
    end = glob.find(b"]", position + 2)
    if end < 0:
        raise ValueError("a bracket without its end")
    is_class = end > position + 2 and glob[end - 1 : end] == b":"
    return end + 1 if is_class else None


def _regex_of(members: frozenset[int] | set[int]) -> bytes:
    if not members:
        return rb"(?!)"
    return b"[" + b"".join(b"\\x%02x" % member for member in sorted(members)) + b"]"
