"""JSON, YAML and CSV agree with the usual libraries on well-formed texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlindex.parsing.csv_records import long_records
from sqlindex.parsing.json_keys import JsonParser
from sqlindex.parsing.key_tree import heading_name
from sqlindex.parsing.yaml_keys import YamlParser

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
"""Without NUL: its escape reads as a space, as no text may hold one."""
keys = st.one_of(st.sampled_from(["name", "id", "title", "key", "a", "b"]), words)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), words, st.sampled_from(["x" * 300, "y" * 900])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=40,
)


def key_paths(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of the value, an element under its index and under what may name it.

    And of every run of neighbours: the first and the last of them.
    """
    yield path
    names: list[list[str]] = []
    if isinstance(value, dict):
        names = [[heading_name(key)] for key in value]
    elif isinstance(value, list):
        for index, element in enumerate(value):
            names.append([f"[{index}]"])
            if isinstance(element, dict):
                telling = [element.get(key) for key in ("name", "id", "title", "key")]
                names[-1] += [heading_name(str(m)) for m in telling if m is not None]
    members = list(value.values()) if isinstance(value, dict) else value
    for at, own in enumerate(names):
        for name in own:
            yield from key_paths(members[at], (*path, name))  # type: ignore[index]  # a list by now
            for later in names[at + 1 :]:
                yield from ((*path, f"{name} – {last}") for last in later)


@pytest.mark.req("A-10")
@settings(deadline=None)
@given(value=values, indent=st.sampled_from([None, 0, 1, 2, 4]), is_ascii=st.booleans())
def test_sections_of_json_are_at_their_keys(
    value: object, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    lines = text.split("\n")
    paths = set(key_paths(value))
    for section in JsonParser().parse(text, "json").sections:
        assert section.heading_path in paths
        if section.heading_line:
            line = lines[section.heading_line - 1].strip()
            if line.startswith('"'):
                key = json.JSONDecoder().raw_decode(line)[0]
                name = section.heading_path[-1]
                assert name == heading_name(key) or name.startswith(f"{heading_name(key)} – ")
            else:  # an element of an array, or a text on one line
                assert line[0] in "{["


plain_words = st.text("abz ä:#-?'|>[{&*!%@`.,0", min_size=1, max_size=8)
plain_values = st.recursive(
    st.one_of(plain_words, st.integers(), st.sampled_from(["x" * 300, "y: z\n" * 90])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.just("name"), plain_words), inner, max_size=4),
    ),
    max_leaves=30,
)


@pytest.mark.req("A-10")
@settings(deadline=None)
@given(value=plain_values, indent=st.sampled_from([2, 4]))
def test_sections_of_yaml_are_at_paths_of_the_value(value: object, indent: int) -> None:
    text = yaml.safe_dump(
        value,
        indent=indent,
        default_flow_style=False,
        allow_unicode=True,
        width=10_000,
        sort_keys=False,
    )
    paths = set(key_paths(value))
    for section in YamlParser().parse(text, "yaml").sections:
        assert section.heading_path in paths


@pytest.mark.req("A-10")
@given(value=st.text(max_size=40))
def test_a_json_string_reads_as_its_value(value: str) -> None:
    text = json.dumps(value)
    out, position = [], 0
    for part in JsonParser().parse(text, "json").rendered:
        out += [text[position : part.start_char], part.text]
        position = part.end_char
    read = "".join([*out, text[position:]])
    lines_joined = json.loads(text).translate({10: " ", 13: " ", 0: " "})
    assert read == f'"{lines_joined}"'


cells = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=6
) | st.text(st.sampled_from('a",;\t|\n'), max_size=8)


@pytest.mark.req("A-11")
@given(
    rows=st.lists(st.lists(cells, min_size=1, max_size=4), max_size=8),
    delimiter=st.sampled_from(",;\t|"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_records_are_those_of_the_csv_module(
    rows: list[list[str]], delimiter: str, line_end: str, quoting: int
) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=line_end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]  # a number by name
    text = out.getvalue()
    lines = io.StringIO(text, newline="\n").readlines()
    reader = csv.reader(lines, delimiter=delimiter)
    expected, first = [], 0
    for _ in reader:
        record = "".join(lines[first : reader.line_num])
        if reader.line_num - first > 1:
            expected.append(record.removesuffix("\n").rstrip("\r"))
        first = reader.line_num
    assert [text[start:end] for start, end in long_records(text)] == expected
