"""Builders as an author writes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from natgo.builder import Count, Demonstration, Drop, Group, Message, Preference, Rollout, Span, State, builder, drop, setting


@dataclass
class Settings:
    min_score: float = setting(0.5, "lowest score of a demonstration", ge=0, le=1)
    order: Literal["easy", "hard"] = setting("easy", "which tasks come first")

    def __post_init__(self) -> None:
        if self.order == "hard" and self.min_score == 1:
            raise ValueError("order hard and min_score 1 leave nothing")


@builder(name="best_of_n", stability="beta")
def best_of_n(group: Group, settings: Settings) -> Iterator[Demonstration | Drop]:
    """the best candidate of each turn, as a demonstration"""
    for example in group.examples:
        for turn in example.turns().values():
            best = max(turn, key=lambda c: c.score)
            if best.score < settings.min_score:
                yield drop("score_too_low", f"the best score is {best.score}", best)
            else:
                said = [*best.prompt.conversation(), Message("assistant", best.output)]
                yield Demonstration(said, "last", score=best.score, turn=best.turn, example=example)


@builder(name="extremes", unit="task", stability="beta")
def extremes(group: Group) -> Iterator[Preference | Drop]:
    """the best candidate of each turn against the worst"""
    for example in group.examples:
        for turn in example.turns().values():
            best, worst = max(turn, key=lambda c: c.score), min(turn, key=lambda c: c.score)
            yield drop("tie", f"all have {best.score}", best) if best.score == worst.score else Preference(best, worst)


@builder(name="echo", doc="gives back what it was given", kinds=["demonstration", "rollout", "state"])
def echo(group: Group):
    yield Count("seen", 2)
    for example in group.examples:
        leaves = example.graph.leaves()
        if not leaves:
            yield drop("odd", group.examples[-1].graph.nodes[0].message.parts[0].text if group.key == "k" else "", example, count=2)
            continue
        yield Demonstration(example.graph.messages(leaves[0]), example=example, metadata={"b": 1, "a": "ü"})
        yield Rollout(Span(example, leaves[0], skip=1), reward=0.5)
        yield State(Span(example, 0), task="of its own" if group.key == "k" else None)
    yield Count("seen", 3)
