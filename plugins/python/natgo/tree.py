"""An optimizer step's rows as trees: tokens that rows share from the start are forwarded once.

    from natgo import tree

    for one in tree.pack([tree.Row(ids, trained), ...], tree_tokens=32768):
        logits = model(one.ids[None], attention_mask=tree.masks(model.config, one), position_ids=one.depth[None]).logits
        loss = -(one.terms.weight * logits[0].log_softmax(-1)[one.terms.position, one.terms.target]).sum()

The rows remain unchanged, so a loss over the terms equals the loss over the rows, as does its gradient. Tokens are
shared as in TRL's `TreeRow`: two rows share a node only if they also agree on the next token, so that every position
has one target.
"""

import re
from bisect import bisect
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from natgo.errors import missing

try:
    import numpy as np
    import torch
except ModuleNotFoundError as err:
    raise missing("natgo.tree", err.name or "torch", "numpy torch") from None


class Row(NamedTuple):
    ids: Any
    trained: Any
    """Whether a loss is taken at each token; never at the first, which nothing predicts."""
    weight: float = 1.0
    advantage: float = 0.0
    old: Any = None
    """The log-prob of each token when it was sampled."""


class Terms(NamedTuple):
    """The trained tokens of a tree, row by row: a position that rows share has a term for each of them."""

    position: torch.Tensor
    """int64 [M], the position where the prediction is made, which is the previous token's."""
    target: torch.Tensor
    weight: torch.Tensor
    """float64 [M], the row's weight."""
    advantage: torch.Tensor
    old: torch.Tensor
    row: torch.Tensor
    """int64 [M], the row's number among all packed rows."""

    def merged(self) -> "Terms":
        """One term per position, with the sum of the weights: for a loss that is a sum over tokens, such as the NLL.

        A clipped ratio isn't such a loss, nor is one that looks at whole rows.
        """
        position, first, own = np.unique(self.position.numpy(), return_index=True, return_inverse=True)
        weight = torch.from_numpy(np.bincount(own, self.weight.numpy(), len(position)))
        return Terms(torch.from_numpy(position), *(x[first] for x in self[1:]))._replace(weight=weight)


@dataclass(frozen=True)
class Tree:
    """Nodes in depth-first order."""

    ids: torch.Tensor
    depth: torch.Tensor
    """The position of a node in its rows."""
    end: torch.Tensor
    """A node is an ancestor of all nodes between it and its end."""
    places: Dict[int, torch.Tensor]
    """The nodes of each row, by its number."""
    terms: Terms

    def to(self, device: Any) -> "Tree":
        places = {row: x.to(device) for row, x in self.places.items()}
        return Tree(self.ids.to(device), self.depth.to(device), self.end.to(device), places, Terms(*(x.to(device) for x in self.terms)))

    def mask(self, window: Optional[int] = None) -> torch.Tensor:
        """Bool [N,N]: which nodes each node attends to. A sliding window counts depths, which are the rows' positions."""
        at = torch.arange(len(self.ids), device=self.ids.device)
        seen = (at <= at[:, None]) & (at[:, None] < self.end)
        return seen if window is None else seen & (self.depth[:, None] - self.depth < window)

    def padded(self, multiple: int, pad_id: int) -> "Tree":
        """The tree padded with nodes that attend only to themselves, and that nothing else attends to."""
        n, more = len(self.ids), -len(self.ids) % multiple
        ends = torch.arange(n + 1, n + more + 1, device=self.ids.device)
        return replace(self, ids=torch.cat((self.ids, torch.full_like(ends, pad_id))), depth=torch.cat((self.depth, 0 * ends)), end=torch.cat((self.end, ends)))


