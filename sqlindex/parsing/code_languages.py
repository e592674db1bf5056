"""Languages with braces: what to skip, and what a header before `{` defines."""

from __future__ import annotations

import re

from sqlindex.parsing.code_braces import INLINE, BraceLanguage, Found, Inline, Scope
from sqlindex.parsing.code_preprocessor import one_branch_of_each

_COMMENTS = r"(?P<comment>//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)"
_STRING = r'"(?:[^"\\\n]++|\\.)*+"?'
_SINGLE = r"'(?:[^'\\\n]++|\\.)*+'?"
_FLAT_TEMPLATE = r"`(?:[^`\\]++|\\.)*+`?"
_TEMPLATE = (
    rf"`(?:[^`\\$]++|\\.|\$(?!\{{)"
    rf"|\$\{{(?:[^{{}}`'\"]++|{_STRING}|{_SINGLE}|{_FLAT_TEMPLATE}|\{{[^{{}}`]*+\}})*+\}}?)*+`?"
)


def _skipped(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.DOTALL | re.MULTILINE)


def _flat(header: str) -> str:
    """The header with dots for what stands in its parentheses."""
    if "(" not in header:
        return header
    pieces: list[str] = []
    depth = position = 0
    for token in re.finditer(r"[()]", header):
        at = token.start()
        if token[0] == "(":
            if depth == 0:
                pieces.append(header[position : at + 1])
                position = at + 1
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                pieces.append("." * (at - position))
                position = at
    pieces.append(header[position:] if depth == 0 else "." * (len(header) - position))
    return "".join(pieces)


