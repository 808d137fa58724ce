"""Builders for nat-go in Python: functions from groups of examples to records, served as a plugin.

    from collections.abc import Iterator
    from natgo.builder import Drop, Group, Preference, builder, drop, serve

    @builder(name="extremes", unit="example")
    def extremes(group: Group) -> Iterator[Preference | Drop]:
        "the best candidate of each turn against the worst"
        for example in group.examples:
            for turn in example.turns().values():
                best, worst = max(turn, key=lambda c: c.score), min(turn, key=lambda c: c.score)
                if best.score == worst.score:
                    yield drop("tie", f"all have {best.score}", best)
                else:
                    yield Preference(best, worst)

    if __name__ == "__main__":
        serve(extremes, name="acme", version="1.0.0")

Serving a builder needs grpcio and protobuf (`pip install grpcio protobuf`); importing and testing one needs nothing.
"""

from natgo.builder.declare import Builder, BuilderError, builder
from natgo.builder.group import (
    Candidate, Example, Graph, Group, Message, Node, Part, Prompt, Sampling, Step, Tool, ToolCall,
)
from natgo.builder.records import (
    Content, Count, Demonstration, Distillation, Drop, Item, Preference, Progress, Record, Rollout, Site, Span, State, drop,
)
from natgo.builder.serving import serve
from natgo.builder.settings import SettingsError, setting

__all__ = [
    "Builder", "BuilderError", "Candidate", "Content", "Count", "Demonstration", "Distillation", "Drop", "Example", "Graph", "Group",
    "Item", "Message", "Node", "Part", "Preference", "Progress", "Prompt", "Record", "Rollout", "Sampling", "SettingsError", "Site",
    "Span", "State", "Step", "Tool", "ToolCall", "builder", "drop", "serve", "setting",
]