def pack(rows: Sequence[Row], tree_tokens: int, together: Optional[Sequence[Any]] = None) -> List[Tree]:
    """Packs rows into trees of at most `tree_tokens` nodes, each row into one tree, with few nodes in total.

    Rows with the same entry in together are in the same tree. A row is never cut: one that doesn't fit is an error.
    """
    if together is not None and len(together) != len(rows):
        raise ValueError(f"together: expected an entry for each of {len(rows)} rows, got {len(together)}")
    if not rows:
        return []
    ids = [np.asarray(row.ids, dtype=np.int64) for row in rows]
    for number, row in enumerate(rows):
        trained = np.asarray(row.trained, dtype=bool)
        if len(trained) != len(ids[number]) or not len(trained) or trained[0]:
            raise ValueError(f"row {number}: has {len(ids[number])} tokens and {len(trained)} marks, or trains its first token, which nothing predicts")
        if row.old is not None and len(row.old) != len(trained):
            raise ValueError(f"row {number}: expected an old log-prob for each of {len(trained)} tokens, got {len(row.old)}")
    units: Dict[Any, List[int]] = {}
    for number in _walk(ids)[0]:
        units.setdefault(number if together is None else ("", together[number]), []).append(number)
    packs = [sorted(row for unit in part for row in unit) for part in _cut(ids, list(units.values()), tree_tokens)]
    return [_tree(rows, ids, numbers) for numbers in sorted(packs)]


