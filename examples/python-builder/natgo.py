"""nat.builder.v1, nat-go's protocol for builder plugins, for a program in Python. builder_pb2 is generated from builder.proto,
which says what the messages mean.

Texts are bytes: they may hold what is not UTF-8. A text is named by its number in the table of its group; what comes in and
what goes out have a table each.
"""
import json
import os
import queue
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(os.environ.get("NATGO_PLUGIN_PATH") or __file__))  # a locked plugin runs as a copy
VENV = os.path.join(HERE, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
if os.path.realpath(sys.prefix) != os.path.realpath(VENV) and os.path.exists(PYTHON) and "NATGO_VENV" not in os.environ:
    os.environ["NATGO_VENV"] = VENV  # tried once
    os.execv(PYTHON, [PYTHON, *sys.argv])  # in whatever environment, another's .venv included, nat-go is started

try:
    import grpc
    import builder_pb2 as pb
except ImportError as e:
    sys.exit(f"{e}; to install what it needs: "
             f"python3 -m venv {HERE}/.venv && {HERE}/.venv/bin/pip install -r {HERE}/requirements.txt")


class Group:
    """A group, put together from its parts. Its texts stand in a blob; text i, counted from 1, ends at ends[i]."""

    def __init__(self):
        self.blob, self.ends, self.prompts, self.examples, self.more = bytearray(), [0], [], [], False

    def add(self, part):
        self.blob += part.text
        self.ends += part.ends
        self.prompts += part.prompts
        for e in part.examples:
            if self.more:
                self.examples[-1].MergeFrom(e)
            else:
                self.examples.append(e)
            self.more = e.more

    def text(self, i):
        start, end = (self.ends[i - 1], self.ends[i]) if i else (0, 0)
        if not start <= end <= len(self.blob):
            raise ValueError(f"text {i} ends out of reach")
        return bytes(self.blob[start:end])

    def prompt(self, i):
        return self.prompts[i - 1] if i else pb.Prompt()


class Output:
    """What the builder makes of a group, cut into parts that fit into frames."""

    def __init__(self, number):
        self.part, self.parts, self.blob, self.size, self.ids = pb.ResultPart(group=number), [], bytearray(), 0, {b"": 0}

    def text(self, b):
        if b not in self.ids:
            self.ids[b] = len(self.ids)
            self.blob += b
            self.size += len(b)
            self.part.ends.append(self.size)
        return self.ids[b]

    def messages(self, said):
        """Content of (role, text) pairs."""
        return pb.Content(part=pb.CONTENT_PART_INLINE_MESSAGES, messages=[
            pb.Message(role=self.text(role), form=pb.FORM_TEXT, text=self.text(text)) for role, text in said])

    def record(self, **kind):
        self.part.records.add(**kind)
        if len(self.blob) > 1 << 20 or len(self.part.records) > 5000:
            self.cut()

    def drop(self, group, example, turn, reason, detail):
        self.part.drops.add(
            reason=self.text(reason.encode()), detail=self.text(detail.encode()), unit=self.text(b"turn"), turn=self.text(turn), index=-1,
            run=example.run, example=self.text(group.text(example.id)), file=self.text(group.text(example.file)), offset=example.offset)

    def cut(self):
        self.part.text = bytes(self.blob)
        self.blob.clear()
        self.parts.append(self.part)
        self.part = pb.ResultPart(group=self.part.group, part=len(self.parts))

    def done(self, **error):
        parts = [*self.parts, self.part]
        self.part.done.CopyFrom(pb.Done(
            records=sum(len(p.records) for p in parts), drops=sum(len(p.drops) for p in parts), **error))
        self.cut()
        return self.parts


def build(builder, group, number):
    try:
        out = Output(number)
        for example in group.examples:
            group.text(example.id)
        builder.build(group, out)
        return out.done()
    except Exception as e:  # the group fails, the process lives on
        out = Output(number)
        message, stack = f"{type(e).__name__}: {e}", traceback.format_exc()
        return out.done(error=pb.GroupError(message=out.text(message.encode()), stack=out.text(stack.encode())))


class Service:
    """The protocol. There is nothing to drain but open streams, and those the host ends itself."""

    def __init__(self, name, version, builders):
        self.name, self.version, self.sessions, self.draining = name, version, {}, False
        self.builders = {b.info.name: b for b in builders}

    def Describe(self, request, context):
        return pb.DescribeResponse(name=self.name, version=self.version, builders=[b.info for b in self.builders.values()])

    def Validate(self, request, context):  # the host has checked the config against the builder's schema
        if request.builder not in self.builders:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no builder {request.builder}; there is {', '.join(self.builders)}")
        try:
            json.loads(request.config or b"{}").items()
        except (ValueError, AttributeError):
            return pb.ValidateResponse(findings=[pb.Finding(message="the config is no JSON object")])
        return pb.ValidateResponse()

    def Open(self, request, context):
        found = self.Validate(request, context).findings
        if found or self.draining:
            return pb.OpenResponse(findings=found or [pb.Finding(message="the plugin is draining")])
        session = os.urandom(8).hex()
        self.sessions[session] = self.builders[request.builder](json.loads(request.config or b"{}"))
        return pb.OpenResponse(session=session)

    def Close(self, request, context):
        self.sessions.pop(request.session, None)
        return pb.CloseResponse()

    def Drain(self, request, context):
        self.draining = True
        return pb.DrainResponse()

    def Build(self, requests, context):
        builder = self.sessions.get(next(requests).session)
        if not builder:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such session")
        credit, frames = threading.Semaphore(4), queue.Queue()

        def read():  # never waits for the builder, so that credits get through
            try:
                for m in requests:
                    if m.credit:
                        credit.release(m.credit)
                    if m.parts:
                        frames.put(m.parts)
            finally:
                frames.put(())

        threading.Thread(target=read, daemon=True).start()
        while parts := frames.get():
            yield pb.BuildResponse(credit=1)
            for part in parts:
                group = Group() if part.begin else group
                group.add(part)
                for result in build(builder, group, part.group) if part.end else ():
                    while not credit.acquire(timeout=1):
                        if not context.is_active():
                            return
                    yield pb.BuildResponse(parts=[result])


def serve(name, version, *builders):
    """Serves builders, classes with an info and a build, until the host is done with them. It does not return."""
    if os.environ.get("NATGO_PLUGIN_COOKIE") != "nat.builder.v1":
        sys.exit(f"{name} is a plugin of nat-go: name this file under plugins in a YAML file")
    parent, stop, service = os.getppid(), threading.Event(), Service(name, version, builders)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    methods = {n: unary(getattr(service, n), getattr(pb, n + "Request").FromString, getattr(pb, n + "Response").SerializeToString)
               for n in ("Describe", "Validate", "Open", "Drain", "Close")}
    methods["Build"] = stream(service.Build, pb.BuildRequest.FromString, pb.BuildResponse.SerializeToString)
    server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", 64 << 20)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, handlers) for name, handlers in {
        "nat.builder.v1.Builder": methods,
        "grpc.health.v1.Health": {"Check": unary(lambda *_: b"\x08\x01")},  # SERVING
        "plugin.GRPCController": {"Shutdown": unary(lambda *_: stop.set() or b"")},
        "plugin.GRPCStdio": {"StreamStdio": grpc.unary_stream_rpc_method_handler(lambda *_: iter(stop.wait, True))},
    }.items()])
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "p.sock")
    server.add_insecure_port("unix:" + path)
    server.start()
    print(f"1|1|unix|{path}|grpc|", flush=True)
    while os.getppid() == parent and not stop.wait(0.5):
        pass
    os._exit(0)
