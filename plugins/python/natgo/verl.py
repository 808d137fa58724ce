"""verl rows with tools and tool calls.

nat-go writes such messages and tools as JSON: typed, Parquet would give every definition and every call the keys of all
others, with null where they had none, and chat templates print those. verl's own class can't read JSON, and says so.
This one is meant to; it is written after verl 0.9's code and has not been run with verl yet:

    data.custom_cls.path=pkg://natgo.verl data.custom_cls.name=Conversations
"""

from __future__ import annotations

import json
from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

__all__ = ["Conversations"]


def parsed(values: Any) -> list[Any] | None:
    """Returns a list with its JSON texts parsed."""
    if values is None:
        return None
    return [json.loads(v) if isinstance(v, str) else v for v in values]


class Conversations(MultiTurnSFTDataset):  # type: ignore[misc] # verl has no types
    """verl's MultiTurnSFTDataset over rows of nat-go's format verl."""

    tools: Any

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        if self.tools is not None:
            self.tools = [parsed(tools) for tools in self.tools]

    def _build_messages(self, example: dict[str, Any]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = super()._build_messages(
            {**example, self.messages_key: parsed(example[self.messages_key])}
        )
        return messages
