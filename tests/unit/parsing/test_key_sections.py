"""Sections by key in JSON, YAML, TOML and INI."""

from __future__ import annotations

import json

import pytest

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.registry import builtin_parsers

pytestmark = pytest.mark.req("A-7", "A-10")

LONG = "wert " * 100
"""Two of them do not fit into one section."""


def parse(parser_id: str, text: str) -> ParsedDocument:
    return builtin_parsers().parser(parser_id).parse(text, parser_id)


def paths(parser_id: str, text: str) -> list[tuple[str, int]]:
    return [
        (".".join(section.heading_path), section.heading_line)
        for section in parse(parser_id, text).sections
    ]


def blocks(parser_id: str, text: str) -> list[str]:
    return [text[block.start_char : block.end_char] for block in parse(parser_id, text).blocks]


def read(text: str) -> str:
    """The text as its rendered parts say."""
    out, position = [], 0
    for part in parse("json", text).rendered:
        out += [text[position : part.start_char], part.text]
        position = part.end_char
    return "".join([*out, text[position:]])


@pytest.mark.parametrize(
    ("parser_id", "text"),
    [
        ("json", '{\n  "server": {\n    "port": 1\n  },\n  "log": 2\n}\n'),
        ("yaml", "server:\n  port: 1\nlog: 2\n"),
        ("toml", "[server]\nport = 1\n[log]\nlevel = 2\n"),
        ("ini", "[server]\nport = 1\n[log]\nlevel = 2\n"),
    ],
)
def test_a_small_file_is_one_section(parser_id: str, text: str) -> None:
    assert paths(parser_id, text) == [("", 0)]


def test_large_containers_are_divided_and_small_neighbours_stay_together() -> None:
    value = {
        "server": {"host": LONG, "tls": {"cert": LONG, "key": LONG}},
        "a": 1,
        "b": {"c": 2},
        "text": LONG,
        "d": 3,
    }
    text = json.dumps(value, indent=2)
    assert paths("json", text) == [
        ("server.host", 3),
        ("server.tls.cert", 5),
        ("server.tls.key", 6),
        ("a – d", 9),
    ]
    assert [s.level for s in parse("json", text).sections] == [2, 3, 3, 1]


def test_elements_of_an_array_are_named_by_a_telling_member_or_their_index() -> None:
    value = {
        "jobs": [
            {"id": 7, "name": "build", "text": LONG},
            {"id": 8, "text": LONG},
            {"name": {"a": 1}, "text": LONG},
            {"name": "", "text": LONG},
        ]
    }
    found = [path for path, _ in paths("json", json.dumps(value, indent=1))]
    assert found == ["jobs.build", "jobs.8", "jobs.[2]", "jobs.[3]"]


def test_minified_json_is_one_section() -> None:
    text = json.dumps({"a": {"b": LONG}, "c": [{"name": LONG}]}, separators=(",", ":"))
    assert paths("json", text) == [("", 0)]


def test_comments_belong_to_the_key_below_and_behind_a_value_to_it() -> None:
    text = f'{{\n  "a": "{LONG}", // of a\n  // about b\n  /* too */\n  "b": "{LONG}",\n}}\n'
    document = parse("json", text)
    assert paths("json", text) == [("a", 2), ("b", 5)]
    assert text[document.sections[1].start_char :].startswith("  // about b")


@pytest.mark.parametrize(
    "text",
    [
        f'{{\n"a": "{LONG}",\n"b": [1, 2}},\n"c": "{LONG}"\n}}',
        f'{{\n"a": "{LONG}",\n"b": "open,\n"c": "{LONG}"\n',
        f'{{\n"a": "{LONG}"\n]]]\n"c": "{LONG}"\n',
    ],
)
def test_broken_json_still_has_sections(text: str) -> None:
    assert paths("json", text)[-1] == ("c", 4)


