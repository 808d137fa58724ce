#!/usr/bin/env python3
"""Best-of-n demonstrations: a builder plugin for nat-go in Python. natgo.py beside it speaks the protocol."""
import json
import os
import sys

sys.path.append(os.path.dirname(os.environ.get("NATGO_PLUGIN_PATH", "")))  # a locked plugin runs as a copy of this file
import natgo  # noqa: E402
from natgo import pb  # noqa: E402

SCHEMA = {"type": "object", "additionalProperties": False, "properties": {
    "min_score": {"type": "number", "default": 0.5, "description": "lowest score of a demonstration"}}}


class BestOfN:
    """From the candidates of each turn it emits the best as a demonstration, if it is good enough."""

    info = pb.BuilderInfo(
        name="best_of_n", version="1.0.0", stability="beta", doc="the best candidate of each turn, as a demonstration",
        kinds=[pb.KIND_DEMONSTRATION], config_schema=json.dumps(SCHEMA).encode())

    def __init__(self, config):
        self.min_score = config.get("min_score", 0.5)

    def build(self, group, out):
        """Is called with one group after the other, and keeps nothing between them."""
        for e, example in enumerate(group.examples):
            turns = {}
            for candidate in example.candidates:
                turns.setdefault(group.text(candidate.turn), []).append(candidate)
            for turn, candidates in turns.items():
                self.turn(group, e, turn, max(candidates, key=lambda c: c.score), out)  # the first of equals

    def turn(self, group, e, turn, best, out):
        prompt = group.prompt(best.prompt)
        if not best.score >= self.min_score:
            out.drop(group, group.examples[e], turn, "score_too_low", f"the best score is {best.score}")
        elif any(m.parts or m.tool_calls for m in prompt.messages):
            out.drop(group, group.examples[e], turn, "prompt_not_text", "it has tool calls or images, which are not copied here")
        else:
            said = [(group.text(m.role), group.text(m.text)) for m in prompt.messages]
            said = said or [(b"user", group.text(prompt.text))]
            out.record(demonstration=pb.Demonstration(
                head=pb.Head(example=e, turn=out.text(turn)), train=pb.TRAIN_LAST, weight=1, score=best.score,
                messages=out.messages([*said, (b"assistant", group.text(best.output))])))


natgo.serve("best-of-n", "1.0.0", BestOfN)
