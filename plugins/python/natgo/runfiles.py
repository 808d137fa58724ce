"""Files in a run folder, which are not trusted: only regular files are opened, and text is always read with a limit."""

import errno
import json
import os
import stat
from typing import Any, BinaryIO, Iterator, Tuple

MAX_MANIFEST_BYTES = 64 << 20
MAX_LINE_BYTES = 128 << 20  # as `nat-go dataset verify --max-row-bytes`


def open_file(path: str) -> BinaryIO:
    """Opens a regular file. A pipe, which may never have a writer, or a device, which may never end, raises OSError."""
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))
    except ValueError:  # a null byte, or a name that UTF-8 can't express
        raise OSError(errno.EINVAL, "is not the name of a file") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file")
    return file


def parse(text: bytes) -> Any:
    """Parses a JSON value; ValueError describes a problem with it."""
    try:
        return json.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def numbered_lines(path: str) -> Iterator[Tuple[int, bytes]]:
    """The lines of a file and their numbers, from 1; ValueError if one is too long."""
    with open_file(path) as file:
        number = 0
        while text := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(text) > MAX_LINE_BYTES:
                raise ValueError(f"line {number} has more than {MAX_LINE_BYTES} bytes")
            yield number, text
