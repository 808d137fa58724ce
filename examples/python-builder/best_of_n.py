"""A builder plugin for nat-go."""
from collections.abc import Iterator
from dataclasses import dataclass

from natgo.builder import Demonstration, Drop, Group, Message, builder, drop, serve, setting


@dataclass
class Settings:
    min_score: float = setting(0.5, "lowest score of a demonstration")


@builder(name="best_of_n", unit="example")
def best_of_n(group: Group, settings: Settings) -> Iterator[Demonstration | Drop]:
    """the best candidate of each turn, as a demonstration"""
    for example in group.examples:
        for turn in example.turns().values():
            best = max(turn, key=lambda c: c.score)
            said = [*best.prompt.conversation(), Message("assistant", best.output)]
            if best.score >= settings.min_score:
                yield Demonstration(said, "last", score=best.score, turn=best.turn, example=example)
            else:
                yield drop("score_too_low", f"the best score is {best.score}", best)


def main() -> None:
    serve(best_of_n, name="best-of-n", version="1.0.0")
