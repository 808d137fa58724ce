"""Writes conversations as a log of Inspect: inspect_log.py CONVERSATIONS.jsonl FOLDER

Each line has an id, a task, messages with roles and contents, and a reward."""

import json
import pathlib
import sys

from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import Score

samples = []
for line in pathlib.Path(sys.argv[1]).open():
    row = json.loads(line)
    messages = [
        {"user": ChatMessageUser, "assistant": ChatMessageAssistant}[m["role"]](content=m["content"])
        for m in row["messages"]
    ]
    samples.append(EvalSample(
        id=row["id"], epoch=1, input=row["messages"][0]["content"], target="", messages=messages,
        scores={"reward": Score(value=row["reward"])}, metadata={"task": row["task"]},
    ))
log = EvalLog(
    status="success",
    eval=EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="conversations", model="none/none", config=EvalConfig(),
        dataset=EvalDataset(name="conversations", samples=len(samples), sample_ids=[s.id for s in samples]),
    ),
    samples=samples,
)
write_eval_log(log, str(pathlib.Path(sys.argv[2]) / "conversations.eval"))
