"""JavaScript and TypeScript: what a header before `{` defines."""

from __future__ import annotations

import re

from sqlindex.parsing.code_braces import INLINE, BraceLanguage, Found, Inline, Scope
from sqlindex.parsing.code_headers import (
    COMMENTS,
    SINGLE_QUOTED,
    STRING,
    flat_header,
    last_match,
    skipped,
)

_FLAT_TEMPLATE = r"`(?:[^`\\]++|\\.)*+`?"
_TEMPLATE = (
    rf"`(?:[^`\\$]++|\\.|\$(?!\{{)"
    rf"|\$\{{(?:[^{{}}`'\"]++|{STRING}|{SINGLE_QUOTED}|{_FLAT_TEMPLATE}|\{{[^{{}}`]*+\}})*+\}}?)*+`?"
)

# Statements may end without a semicolon, so the last line that
# begins a definition counts.

_JS_REGEX = (
    r"(?:(?<=[(,=:\[!&|?{};+\-*%~^\n])|(?<=[(,=:\[!&|?{};+*%~^>] )|(?<=\breturn ))"
    r"/(?:[^\\/\[\n]++|\\[^\n]|\[(?:[^\]\\\n]++|\\[^\n])*+\]?)++(?:/[a-z]*)?"
)
_JS_MODIFIERS = r"(?:(?:export|default|declare|abstract|async)\s+)*+"
_JS_START = re.compile(
    rf"""^[ \t]*+(?P<start>(?:@[\w.]+(?:\([^()]*\))?\s*+)*{_JS_MODIFIERS}(?:
        function\b\s*\*?\s*(?P<function>[\w$]+)
      | (?P<kind>interface|enum|namespace|module|type)\s+(?P<type>[\w$.]+)
      | (?:const\s+|let\s+|var\s+)?(?P<value>[\w$]+(?:\.[\w$]+)*)(?=\s*[:=])
    ))""",
    re.VERBOSE | re.MULTILINE,
)
_JS_CLASS = re.compile(
    r"^[ \t]*+(?P<start>(?:@[\w.]+(?:\([^()]*\))?\s*+)*[^\n@]*?\bclass\s+(?P<name>[\w$]+)"
    r"(?:\s*<[^{}]*>)?(?:\s+(?:extends|implements)\b[^{};]*)?\s*)\Z",
    re.MULTILINE,
)
_JS_VALUE = re.compile(
    r"(?:[^=]++|=>)*+=(?![=>])\s*+(?:async\b\s*+)?"
    r"(?:(?P<function>function\b)|(?P<class>class\b)|[(<]|[\w$]+\s*=>)"
)
_JS_METHOD = re.compile(
    r"""^[ \t]*+(?P<start>(?:@[\w.]+(?:\([^()]*\))?\s*+)*
        (?:(?:public|private|protected|static|readonly|override|abstract|async|get|set|accessor)
           \s+(?=[\w$\#*\[])|\*\s*)*+
        (?P<name>\#?[\w$]+|\[[^\]\n]*\])
        \s*[?!]?\s*(?:<[^()\n]*>\s*)?(?:\(|(?::[^=\n]*)?=\s*(?:async\s*)?(?:\(|[\w$]+\s*=>)))""",
    re.VERBOSE | re.MULTILINE,
)
_JS_ENDS_IN_TYPE = re.compile(r"(?:\).*(?:\)\s*:|[|&,])|\)\s*:|<[^<>()]*)\s*\Z", re.DOTALL)
_JS_INSIDE = {"namespace": Scope.OUTER, "module": Scope.OUTER}
_JS_NO_OWNER = frozenset(("prototype", "exports", "module", "this", "window"))
_NO_METHOD = frozenset(("if", "for", "while", "switch", "catch", "function", "with", "return"))


def _javascript(header: str, scope: Scope) -> Found | Inline | None:
    flat = flat_header(header)
    if _JS_ENDS_IN_TYPE.search(flat[-100:]):
        return INLINE
    if scope is Scope.CLASS:
        method = last_match(_JS_METHOD, flat)
        if method is None or method["name"] in _NO_METHOD:
            return None
        name = method["name"]
        return Found((name,), method.start("start"), method.start("name"), Scope.FUNCTION)
    if last_class := _JS_CLASS.search(flat):
        start = last_class.start("start")
        return Found((last_class["name"],), start, last_class.start("name"), Scope.CLASS)
    found = last_match(_JS_START, flat)
    if found is None:
        return None
    start = found.start("start")
    if found["value"]:
        value = _JS_VALUE.match(flat, found.end())
        if value is None or not (value["function"] or value["class"] or _is_arrow(flat)):
            return None
        names = tuple(n for n in found["value"].split(".") if n not in _JS_NO_OWNER)[-2:]
        inside = Scope.CLASS if value["class"] else Scope.FUNCTION
        return Found(names or (found["value"],), start, found.start("value"), inside)
    if found["function"]:
        return Found((found["function"],), start, found.start("function"), Scope.FUNCTION)
    inside = _JS_INSIDE.get(found["kind"], Scope.FUNCTION)
    return Found((found["type"],), start, found.start("type"), inside)


def _is_arrow(flat: str) -> bool:
    return flat.rstrip().endswith("=>")


JAVASCRIPT = BraceLanguage(
    skipped=skipped(COMMENTS, STRING, SINGLE_QUOTED, _TEMPLATE, _JS_REGEX),
    classify=_javascript,
    has_inner_functions=True,
    tokens=re.compile(r"[{}();]|=>\s*+\("),
)