@pytest.mark.parametrize(
    ("written", "reading"),
    [
        (r"Gr\u00f6\u00dfe", "Größe"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d alone \ude00", r"\ud83d alone \ude00"),
        (r"a\nb\r\u000ac\u0000", "a b  c "),
        (r"tab\t quote\" slash\/ back\\n", 'tab\t quote" slash/ back\\n'),
        (r"\q \u12", r"\q \u12"),
    ],
)
def test_escapes_read_as_their_characters(written: str, reading: str) -> None:
    assert read(f'{{"k": "{written}"}}') == f'{{"k": "{reading}"}}'


def test_yaml_keys_lists_and_documents() -> None:
    text = (
        "# about the service\n"
        "service:\n"
        f"  'quoted: key': {LONG}\n"
        "  steps:\n"
        f"  - name: build  # first\n    run: {LONG}\n"
        f"  - run: {LONG}\n"
        f"  -\n    id: three\n    run: {LONG}\n"
        "---\n"
        f"other:\n  a: {LONG}\n  b: {LONG}\n"
    )
    assert paths("yaml", text) == [
        ("service.quoted: key", 3),
        ("service.steps.build", 5),
        ("service.steps.[1]", 7),
        ("service.steps.three", 8),
        ("other.a", 13),
        ("other.b", 14),
    ]


def test_yaml_values_over_several_lines_hold_no_keys() -> None:
    scalar = "text: |\n  no: key\n\n  - none: either\n" + f"  {LONG}\n" * 2
    flow = "flow: {a: 1,\n  b: [2,\n  c: 3\n]}\n"
    quoted = f'quoted: "x\n  no: key\n  {LONG}"\n'
    plain = f"plain: x\n  no: key\n  {LONG}\n"
    found = paths("yaml", scalar + flow + quoted + plain + f"last: {LONG}\n")
    assert [path for path, _ in found] == ["text", "flow – quoted", "plain", "last"]
    assert blocks("yaml", scalar + flow) == [scalar.rstrip("\n")]


def test_an_unclosed_yaml_value_ends_with_its_indentation() -> None:
    text = f'a: "open\n  x\nb: [1,\n  2\nc: {LONG}\nd: {LONG}\n'
    assert [path for path, _ in paths("yaml", text)] == ["a – c", "d"]


def test_toml_tables_arrays_and_dotted_keys() -> None:
    text = (
        f'title = "x"\n[tool.ruff]\na = "{LONG}"\nb.c = "{LONG}"\n'
        f'[[package]]\nname = "click"\nx = "{LONG}"\n'
        f'[[package]]\nx = "{LONG}"\n[package."deep.er"]\ny = "{LONG}"\n'
    )
    assert paths("toml", text) == [
        ("title", 1),
        ("tool.ruff.a", 3),
        ("tool.ruff.b.c", 4),
        ("package.click", 5),
        ("package.[1].x", 9),
        ("package.[1].deep.er", 10),
    ]


def test_toml_values_over_several_lines_are_blocks() -> None:
    text = 'a = """\n[no.table]\nb = 1 \\"""\n"""\nc = [\n  "]", # ]\n  [1],\n]\nd = 1\n'
    assert blocks("toml", text) == [text[: text.index("\nc =")], text[text.index("c =") : -7]]


def test_unclosed_toml_values_do_not_swallow_the_tables_below() -> None:
    text = f'a = [\n"x",\n[b]\nx = "{LONG}"\n[c]\nx = """open\n[d]\nx = "{LONG}"\n'
    assert [path for path, _ in paths("toml", text)] == ["a – c", "d"]


def test_ini_sections_and_values_over_several_lines() -> None:
    text = (
        "; head\n[options]\n"
        f"packages =\n    one\n    two\nlong: {LONG}\nother = {LONG}\n"
        f"[ alone ]\n\tkey = {LONG}\n\tkey2 = 1\n"
    )
    found = [path for path, _ in paths("ini", text)]
    assert found == ["options.packages – long", "options.other", "alone"]
    assert blocks("ini", text) == ["packages =\n    one\n    two"]


@pytest.mark.parametrize("parser_id", ["json", "yaml"])
def test_carriage_returns_change_no_heading(parser_id: str) -> None:
    text = json.dumps({"a": {"x": LONG, "y": LONG}, "b": LONG}, indent=1)
    if parser_id == "yaml":
        text = f"a:\n  x: {LONG}\n  y: {LONG}\nb: {LONG}\n"
    assert paths(parser_id, text.replace("\n", "\r\n")) == paths(parser_id, text)
