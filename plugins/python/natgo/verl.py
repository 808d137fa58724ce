"""verl rows with tools and tool calls.

nat-go writes such messages and tools as JSON: with typed Parquet columns, every definition and every call would have
the keys of all others, with nulls, which chat templates print. verl's own class stops at JSON; this one reads it:

    data.custom_cls.path=pkg://natgo.verl data.custom_cls.name=Conversations
"""

from __future__ import annotations

import json
from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

__all__ = ["Conversations"]


def parsed(values: Any) -> list[Any] | None:
    """Returns a list with its JSON strings parsed."""
    if values is None:
        return None
    return [json.loads(v) if isinstance(v, str) else v for v in values]


class Conversations(MultiTurnSFTDataset):  # type: ignore[misc] # verl has no types
    """verl's MultiTurnSFTDataset over rows in nat-go's format verl."""

    # What verl's class sets.
    messages: Any
    tools: Any
    dataframe: Any

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        self.messages = [parsed(messages) for messages in self.messages]
        if self.tools is not None:
            self.tools = [parsed(tools) for tools in self.tools]
        # Each example takes its row from the table again, which pandas can't do with a JSON column.
        rest = [c for c in self.dataframe.columns if c not in (self.messages_key, self.tools_key)]
        self.dataframe = self.dataframe[rest].astype(object)
        self.dataframe[self.messages_key] = self.messages
