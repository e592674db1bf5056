"""Which files and folders of a root a listing leaves out.

From the strongest rule to the weakest:

0. the index's own files, which are never listed;
1. by name: default folders (`left_out`), hidden names unless `hidden`, secret-like names. No
   pattern brings these back, except that an `include` pattern without wildcards names one hidden
   or secret-like file exactly (its folders must be open).
2. `exclude` patterns, then the root's `.sqlindexignore`, then `.gitignore` files from the folder's
   own up to the root's. The first of these layers with a matching pattern decides, within a layer
   its last matching pattern. As in git, nothing below an ignored folder comes back.
3. `include` patterns, if there are any: only what they match, or what is in a folder they match.

Ignore files above the root, `.git/info/exclude` and the user's global excludes are not read: the
same root must give the same listing on every machine.
"""

from __future__ import annotations

import os
import stat as stat_modes
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlindex.model.documents import RefusalReason
from sqlindex.sources.containment import NotOpenedError, open_file, read_bounded
from sqlindex.sources.left_out import is_ignored_folder, is_secret_like
from sqlindex.sources.paths import document_id_of
from sqlindex.sources.patterns import MAX_PATTERN_BYTES, Pattern, PatternSet, parse_pattern

GITIGNORE = b".gitignore"
SQLINDEXIGNORE = b".sqlindexignore"
MAX_IGNORE_FILE_BYTES = 1024 * 1024
MAX_IGNORE_PATTERNS = 10_000


class IgnoreFileError(Exception):
    """An ignore file exists and cannot be honoured; internal to the sources.

    Its folder must not be listed: what the file would have left out could be indexed.
    """


class IgnoreFileLinkError(IgnoreFileError):
    """The ignore file is a symbolic link. As in git, it is not followed and has no effect."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a rule leaves an entry out; see `model.documents.Refusal`."""

    reason: RefusalReason
    detail: str
    hint: str = ""


_HIDDEN = LeftOut(
    RefusalReason.HIDDEN,
    "its name begins with a dot",
    "hidden files are listed by a source added with --hidden (hidden=True in Python)",
)
_SECRET = LeftOut(
    RefusalReason.SECRET,
    "files of this name commonly hold keys or logins",
    "an include pattern without wildcards that names it exactly lets it in",
)
_OWN_FILE = LeftOut(RefusalReason.OWN_FILE, "the index itself, or one of its sidecars")
_NOT_INCLUDED = LeftOut(
    RefusalReason.NOT_INCLUDED,
    "no include pattern of the source matches",
    "register the source with an include pattern that matches it",
)
_OF_ITS_OWN = "to index what is in it, register it as a source of its own"


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one origin.

    Attributes:
        patterns: in order.
        base: length of the path to the folder that they are relative to.
        origin: path of the ignore file; empty for the exclude patterns of the source.
        above: the layer of the next `.gitignore` further up.
    """

    patterns: PatternSet
    base: int
    origin: bytes = b""
    above: Layer | None = None


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a folder passes on to its sub-folders.

    Attributes:
        of_root: layers of the root that stand before every `.gitignore`.
        gitignore: the layer of the nearest `.gitignore`, which leads to those above it.
        is_included: whether an `include` pattern matched this folder or one above it.
    """

    of_root: tuple[Layer, ...]
    gitignore: Layer | None
    is_included: bool