def _shared(a: Any, b: Any) -> int:
    """The number of nodes that two rows share: all that agree on their token and the next one."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    same = int(different[0]) if len(different) else n
    return same if same == len(a) == len(b) else max(same - 1, 0)


def _walk(ids: Sequence[Any]) -> Tuple[List[int], List[int]]:
    """The rows in depth-first order, with branches in the order in which rows open them, and the number of nodes that
    each row shares with the one before it."""
    sorted_keys: List[bytes] = []  # neighbours in their order share the longest beginnings
    sorted_rows: List[int] = []
    order: List[int] = []
    shared: List[int] = []
    for row, its in enumerate(ids):
        key = its.astype(">i8").tobytes()
        at = bisect(sorted_keys, key)
        most, nearest = max(((_shared(its, ids[other]), other) for other in sorted_rows[max(at - 1, 0) : at + 1]), default=(0, -1))
        sorted_keys.insert(at, key)
        sorted_rows.insert(at, row)
        place = order.index(nearest) + 1 if most else len(order)
        while place < len(order) and shared[place] >= most:
            place += 1
        order.insert(place, row)
        shared.insert(place, most)
    return order, shared


def _cut(ids: Sequence[Any], units: List[List[int]], tree_tokens: int) -> Iterator[List[List[int]]]:
    """Splits a walk between units so that as few nodes as possible are duplicated, and no part is too large."""
    before: List[int] = []  # nodes that a unit shares with the one before it: what a cut there costs
    size: List[int] = []
    last: Any = ids[0][:0]
    for unit in units:
        overlaps = [_shared(a, ids[b]) for a, b in zip([last, *(ids[row] for row in unit)], unit)]
        before.append(overlaps[0])
        size.append(sum(len(ids[row]) for row in unit) - sum(overlaps[1:]))
        last = ids[unit[-1]]
    best: List[Tuple[int, int]] = [(0, 0)]  # of each number of units: the nodes that are there twice, and where the last part starts
    for end in range(1, len(units) + 1):
        nodes, found = 0, []
        for start in range(end - 1, -1, -1):
            nodes += size[start] - (before[start + 1] if start + 1 < end else 0)
            if nodes > tree_tokens:
                break
            found.append((best[start][0] + before[start], start))
        if not found:
            raise ValueError(f"row {units[end - 1][0]}, with all that belong to it, needs {nodes} tokens, and tree_tokens is {tree_tokens}: rows are not cut")
        best.append(min(found))
    end = len(units)
    while end:
        start = best[end][1]
        yield units[start:end]
        end = start


def _tree(rows: Sequence[Row], ids: Sequence[Any], numbers: Sequence[int]) -> Tree:
    order, shared = _walk([ids[row] for row in numbers])
    nodes = sum(len(ids[numbers[row]]) - same for row, same in zip(order, shared))
    token, depth, end = (np.full(nodes, nodes, dtype=np.int64) for _ in range(3))
    places: Dict[int, Any] = {}
    path, n = np.zeros(0, dtype=np.int64), 0
    for row, same in zip((numbers[row] for row in order), shared):
        its = ids[row]
        own = np.arange(n, n + len(its) - same)
        token[own], depth[own], end[path[same:]] = its[same:], np.arange(same, len(its)), n
        path, n = np.concatenate((path[:same], own)), n + len(own)
        places[row] = torch.from_numpy(path)
    by_row = {row: places[row] for row in numbers}
    return Tree(torch.from_numpy(token), torch.from_numpy(depth), torch.from_numpy(end), by_row, _terms(rows, ids, places, numbers))


def _terms(rows: Sequence[Row], ids: Sequence[Any], places: Dict[int, torch.Tensor], numbers: Sequence[int]) -> Terms:
    parts = []
    for number in numbers:
        row = rows[number]
        at = np.flatnonzero(np.asarray(row.trained, dtype=bool))
        old = np.zeros(len(at)) if row.old is None else np.asarray(row.old, dtype=np.float64)[at]
        parts.append((places[number].numpy()[at - 1], ids[number][at], *(np.full(len(at), x) for x in (row.weight, row.advantage)), old, np.full(len(at), number)))
    return Terms(*(torch.from_numpy(np.concatenate(column)) for column in zip(*parts)))


_RECURRENT = "has recurrent or convolutional layers, which read all tokens in a line"
_SINKS = "has attention sinks, which sdpa has no form for"
_ORDER = "takes distances from the order of the tokens, not from their positions"
# By model type, where no setting shows it.
_TYPES = {
    **dict.fromkeys(("bloom", "cpmant", "gpt_neo", "mpt", "reformer", "xlnet"), _ORDER),
    "rembert": "attends to later tokens",
    **dict.fromkeys(("deepseek_v4", "flint", "gpt_oss", "granite_swa", "granitemoe_swa", "hy_v4", "mimo_v2_flash", "openai_privacy_filter"), _SINKS),
    **dict.fromkeys(("lfm2_moe", "rwkv", "xlstm"), _RECURRENT),
}
# By settings that are neither 0 nor False.
_SETTINGS = (
    (r".*sink", _SINKS),
    (r"alibi$", _ORDER),
    (r"output_router_logits$", "has a router loss, which counts each forwarded token once"),
    (r"(?!classifier|summary).*(dropout|drop)(_p|_prob|_rate)?$|.*pdrop$", "has dropout, which would be the same for all rows that share a token: set it to 0"),
)


def check(config: Any) -> None:
    """Raises an error if a tree doesn't yield the rows' gradients for a transformers model with this configuration."""
    own = config.get_text_config()
    kinds = set(getattr(own, "layer_types", None) or ())
    found = [_TYPES[own.model_type]] if own.model_type in _TYPES else []
    found += [f"has layers of {kind}" for kind in sorted(kinds - {"full_attention", "sliding_attention"})]
    found += [f"{why} ({name})" for name, value in own.to_dict().items() for pattern, why in _SETTINGS if value and re.match(pattern, name)]
    rope = getattr(own, "rope_parameters", None) or {}
    for one in [rope, *(x for x in rope.values() if isinstance(x, dict))]:
        if one.get("rope_type") in ("dynamic", "longrope"):
            found.append(f"has {one['rope_type']} positions, which depend on how many tokens are forwarded")
    if getattr(config, "is_encoder_decoder", False):
        found.append("has an encoder")
    attention = getattr(own, "_attn_implementation", None)
    if attention not in ("sdpa", "eager", None):
        found.append(f"runs {attention}, which takes no mask of a tree: load it with attn_implementation='sdpa'")
    if found:
        raise ValueError(f"{own.model_type} can't be trained with trees: it {found[0]}")


def masks(config: Any, tree: Tree, dtype: torch.dtype = torch.float32) -> Any:
    """The attention_mask for a transformers model: one for each kind of layer, added to scores of this dtype."""
    own = config.get_text_config()
    kinds = set(getattr(own, "layer_types", None) or (["sliding_attention"] if getattr(own, "sliding_window", None) else ["full_attention"]))
    made = {}
    for kind in sorted(kinds):
        seen = tree.mask(own.sliding_window if kind == "sliding_attention" else None)[None, None]
        made[kind] = seen if own._attn_implementation == "sdpa" else torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
    return made if len(made) > 1 else made[kind]
