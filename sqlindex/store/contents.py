"""Texts, stored once in pieces of 16,384 characters with a checksum each."""

from __future__ import annotations

from sqlindex.errors import CorruptIndexError
from sqlindex.store.checksum import check8, stored_bytes, text_digest
from sqlindex.store.driver import Connection

PIECE_CHARS = 16_384
"""Stated in the views of migrations/0005 too: smaller pieces waste pages, larger ones cost reads."""

_FIND = "SELECT content_id, chars, first_piece FROM content WHERE digest = :digest"
_NEXT_PIECE = "SELECT coalesce(max(piece_id), 0) + 1 FROM content_piece"
_REPLACE_PIECE = "INSERT OR REPLACE INTO content_piece(piece_id, body, check8) VALUES(?, ?, ?)"
_INSERT = """
    INSERT INTO content(digest, chars, first_piece) VALUES(:digest, :chars, :first_piece)
"""
_SET_CHARS = "UPDATE content SET chars = :chars WHERE content_id = :content_id"
_PIECES = """
    SELECT piece_id, body, check8 FROM content_piece
    WHERE piece_id BETWEEN :first AND :last ORDER BY piece_id
"""
_SPAN_OF = "SELECT chars, first_piece FROM content WHERE content_id = :content_id"
_DIGEST = "SELECT digest FROM content WHERE content_id = :content_id"
_DROP_PIECES = "DELETE FROM content_piece WHERE piece_id BETWEEN :first AND :last"
_DROP = "DELETE FROM content WHERE content_id = :content_id"


def find_content(connection: Connection, text: str) -> int | None:
    """Id of the stored content with exactly this text, or None.

    Found by digest, then compared in full: a hash alone never decides that texts are equal. A
    stored text that is damaged counts as absent; `put_content` makes it whole again.
    """
    found = connection.execute(_FIND, {"digest": text_digest(text)}).fetchone()
    if found is None:
        return None
    content_id, chars, first_piece = found
    return int(content_id) if _is_whole(connection, text, chars, first_piece) else None


def put_content(connection: Connection, text: str) -> int:
    """Store `text` unless it is stored already; its content id.

    A damaged content with the same digest gets its pieces anew: the text that it held is this one.
    """
    digest = text_digest(text)
    found = connection.execute(_FIND, {"digest": digest}).fetchone()
    if found is not None:
        content_id, chars, first_piece = found
        if not _is_whole(connection, text, chars, first_piece):
            connection.execute(_SET_CHARS, {"content_id": content_id, "chars": len(text)})
            connection.executemany(_REPLACE_PIECE, _pieces(text, first_piece))
        return int(content_id)
    first_piece = connection.execute(_NEXT_PIECE).fetchone()[0]
    connection.executemany(_REPLACE_PIECE, _pieces(text, first_piece))
    cursor = connection.execute(
        _INSERT, {"digest": digest, "chars": len(text), "first_piece": first_piece}
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _is_whole(connection: Connection, text: str, chars: int, first_piece: int) -> bool:
    try:
        return chars == len(text) and _read(connection, first_piece, 0, chars) == text
    except CorruptIndexError:
        return False


def _pieces(text: str, first_piece: int) -> list[tuple[int, str, bytes]]:
    bodies = [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]
    return [(first_piece + i, body, check8(body.encode("utf-8"))) for i, body in enumerate(bodies)]


def read_content(connection: Connection, content_id: int) -> str:
    """The whole text of a content, its checksums verified.

    Raises:
        CorruptIndexError: missing or damaged; the message names the row.
    """
    found = connection.execute(_SPAN_OF, {"content_id": content_id}).fetchone()
    if found is None:
        raise CorruptIndexError(f"content {content_id} is missing", hint="run 'sqlindex repair'")
    chars, first_piece = found
    return _read(connection, first_piece, 0, chars)


def mend_length(connection: Connection, content_id: int) -> None:
    """Let a content whose text is whole count its characters."""
    chars = len(read_content(connection, content_id))
    connection.execute(_SET_CHARS, {"content_id": content_id, "chars": chars})


def drop_content(connection: Connection, content_id: int) -> bool:
    """Delete a content and its pieces; False if it is damaged, which leaves it as it is.

    A row that no longer gives its digest may name pieces of another text.
    """
    which = {"content_id": content_id}
    found = connection.execute(_DIGEST, which).fetchone()
    if found is None:
        return True
    try:
        text = read_content(connection, content_id)
    except CorruptIndexError:
        return False
    if text_digest(text) != found[0]:
        return False
    _, first_piece = connection.execute(_SPAN_OF, which).fetchone()
    last = first_piece + (len(text) - 1) // PIECE_CHARS
    connection.execute(_DROP_PIECES, {"first": first_piece, "last": last})
    connection.execute(_DROP, which)
    return True


def read_span(connection: Connection, first_piece: int, start_char: int, end_char: int) -> str:
    """`text[start_char:end_char]` of the content that begins at `first_piece`, verified."""
    return _read(connection, first_piece, start_char, end_char)


def _read(connection: Connection, first_piece: int, start_char: int, end_char: int) -> str:
    if end_char <= start_char:
        return ""
    first = first_piece + start_char // PIECE_CHARS
    last = first_piece + (end_char - 1) // PIECE_CHARS
    bodies = []
    for piece_id, body, check in connection.execute(_PIECES, {"first": first, "last": last}):
        # A flipped type byte makes another Python type of it.
        if not isinstance(body, str) or check8(stored_bytes(body)) != check:
            raise CorruptIndexError(
                f"text piece {piece_id} is damaged",
                hint="run 'sqlindex repair', or restore a backup",
            )
        bodies.append(body)
    if len(bodies) != last - first + 1:
        raise CorruptIndexError(
            f"text pieces {first} to {last} are incomplete", hint="run 'sqlindex repair'"
        )
    offset = (first - first_piece) * PIECE_CHARS
    text = bodies[0] if len(bodies) == 1 else "".join(bodies)
    return text[start_char - offset : end_char - offset]
