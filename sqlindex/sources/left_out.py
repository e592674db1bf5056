"""What a folder source leaves out by name alone, whatever the ignore files say."""

from __future__ import annotations

IGNORED_FOLDERS = frozenset(
    (
        # version control
        ".git",
        ".hg",
        ".svn",
        # installed packages and virtual environments
        "node_modules",
        ".venv",
        "venv",
        # caches of tools
        "__pycache__",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        # keys and logins
        ".ssh",
        ".gnupg",
        ".aws",
        ".kube",
    )
)
"""Folders never entered, compared in lower case; the root itself may have any name."""

ENVIRONMENT_MARKERS = frozenset(("pyvenv.cfg", "conda-meta"))
"""A folder that holds one of these is an environment (`env`, `.direnv/python`, …): not entered."""

# Not "credentials*" or "secret*": notes about them are documents. These are the names that tools
# write keys and logins to.
SECRET_NAMES = frozenset(
    (
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".htpasswd",
        ".dockercfg",
        ".git-credentials",
        "credentials",
        "accesskeys.csv",
        *(
            f"{stem}.{extension}"
            for stem in ("credentials", "secrets")
            for extension in ("json", "yaml", "yml", "toml", "ini", "cfg", "csv")
        ),
    )
)
SECRET_STARTS = (
    ".env",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "client_secret",
)
SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk")
PROSE_ENDS = (".md", ".markdown", ".rst", ".org", ".tex", ".html", ".htm")


def is_ignored_folder(name: str) -> bool:
    """Whether folders of this name are never entered."""
    return name.lower() in IGNORED_FOLDERS


def is_secret_like(name: str) -> bool:
    """Whether a file of this name commonly holds a key or a login; in any case of its letters.

    `.env*`, private keys and key stores, `.netrc` and its kin, `credentials` and `secrets` as
    structured files, `client_secret*`. Templates such as `.env.example` count too, notes such as
    `id_rsa_howto.md` do not.
    """
    name = name.lower()
    if name.startswith(SECRET_STARTS) and not name.endswith(PROSE_ENDS):
        return True
    return name.endswith(SECRET_ENDS) or name in SECRET_NAMES