class IgnoreRules:
    """The rules of one source; see the module's text.

    Args:
        include, exclude: patterns as in `.gitignore`, relative to the root.
        hidden: whether names that begin with a dot are listed.
        use_gitignore: whether `.gitignore` files count.
        ignore_case: whether patterns and own files match in any case of letters.
        own_files: paths of the index's own files, relative to the root.

    Raises:
        ValueError: an include or exclude pattern is malformed or empty.
    """

    def __init__(
        self,
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        hidden: bool = False,
        use_gitignore: bool = True,
        ignore_case: bool = False,
        own_files: Iterable[str] = (),
    ) -> None:
        self.ignore_case = ignore_case
        self._use_gitignore = use_gitignore
        self.hidden = hidden
        included = _given_patterns("include", include)
        excluded = _given_patterns("exclude", exclude)
        exact = [p for p in included if p.literal is not None and not p.is_negated]
        self.include = self._set(included) if included else None
        self.exact_include = self._set(exact) if exact else None
        self._exclude = self._set(excluded) if excluded else None
        self._own_files = frozenset(self._folded(os.fsencode(path)) for path in own_files)
        self.own_names = frozenset(path.rpartition(b"/")[2] for path in self._own_files)

    def _folded(self, path: bytes) -> bytes:
        return os.fsencode(os.fsdecode(path).lower()) if self.ignore_case else path

    def _set(self, patterns: list[Pattern]) -> PatternSet:
        return PatternSet(patterns, ignore_case=self.ignore_case)

    def is_own_file(self, name: bytes, path: bytes) -> bool:
        """Whether a file is the index or a sidecar.

        Args:
            name: of the file.
            path: of its folder, see `FolderRules`.
        """
        return self._folded(name) in self.own_names and self._folded(path + name) in self._own_files

    def at_root(self) -> Inherited:
        """What the root starts with, before its own ignore files are read."""
        of_root = () if self._exclude is None else (Layer(self._exclude, 0),)
        return Inherited(of_root, None, self.include is None)

    def in_folder(self, folder: int, path: bytes, inherited: Inherited) -> FolderRules:
        """The rules inside one folder: the inherited ones and its ignore files.

        Args:
            folder: open descriptor.
            path: from the root, with a slash at its end; empty for the root.
            inherited: from the folder above.

        Raises:
            IgnoreFileError: an ignore file is there and cannot be honoured.
        """
        links: list[bytes] = []
        if not path and (patterns := self._read(folder, SQLINDEXIGNORE, links)):
            layer = Layer(self._set(patterns), 0, SQLINDEXIGNORE)
            inherited = replace(inherited, of_root=(*inherited.of_root, layer))
        if self._use_gitignore and (patterns := self._read(folder, GITIGNORE, links)):
            layer = Layer(
                self._set(patterns), len(path), path + GITIGNORE, above=inherited.gitignore
            )
            inherited = replace(inherited, gitignore=layer)
        return FolderRules(self, inherited, tuple(links))

    def _read(self, folder: int, name: bytes, links: list[bytes]) -> list[Pattern]:
        try:
            return read_ignore_file(folder, name)
        except IgnoreFileLinkError:
            links.append(name)
            return []


class FolderRules:
    """What is left out of one folder, and why.

    Its methods take an entry's name, the same as text (`os.fsdecode`), and the path of the folder
    from the root, with a slash at its end (empty for the root).

    Attributes:
        links: names of the folder's ignore files that are symbolic links and have no effect.
    """

    __slots__ = ("_has_patterns", "_inherited", "_rules", "links")

    def __init__(
        self, rules: IgnoreRules, inherited: Inherited, links: tuple[bytes, ...] = ()
    ) -> None:
        self._rules = rules
        self._inherited = inherited
        self._has_patterns = bool(inherited.of_root) or inherited.gitignore is not None
        self.links = links

    def leave_out(self, name: bytes, text: str, path: bytes) -> LeftOut | None:
        """Why a file, or anything else but a folder, is left out; None if it is not."""
        rules = self._rules
        by_name = by_pattern = by_include = None
        if rules.own_names and rules.is_own_file(name, path):
            return _OWN_FILE
        if (text[0] == "." and not rules.hidden) or is_secret_like(text):
            exact = rules.exact_include
            if exact is None or exact.last_match(name, path + name, False) is None:
                by_name = _SECRET if is_secret_like(text) else _HIDDEN
        if self._has_patterns:
            by_pattern = self._ignored(name, path, is_folder=False)
        if rules.include is not None and by_name is not _SECRET:
            by_include = self._not_included(rules.include, name, path)
        if by_name is None and by_pattern is None and by_include is None:
            return None
        return _strongest(by_name, by_pattern, by_include)

    def enter(self, name: bytes, text: str, path: bytes) -> Inherited | LeftOut:
        """What a sub-folder inherits, or why it is left out."""
        by_name = None
        if is_ignored_folder(text):
            return LeftOut(
                RefusalReason.DEFAULT_IGNORED,
                f"folders named {text.lower()} are never entered",
                _OF_ITS_OWN,
            )
        if text[0] == "." and not self._rules.hidden:
            by_name = _HIDDEN
        by_pattern = self._ignored(name, path, is_folder=True) if self._has_patterns else None
        if by_name is not None or by_pattern is not None:
            return _strongest(by_name, by_pattern)
        inherited = self._inherited
        include = self._rules.include
        if include is None:
            return inherited
        match = include.last_match(name, path + name, True)
        if match is None or match.is_negated is not inherited.is_included:
            return inherited
        return replace(inherited, is_included=not match.is_negated)

    def _ignored(self, name: bytes, path: bytes, *, is_folder: bool) -> LeftOut | None:
        full = path + name
        for layer in self._inherited.of_root:
            if match := layer.patterns.last_match(name, full[layer.base :], is_folder):
                return None if match.is_negated else _by_pattern(match, layer)
        above = self._inherited.gitignore
        while above is not None:
            patterns = above.patterns
            relative = full[above.base :] if patterns.needs_path else name
            if match := patterns.last_match(name, relative, is_folder):
                return None if match.is_negated else _by_pattern(match, above)
            above = above.above
        return None

    def _not_included(self, include: PatternSet, name: bytes, path: bytes) -> LeftOut | None:
        match = include.last_match(name, path + name, False)
        if match is None:
            return None if self._inherited.is_included else _NOT_INCLUDED
        if not match.is_negated:
            return None
        return LeftOut(
            RefusalReason.NOT_INCLUDED,
            f"include pattern {_shown(match)} takes it back",
            "register the source without that pattern",
        )


