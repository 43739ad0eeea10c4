"""The cluster's secret: a file that only its owner can read, shared by all processes of a cluster.

It is made by the first process that needs it. Processes that start at once agree, because each writes a file of its own
and the one that links it into place first wins.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from framework.errors import ConfigError
from framework.ownership import make_private

SECRET_BYTES = 32
RUN_BYTES = 8
"""Of the name of a run, which tells runs with one secret apart."""

SECRET_VARIABLE = "HAILER_SECRET_FILE"


def default_secret_path(environ: Mapping[str, str] | None = None) -> Path:
    """`$HAILER_SECRET_FILE`, or `hailer/secret` in the user's state directory."""
    environ = os.environ if environ is None else environ
    if named := environ.get(SECRET_VARIABLE):
        return Path(named)
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else _home() / ".local" / "state") / "hailer" / "secret"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigError(
            f"the cluster's secret has no place, since this user has no home directory (HOME is not set); set "
            f"{SECRET_VARIABLE} to a file that this user owns"
        ) from error


def load_or_create_secret(path: Path | None = None) -> bytes:
    """The secret in the file at `path`, which is made if it is missing."""
    path = default_secret_path() if path is None else path
    try:
        if not path.exists():
            _create(path)
        return _load(path)
    except OSError as error:
        raise ConfigError(
            f"the cluster's secret at {path} cannot be read or made ({error.strerror}); "
            f"set {SECRET_VARIABLE} to a file that this user owns"
        ) from error


def _load(path: Path) -> bytes:
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        secret = file.read()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in (0, os.getuid()):
        raise ConfigError(
            f"the cluster's secret at {path} belongs to user {found.st_uid}, who knows it; delete it and let a new one "
            f"be made, or set {SECRET_VARIABLE} to a file that this user owns"
        )
    if mode & 0o077:
        raise ConfigError(
            f"others can reach the cluster's secret at {path} (mode {mode:o}); "
            f"close it with `chmod 600 {path}`, or delete it and let a new one be made"
        )
    if len(secret) < SECRET_BYTES:
        raise ConfigError(
            f"the cluster's secret at {path} has {len(secret)} bytes, and at least {SECRET_BYTES} are needed; "
            f"delete it and let a new one be made"
        )
    return secret


def _create(path: Path) -> None:
    make_private(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
