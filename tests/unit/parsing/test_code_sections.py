"""Sections of code: the rules that hold for every language, and what each language needs."""

from __future__ import annotations

import pytest

from sqlindex.model.documents import Section
from sqlindex.parsing.code import CodeParser
from sqlindex.parsing.code_sections import SHORT_CHARS, SPLIT_CHARS

pytestmark = pytest.mark.req("A-10")

LONG = "call(one, two, three);\n" * 12
"""Statements that make a definition long enough for a section of its own."""
assert SHORT_CHARS < len(LONG) < SPLIT_CHARS / 4


def sections(text: str, language: str) -> tuple[Section, ...]:
    return CodeParser().parse(text, language).sections


def headings(text: str, language: str) -> list[str]:
    return [" › ".join(section.heading_path) for section in sections(text, language)]


def python(header: str, indent: str = "") -> str:
    return f"{indent}{header}\n" + f"{indent}    call(one, two, three)\n" * 10


def braces(header: str) -> str:
    return f"{header} {{\n{LONG}}}\n"


def test_an_unknown_language_and_code_without_definitions_are_one_section() -> None:
    text = python("def f():") * 9
    assert sections(text, "cobol") == (Section(0, len(text)),)
    assert sections("a = 1\n\nb = 2\n", "python") == (Section(0, 13),)


def test_a_definition_begins_with_the_comments_and_decorators_right_above_it() -> None:
    imports = "import os\n\n# not of f\n\n" + "x = 1\n"
    lead = "# of f\n# too\n@cached(\n    1\n)\n"
    text = imports + lead + python("def f():")
    first, second = sections(text, "python")
    assert (first.start_char, first.end_char, first.level) == (0, len(imports), 0)
    assert second == Section(len(imports), len(text), ("f",), 1, 11)


def test_a_comment_behind_code_belongs_to_that_code() -> None:
    above = "int a; /* of a */\n"
    assert sections(above + braces("void f(void)"), "c")[1].start_char == len(above)


def test_a_caption_announces_the_definition_below_it() -> None:
    text = python("def f():") + "\n\n# --- g ---\n\n\n" + python("def g():")
    assert headings(text, "python") == ["f", "g"]
    assert sections(text, "python")[1].heading_line == 17


def test_a_class_that_fits_stays_whole_and_a_longer_one_is_split_at_its_methods() -> None:
    small = "class A:\n" + python("def f(self):", "    ")
    assert headings(small, "python") == ["A"]
    members = "".join(python(f"def f{n}(self):", "    ") for n in range(6))
    rest = "    y = 2\n" * 9
    text = "class A:\n    x = 1\n\n" + members + rest + "\n\n" + "z = 3\n" * 15
    assert headings(text, "python") == ["A", *(f"A › f{n}" for n in range(6)), "A", ""]
    head, *_, tail, outside = sections(text, "python")
    assert (head.heading_line, tail.heading_line, outside.heading_line) == (1, 0, 0)
    assert (tail.level, outside.level) == (1, 0)
    assert text[tail.start_char : tail.end_char].rstrip() == rest.rstrip()


def test_a_last_line_that_defines_nothing_stays_with_what_is_above() -> None:
    text = "def f():\n" + python("def inner():", "    ") * 5 + "    return inner\n"
    *_, last = sections(text, "python")
    assert last.heading_path == ("f", "inner")
    assert text[last.start_char :].endswith("return inner\n")


def test_functions_in_a_function_are_split_only_if_it_is_long() -> None:
    inner = python("def inner():", "    ")
    assert headings(python("def f():") + inner, "python") == ["f"]
    text = python("def f():") + inner * 5
    assert headings(text, "python") == ["f", *["f › inner"] * 5]


def test_short_definitions_share_a_section_and_a_single_one_keeps_its_name() -> None:
    short = "def a(): pass\n\n\ndef b(): pass\n\n\n"
    assert headings(short + python("def f():"), "python") == ["a, b", "f"]
    one = "def a(): pass\n\n\n"
    assert headings(python("def f():") + one + python("def g():"), "python") == ["f", "a", "g"]
    assert headings("import os\n\n\n" + one + python("def g():"), "python") == ["a", "g"]


