#!/usr/bin/env python3
"""Best-of-n demonstrations: a builder plugin for nat-go in Python.

From the candidates of each turn it emits the best as a demonstration, if it is good enough and nothing else comes close.
Builder.build is the builder; the rest is the protocol (builder.proto beside this file), the same for any builder.
Needs grpcio and grpcio-tools, which compiles builder.proto when the plugin starts.
"""
import json
import os
import queue
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path

COOKIE = ("NATGO_PLUGIN_COOKIE", "nat.builder.v1")
HERE = Path(os.environ.get("NATGO_PLUGIN_PATH", __file__)).resolve().parent  # with a checksum, a copy of this file runs

if os.environ.get(COOKIE[0]) != COOKIE[1]:
    sys.exit("best-of-n is a plugin of nat-go: name this file's path under plugins in a YAML file")

sys.path.insert(0, str(HERE))
import grpc  # noqa: E402

pb = grpc.protos("builder.proto")

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "min_score": {"type": "number", "default": 0.5, "description": "lowest score of a demonstration"},
        "min_lead": {"type": "number", "default": 0.0, "minimum": 0, "description": "how far ahead of the second it must be"},
    },
}


class Builder:
    """Builds one group after the other; keeps nothing between them."""

    def __init__(self, config):
        self.min_score = config.get("min_score", 0.5)
        self.min_lead = config.get("min_lead", 0.0)

    def build(self, group, out):
        for e, example in enumerate(group.examples):
            turns = {}
            for c, candidate in enumerate(example.candidates):
                turns.setdefault(candidate.turn, []).append((-candidate.score, c, candidate))
            for turn, ranked in turns.items():
                ranked.sort(key=lambda r: r[:2])
                score, best = -ranked[0][0], ranked[0][1]
                lead = score + ranked[1][0] if len(ranked) > 1 else score
                if not score >= self.min_score:
                    out.drop("score_too_low", "turn", example, turn, f"best score {score}")
                elif not lead >= self.min_lead:
                    out.drop("lead_too_small", "turn", example, turn, f"lead {lead}")
                else:
                    prompt = group.prompt(ranked[0][2].prompt)
                    messages = [self.copy(out, group, m) for m in prompt.messages] if prompt.messages else [
                        pb.Message(role=out.text(b"user"), form=pb.FORM_TEXT, text=out.text(group.text(prompt.text)))]
                    answer = out.text(group.text(ranked[0][2].output))
                    messages.append(pb.Message(role=out.text(b"assistant"), form=pb.FORM_TEXT, text=answer))
                    content = pb.Content(part=pb.CONTENT_PART_INLINE_MESSAGES, messages=messages)
                    head = pb.Head(example=e, turn=out.text(group.text(turn)))
                    out.record(pb.Record(demonstration=pb.Demonstration(
                        head=head, messages=content, train=pb.TRAIN_LAST, weight=1.0, score=score)))

    @staticmethod
    def copy(out, group, m):
        return pb.Message(role=out.text(group.text(m.role)), form=m.form, text=out.text(group.text(m.text)),
                          name=out.text(group.text(m.name)))


def check(config):
    """The findings about a config; nat-go has checked it against SCHEMA already, but a plugin is asked by others too."""
    try:
        config = json.loads(config or b"{}")
    except ValueError as e:
        return None, [pb.Finding(message=f"not JSON: {e}")]
    if not isinstance(config, dict):
        return None, [pb.Finding(message="not an object")]
    found = [pb.Finding(pointer="/" + k, message="unknown key") for k in config if k not in SCHEMA["properties"]]
    found += [pb.Finding(pointer="/" + k, message="not a number") for k, v in config.items()
              if k in SCHEMA["properties"] and (isinstance(v, bool) or not isinstance(v, (int, float)))]
    return config, found


class Group:
    """Puts a group together from its parts. Texts are bytes: they may hold lone surrogates."""

    def __init__(self):
        self.blob, self.ends, self.prompts, self.examples, self.more = bytearray(), [0], [], [], False

    def add(self, part):
        self.blob += part.text
        self.ends.extend(part.ends)
        self.prompts.extend(part.prompts)
        for e in part.examples:
            if self.more:
                self.examples[-1].MergeFrom(e)
            else:
                self.examples.append(e)
            self.more = e.more
        if part.ends and (self.ends[-1] > len(self.blob) or list(part.ends) != sorted(part.ends)):
            raise ValueError("texts end out of reach")

    def text(self, i):
        return bytes(self.blob[self.ends[i - 1]:self.ends[i]]) if i else b""  # an index out of range is an error

    def prompt(self, i):
        return self.prompts[i - 1] if i else pb.Prompt()