def in_environment(marker: str) -> LeftOut:
    """Why a folder that holds a marker is left out (`left_out.ENVIRONMENT_MARKERS`)."""
    return LeftOut(RefusalReason.DEFAULT_IGNORED, f"it holds {marker}: an environment", _OF_ITS_OWN)


def _by_pattern(match: Pattern, layer: Layer) -> LeftOut:
    if not layer.origin:
        return LeftOut(
            RefusalReason.EXCLUDED,
            f"exclude pattern {_shown(match)}",
            "register the source without that pattern",
        )
    hint = "remove the pattern"
    if layer.origin != SQLINDEXIGNORE:
        hint += f', or take it back with a "!" pattern in {SQLINDEXIGNORE.decode()} in the root'
    return LeftOut(
        RefusalReason.IGNORED,
        f"pattern {_shown(match)} in {document_id_of(layer.origin)}, line {match.line_number}",
        hint,
    )


def _shown(pattern: Pattern) -> str:
    return f'"{document_id_of(pattern.text)}"'


def _strongest(*found: LeftOut | None) -> LeftOut:
    """The first reason; its hint names the second, which would then keep the entry out."""
    first, *others = (reason for reason in found if reason is not None)
    if not others:
        return first
    return replace(first, hint=f"{first.hint}; left out, too: {others[0].detail}")


def read_ignore_file(folder: int, name: bytes) -> list[Pattern]:
    """The patterns of an ignore file, in order; empty if there is none.

    Malformed lines match nothing, as in git.

    Raises:
        IgnoreFileLinkError: it is a symbolic link.
        IgnoreFileError: it cannot be read, or is over a limit.
    """
    shown = name.decode()
    try:
        file = open_file(name, folder)
    except NotOpenedError as exc:
        if exc.reason is RefusalReason.SYMLINK:
            raise IgnoreFileLinkError(f"{shown} is a symbolic link and is not followed") from exc
        if exc.reason in (RefusalReason.VANISHED, RefusalReason.NOT_A_FILE):
            return []
        raise IgnoreFileError(f"its {shown} cannot be read: {exc.detail}") from exc
    try:
        if not stat_modes.S_ISREG(os.fstat(file).st_mode):
            return []
        content = read_bounded(file, MAX_IGNORE_FILE_BYTES)
    except OSError as exc:
        raise IgnoreFileError(f"its {shown} cannot be read: {exc.strerror}") from exc
    finally:
        os.close(file)
    if len(content) > MAX_IGNORE_FILE_BYTES:
        raise IgnoreFileError(f"its {shown} is over {MAX_IGNORE_FILE_BYTES:,} bytes")
    return _patterns_of(content, shown)


def _patterns_of(content: bytes, shown: str) -> list[Pattern]:
    patterns = []
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line_number, line in enumerate(lines, start=1):
        # As git, whose strings end at a NUL.
        line = line.removesuffix(b"\r").partition(b"\0")[0]
        if line.startswith(b"#"):
            continue
        if len(line) > MAX_PATTERN_BYTES:
            raise IgnoreFileError(f"its {shown} has a pattern over {MAX_PATTERN_BYTES:,} bytes")
        try:
            pattern = parse_pattern(line, line_number)
        except ValueError:
            continue
        if pattern is not None:
            patterns.append(pattern)
        if len(patterns) > MAX_IGNORE_PATTERNS:
            raise IgnoreFileError(f"its {shown} has over {MAX_IGNORE_PATTERNS:,} patterns")
    return patterns


def _given_patterns(option: str, lines: Iterable[str]) -> list[Pattern]:
    if isinstance(lines, str):
        raise ValueError(f"{option} must be a sequence of patterns, not one text")
    patterns = []
    for line in lines:
        try:
            pattern = parse_pattern(os.fsencode(line))
        except ValueError as exc:
            raise ValueError(f"{option} pattern {line!r}: {exc}") from exc
        if pattern is None:
            raise ValueError(f"{option} pattern {line!r} matches nothing")
        patterns.append(pattern)
    return patterns
