"""Settings that belong to the index itself."""

from __future__ import annotations

from sqlindex.store.driver import Connection

_GET = "SELECT value FROM setting WHERE name = :name"
_PUT = "INSERT OR REPLACE INTO setting(name, value) VALUES(:name, :value)"
_DROP = "DELETE FROM setting WHERE name = :name"


def get_setting(connection: Connection, name: str) -> str | None:
    """The stored value, or None."""
    found = connection.execute(_GET, {"name": name}).fetchone()
    return None if found is None else str(found[0])


def put_setting(connection: Connection, name: str, value: str) -> None:
    """Store a value, replacing an earlier one."""
    connection.execute(_PUT, {"name": name, "value": value})


def drop_setting(connection: Connection, name: str) -> None:
    """Forget a value, if there is one."""
    connection.execute(_DROP, {"name": name})
