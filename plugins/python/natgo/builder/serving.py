"""A process that serves builders: as nat-go's plugin, or, started by hand, as a command line."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from natgo.builder.declare import Builder, BuilderError

COOKIE = ("NATGO_PLUGIN_COOKIE", "nat.builder.v1")
REATTACH = "NATGO_REATTACH"
THREADS = 128  # each session takes one
NEEDS = "a builder needs grpcio and protobuf: pip install grpcio protobuf"


def started_by_host() -> bool:
    return os.environ.get(COOKIE[0]) == COOKIE[1]


def serve(*builders: Builder[Any], name: str = "", version: str = "") -> NoReturn:
    """Serves builders, and does not return. If nat-go starts the process, it is a plugin; if started by hand, it is a
    command line that describes the builders. name and version are the plugin's; by default the first builder's name
    and 0.0.0."""
    names = [b.name for b in builders]
    if not builders or len(set(names)) < len(names):
        raise BuilderError("serve needs builders, each with a name of its own; it was given " + (", ".join(names) or "none"))
    name, version = name or names[0], version or "0.0.0"
    if started_by_host():
        from natgo.builder import blame
        handshake = blame.redirect()
        blame.watch.alarm()
        _serve(name, version, builders, handshake)
    sys.exit(command_line(name, version, builders, sys.argv[1:]))


def _serve(name: str, version: str, builders: Sequence[Builder[Any]], handshake: int) -> NoReturn:
    """Serves the host until the host, or something else, ends the process."""
    parent, stop = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the host, which ends this process in its own time
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "p.sock")
    listen(name, version, builders, path, stop)
    os.write(handshake, f"1|1|unix|{path}|grpc|\n".encode())
    os.close(handshake)
    while os.getppid() == parent and not stop.wait(0.5):
        pass
    end()


def end() -> NoReturn:
    """Ends the process, whatever its builders are doing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(0)


def listen(name: str, version: str, builders: Sequence[Builder[Any]], path: str, stop: threading.Event) -> None:
    """Serves on a socket in separate threads until the process ends. A host's Shutdown sets stop."""
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # grpc's fork handlers sometimes hang the child of a builder that forks
    try:
        import grpc

        from natgo.builder import builder_pb2 as pb
        from natgo.builder.service import SERVICE, Service
    except ImportError as e:
        sys.exit(f"{e}: {NEEDS}")
    service = Service(name, version, builders)
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    methods = {
        n: unary(getattr(service, n), getattr(pb, n + "Request").FromString, getattr(pb, n + "Response").SerializeToString)
        for n in ("Describe", "Validate", "Open", "Drain", "Close")
    }
    methods["Build"] = stream(service.Build, pb.BuildRequest.FromString, pb.BuildResponse.SerializeToString)

    def shutdown(*_: Any) -> bytes:
        stop.set()
        return b""

    server = grpc.server(ThreadPoolExecutor(THREADS, "nat-go"), options=[
        ("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 8 << 20),
        ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, handlers) for name, handlers in {
        SERVICE: methods,
        "grpc.health.v1.Health": {"Check": unary(lambda *_: b"\x08\x01")},  # SERVING
        "plugin.GRPCController": {"Shutdown": unary(shutdown)},
        "plugin.GRPCStdio": {"StreamStdio": grpc.unary_stream_rpc_method_handler(lambda *_: iter(stop.wait, True))},
    }.items()])
    server.add_insecure_port("unix:" + path)
    server.start()
    listen.__dict__["server"] = server  # a server is stopped when nothing refers to it


def command_line(name: str, version: str, builders: Sequence[Builder[Any]], args: Sequence[str]) -> int:
    """Runs the command line if the process was started by hand. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=os.path.basename(sys.argv[0]), formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"{name} {version} is a nat-go plugin: name it under plugins in a YAML file, and a builder of it as {name}/BUILDER.",
        epilog="builders:\n" + "\n".join(f"  {b.name:20} {b.doc}" for b in builders))
    parser.add_argument("--version", action="version", version=f"{name} {version}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("describe", help="what it serves, as JSON")
    commands.add_parser("schema", help="JSON Schema of a builder's settings").add_argument("builder", nargs="?", default=names_of(builders)[0])
    tried = commands.add_parser("try", help="have nat-go run a builder over the examples in FILE")
    tried.add_argument("file")
    tried.add_argument("rest", nargs=argparse.REMAINDER, help="flags of nat-go builders try: --builder, --settings")
    commands.add_parser("debug", help="serve until interrupted, and print how to attach nat-go to it")
    said = parser.parse_args(args)
    if said.command == "describe":
        described = [{
            "name": b.name, "version": b.version or version, "stability": b.stability, "doc": b.doc, "unit": b.unit, "kinds": b.kinds,
            "raw_steps": b.raw_steps, "config_schema": b.schema,
        } for b in builders]
        print(json.dumps({"name": name, "version": version, "protocol_minor": 4, "builders": described}, indent=2))
    elif said.command == "schema":
        found = [b for b in builders if b.name == said.builder]
        if not found:
            parser.error(f"there is no builder {said.builder}; the builders are {', '.join(names_of(builders))}")
        print(json.dumps(found[0].schema, indent=2))
    elif said.command == "try":
        return try_on(said.file, said.rest)
    elif said.command == "debug":
        debug(name, version, builders)
    else:
        parser.print_help(sys.stderr)
        return 2
    return 0


def names_of(builders: Sequence[Builder[Any]]) -> list[str]:
    return [b.name for b in builders]


def try_on(file: str, rest: Sequence[str]) -> int:
    """Has nat-go read a file and run the program on it, as a run does."""
    program, nat = os.path.abspath(sys.argv[0]), shutil.which("nat-go")
    if nat is None:
        sys.exit(f"try has nat-go read the file, and there is no nat-go on PATH: `nat-go builders try {program} --from {file}`")
    return subprocess.run([nat, "builders", "try", program, "--from", file, *rest], check=False).returncode


def debug(name: str, version: str, builders: Sequence[Builder[Any]]) -> None:
    """Serves at a socket that the user passes to a host, so that the process can run under a debugger."""
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.sock")
        listen(name, version, builders, path, stop)
        print(f"The plugin serves, process {os.getpid()}. In another terminal:\n\n  export {REATTACH}={name}=unix:{path}\n\n"
              "and run nat-go. Interrupt to end.", file=sys.stderr)
        try:
            while not stop.wait(0.5):
                pass
        except KeyboardInterrupt:
            pass
