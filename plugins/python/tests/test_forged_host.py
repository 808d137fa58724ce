"""A host that sends messages that nat-go never sends: the stream ends with an error that says so, and nothing hangs or is misread."""

import time

import pytest

pytest.importorskip("grpc")

from natgo.builder import Demonstration, Message, builder
from natgo.builder import builder_pb2 as pb
from natgo.builder.reading import WireError
from natgo.builder.service import Service, Stream


class Context:
    def is_active(self):
        return False


@builder(name="echo", unit="example", kinds=["demonstration"], doc="Echoes.")
def echo(group):
    for example in group.examples:
        example.graph.leaves()
        for leaf in range(len(example.graph.nodes)):
            example.graph.messages(leaf)
        yield Demonstration([Message("user", "q"), Message("assistant", "a")], example=example)


def answers(*parts, credit=0):
    requests = [pb.BuildRequest(credit=credit)] * bool(credit) + [pb.BuildRequest(parts=parts)]
    return list(Stream(iter(requests), Context(), echo, None).answers())


def part(**more):
    return pb.GroupPart(**{"group": 1, "begin": True, "end": True, "text": b"key", "ends": [3], "key": 1, **more})


def example(*nodes, **more):
    return pb.Example(nodes=nodes, **more)


def node(parent=-1, **more):
    return pb.Node(parent=parent, message=pb.Message(**more))


def test_a_valid_group():
    sent = answers(part(examples=[example(node(), node(0))]), credit=4_000_000_000)
    assert [p.group for m in sent for p in m.parts] == [1]


def test_finished_groups_are_sent_before_their_frame_is_full():
    @builder(name="slow", unit="example", kinds=["demonstration"], doc="Takes its time.")
    def slow(group):
        time.sleep(0.06)
        yield Demonstration([Message("user", "q"), Message("assistant", "a")], example=group.examples[0])

    groups = [part(group=n, examples=[example(node(), node(0))]) for n in range(6)]
    requests = [pb.BuildRequest(credit=4_000_000_000), pb.BuildRequest(parts=groups)]
    frames = [m.parts for m in Stream(iter(requests), Context(), slow, None).answers() if m.parts]
    assert [p.group for parts in frames for p in parts] == list(range(6)) and len(frames) > 1


@pytest.mark.parametrize(
    "parts, said",
    [
        ([part()], "ends without one"),
        ([part(examples=[example(more=True)])], "ends within an example"),
        ([part(end=False), part()], "begins within another"),
        ([part(begin=False)], "goes on without a beginning"),
        ([part(end=False), part(begin=False, group=2)], "a part of group 2 within group 1"),
        ([part(key=7, examples=[example()])], "text 7 of 1"),
        ([part(key=0xFFFFFFFF, examples=[example()])], "text 4294967295"),
        ([part(ends=[4], examples=[example()])], "ends at 4"),
        ([part(ends=[3, 2], examples=[example()])], "ends at 2"),
        ([part(ends=[2**32 - 1], examples=[example()])], "ends at"),
        ([part(text=b"\xff\xfe\xff", examples=[example()])], "text 1 is not UTF-8"),
        ([part(examples=[example(node(0))])], "node 0 has the parent 0"),
        ([part(examples=[example(node(), node(2), node(1))])], "node 1 has the parent 2"),
        ([part(examples=[example(node(-2))])], "node 0 has the parent -2"),
        ([part(examples=[example(node(form=99))])], "99 is not one of"),
        ([part(examples=[example(node(form=-1))])], "-1 is not one of"),
        ([part(examples=[example(fidelity=77)])], "77 is not one of"),
        ([part(examples=[example(pb.Node(parent=-1, sampled=-2))])], "-2 is not one of"),
        ([part(prompts=[pb.Prompt(form=8)], examples=[example()])], "8 is not one of"),
        ([part(examples=[example(candidates=[pb.Candidate(prompt=9)])])], "prompt 9 of 0"),
    ],
)
def test_forged_groups(parts, said):
    with pytest.raises(WireError, match=said):
        answers(*parts, credit=100)


def test_a_host_that_leaves_without_granting_credit():
    with pytest.raises(WireError, match="the host is gone"):
        answers(*[part(group=i, examples=[example()] * 300) for i in range(1, 900)])


def test_sessions_that_nobody_opened():
    class Aborted(Exception):
        pass

    class Aborting:
        def abort(self, code, message):
            raise Aborted(message)

    service = Service("p", "1", [echo])
    for requests in ([], [pb.BuildRequest(session="7")], [pb.BuildRequest(credit=1)]):
        with pytest.raises(Aborted, match="no such session"):
            list(service.Build(iter(requests), Aborting()))
    with pytest.raises(Aborted, match="no builder"):
        service.Open(pb.OpenRequest(builder="other"), Aborting())
    for config in (b"[" * 100_000, b"\xff", b"9" * 5000, b"[]", b"{} {}"):
        try:
            assert service.Open(pb.OpenRequest(builder="echo", config=config), Aborting()).findings
        except Aborted as e:
            assert "settings of echo" in str(e)