def test_short_neighbours_are_named_after_all_and_share_no_more_than_a_chunk() -> None:
    text = "".join(f"class Error{n}(Exception):\n    code = '{n:>120}'\n\n\n" for n in range(20))
    found = sections(text, "python")
    assert [len(text[s.start_char : s.end_char]) <= 1_100 for s in found] == [True] * len(found)
    named = [name for s in found for name in s.heading_path[0].split(", ")]
    assert named == [f"Error{n}" for n in range(20)]
    many = "".join(f"x{'y' * 30}{n} = lambda: 1\ndef f{'y' * 30}{n}(): pass\n" for n in range(9))
    (first, *_) = sections(many, "python")
    assert first.heading_path[0].endswith(", …")
    assert len(first.heading_path[0]) <= 205


def test_the_brace_that_closes_a_class_is_no_section() -> None:
    text = "namespace a {\n" + braces("void f()") * 6 + "}  // namespace a\n"
    assert headings(text, "cpp") == ["a", *["a › f"] * 6]


def test_definitions_on_one_line_are_one_section() -> None:
    text = "function f(){" + "a();" * 99 + "}function g(){" + "b();" * 99 + "}"
    assert headings(text, "javascript") == ["f"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_offsets_are_those_of_the_text_as_it_is(newline: str) -> None:
    text = "\ufeffx = '\U0001f680 ä'\n\n" + python("def größe():") + python("def b():")
    text = text.replace("\n", newline)
    _, first, second = sections(text, "python")
    assert text[first.start_char :].startswith("def größe")
    assert text[second.start_char :].startswith("def b")
    assert second.end_char == len(text)


def test_python_strings_and_brackets_hold_no_definitions() -> None:
    text = (
        python("def f(\n    a,\n):")
        + '    x = """\ndef no():\n"""\n'
        + "    y = [\n1,\n2,\n] + [\n'def no():']\n    z = 1 + \\\n2\n"
        + python("def g():")
    )
    assert headings(text, "python") == ["f", "g"]


def test_a_python_bracket_that_is_never_closed_hides_no_later_definition() -> None:
    text = "x = foo(\n\n" + python("def f():") + "y = [1,\n" + python("class A(B):")
    assert headings(text, "python") == ["", "f", "", "A"]


@pytest.mark.parametrize(
    ("header", "language", "path"),
    [
        ("export default async function* main(a, { b }, c = {})", "javascript", "main"),
        ("const f = async ({ a }) =>", "javascript", "f"),
        ("export const f: (a: A) => void = (a) =>", "typescript", "f"),
        ("Foo.prototype.bar = function (a)", "javascript", "Foo › bar"),
        ("exports.bar = (a) =>", "javascript", "bar"),
        ("module.exports = class Foo extends Bar", "javascript", "Foo"),
        ("function f<T extends { a: string }>(a: T): { b: T } | null", "typescript", "f"),
        ("declare namespace A.B", "typescript", "A.B"),
        ("export type A =", "typescript", "A"),
        ("export const enum A", "typescript", ""),
        ("func (s *Stand[T]) Turn(a interface{}) (b map[string]interface{})", "go", "Stand › Turn"),
        ("func New[T any](a ...T) struct{}", "go", "New"),
        ("type Stand[T any] struct", "go", "Stand"),
        ("pub(crate) unsafe extern \"C\" fn f<'a>(a: &'a str) -> impl Fn(u8) + 'a", "rust", "f"),
        (
            "unsafe impl<'a, T: Fn(u8) -> u8> Send for Stand<'a, T> where T: A",
            "rust",
            "Send for Stand",
        ),
        ("impl<T> From<Vec<T>> for a::Stand<T>", "rust", "From<Vec<T>> for a::Stand"),
        ("impl Stand", "rust", "Stand"),
        ("macro_rules! valve", "rust", "valve"),
        ("public @interface Logged", "java", "Logged"),
        ("sealed interface A<T extends B> permits C", "java", "A"),
        ("static struct a *f(int (*done)(int), struct b *b)", "c", "f"),
        ("PyAPI_FUNC(int)\nf(PyObject *self)", "c", "f"),
        ("__attribute__((noreturn)) void f(void)", "c", "f"),
        ("typedef enum a", "c", "a"),
        ("struct __attribute__((packed)) a", "c", "a"),
        ("A::A(int x) : B(x), y_{x}, z_(2)", "cpp", "A › A"),
        (
            "template <class T = std::vector<int>>\nauto A<T>::b(T t) const -> decltype(t)",
            "cpp",
            "A › b",
        ),
        ("bool operator==(const A& a, const A& b)", "cpp", "operator=="),
        ("A::operator bool() const", "cpp", "A › operator bool"),
        ("class EXPORT A final : public B<(1 > 0)>", "cpp", "A"),
        ("enum class A : int", "cpp", "A"),
        ("int a[] =", "c", ""),
        ("auto f = [](int a)", "cpp", ""),
        (
            "@media (min-width: 1px) and (max-width: 2px)",
            "css",
            "@media (min-width: 1px) and (max-width: 2px)",
        ),
        ("a,\nb > c", "scss", "a, b > c"),
        ("function turn_all", "shell", "turn_all"),
        ("turn-all()", "shell", "turn-all"),
    ],
)
def test_names_in_headers(header: str, language: str, path: str) -> None:
    assert headings(braces(header), language) == [path]


def test_a_statement_without_semicolon_above_a_function_is_not_part_of_it() -> None:
    assert headings("const a = b()\n" + braces("function f()"), "javascript") == ["", "f"]
    assert headings("var a = b\n" + braces("func f()"), "go") == ["", "f"]


@pytest.mark.parametrize(
    ("members", "language", "names"),
    [
        (
            ["constructor({ a })", "async get(a)", "static get size()", "#secret()", "*[a.b]()"],
            "javascript",
            ["constructor", "get", "size", "#secret", "[a.b]"],
        ),
        (
            ["a: string\n  @Memo()\n  private async b<T>(c: T): Promise<void>", "c = (): void =>"],
            "typescript",
            ["b", "c"],
        ),
        (
            ["public A(int a)", "@Override\n@B({1, 2})\nint b() throws C", "static <T> T c(T t)"],
            "java",
            ["A", "b", "c"],
        ),
        (
            [
                "public:\n  A()",
                "~A() override",
                "A& operator=(const A&) = delete;\n  int b() const",
            ],
            "cpp",
            ["A", "~A", "b"],
        ),
    ],
)
def test_members_of_a_class(members: list[str], language: str, names: list[str]) -> None:
    body = "".join(braces(member) for member in [*members, *members, *members])
    found = headings(f"class A {{\n{body}}}\n", language)
    assert [name for name in found if name != "A"] == [f"A › {name}" for name in names * 3]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("const a = \"{\", b = '(', c = `${d ? `{` : '{'}`, e = /[/{(]/g // {\n", "javascript"),
        (
            'char a = \'{\', *b = "\\"{"; int c = 1\'000\'000; auto d = R"x({)" )x"; /* { */\n',
            "cpp",
        ),
        ('let a: &\'static str = "\\"{"; let b = \'{\'; let c = br##"{"# "##;\n', "rust"),
        ("var a = `{\"`\nvar b = '{' // {\n", "go"),
        ('String a = """\n { " \\""" {\n""";\nchar b = \'{\';\n', "java"),
        ("#define A(b) { /* {\n*/ b \\\n  {\n#if A\n{\n#elif B\n{\n}\n#else\n#endif\n}\n", "c"),
    ],
)
def test_brackets_in_what_is_no_code_do_not_count(text: str, language: str) -> None:
    function = {"rust": "fn f()", "go": "func f()", "javascript": "function f()"}
    header = function.get(language, "class f" if language == "java" else "void f()")
    # Indented, so that a definition at the margin cannot mend the count.
    inner = braces(f"  {header}")
    if language == "go":
        inner = braces(header)
    assert headings(text + inner, language)[-1] == "f"


