"""Loads pre-tokenised rows with SkyRL's own loader and prints, for each row, its ids and the positions of the tokens in the loss."""

import json
import sys

from loguru import logger
from skyrl.train.dataset.pretokenized import load_from_pretokenized

logger.remove()  # keep its log off the output
rows = []
for row in load_from_pretokenized(sys.argv[1]):
    ids, window = list(row["input_ids"]), list(row["loss_mask"])
    assert len(window) == row["num_actions"] and list(row["attention_mask"]) == [1] * len(ids)
    start = len(ids) - len(window)
    rows.append({"ids": ids, "trained": [start + i for i, on in enumerate(window) if on]})
json.dump(rows, sys.stdout)
