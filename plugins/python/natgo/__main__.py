"""`python -m natgo`: runs the wheel's nat-go with the same arguments."""

import os
import shutil
import sys
import sysconfig
from typing import Iterator

NAME = "nat-go.exe" if os.name == "nt" else "nat-go"


def _places() -> Iterator[str]:
    """Where the program may be: beside python or, with --user, --prefix or --target, beside the package; in a checkout,
    where make build writes it."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", vars={"base": sys.base_prefix})
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))
    package = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(package, "..", "bin")
    yield os.path.join(package, "..", "..", "..", "..", "bin")
    yield os.path.join(package, "..", "..", "..", "bin")


def find() -> str:
    """The path of the program."""
    places = [os.path.normpath(os.path.join(place, NAME)) for place in _places()]
    for path in places:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which(NAME)
    if found:
        return found
    raise FileNotFoundError(
        f"cannot find the program nat-go: it is neither on PATH nor at {', '.join(places)}. Install nat-go's wheel, or run `make build` in a checkout"
    )


def main() -> None:
    try:
        path = find()
    except FileNotFoundError as err:
        sys.exit(str(err))
    if os.name == "nt":
        import subprocess

        sys.exit(subprocess.call([path, *sys.argv[1:]]))
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
