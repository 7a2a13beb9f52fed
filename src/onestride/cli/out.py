"""Whether results can be written, asked before the work that makes them."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from onestride._errors import InputError

if TYPE_CHECKING:
    from onestride.plot import Panel


def check_folder(option: str, folder: Path) -> None:
    """Say now that a folder cannot be made or written."""
    with _sentence(option, folder):
        _write_near(folder)


def check_file(option: str, file: Path) -> None:
    """Say now that a file cannot be written."""
    with _sentence(option, file):
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(file.stat().st_mode):  # `is_dir` hides why a path is none
                raise IsADirectoryError("it is a folder")
        _write_near(file.parent)


def check_figure(option: str, name: Path) -> None:
    """Say now that name.pdf, name.png and name.csv cannot be written."""
    if not name.name:
        raise InputError(f"{option} must be a name for the files, got {str(name)!r}")
    for suffix in (".pdf", ".png", ".csv"):
        check_file(option, name.with_suffix(suffix))


def save_figure(option: str, name: Path, panels: Sequence[Panel]) -> None:
    """Write them, and the folders that are missing."""
    from onestride.plot import save

    with _sentence(option, name):
        name.parent.mkdir(parents=True, exist_ok=True)
        save(panels, name)


def _write_near(folder: Path) -> None:
    """Write a nameless file in the folder, or where the first one of its path that is missing would lie."""
    try:
        folder.stat()
    except FileNotFoundError:
        if folder != folder.parent:
            return _write_near(folder.parent)
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def _sentence(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{option} {path} cannot be written: {error.strerror or error}") from None
