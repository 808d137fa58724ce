"""The protocol nat.builder.v1, minor 4, as the methods of a gRPC service."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import grpc

from natgo.builder import blame, settings
from natgo.builder import builder_pb2 as pb
from natgo.builder.declare import Builder
from natgo.builder.group import Group
from natgo.builder.reading import GroupReader, WireError
from natgo.builder.records import Progress
from natgo.builder.writing import Writer, what

CREDIT = 4  # frames that either side may send before it is granted any credit
SIGN = 2.0  # seconds between progress messages while a builder yields
FLUSH = 0.1  # seconds after which finished groups are sent, although their frame isn't full
SERVICE = "nat.builder.v1.Builder"


class Credit:
    """How many frames may still be sent. Granting takes the same time for any number of frames."""

    def __init__(self, n: int) -> None:
        self.n, self.granted = n, threading.Condition()

    def grant(self, n: int) -> None:
        with self.granted:
            self.n += n
            self.granted.notify()

    def take(self, timeout: float) -> bool:
        with self.granted:
            if not self.granted.wait_for(lambda: self.n > 0, timeout):
                return False
            self.n -= 1
            return True


class Service:
    """A plugin's builders."""

    def __init__(self, name: str, version: str, builders: Iterable[Builder[Any]]) -> None:
        self.name, self.version = name, version
        self.builders = {b.name: b for b in builders}
        self.sessions: dict[str, tuple[Builder[Any], Any]] = {}
        self.draining, self.opened, self.lock = False, 0, threading.Lock()

    def info(self, b: Builder[Any]) -> Any:
        return pb.BuilderInfo(
            name=b.name, version=b.version or self.version, stability=b.stability, doc=b.doc, unit=f"UNIT_{b.unit.upper()}",
            kinds=[f"KIND_{k.upper()}" for k in b.kinds], raw_steps=b.raw_steps, config_schema=json.dumps(b.schema).encode())

    def Describe(self, request: Any, context: Any) -> Any:
        return pb.DescribeResponse(name=self.name, version=self.version, protocol_minor=4, builders=[self.info(b) for b in self.builders.values()])

    def made(self, request: Any, context: Any) -> tuple[Any, list[Any]]:
        """A request's settings, and any problems with them."""
        b = self.builders.get(request.builder)
        if b is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no builder {request.builder}; the builders are {', '.join(self.builders)}")
            raise AssertionError  # abort does not return
        try:
            config, found = settings.fill(b.config, request.config)
        except Exception as e:  # of the settings' own code
            message, stack = blame.told(e)
            context.abort(grpc.StatusCode.INTERNAL, f"the settings of {b.name}: {message}\n{stack}")
            raise AssertionError from None
        return config, [pb.Finding(pointer=f.pointer, message=f.message) for f in found]

    def Validate(self, request: Any, context: Any) -> Any:
        return pb.ValidateResponse(findings=self.made(request, context)[1])

    def Open(self, request: Any, context: Any) -> Any:
        config, found = self.made(request, context)
        if found:
            return pb.OpenResponse(findings=found)
        with self.lock:
            if self.draining:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the plugin is draining")
            self.opened += 1
            session = str(self.opened)
            self.sessions[session] = self.builders[request.builder], config
        return pb.OpenResponse(session=session)

    def Close(self, request: Any, context: Any) -> Any:
        self.sessions.pop(request.session, None)
        return pb.CloseResponse()

    def Drain(self, request: Any, context: Any) -> Any:
        with self.lock:
            self.draining = True
        return pb.DrainResponse()

    def Build(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        first = next(requests, None)
        session = self.sessions.get(first.session) if first is not None else None
        if session is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such session")
            raise AssertionError
        try:
            yield from Stream(requests, context, *session).answers()
        except WireError as e:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))


class Stream:
    """One Build stream: a thread that always reads, so that credits get through, and the builder, which may be slow."""

    def __init__(self, requests: Iterator[Any], context: Any, builder: Builder[Any], config: Any) -> None:
        self.requests, self.context, self.builder, self.config = requests, context, builder, config
        self.credit, self.frames = Credit(CREDIT), queue.SimpleQueue[Any]()
        self.ready: list[list[Any]] = []  # frames to be sent
        self.flushed = time.monotonic()
        self.writer = Writer(self.ready.append)

    def read(self) -> None:
        try:
            for m in self.requests:
                if m.credit:
                    self.credit.grant(m.credit)
                if m.parts:
                    self.frames.put(m.parts)
        except grpc.RpcError:
            pass  # the stream is over, which its context says
        finally:
            self.frames.put(None)

    def answers(self) -> Iterator[Any]:
        threading.Thread(target=self.read, daemon=True, name="nat-go stream").start()
        reader = GroupReader()
        while (parts := self.frames.get()) is not None:
            yield pb.BuildResponse(credit=1)
            for part in parts:
                group = reader.part(part)
                if group is not None:
                    yield from self.build(part.group, group)
                    if time.monotonic() - self.flushed > FLUSH:
                        self.flush()
                yield from self.sent()
            if self.frames.empty():
                self.flush()
                yield from self.sent()
        self.flush()
        yield from self.sent()

    def flush(self) -> None:
        self.writer.flush()
        self.flushed = time.monotonic()

    def sent(self) -> Iterator[Any]:
        """Sends the frames that are ready, each when there is credit for it."""
        while self.ready:
            while not self.credit.take(1):
                if not self.context.is_active():
                    raise WireError("the host is gone")
            yield pb.BuildResponse(parts=self.ready.pop(0))

    def next(self, items: Iterator[Any], group: Group) -> Any:
        with blame.watch.over(self.builder.name, group.key):
            return next(items, END)

    def build(self, number: int, group: Group) -> Iterator[Any]:
        """The builder's results for a group or, if it fails, the error and its traceback."""
        writer, n, sign = self.writer, 0, time.monotonic()
        writer.begin(number, group)
        items: Any = None
        pid = os.getpid()
        try:
            with blame.watch.over(self.builder.name, group.key):
                items = iterated(self.builder, self.builder.make(group, self.config))
            while (item := self.next(items, group)) is not END:
                blame.not_a_child(pid)
                n += 1
                progress = None
                try:
                    if isinstance(item, Progress):
                        progress = pb.Progress(group=number, done=item.done, total=item.total)
                    else:
                        writer.add(item, self.builder.kinds)
                except Exception as e:
                    blame.at_yield(items, e)
                yield from self.sent()
                if progress is not None:
                    yield pb.BuildResponse(progress=progress)
                if time.monotonic() - sign > SIGN:
                    sign = time.monotonic()
                    yield pb.BuildResponse(progress=pb.Progress(group=number, done=n))
            blame.not_a_child(pid)
            writer.done()
        except (WireError, GeneratorExit):  # the stream is over
            raise
        except BaseException as e:  # the group fails, the process lives on
            blame.not_a_child(pid)
            writer.done(*blame.told(e))
        finally:
            blame.closed(items)


END = object()


def iterated(builder: Builder[Any], made: Any) -> Any:
    """An iterator over what a builder returned."""
    if isinstance(made, (str, bytes, dict)) or not isinstance(made, Iterable):
        raise TypeError(
            f"{builder.place()}: {builder.name} returned {what(made)}, not records: yield them, or return a list of them")
    return iter(made)
