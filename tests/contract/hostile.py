"""Texts that are hostile to parsers, by the length wanted; what each parser must take in linear time."""

from __future__ import annotations

from collections.abc import Callable

ANY: dict[str, Callable[[int], str]] = {
    "one long line": lambda n: "äb " * (n // 3),
    "blank lines": lambda n: "a" + "\n" * n,
    "opening brackets": lambda n: "{[(<" * (n // 4),
    "quotes": lambda n: "\"'`" * (n // 3),
    "short lines": lambda n: "a\n" * (n // 2),
}
"""What every parser is given; `HOSTILE` adds what is hostile to one."""

MARKDOWN: dict[str, Callable[[int], str]] = {
    "quotes": lambda n: ">" * n,
    "brackets": lambda n: "[" * n,
    "backticks": lambda n: "`" * n,
    "backtick runs": lambda n: "".join("`" * (1 + i % 99) + "a" for i in range(n // 51)),
    "image openers": lambda n: "![" * (n // 2),
    "emphasis": lambda n: "# " + "*a_" * (n // 3),
    "nested quotes": lambda n: (">" * 120 + "a\n") * (n // 122),
    "nested lists": lambda n: "- " * (n // 2),
    "deep list": lambda n: "".join("  " * (i % 90) + "- a\n" for i in range(n // 94)),
    "comments": lambda n: "a <!-- " * (n // 7),
    "fences": lambda n: ("```\n" + "a" * 20 + "\n") * (n // 25),
    "front matter flow": lambda n: "---\n" + "[" * (n // 2) + "\n---\n" + "a" * (n // 2),
    "underline far away": lambda n: "a" * (n // 2) + "\n" + "b\n" * (n // 8) + "===",
    "blank lines": lambda n: "a" + "\n" * n,
    "one long line": lambda n: "äb " * (n // 3),
    "bars": lambda n: "|" * n,
    "lines of bars": lambda n: "|\n" * (n // 2),
    "wide table": lambda n: "|a" * (n // 6) + "\n" + "|-" * (n // 6) + "\n" + "|b" * (n // 6),
    "wide delimiter row": lambda n: "a\n" + "|:-:" * (n // 4) + "|x",
    "delimiter rows that fit nothing": lambda n: "a|b\n-|-|-\n" * (n // 10),
    "tables": lambda n: "|a|\n|-|\n|[b](c)|\n\n" * (n // 20),
    "wiki links in a row": lambda n: "|a|\n|-|\n|" + "[[a\\|b]]|" * (n // 9),
    "open wiki links": lambda n: "[[a|" * (n // 4),
    "footnotes": lambda n: "[^1]: a\n" * (n // 8),
    "nested footnotes": lambda n: ("[^1]: " * 99 + "a\n\n") * (n // 600),
    "long footnote": lambda n: "[^1]:\n" + "    a\n\n" * (n // 7),
    "footnote references": lambda n: "[^1]" * (n // 4),
    "definitions": lambda n: "[a]: b\n" * (n // 7),
    "callouts": lambda n: "> [!NOTE] a\n> b\n\n" * (n // 17),
    "nested callouts": lambda n: (">" * 90 + " [!NOTE]\n") * (n // 99),
    "items of paragraphs": lambda n: "- a\n\n  b\n\n" * (n // 11),
    "headings in quotes": lambda n: "> a\n> # b\n" * (n // 10),
    "HTML links": lambda n: "<div>\n" + "<a href=b>" * (n // 10),
    "open HTML tags": lambda n: "<div>\n" + "<a href='" * (n // 9),
    "open HTML comments": lambda n: "<div>\n" + "<!-- <a " * (n // 8),
    "HTML links in a line": lambda n: "a " + "<a href='b'>" * (n // 12),
}

HTML: dict[str, Callable[[int], str]] = {
    "comments": lambda n: "a <!-- " * (n // 7),
    "declarations": lambda n: "<![" * (n // 3),
    "bogus comments": lambda n: "<!a></ b><?c>" * (n // 13),
    "ampersands": lambda n: "&" * n,
    "references": lambda n: "&amp;&#x41;&copy" * (n // 16),
    "digits of a reference": lambda n: "&#" + "9" * n,
    "unknown references": lambda n: "&aaaaaaaaaaaa" * (n // 13),
    "unclosed quotes": lambda n: "<a b=\"<a b='" * (n // 12),
    "tags without an end": lambda n: "<a b " * (n // 5),
    "attributes": lambda n: "<a " + "b=c " * (n // 4) + ">",
    "equals signs": lambda n: "<a " + "=" * n,
    "slashes": lambda n: "<a" + "/" * n,
    "tags": lambda n: "<b>" * (n // 3),
    "tags over lines": lambda n: "<b\n>" * (n // 4),
    "tables": lambda n: "<table>" * (n // 14) + "</table>" * (n // 16),
    "blocks that cross": lambda n: "<pre><table></pre>" * (n // 18),
    "headings": lambda n: "<h1>a" * (n // 5),
    "headings on lines": lambda n: "<h1>a</h1>\n" * (n // 11),
    "links": lambda n: "<a href=b>" * (n // 10),
    "scripts": lambda n: "<script>a</script>" * (n // 18),
    "scripts on lines": lambda n: "<script>a</script>\n" * (n // 19),
    "scripts never closed": lambda n: "<script><!--" * (n // 12),
    "closing tags": lambda n: "</table></h1></a></pre>" * (n // 23),
    "blanks before blocks": lambda n: " " * (n // 2) + "<pre></pre>" * (n // 22),
    "foreign text": lambda n: "<svg><![CDATA[" * (n // 14),
    "titles": lambda n: "<title>" * (n // 7),
}

RST: dict[str, Callable[[int], str]] = {
    "adornments": lambda n: "=" * n,
    "short adornments": lambda n: "==\n" * (n // 3),
    "titles": lambda n: "a\n=\n" * (n // 4),
    "overlines": lambda n: "====\na\n----\n" * (n // 12),
    "literal blocks": lambda n: "a::\n\n b\n" * (n // 8),
    "comments": lambda n: "..\n b\n" * (n // 6),
    "comments before blank lines": lambda n: ".. a\n\n\n\n" * (n // 8),
    "directives": lambda n: ".. note::\n" * (n // 10),
    "list tables": lambda n: ".. list-table::\n  :header-rows: 9\n\n  * - a\n" * (n // 45),
    "table tops": lambda n: "== ==\na\n" * (n // 8),
    "grid tops": lambda n: "+-+-+\n" * (n // 6),
    "fields": lambda n: ":a: b\n" * (n // 6),
    "colons": lambda n: ":a" * (n // 2),
    "one role": lambda n: ":" + "a:" * (n // 2) + "`",
    "backquotes": lambda n: "`" * n,
    "open links": lambda n: "`a <" * (n // 4),
    "open literals": lambda n: "``a `" * (n // 5),
    "targets": lambda n: ".. _a: b\n" * (n // 9),
    "one target": lambda n: ".. _" + "a:" * (n // 2),
    "one directive": lambda n: ".. " + "a:" * (n // 2),
    "deeper and deeper": lambda n: "".join(" " * (i % 90) + "a\n" for i in range(n // 47)),
}

ORG: dict[str, Callable[[int], str]] = {
    "headlines": lambda n: "* a\n" * (n // 4),
    "stars": lambda n: "*" * n,
    "tags": lambda n: "* a " + ":a" * (n // 2),
    "blocks never ended": lambda n: "#+BEGIN_SRC\n" * (n // 12),
    "blocks of many names": lambda n: "".join(f"#+BEGIN_{i}\n" for i in range(n // 13)),
    "drawers never ended": lambda n: ":PROPERTIES:\n" * (n // 13),
    "drawers ended by headlines": lambda n: ":PROPERTIES:\n" * (n // 13) + "* a\n:END:",
    "fixed width": lambda n: ": a\nb\n" * (n // 6),
    "tables": lambda n: "|a\n|-\n" * (n // 6),
    "open links": lambda n: "[[a" * (n // 3),
    "open labels": lambda n: "[[a][b\n" * (n // 7),
    "angles": lambda n: "<a:" * (n // 3),
    "states": lambda n: "#+TODO: " + "A | " * (n // 4),
}

TEX: dict[str, Callable[[int], str]] = {
    "open sections": lambda n: "\\section{" * (n // 9),
    "open options": lambda n: "\\section[" * (n // 9),
    "open titles and links": lambda n: "\\title{\\href{a}{" * (n // 17),
    "open groups": lambda n: "\\section" + "{" * n,
    "sections": lambda n: "\\section{a}\n" * (n // 12),
    "links": lambda n: "\\href{a}{" * (n // 9),
    "blanks": lambda n: "\\section   " * (n // 11),
    "backslashes": lambda n: "\\" * n,
    "comments": lambda n: "%a\n" * (n // 3),
    "verbatim never ended": lambda n: "\\begin{verbatim}" * (n // 16),
    "tables never ended": lambda n: "\\begin{tabular}" * (n // 15),
    "tables": lambda n: "\\begin{tabular}\\\\\\end{tabular}\n" * (n // 31),
    "inline verbatim": lambda n: "\\verb|" * (n // 6),
}

JSON: dict[str, Callable[[int], str]] = {
    "nested arrays": lambda n: "[" * n,
    "nested objects on lines": lambda n: '{"a":\n' * (n // 6),
    "elements on lines": lambda n: '[\n{"name":' * (n // 10),
    "keys on one line": lambda n: "{" + '"a": 1, ' * (n // 8),
    "keys on lines": lambda n: "{" + '"a": 1,\n' * (n // 8),
    "closing brackets": lambda n: "[{" * 10 + "]" * n,
    "quotes on lines": lambda n: '{"\n' * (n // 3),
    "backslashes": lambda n: '{"a": "' + "\\" * n,
    "escapes": lambda n: '{"a": "' + "\\n\\u00e4" * (n // 8),
    "lone surrogates": lambda n: '{"a": "' + "\\ud83d" * (n // 6),
    "open comments": lambda n: "/*" * (n // 2),
    "comments": lambda n: "/**/" * (n // 4),
    "spaces behind strings": lambda n: ("{" + '"a"' + " " * 97) * (n // 101),
}

YAML: dict[str, Callable[[int], str]] = {
    "dashes": lambda n: "- " * (n // 2),
    "deep mapping": lambda n: "".join(" " * (i % 180) + "a:\n" for i in range(n // 93)),
    "deep list": lambda n: "".join("  " * (i % 90) + "- a:\n" for i in range(n // 95)),
    "keys": lambda n: "a: b\n" * (n // 5),
    "colons": lambda n: "a:" * (n // 2),
    "hashes": lambda n: "a#" * (n // 2),
    "open quotes": lambda n: "a: 'b\n" * (n // 6),
    "open flow": lambda n: "a: [\n" * (n // 5),
    "block scalars": lambda n: "a: |\n b\n" * (n // 8),
    "anchors": lambda n: "- " + "&a " * (n // 3),
    "documents": lambda n: "---\na: 1\n" * (n // 9),
    "comments": lambda n: "# a\n" * (n // 4),
}

TOML: dict[str, Callable[[int], str]] = {
    "tables": lambda n: "[a.b]\n" * (n // 6),
    "elements": lambda n: "[[a]]\nname = 1\n" * (n // 15),
    "long header": lambda n: "[" + "a." * (n // 2),
    "long key": lambda n: "a . " * (n // 4) + "= 1",
    "open strings": lambda n: 'a = """\n' * (n // 8),
    "open literal strings": lambda n: "a = '''b\n" * (n // 9),
    "escaped quotes": lambda n: 'a = """' + '\\"""' * (n // 4),
    "open arrays": lambda n: "a = [\n" * (n // 6),
    "open arrays before tables": lambda n: "a = [\n[b]\n" * (n // 10),
}

INI: dict[str, Callable[[int], str]] = {
    "headers": lambda n: "[a]\n" * (n // 4),
    "open header": lambda n: "[" + " " * (n // 2) + "a" * (n // 2),
    "keys": lambda n: "a = b\n" * (n // 6),
    "continuations": lambda n: "a = b\n" + " c\n" * (n // 3),
}

CSV: dict[str, Callable[[int], str]] = {
    "open fields": lambda n: ',"a\n' * (n // 4),
    "odd runs of quotes": lambda n: '"""\n' * (n // 4),
    "doubled quotes": lambda n: '"' + '""' * (n // 2),
    "long records": lambda n: '"a\nb",c\n' * (n // 8),
    "long fields on one record": lambda n: '"a\n",' * (n // 5),
    "opening quotes far apart": lambda n: (',"' + "a" * 997 + "\n") * (n // 1_000),
}


def _notebook(n: int, cell: str) -> str:
    return '{"cells": [\n' + ",\n".join([cell] * (n // (len(cell) + 2))) + "\n]}"


NOTEBOOK: dict[str, Callable[[int], str]] = {
    "cells": lambda n: _notebook(n, '{"cell_type": "code", "source": ["a\\n"]}'),
    "headings": lambda n: _notebook(n, '{"cell_type": "markdown", "source": "# a\\n## b"}'),
    "one cell of many lines": lambda n: _notebook(
        n, '{"source": [\n' + '"a\\n",\n' * (n // 9 - 10) + '"b"]}'
    ),
    "outputs": lambda n: _notebook(n, '{"outputs": [\n{"text": ["a"]}],\n"source": []}'),
    "nested metadata": lambda n: _notebook(n, '{"a": ' + "[" * 50 + "]" * 50 + "}"),
}

CODE: dict[str, Callable[[int], str]] = {
    "opening braces": lambda n: "{" * n,
    "headers without end": lambda n: "@a\n" * (n // 3) + "class A {}",
    "templates": lambda n: "template <class A = B<" * (n // 22) + "{",
    "colons": lambda n: ("): " * 600 + "{}\n") * (n // 1_803),
    "operators": lambda n: "A::operator = (" * (n // 15) + "{",
    "generic types": lambda n: "a<" * (n // 2) + "{",
    "comments": lambda n: "/*" * (n // 2),
    "comments before one line": lambda n: "/**/" * (n // 4) + "\nvoid f() {}\n" * 9,
    "escapes": lambda n: "'\\\"`${" * (n // 6),
    "triple quotes": lambda n: '"""a' * (n // 4) + "\\",
    "raw strings": lambda n: 'r#"a R"x( $a$ ' * (n // 14),
    "regular expressions": lambda n: "=/[" * (n // 3),
    "conditional lines nested": lambda n: "#if a\n{\n" * (n // 18) + "#else\n#endif\n" * (n // 28),
    "indents": lambda n: "".join(" " * (i % 300) + "def f():\n" for i in range(n // 160)),
}

MORE_CODE: dict[str, Callable[[int], str]] = {
    "closing braces": lambda n: "}" * n,
    "nested definitions": lambda n: "class A { f() {\n" * (n // 16),
    "definitions on one line": lambda n: "function f(a){return b}" * (n // 23),
    "definitions never closed": lambda n: "int f(int a) {\n" * (n // 15),
    "margin again and again": lambda n: "fn f() {\n x(\n" * (n // 13),
    "arrows": lambda n: "const a = (b) => (\n" * (n // 19),
    "comment lines": lambda n: "// a\n# a\n-- a\n" * (n // 15) + "def f():\n  a\n",
    "hashes": lambda n: "r" + "#" * (n // 2) + '"' + '"###' * (n // 8),
    "conditional lines": lambda n: "#if a\n{\n#else\n{\n" * (n // 19),
    "decorators": lambda n: "@a(\n" * (n // 4),
    "statements": lambda n: "CREATE TABLE a (b);\n" * (n // 20),
    "functions": lambda n: "function f\n" * (n // 11),
    "spaces": lambda n: "function f" + " " * n + "(",
    "wide comments before braces": lambda n: ("//" + " a" * 900 + "\n = {\n") * (n // 1_810),
    "blanks before braces": lambda n: ("\n " * 900 + "{ = [ : ") * (n // 1_810),
}
"""Hostile to some language, and tried shorter with each."""

HOSTILE: dict[str, dict[str, Callable[[int], str]]] = {
    "code": CODE,
    "csv": CSV,
    "html": HTML,
    "ini": INI,
    "json": JSON,
    "markdown": MARKDOWN,
    "notebook": NOTEBOOK,
    "org": ORG,
    "rst": RST,
    "tex": TEX,
    "toml": TOML,
    "yaml": YAML,
}