def _last(pattern: re.Pattern[str], header: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(header):
        last = match
    return last


# JavaScript and TypeScript. Statements may end without a semicolon, so the last line that
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
    flat = _flat(header)
    if _JS_ENDS_IN_TYPE.search(flat[-100:]):
        return INLINE
    if scope is Scope.CLASS:
        method = _last(_JS_METHOD, flat)
        if method is None or method["name"] in _NO_METHOD:
            return None
        name = method["name"]
        return Found((name,), method.start("start"), method.start("name"), Scope.FUNCTION)
    if last_class := _JS_CLASS.search(flat):
        start = last_class.start("start")
        return Found((last_class["name"],), start, last_class.start("name"), Scope.CLASS)
    found = _last(_JS_START, flat)
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


_JAVASCRIPT = BraceLanguage(
    skipped=_skipped(_COMMENTS, _STRING, _SINGLE, _TEMPLATE, _JS_REGEX),
    classify=_javascript,
    has_inner_functions=True,
    tokens=re.compile(r"[{}();]|=>\s*+\("),
)

# Go. The last line at the margin that begins a definition counts.

_GO_START = re.compile(
    r"^(?:func\s+(?:\((?P<receiver>[^()]*)\)\s*)?(?P<function>\w+)|type\s+(?P<type>\w+))",
    re.MULTILINE,
)
_GO_RECEIVER = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*\Z")
_GO_ENDS_IN_TYPE = re.compile(r"\b(?:interface|struct)\s*\Z")


def _go(header: str, scope: Scope) -> Found | Inline | None:
    found = _last(_GO_START, header)
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


_GO = BraceLanguage(skipped=_skipped(_COMMENTS, _STRING, _SINGLE, r"`[^`]*+`?"), classify=_go)

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
    start = 0
    if found["impl"]:
        name = _rust_impl_name(found["target"])
        return Found((name,), start, found.start("impl"), Scope.CLASS) if name else None
    inside = Scope.OUTER if found["outer"] or found["class"] else Scope.FUNCTION
    return Found((found["name"],), start, found.start("name"), inside)


def _rust_impl_name(target: str) -> str:
    """`Type` or `Trait for Type`, without the parameters of `impl` and of the type."""
    target = _RUST_WHERE.sub("", target).strip()
    if target.startswith("<"):
        target = target[_angle_end(target) :]
    trait, is_for, owner = target.partition(" for ")
    owner = (owner if is_for else trait).partition("<")[0]
    return " ".join((f"{trait} for {owner}" if is_for else owner).split())


def _angle_end(text: str) -> int:
    """Offset after the `>` that closes the `<` at the start of `text`."""
    depth = 0
    for token in re.finditer(r"<|(?<!-)>", text):
        depth += 1 if token[0] == "<" else -1
        if depth == 0:
            return token.end()
    return len(text)


_RUST = BraceLanguage(
    skipped=_skipped(
        _COMMENTS,
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
    flat = _flat(header)
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
    skipped=_skipped(_COMMENTS, r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?', _STRING, _SINGLE),
    classify=_java,
)

# C and C++.

_C_LABELS = re.compile(
    r"(?:\s|(?:public|private|protected|signals|(?:public|private|protected)?\s*slots)\s*:)*"
)
_C_TYPE = re.compile(
    r"\b(?P<kind>class|struct|union|enum|namespace)\b"
    r"(?:\s+(?:(?:class|struct|alignas|[A-Z][A-Z_]{2,}|__\w+)(?:\s*\([^()]*\))?|\[\[[^\]]*\]\]))*"
    r"\s+(?P<name>\w+(?:::\w+)*)(?!\s*\()"
)
_C_TYPE_BELOW = re.compile(
    r"\)\s*?\n(?=\s*+(?:typedef\s+)?(?:class|struct|union|enum|namespace)\b[^()]*+\Z)"
)
_C_TEMPLATE = re.compile(r"\s*+template\s*+(?=<)")
_C_NAMELESS = re.compile(r"(?:inline\s+)?namespace\s*\Z|extern\s*\"\s*\"\s*\Z")
_C_OPERATOR = r"operator\s*(?:\(\s*\)|[^\s\w(]+|\w[\w\s:<>*&]*?|\"\"?\s*\w+)"
_C_CALLABLE = re.compile(
    rf"(?<!\w)(?P<name>(?:\w+(?:<[^<>()]*>)?\s*::\s*)*+(?:{_C_OPERATOR}|~?[A-Za-z_]\w*+))\s*\("
)
_C_AFTER = re.compile(
    r"\)\s*(?:\Z|const\b|noexcept\b|override\b|final\b|volatile\b|&|:|->|try\b|requires\b|throw\b"
    r"|__attribute__)"
)
_C_NO_FUNCTION = frozenset(
    (
        "if",
        "for",
        "while",
        "switch",
        "catch",
        "return",
        "sizeof",
        "else",
        "do",
        "decltype",
        "__attribute__",
        "__declspec",
        "alignas",
        "defined",
        "constexpr",
        "noexcept",
        "requires",
    )
)
_C_COLON = re.compile(r"(?<!:):(?!:)")
_C_WORD_LAST = re.compile(r"[\w>]\s*\Z")
_C_INITIALISER = re.compile(r"\)(?:[^:]++|::)*+:")


def _c(header: str, scope: Scope) -> Found | Inline | None:
    labels = _C_LABELS.match(header)
    start = labels.end() if labels else 0
    flat = _flat(header)
    plain = start
    while template := _C_TEMPLATE.match(flat, plain):
        plain = template.end() + _angle_end(flat[template.end() :])
    if bare := _C_TYPE_BELOW.search(flat):
        return _c_type(flat, bare.end(), bare.end())
    callables = [m for m in _C_CALLABLE.finditer(flat, plain) if m["name"] not in _C_NO_FUNCTION]
    found = next((m for m in callables if _C_AFTER.match(flat, flat.find(")", m.end()))), None)
    found = found or (callables[-1] if callables else None)
    if found is None or _is_type_first(flat, plain, found.start()):
        return _c_type(flat, start, plain)
    if "=" in flat[plain : found.start()]:
        return None
    behind = flat.find(")", found.end())
    if behind >= 0 and _C_INITIALISER.match(flat, behind) and _C_WORD_LAST.search(flat[-40:]):
        return INLINE
    names = tuple(_c_name(part) for part in re.split(r"\s*::\s*", found["name"]))
    return Found(names, start, found.start("name"), Scope.FUNCTION)


def _c_name(part: str) -> str:
    if not part.startswith("operator"):
        part = part.partition("<")[0]
    return " ".join(part.split())


def _is_type_first(flat: str, start: int, end: int) -> bool:
    """Whether a base clause stands before the first parenthesis: `class A : public B<f(1)>`."""
    found = _C_TYPE.match(flat, start)
    return (
        found is not None
        and re.match(r"\s*(?:final\s*)?:(?!:)", flat[found.end() : end]) is not None
    )


def _c_type(flat: str, start: int, plain: int) -> Found | None:
    """A class or namespace that begins at `start`, its template parameters before `plain`."""
    plain += len(flat[plain:]) - len(flat[plain:].lstrip())
    if _C_NAMELESS.match(flat, plain):
        return Found((), start, start, Scope.OUTER)
    bases = _C_COLON.search(flat, plain)
    end = bases.start() if bases else len(flat)
    if "=" in flat[plain:end]:
        return None
    found = None
    for match in _C_TYPE.finditer(flat, plain, end):
        found = match
    if found is None:
        return None
    inside = Scope.OUTER if found["kind"] == "namespace" else Scope.CLASS
    return Found(tuple(found["name"].split("::")), start, found.start("name"), inside)


_C_SKIPPED = _skipped(
    r"(?P<mark>#(?:[^\\\n/]++|\\\r?\n|\\|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|/)*+)",
    _COMMENTS,
    r'\b(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z)',
    _STRING,
    r"(?<![0-9A-Fa-f])" + _SINGLE,
)
_C = BraceLanguage(skipped=_C_SKIPPED, classify=_c, prepare=one_branch_of_each)

# CSS and SCSS: each rule is a definition, named by its selector.


def _css(header: str, scope: Scope) -> Found | Inline | None:
    if header.endswith("#"):
        return INLINE
    name = " ".join(header.split())
    if not name:
        return None
    return Found((name,), 0, 0, Scope.OUTER)


_CSS_STRINGS = (r"url\([^)\"'\n]*+\)?", _STRING, _SINGLE)
_CSS = BraceLanguage(
    skipped=_skipped(r"(?P<comment>/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)", *_CSS_STRINGS), classify=_css
)
_SCSS = BraceLanguage(skipped=_skipped(_COMMENTS, *_CSS_STRINGS), classify=_css)

BRACE_LANGUAGES = {
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "go": _GO,
    "rust": _RUST,
    "java": _JAVA,
    "c": _C,
    "cpp": _C,
    "css": _CSS,
    "scss": _SCSS,
}
