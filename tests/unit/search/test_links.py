"""Where links lead, and who links to a document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlindex import Document, Index, LinkTarget
from sqlindex.errors import UnknownDocumentError
from sqlindex.search.links import slug
from sqlindex.store import links
from sqlindex.store.driver import Value, connect

pytestmark = pytest.mark.req("A-13")

VAULT = {
    "README.md": "# Start\n",
    "a.md": "---\naliases: [Erste Seite]\n---\n# A\n\n## Über uns!\n\n## Teil {#eigene-id}\n",
    "Größe.md": "# Maß und Größe\n",
    "guide/index.md": "# Guide\n",
    "guide/a.md": "# Andere\n\n## Teil\n\n### Teil\n",
    "guide/deep/c.md": "# C\n",
    "guide/deep/v1.2.md": "# Fassung\n",
    "mit leer.md": "# Leer\n",
    "notes/topic.rst": "Topic\n=====\n",
    "100% sicher.md": "# Sicher\n",
}


def fill(index: Index, texts: dict[str, str], source: str = "vault") -> None:
    index.upsert(
        source,
        [Document(path, text, type_name=path.rpartition(".")[2]) for path, text in texts.items()],
    )


def lead(index: Index, texts: dict[str, str], at: str, link: str) -> LinkTarget | None:
    fill(index, {**texts, at: f"{texts.get(at, '')}\n{link}\n"})
    (found,) = index.links(at, source="vault")
    assert found.document_id == at
    return found.leads_to


@pytest.mark.parametrize(
    ("at", "link", "document_id", "line"),
    [
        ("x.md", "[x](a.md)", "a.md", None),
        ("x.md", "[x](./guide/../a.md?raw=1#%C3%BCber-uns)", "a.md", 6),
        ("x.md", "[x](a#eigene-id)", "a.md", 8),
        ("x.md", "[x](guide/a.md#teil-1)", "guide/a.md", 5),
        ("x.md", "[x](guide/a.md#nirgends)", "guide/a.md", None),
        ("x.md", "[x](guide)", "guide/index.md", None),
        ("x.md", "[x](guide/)", "guide/index.md", None),
        ("guide/deep/x.md", "[x](../)", "guide/index.md", None),
        ("guide/deep/x.md", "[x](../..)", "README.md", None),
        ("guide/deep/x.md", "[x](/a.md)", "a.md", None),
        ("guide/deep/x.md", "[x](v1.2)", "guide/deep/v1.2.md", None),
        ("x.md", "[x](mit%20leer.md)", "mit leer.md", None),
        ("x.md", "[x](100%25%20sicher.md)", "100% sicher.md", None),
        ("x.md", "[x](Gro\u0308\u00dfe.md)", "Größe.md", None),
        ("x.md", "[x](notes/topic)", "notes/topic.rst", None),
        ("x.md", "[x](../a.md)", None, None),
        ("x.md", "[x](A.md)", None, None),
        ("x.md", "[x](https://example.org/a.md)", None, None),
        ("x.md", "[x](mailto:a@x.org)", None, None),
        ("x.md", "# Hier\n[x](#hier)", "x.md", 2),
        ("x.md", "# Hier\n[[#Hier]]", "x.md", 2),
        ("x.md", "[[a]]", "a.md", None),
        ("guide/deep/x.md", "[[a]]", "a.md", None),
        ("guide/x.md", "[[A#Teil#Teil]]", "guide/a.md", 5),
        ("x.md", "[[guide/A.md|so]]", "guide/a.md", None),
        ("x.md", "[[deep/c#^block]]", "guide/deep/c.md", None),
        ("x.md", "[[c]]", "guide/deep/c.md", None),
        ("x.md", "[[V1.2]]", "guide/deep/v1.2.md", None),
        ("x.md", "[[GRÖSSE]]", "Größe.md", None),
        ("x.md", "[[Gro\u0308\u00dfe]]", "Größe.md", None),
        ("x.md", "[[maß und größe]]", "Größe.md", None),
        ("x.md", "[[erste seite#Über uns!]]", "a.md", 6),
        ("x.md", "[[uide/a]]", None, None),
        ("x.md", "[[nichts]]", None, None),
    ],
)
def test_a_link_leads_to_a_document_and_that_document_knows(
    index: Index, at: str, link: str, document_id: str | None, line: int | None
) -> None:
    found = lead(index, VAULT, at, link)
    assert (found and found.document_id) == document_id
    assert (found.heading_line if found else None) == line
    if document_id is not None and document_id != at:
        assert [back.document_id for back in index.backlinks(document_id)] == [at]


def test_wiki_links_prefer_the_same_folder_then_fewer_folders_then_order(index: Index) -> None:
    texts = {"b/x/n.md": "a", "a/n.md": "a", "b/n.md": "a"}
    for at, expected in (("b/x/at.md", "b/x/n.md"), ("b/at.md", "b/n.md"), ("at.md", "a/n.md")):
        found = lead(index, texts, at, "[[n]]")
        assert found is not None
        assert found.document_id == expected


def test_names_of_files_come_before_titles_and_titles_before_aliases(index: Index) -> None:
    texts = {
        "1.md": "---\naliases: [X]\n---\n# Eins\n",
        "2.md": "# X\n",
        "3/x.md": "# Drei\n",
    }
    for expected in ("3/x.md", "2.md", "1.md"):
        found = lead(index, texts, "at.md", "[[x]]")
        assert found is not None
        assert found.document_id == expected
        index.remove("vault", [expected])
        del texts[expected]


def test_a_url_leads_to_the_document_with_that_uri_in_any_source(index: Index) -> None:
    uri = "https://host.example/docs/page.html"
    index.upsert("web", [Document("P-1", "# P\n\n## Teil\n", uri=uri, type_name="md")])
    found = lead(index, {}, "x.md", f"<{uri}#teil>")
    assert found == LinkTarget("web", "P-1", "teil", 3)
    (back,) = index.backlinks("P-1")
    assert (back.source, back.document_id, back.line) == ("vault", "x.md", 2)


def test_links_of_a_folder_and_file_urls(index: Index, folder: Path) -> None:
    (folder / "ä b.md").write_text("# Ziel\n", encoding="utf-8")
    (folder / "back\\slash.md").write_text("# Strich\n", encoding="utf-8")
    url = (folder / "ä b.md").resolve().as_uri()
    (folder / "x.md").write_text(f"[1](%C3%A4%20b.md) <{url}#ziel> [3](back%5Cslash)\n")
    index.add_source(folder, name="files")
    index.refresh()
    found = [link.leads_to for link in index.links("x.md")]
    assert found == [
        LinkTarget("files", "ä b.md"),
        LinkTarget("files", "ä b.md", "ziel", 1),
        LinkTarget("files", "back\\\\slash.md"),
    ]
    assert len(index.backlinks("ä b.md")) == 2
    assert len(index.backlinks("back\\\\slash.md")) == 1


def test_links_follow_the_head(index: Index) -> None:
    fill(index, {"x.md": "[[ziel]]\n"})
    assert index.links("x.md")[0].leads_to is None
    fill(index, {"ziel.md": "a\n"})
    assert index.links("x.md")[0].leads_to == LinkTarget("vault", "ziel.md")
    assert [link.document_id for link in index.backlinks("ziel.md")] == ["x.md"]
    index.remove("vault", ["x.md"])
    assert index.backlinks("ziel.md") == []
    with pytest.raises(UnknownDocumentError):
        index.links("x.md")


NAMES = ["a.md", "b/a.md", "b/index.md", "b/c/a.rst", "README.md", "b/c/README.md", "É.md"]
TARGETS = [
    *(
        "[x](a.md)",
        "[x](../a)",
        "[x](b/)",
        "[x](.)",
        "[x](..)",
        "[x](/b/c)",
        "[x](c/a#t)",
        "[x](e\u0301)",
    ),
    *("[[a]]", "[[c/A]]", "[[readme]]", "[[B/index.md]]", "[[T]]", "[[alt]]", "[x](#t)", "[[é]]"),
]


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.lists(st.sampled_from(TARGETS), max_size=4), min_size=2
    )
)
def test_backlinks_are_all_links_that_lead_there(
    tmp_path_factory: pytest.TempPathFactory, links_by_name: dict[str, list[str]]
) -> None:
    texts = {
        name: "---\naliases: alt\n---\n# T\n\n" + "\n\n".join(links) + "\n"
        for name, links in links_by_name.items()
    }
    with Index.open(tmp_path_factory.mktemp("vault") / "index.db", create=True) as index:
        index.upsert("s", [Document(n, text, type_name="md") for n, text in texts.items()])
        outgoing = [link for name in sorted(texts) for link in index.links(name)]
        for name in texts:
            expected = [
                link
                for link in outgoing
                if link.leads_to and link.leads_to.document_id == name != link.document_id
            ]
            assert index.backlinks(name) == expected


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Über uns!", "über-uns"),
        ("A  B - C_d", "a--b---c_d"),
        ("1.2 `x` & y", "12-x--y"),
        ("日本語 の", "日本語-の"),
    ],
)
def test_slugs_are_those_of_github(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


@pytest.mark.req("D-6")
def test_the_shell_lists_links_and_possible_backlinks(
    index: Index, shell: Callable[[Path, str], list[str]]
) -> None:
    fill(index, {"x.md": "a\n\n[so](b/ziel.md) [hier](#a)\n", "b/ziel.md": "# Z\n"})
    assert shell(index.path, "SELECT document_id, line, label, target, is_wiki FROM v_link") == [
        "x.md|3|so|b/ziel.md|0",
        "x.md|3|hier|#a|0",
    ]
    columns = "document_id, from_document_id, line, label"
    assert shell(index.path, f"SELECT {columns} FROM v_backlink") == ["b/ziel.md|x.md|3|so"]


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        (links._BY_ID, {"generation": 1, "source_id": 1, "paths": "[]"}),
        (links._BY_PATH, {"generation": 1, "source_id": 1, "paths": "[]"}),
        (links._NAMED, {"generation": 1, "key": "a"}),
        (links._TOWARDS, {"generation": 1, "source_id": 1, "keys": "[]"}),
        (links._OF_DOCUMENT, {"generation": 1, "source": "a", "document_id": "a"}),
        ("SELECT * FROM v_backlink WHERE document_id = :id", {"id": "a"}),
    ],
)
def test_no_question_about_links_walks_through_all_documents(
    index: Index, statement: str, parameters: dict[str, Value]
) -> None:
    fill(index, VAULT)
    connection = connect(index.path, "ro")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    connection.close()
    assert plan
    for step in plan:
        assert not step.startswith("SCAN ") or "json_each" in step
        assert "version_live (source_id=?)" not in step