def test_a_missing_brace_hides_no_definition_at_the_margin() -> None:
    text = "void f(void) {\n  if (a) {\n    call(b;\n}\n\n" + braces("void g(void)")
    assert headings(text, "c") == ["f", "g"]
    assert headings("}})\n" + braces("void g(void)"), "c") == ["", "g"]


def test_macros_that_look_like_functions_are_none_in_a_function() -> None:
    text = braces("void f(void)") + "void g(void) {\n" + braces("  list_for_each(a, b)") * 6 + "}\n"
    assert headings(text, "c") == ["f", "g"]


def test_shell_functions_end_at_the_margin() -> None:
    text = f"f() {{\n  if a; then\n  g() {{ :; }}\n{LONG}}}\nx=1\nh() {{ :; }}\n"
    assert headings(text, "shell") == ["f", "h"]


def test_sql_statements_end_where_the_next_one_begins() -> None:
    view = 'CREATE OR REPLACE VIEW a."b" AS\nSELECT 1,\n' + "  'SELECT;',\n" * 20 + "  2;\n"
    text = view + "SELECT 1;\n\n-- Of the second view.\n" + view
    assert headings(text, "sql") == ["a.b", "", "a.b"]
    assert text[sections(text, "sql")[2].start_char :].startswith("-- Of")
