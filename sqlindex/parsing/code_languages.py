"""Languages with braces by name; Go, Rust, Java and CSS: what a header before `{` defines."""

from __future__ import annotations

import re

from sqlindex.parsing.code_braces import INLINE, BraceLanguage, Found, Inline, Scope
from sqlindex.parsing.code_c import C
from sqlindex.parsing.code_headers import (
    COMMENTS,
    SINGLE_QUOTED,
    STRING,
    angle_end,
    flat_header,
    last_match,
    skipped,
)
from sqlindex.parsing.code_javascript import JAVASCRIPT

# Go. The last line at the margin that begins a definition counts.

_GO_START = re.compile(
    r"^(?:func\s+(?:\((?P<receiver>[^()]*)\)\s*)?(?P<function>\w+)|type\s+(?P<type>\w+))",
    re.MULTILINE,
)
_GO_RECEIVER = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*\Z")
_GO_ENDS_IN_TYPE = re.compile(r"\b(?:interface|struct)\s*\Z")


def _go(header: str, scope: Scope) -> Found | Inline | None:
    found = last_match(_GO_START, header)
    if found is None:
        return None
    if found["type"]:
        return Found((found["type"],), found.start(), found.start("type"), Scope.FUNCTION)
    if _GO_ENDS_IN_TYPE.search(header[-20:]):
        return INLINE
    receiver = _GO_RECEIVER.search(found["receiver"] or "")
    owner = (receiver[1],) if receiver else ()
    names = (*owner, found["function"])
    return Found(names, found.start(), found.start("function"), Scope.FUNCTION)


_GO = BraceLanguage(skipped=skipped(COMMENTS, STRING, SINGLE_QUOTED, r"`[^`]*+`?"), classify=_go)

# Rust.

_RUST_START = re.compile(
    r"\b(?:(?P<function>fn)|(?P<outer>mod)|(?P<class>trait)|struct|enum|union|macro_rules!)\s+"
    r"(?:r\#)?(?P<name>\w+)|\b(?P<impl>impl)\b(?P<target>.*)",
    re.DOTALL,
)
_RUST_WHERE = re.compile(r"\bwhere\b.*", re.DOTALL)


def _rust(header: str, scope: Scope) -> Found | None:
    found = _RUST_START.search(header)
    if found is None:
        return None
    if found["impl"]:
        name = _rust_impl_name(found["target"])
        return Found((name,), 0, found.start("impl"), Scope.CLASS) if name else None
    inside = Scope.OUTER if found["outer"] or found["class"] else Scope.FUNCTION
    return Found((found["name"],), 0, found.start("name"), inside)


def _rust_impl_name(target: str) -> str:
    """`Type` or `Trait for Type`, without the parameters of `impl` and of the type."""
    target = _RUST_WHERE.sub("", target).strip()
    if target.startswith("<"):
        target = target[angle_end(target) :]
    trait, is_for, owner = target.partition(" for ")
    owner = (owner if is_for else trait).partition("<")[0]
    return " ".join((f"{trait} for {owner}" if is_for else owner).split())


_RUST = BraceLanguage(
    skipped=skipped(
        COMMENTS,
        r'\bb?c?r(?P<hashes>#*+)".*?(?:"(?P=hashes)|\Z)',
        r'"(?:[^"\\]++|\\.)*+"?',
        # A lifetime has no closing quote.
        r"'(?:\\(?:u\{[^}\n]{0,8}\}|x..|.)|[^\\'\n])'",
    ),
    classify=_rust,
    has_inner_functions=True,
)

# Java.

_JAVA_TYPE = re.compile(r"(?:\b(?:class|interface|enum|record)|@interface)\s+(?P<name>\w+)")
_CALLABLE = re.compile(r"(?P<name>[\w$]+)\s*\(")


def _java(header: str, scope: Scope) -> Found | None:
    flat = flat_header(header)
    start = 0
    if found := _JAVA_TYPE.search(flat):
        return Found((found["name"],), start, found.start("name"), Scope.CLASS)
    if scope is not Scope.CLASS or "=" in flat:
        return None
    method = None
    for method in _CALLABLE.finditer(flat):
        if not flat[: method.start()].endswith("@"):
            break
    else:
        return None
    return Found((method["name"],), start, method.start("name"), Scope.FUNCTION)


_JAVA = BraceLanguage(
    skipped=skipped(COMMENTS, r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?', STRING, SINGLE_QUOTED),
    classify=_java,
)

# CSS and SCSS: each rule is a definition, named by its selector.


def _css(header: str, scope: Scope) -> Found | Inline | None:
    if header.endswith("#"):
        return INLINE
    name = " ".join(header.split())
    if not name:
        return None
    return Found((name,), 0, 0, Scope.OUTER)


_CSS_STRINGS = (r"url\([^)\"'\n]*+\)?", STRING, SINGLE_QUOTED)
_CSS = BraceLanguage(
    skipped=skipped(r"(?P<comment>/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)", *_CSS_STRINGS), classify=_css
)
_SCSS = BraceLanguage(skipped=skipped(COMMENTS, *_CSS_STRINGS), classify=_css)

BRACE_LANGUAGES = {
    "javascript": JAVASCRIPT,
    "typescript": JAVASCRIPT,
    "go": _GO,
    "rust": _RUST,
    "java": _JAVA,
    "c": C,
    "cpp": C,
    "css": _CSS,
    "scss": _SCSS,
}
