"""verl rows with tools and tool calls.

nat-go writes such messages and tools as JSON: typed, Parquet would give every definition and every call the keys of all
others, with null where they had none, and chat templates print those. verl's own class stops at JSON; this one reads it:

    data.custom_cls.path=pkg://natgo.verl data.custom_cls.name=Conversations    # demonstrations
    data.custom_cls.path=pkg://natgo.verl data.custom_cls.name=Prompts          # states
"""

from __future__ import annotations

import json
from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.dataset.rl_dataset import RLHFDataset

__all__ = ["Conversations", "Prompts"]


def parsed(values: Any) -> list[Any] | None:
    """Returns a list with its JSON texts parsed."""
    if values is None:
        return None
    return [json.loads(v) if isinstance(v, str) else v for v in values]


class Conversations(MultiTurnSFTDataset):  # type: ignore[misc] # verl has no types
    """verl's MultiTurnSFTDataset over rows of nat-go's format verl."""

    # What verl's class sets.
    messages: Any
    tools: Any
    dataframe: Any

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        self.messages = [parsed(messages) for messages in self.messages]
        if self.tools is not None:
            self.tools = [parsed(tools) for tools in self.tools]
        # A row of the table is taken anew for each example, which pandas can't do with a column of JSON.
        rest = [c for c in self.dataframe.columns if c not in (self.messages_key, self.tools_key)]
        self.dataframe = self.dataframe[rest].astype(object)
        self.dataframe[self.messages_key] = self.messages


class Prompts(RLHFDataset):  # type: ignore[misc] # verl has no types
    """verl's RLHFDataset over prompts with tool calls, which verl's own class takes for too long and leaves out."""

    prompt_key: str  # which verl's class sets

    def maybe_filter_out_long_prompts(self, dataframe: Any = None) -> Any:
        key = self.prompt_key
        return super().maybe_filter_out_long_prompts(
            dataframe.with_transform(lambda rows: {**rows, key: [parsed(prompt) for prompt in rows[key]]} if key in rows else rows)
        )
