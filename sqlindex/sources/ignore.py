"""Which files and folders of a root a listing leaves out.

From the strongest rule to the weakest:

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
from dataclasses import dataclass

from sqlindex.model.documents import RefusalReason
from sqlindex.sources.containment import NotOpenedError, open_file, read_bounded
from sqlindex.sources.left_out import is_ignored_folder, is_secret_like
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
class Layer:
    """Patterns and the length of the path to the folder they are relative to."""

    patterns: PatternSet
    base: int


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a folder passes on to its sub-folders.

    Attributes:
        of_root: layers of the root that stand before every `.gitignore`.
        gitignores: the layers of `.gitignore` files, nearest folder first.
        is_included: whether an `include` pattern matched this folder or one above it.
    """

    of_root: tuple[Layer, ...]
    gitignores: tuple[Layer, ...]
    is_included: bool


class IgnoreRules:
    """The rules of one source; see the module's text.

    Args:
        include, exclude: patterns as in `.gitignore`, relative to the root.
        hidden: whether names that begin with a dot are listed.
        use_gitignore: whether `.gitignore` files count.
        ignore_case: whether patterns match in any case of letters.

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
    ) -> None:
        self._ignore_case = ignore_case
        self._use_gitignore = use_gitignore
        self.hidden = hidden
        included = _given_patterns("include", include)
        excluded = _given_patterns("exclude", exclude)
        exact = [p for p in included if p.literal is not None and not p.is_negated]
        self.include = self._set(included) if included else None
        self.exact_include = self._set(exact) if exact else None
        self._exclude = self._set(excluded) if excluded else None

    def _set(self, patterns: list[Pattern]) -> PatternSet:
        return PatternSet(patterns, ignore_case=self._ignore_case)

    def at_root(self) -> Inherited:
        """What the root starts with, before its own ignore files are read."""
        of_root = () if self._exclude is None else (Layer(self._exclude, 0),)
        return Inherited(of_root, (), self.include is None)

    def in_folder(self, folder: int, path: bytes, inherited: Inherited) -> FolderRules:
        """The rules inside one folder: the inherited ones and its ignore files.

        Args:
            folder: open descriptor.
            path: from the root, with a slash at its end; empty for the root.
            inherited: from the folder above.

        Raises:
            IgnoreFileError: an ignore file is there and cannot be honoured.
        """
        of_root, gitignores = inherited.of_root, inherited.gitignores
        links: list[bytes] = []
        if not path:
            of_root += self._layers_of(folder, SQLINDEXIGNORE, path, links)
        if self._use_gitignore:
            gitignores = self._layers_of(folder, GITIGNORE, path, links) + gitignores
        return FolderRules(
            self, path, Inherited(of_root, gitignores, inherited.is_included), tuple(links)
        )

    def _layers_of(
        self, folder: int, name: bytes, path: bytes, links: list[bytes]
    ) -> tuple[Layer, ...]:
        try:
            patterns = read_ignore_file(folder, name)
        except IgnoreFileLinkError:
            links.append(name)
            return ()
        return (Layer(self._set(patterns), len(path)),) if patterns else ()


class FolderRules:
    """What is left out of one folder.

    Attributes:
        links: names of the folder's ignore files that are symbolic links and have no effect.
    """

    __slots__ = ("_inherited", "_layers", "_needs_path", "_path", "_rules", "links")

    def __init__(
        self, rules: IgnoreRules, path: bytes, inherited: Inherited, links: tuple[bytes, ...]
    ) -> None:
        self._rules = rules
        self._path = path
        self._inherited = inherited
        self._layers = inherited.of_root + inherited.gitignores
        self._needs_path = any(layer.patterns.needs_path for layer in self._layers)
        self.links = links

    def leaves_out(self, name: str) -> bool:
        """Whether a file, or anything else but a folder, of this name is left out."""
        rules = self._rules
        if (name[0] == "." and not rules.hidden) or is_secret_like(name):
            exact = rules.exact_include
            if exact is None or not self._verdict(exact, name, is_folder=False):
                return True
        if self._layers and self._is_ignored(os.fsencode(name), is_folder=False):
            return True
        return rules.include is not None and not self._is_included(name, is_folder=False)

    def enter(self, name: str) -> Inherited | None:
        """What a sub-folder of this name inherits, or None if it is left out."""
        if is_ignored_folder(name) or (name[0] == "." and not self._rules.hidden):
            return None
        if self._layers and self._is_ignored(os.fsencode(name), is_folder=True):
            return None
        inherited = self._inherited
        is_included = self._is_included(name, is_folder=True)
        if is_included == inherited.is_included:
            return inherited
        return Inherited(inherited.of_root, inherited.gitignores, is_included)

    def _is_ignored(self, name: bytes, *, is_folder: bool) -> bool:
        path = self._path + name if self._needs_path else name
        for layer in self._layers:
            patterns = layer.patterns
            relative = path[layer.base :] if patterns.needs_path else name
            verdict = patterns.verdict(name, relative, is_folder)
            if verdict is not None:
                return verdict
        return False

    def _is_included(self, name: str, *, is_folder: bool) -> bool:
        include = self._rules.include
        if include is None:
            return True
        verdict = self._verdict(include, name, is_folder=is_folder)
        return self._inherited.is_included if verdict is None else verdict

    def _verdict(self, patterns: PatternSet, name: str, *, is_folder: bool) -> bool | None:
        raw = os.fsencode(name)
        return patterns.verdict(raw, self._path + raw, is_folder)


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
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        # As git, whose strings end at a NUL.
        line = line.removesuffix(b"\r").partition(b"\0")[0]
        if line.startswith(b"#"):
            continue
        if len(line) > MAX_PATTERN_BYTES:
            raise IgnoreFileError(f"its {shown} has a pattern over {MAX_PATTERN_BYTES:,} bytes")
        try:
            pattern = parse_pattern(line)
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
