"""Where chunks begin and end; a change here is a new CHUNKER_VERSION or parser version."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.chunking.chunker import CHUNKER_VERSION, chunk_document
from sqlindex.config import ChunkConfig
from sqlindex.parsing.registry import builtin_parsers

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "golden" / "chunks"
LANGUAGE_BY_PARSER = {"code": "python"}
CONFIG = ChunkConfig(target_chars=400, min_chars=100, overlap_lines=1)


def boundaries(text: str, parser_id: str) -> str:
    parser = builtin_parsers().parser(parser_id)
    parsed = parser.parse(text, LANGUAGE_BY_PARSER.get(parser_id, parser_id))
    lines = [
        f"chunker {CHUNKER_VERSION}, {parser_id} {str(parser.version).partition('+')[0]}, {CONFIG.fingerprint}"
    ]
    for chunk in chunk_document(text, parsed, CONFIG):
        section = parsed.sections[chunk.section]
        notes = [" › ".join(section.heading_path)]
        notes += ["(continued)"] if chunk.is_continuation else []
        notes += [] if chunk.is_embedded else ["(not embedded)"]
        lines.append(
            f"lines {chunk.start_line}-{chunk.end_line}"
            f" chars {chunk.start_char}-{chunk.end_char} {' '.join(notes)}".rstrip()
        )
    return "\n".join(lines) + "\n"


@pytest.mark.req("A-11", "A-12")
@pytest.mark.parametrize(
    ("name", "parser_id"), [("pumpe.md", "markdown"), ("valve.py", "code"), ("brief.txt", "text")]
)
def test_chunk_boundaries_are_those_of_this_version(
    name: str, parser_id: str, request: pytest.FixtureRequest
) -> None:
    text = (CASES / name).read_bytes().decode("utf-8")
    golden = CASES / f"{name}.chunks"
    found = boundaries(text, parser_id)
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
