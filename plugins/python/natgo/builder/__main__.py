"""`python -m natgo.builder MODULE`: serves the builders that a module declares, for modules without a main of their
own."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from typing import Any

from natgo.builder import blame
from natgo.builder.declare import Builder
from natgo.builder.serving import _serve, command_line, started_by_host

USAGE = "usage: python -m natgo.builder [--from FOLDER] MODULE [COMMAND]\n       python -m natgo.builder --where MODULE\n"


def where(module: str) -> str:
    """The file or folder of the top-level module or package that a module belongs to. None of its code is run."""
    top = module.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise ModuleNotFoundError(f"{sys.executable} finds no module {top}: install its project there (pip install -e .), or start in its folder")
    if spec.submodule_search_locations is not None:
        folders = list(spec.submodule_search_locations)
        if len(folders) != 1:
            raise ModuleNotFoundError(f"the package {top} is in {len(folders)} folders: {', '.join(folders)}; give it an __init__.py")
        return os.path.abspath(folders[0])
    if not spec.has_location or spec.origin is None:
        raise ModuleNotFoundError(f"the module {top} is not a file")
    return os.path.abspath(spec.origin)


def version_of(module: Any) -> str:
    """The version of the project that a module belongs to."""
    top = module.__name__.partition(".")[0]
    said = getattr(module, "__version__", None) or getattr(sys.modules.get(top), "__version__", None)
    if said is None:
        distributions = importlib.metadata.packages_distributions().get(top)
        said = importlib.metadata.version(distributions[0]) if distributions else "0.0.0"
    return str(said)


def builders_of(module: Any) -> list[Builder[Any]]:
    """The builders that a module declares or imports, in order, without duplicates."""
    found: list[Builder[Any]] = []
    for value in vars(module).values():
        if isinstance(value, Builder) and value not in found:
            found.append(value)
    names = [b.name for b in found]
    if not found:
        sys.exit(f"{module.__name__} declares no builder: decorate a function with natgo.builder.builder")
    if len(set(names)) < len(names):
        sys.exit(f"{module.__name__} declares two builders of the same name: {', '.join(names)}")
    return found


def main(args: list[str]) -> int:
    """Returns the exit code."""
    if len(args) == 2 and args[0] == "--where":
        try:
            print(json.dumps({"path": where(args[1])}))
        except (ModuleNotFoundError, ValueError) as e:
            sys.exit(str(e))
        return 0
    if len(args) > 2 and args[0] == "--from":  # a checked copy takes precedence over the current folder and installed packages
        sys.path[0] = args[1]
        sys.dont_write_bytecode = True
        args = args[2:]
    if not args or args[0].startswith("-"):
        sys.stderr.write(USAGE)
        return 2
    handshake = blame.redirect() if started_by_host() else -1
    if handshake >= 0:
        blame.watch.alarm()
    module = importlib.import_module(args[0])
    builders, name, version = builders_of(module), args[0].partition(".")[0].replace("_", "-"), version_of(module)
    if handshake >= 0:
        _serve(name, version, builders, handshake)
    sys.argv[0] = f"python -m natgo.builder {args[0]}"
    return command_line(name, version, builders, args[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