class Output:
    """Collects what the builder makes of a group, and cuts it into parts of about 1 MiB."""

    def __init__(self, number):
        self.number, self.size, self.records, self.drops, self.ids, self.parts = number, 0, 0, 0, {}, []
        self.new_part()

    def new_part(self):
        self.blob = 0
        self.part = pb.ResultPart(group=self.number, part=len(self.parts))
        self.parts.append(self.part)

    def text(self, b):
        if b and b not in self.ids:
            self.size += len(b)
            self.blob += len(b)
            self.part.text += b
            self.part.ends.append(self.size)
            self.ids[b] = len(self.ids) + 1
        return self.ids[b] if b else 0

    def record(self, r):
        self.part.records.append(r)
        self.records += 1
        if self.blob > 1 << 20 or len(self.part.records) > 5000:
            self.new_part()

    def drop(self, reason, unit, example, turn, detail):
        self.part.drops.append(pb.Drop(reason=self.text(reason.encode()), unit=self.text(unit.encode()), index=-1,
                                       detail=self.text(detail.encode()), run=example.run))
        self.drops += 1

    def done(self, error=None):
        if error:
            self.part.done.error.message = self.text(error.encode())
        self.part.done.records, self.part.done.drops = self.records, self.drops
        return self.parts


class Service:
    """nat.builder.v1."""

    def __init__(self):
        self.sessions, self.draining, self.opened = {}, False, 0

    def Describe(self, request, context):
        return pb.DescribeResponse(name="best-of-n", version="1.0.0", builders=[pb.BuilderInfo(
            name="best_of_n", version="1.0.0", stability="beta", doc="the best candidate of each turn, as a demonstration",
            kinds=[pb.KIND_DEMONSTRATION], config_schema=json.dumps(SCHEMA).encode())])

    def Validate(self, request, context):
        self.known(request, context)
        return pb.ValidateResponse(findings=check(request.config)[1])

    def Open(self, request, context):
        self.known(request, context)
        if self.draining:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the plugin is draining")
        config, found = check(request.config)
        if found:
            return pb.OpenResponse(findings=found)
        self.opened += 1
        self.sessions[str(self.opened)] = Builder(config)
        return pb.OpenResponse(session=str(self.opened))

    def known(self, request, context):
        if request.builder != "best_of_n":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no builder {request.builder!r}; there is best_of_n")

    def Drain(self, request, context):
        self.draining = True
        return pb.DrainResponse()

    def Close(self, request, context):
        self.sessions.pop(request.session, None)
        return pb.CloseResponse()

    def Build(self, requests, context):
        builder = self.sessions.get(next(requests).session)
        if builder is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such session")
        credit, frames, failed = threading.Semaphore(4), queue.Queue(), []

        def read():  # never waits for the builder, so that credits always get through
            try:
                for m in requests:
                    for _ in range(m.credit):
                        credit.release()
                    if m.parts:
                        frames.put(m.parts)
            except Exception as e:  # the host is gone
                failed.append(e)
            frames.put(None)
            credit.release()

        threading.Thread(target=read, daemon=True).start()
        group = None
        while (parts := frames.get()) is not None:
            yield pb.BuildResponse(credit=1)
            for part in parts:
                if part.begin:
                    group = Group()
                if group is None:
                    context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a group goes on without a beginning")
                try:
                    group.add(part)
                except ValueError as e:
                    context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
                if not part.end:
                    continue
                out = Output(part.group)
                try:
                    group.text(part.key)
                    [group.text(e.id) for e in group.examples]
                    builder.build(group, out)
                    results = out.done()
                except Exception as e:
                    results = Output(part.group).done(f"{type(e).__name__}: {e}")
                for r in results:
                    credit.acquire()
                    if failed or not context.is_active():
                        return
                    yield pb.BuildResponse(parts=[r])
                group = None


def unary(f, request, response):
    return grpc.unary_unary_rpc_method_handler(f, request.FromString, response.SerializeToString)


def main():
    parent = os.getppid()
    # One call at a time and a few for the streams: Build holds its thread.
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[
        ("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)])
    stop = threading.Event()
    s = Service()
    methods = {n: unary(getattr(s, n), getattr(pb, n + "Request"), getattr(pb, n + "Response"))
               for n in ("Describe", "Validate", "Open", "Drain", "Close")}
    methods["Build"] = grpc.stream_stream_rpc_method_handler(s.Build, pb.BuildRequest.FromString, pb.BuildResponse.SerializeToString)
    raw = lambda answer: grpc.unary_unary_rpc_method_handler(lambda request, context: answer())  # noqa: E731

    def stdio(request, context):  # go-plugin asks for it; this program prints nothing
        stop.wait()
        return iter(())

    server.add_generic_rpc_handlers((
        grpc.method_handlers_generic_handler("nat.builder.v1.Builder", methods),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": raw(lambda: b"\x08\x01")}),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": raw(lambda: (stop.set(), b"")[1])}),
        grpc.method_handlers_generic_handler("plugin.GRPCStdio", {"StreamStdio": grpc.unary_stream_rpc_method_handler(stdio)}),
    ))
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "p.sock")
    server.add_insecure_port("unix:" + path)
    server.start()
    print(f"1|1|unix|{path}|grpc|", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == parent and not stop.wait(0.5):
        pass
    server.stop(0.2)
    os._exit(0)


if __name__ == "__main__":
    main()
