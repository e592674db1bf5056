"""Cells of Jupyter notebooks."""

from __future__ import annotations

import json

import pytest

from sqlindex.model.documents import ParsedDocument, Section, SectionKind
from sqlindex.parsing.json_keys import JsonParser
from sqlindex.parsing.notebook import NotebookParser

pytestmark = pytest.mark.req("A-7", "A-10")

MARKDOWN = {
    "cell_type": "markdown",
    "id": "m1",
    "metadata": {},
    "source": ['intro "x"\n', "\n", "# Pumpe\n", "```\n", "# none\n", "```\n", "## Ausbau"],
}
CODE = {
    "cell_type": "code",
    "execution_count": 3,
    "id": "c1",
    "metadata": {},
    "outputs": [
        {"name": "stdout", "output_type": "stream", "text": ["zeile eins\n", "zwei\n"]},
        {"data": {"image/png": "iVBORw0", "text/html": "<b>", "text/plain": ["<Figure>"]}},
    ],
    "source": ["x = 1\n", "\n", 'print("Gr\u00f6\u00dfe\\n")'],
}
ABOUT = {"kernelspec": {"language": "python", "name": "python3"}, "language_info": {"name": "R"}}


def notebook(*cells: object, indent: int | None = 1) -> str:
    value = {"cells": cells, "metadata": ABOUT, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(value, indent=indent) + "\n"


def parse(text: str) -> ParsedDocument:
    return NotebookParser().parse(text, "json")


def reading(text: str, parsed: ParsedDocument, section: Section) -> str:
    out, position = [], section.start_char
    for part in parsed.rendered:
        if section.start_char <= part.start_char < section.end_char:
            out += [text[position : part.start_char], part.text]
            position = part.end_char
    return "".join([*out, text[position : section.end_char]])


@pytest.mark.parametrize("indent", [0, 1, 2, 4])
def test_cells_read_as_their_source_under_the_headings_above_them(indent: int) -> None:
    text = notebook(MARKDOWN, CODE, indent=indent)
    parsed = parse(text)
    found = [
        (s.kind, s.heading_path, reading(text, parsed, s).strip()) for s in parsed.sections[:-1]
    ]
    headings = ("Pumpe", "Ausbau")
    assert found[0] == (SectionKind.BODY, ("Pumpe",), "".join(MARKDOWN["source"]))
    kind, path, output = found[1]
    assert (kind, path) == (SectionKind.RAW, headings)
    assert output.split() == ["zeile", "eins", "zwei", "<Figure>"]
    assert found[2] == (SectionKind.BODY, headings, 'x = 1\n\nprint("Größe\\n")')
    last = parsed.sections[-1]
    assert last.kind is SectionKind.RAW
    assert text[last.start_char :].lstrip().startswith('"metadata"')
    assert parsed.title == "Pumpe"
    assert parsed.language == "r"


def test_a_rendered_line_stands_at_its_line_of_the_file() -> None:
    text = notebook(MARKDOWN, CODE)
    parsed = parse(text)
    cell = parsed.sections[0]
    assert "# Pumpe" in text.split("\n")[cell.heading_line - 1]
    assert reading(text, parsed, cell).split("\n")[cell.heading_line - 1] == "# Pumpe"
    assert all("\n" not in text[part.start_char : part.end_char] for part in parsed.rendered)


def test_a_source_of_one_string_is_one_line() -> None:
    text = notebook({"cell_type": "code", "source": "a = 1\nb = 2\n"}, CODE)
    parsed = parse(text)
    assert reading(text, parsed, parsed.sections[0]).strip() == "a = 1 b = 2"


def test_strings_on_one_line_stay_apart() -> None:
    text = '{"cells": [\n{"source": ["import os\\n", "x"]}\n]}'
    parsed = parse(text)
    assert reading(text, parsed, parsed.sections[0]).strip() == "import os x"


def test_nbformat_3_has_its_cells_in_a_worksheet_and_heading_cells() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "metadata": {}, "source": ["Wartung"]},
        {
            "cell_type": "code",
            "input": ["y = 2"],
            "outputs": [{"output_type": "pyout", "text": ["2"]}],
        },
    ]
    value = {"metadata": {"name": "n"}, "nbformat": 3, "worksheets": [{"cells": cells}]}
    text = json.dumps(value, indent=1)
    parsed = parse(text)
    assert [
        (s.kind, s.heading_path, reading(text, parsed, s).strip()) for s in parsed.sections[1:]
    ] == [
        (SectionKind.BODY, ("Wartung",), "Wartung"),
        (SectionKind.BODY, ("Wartung",), "y = 2"),
        (SectionKind.RAW, ("Wartung",), "2"),
    ]
    assert '"nbformat"' in text[: parsed.sections[0].end_char]


@pytest.mark.parametrize(
    "text",
    [
        notebook(MARKDOWN, CODE, indent=None),
        notebook(MARKDOWN, CODE)[:-20],
        notebook(),
        '{"cells": [\n{"outputs": [{"text": "a"}], "source": "b"}\n]}',
        '{"cells": 1}',
        "[" * 100_000,
    ],
    ids=["minified", "broken", "no cells", "one line a cell", "no list", "deep"],
)
def test_what_is_not_laid_out_line_by_line_is_read_as_json(text: str) -> None:
    assert parse(text) == JsonParser().parse(text, "json")


def test_a_lone_surrogate_in_a_heading_can_be_stored() -> None:
    text = notebook({"cell_type": "markdown", "source": ["# a\ud83d"]})
    assert "\\ud83d" in text
    assert parse(text).sections[0].heading_path == ("a?",)
