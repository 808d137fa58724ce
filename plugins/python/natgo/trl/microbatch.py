"""Micro-batches: batches of any channel, checked, as torch tensors that are sliced by row and re-padded.

A data set is a folder with `index.jsonl`, one line per batch, and `<channel>/<split>/NNNNN.safetensors`. Files are not
trusted: every id that a loss is taken on is looked up again in the row it comes from, and a batch that fails is an
error, never skipped silently.

Run as a program it checks a folder:  python3 -m natgo.trl.microbatch RUN/batches
"""

import hashlib
import json
import os
import pathlib
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from natgo.batches import BatchSet, Path, _index, folder
from natgo.errors import BatchError
from natgo.tensorfile import as_torch, read_tensors

IGNORED = -100
SIDES = {"rl": [""], "sdpo": ["student_", "teacher_"], "dpo": ["chosen_", "rejected_"], "sft": [""]}
PAIRS = ["student_row", "student_pos", "teacher_row", "teacher_pos", "target_id", "site"]
Tensors = Dict[str, torch.Tensor]


class Batch(NamedTuple):
    channel: str
    line: Dict[str, Any]  # its line of the index
    t: Tensors  # the file's tensors, by the file's names

    @property
    def rows(self) -> int:
        return int(self.t[SIDES[self.channel][0] + "input_ids"].shape[0])


def read(root: Path, channel: Optional[str] = None, split: Optional[str] = None) -> Iterator[Batch]:
    """Yields the batches of a run folder, or of a `batches` folder, in order, checked."""
    root = folder(root)
    lines, _ = _index(root)
    for line in lines:
        if split not in (None, line["split"]):
            continue
        where = f"{root}: {line['file']}"
        if line["channel"] not in SIDES:
            raise BatchError(f"{where}: unknown channel {line['channel']!r}")
        verify = bool(line.get("proof", {}).get("sha256"))
        tensors = dict(BatchSet(root, [line], range(1), torch=True, verify=verify)[0])
        if line.get("layout") == "composer":
            tensors = from_composer(line, tensors, where)
        ignored = line.get("ignore_index", IGNORED)
        tensors = {n: x.masked_fill(x == ignored, IGNORED) if n.endswith("labels") else x for n, x in tensors.items()}
        sampled = [r.get("sampling") or {} for r in line.get("row_info", [])]
        if line["channel"] == "rl" and sampled:  # raw log-probs are the model's own, processed ones were divided by the temperature
            tensors["temperature"] = torch.tensor([s["temperature"] if s.get("logprobs") == "processed" else 1.0 for s in sampled])
        batch = Batch(line["channel"], line, unpack(tensors))
        check(batch, where)
        if channel in (None, batch.channel):
            yield batch


def require(ok: Any, where: str, what: str) -> None:
    if not bool(ok):
        raise BatchError(f"{where}: {what}")


def check(b: Batch, where: str) -> None:
    """Raises BatchError unless the tensors match the format."""
    t, vocab = b.t, b.line["vocab_size"]
    lengths = {}
    for side in SIDES[b.channel]:
        ids, mask, position = (t[side + n] for n in ("input_ids", "attention_mask", "position_ids"))
        at = torch.arange(ids.shape[1])
        require(all(x.dtype == torch.int64 and x.shape == ids.shape for x in (ids, mask, position)), where, f"{side}input_ids, attention_mask, position_ids: not int64 of one shape")
        lengths[side] = mask.sum(1)
        require((mask == (at < lengths[side][:, None])).all(), where, f"{side}attention_mask: not 1 up to each row's end and 0 after it")
        require((position * mask == at * mask).all(), where, f"{side}position_ids: not 0, 1, 2, ...")
        require(((ids >= 0) & (ids < vocab) | (mask == 0)).all(), where, f"{side}input_ids: an id outside the vocabulary of {vocab}")
        if b.channel != "sdpo":
            on = trained(b, side)
            require(not (on & (mask == 0)).any() and not on[:, 0].any(), where, f"{side}: a trained position is padding, or has nothing before it")
            if side + "labels" in t:
                require((t[side + "labels"][on] == ids[on]).all(), where, f"{side}labels: not input_ids where trained")
    weight = t.get("pair_weight" if b.channel == "sdpo" else "row_weight")
    require(weight is not None and torch.isfinite(weight).all() and (weight >= 0).all(), where, "weights: missing, not finite or negative")
    if b.channel == "rl":
        on = trained(b, "")
        require(all(torch.isfinite(t[n]).all() for n in ("reward", "advantage")), where, "reward, advantage: not finite")
        old = t.get("old_logprobs")
        require(old is None or (torch.isfinite(old).all() and (old <= 0).all() and (old[~on] == 0).all()), where, "old_logprobs: not finite, above 0, or not 0 where masked")
    elif b.channel == "sdpo":
        check_pairs(t, where, lengths, len(b.line["sites"]))
    if "row_n_active" in t:
        active = torch.bincount(t["pair_student_row"], minlength=b.rows) if b.channel == "sdpo" else sum(trained(b, s).sum(1) for s in SIDES[b.channel])
        require((t["row_n_active"] == active).all(), where, "row_n_active: not the number of trained tokens")


def check_pairs(t: Tensors, where: str, lengths: Tensors, sites: int) -> None:
    row, pos, teacher_row, teacher_pos, target, site = (t["pair_" + n] for n in PAIRS)
    for side, r, p in (("student_", row, pos), ("teacher_", teacher_row, teacher_pos)):
        ids, length = t[side + "input_ids"], lengths[side]
        require(((r >= 0) & (r < len(length))).all(), where, f"pair_{side}row: no such row")
        require(((p >= 0) & (p + 1 < length[r])).all(), where, f"pair_{side}pos: nothing follows it in its row")
        wrong = (ids[r, p + 1] != target).nonzero()
        require(not len(wrong), where, f"pair {wrong[:1].tolist()}: {side}input_ids[row, pos+1] is not the target id")
    require(((site >= 0) & (site < sites)).all(), where, "pair_site: no such site in the line")
    key = list(zip(row.tolist(), pos.tolist(), site.tolist()))
    require(all(a < b for a, b in zip(key, key[1:])), where, "pairs: not sorted by (student_row, student_pos, site), or one is there twice")


def trained(b: Batch, side: str) -> torch.Tensor:
    """Bool [R,T]: the tokens AT which a loss is taken; the logits before each predict it."""
    return b.t["response_mask"] == 1 if b.channel == "rl" else b.t[side + "labels"] != IGNORED


def unpack(t: Tensors) -> Tensors:
    """Gives each sequence of a packed sft batch a row of its own."""
    if "seq_lengths" not in t:
        return t
    lengths, out = t["seq_lengths"].tolist(), {k: v for k, v in t.items() if v.dim() == 1 and k != "seq_lengths"}
    for name, grid in t.items():
        if grid.dim() == 2:
            fill = IGNORED if name == "labels" else 0
            out[name] = torch.nn.utils.rnn.pad_sequence(grid[0].split(lengths), batch_first=True, padding_value=fill)
    out["attention_mask"] = (torch.arange(max(lengths)) < t["seq_lengths"][:, None]).long()
    return out


def select(b: Batch, rows: Sequence[int], pad_id: Optional[int] = None, left: bool = False, width: int = 0) -> Batch:
    """Some of the rows, in order, re-padded on the right or on the left: only as wide as they need, or `width`."""
    keep, t, out = torch.as_tensor(sorted(rows)), b.t, {}
    pad_id = b.line["pad_id"] if pad_id is None else pad_id
    if not 0 <= pad_id < b.line["vocab_size"]:
        pad_id = 0  # the model never sees padding, but its id needs an embedding
    chosen = {side: keep for side in SIDES[b.channel]}
    if b.channel == "sdpo":
        pairs = torch.isin(t["pair_student_row"], keep)
        out = {k: v[pairs] for k, v in t.items() if k.startswith("pair_")}
        chosen["teacher_"] = out["pair_teacher_row"].unique()
        for side in SIDES["sdpo"]:
            renumber = torch.zeros(len(t[side + "input_ids"]), dtype=torch.int64)
            renumber[chosen[side]] = torch.arange(len(chosen[side]))
            out[f"pair_{side}row"] = renumber[out[f"pair_{side}row"]]
        if not len(chosen["teacher_"]):
            chosen["teacher_"] = torch.zeros(1, dtype=torch.int64)
    for side in SIDES[b.channel]:
        length = t[side + "attention_mask"].sum(1)[chosen[side]]
        wide = max(int(length.max()), width)
        real = torch.arange(wide) < length[:, None]
        if left:
            real = real.flip(1)
            if b.channel == "sdpo":
                out[f"pair_{side}pos"] = out[f"pair_{side}pos"] + (wide - length)[out[f"pair_{side}row"]]
        for name, fill in (("input_ids", pad_id), ("attention_mask", 0), ("position_ids", 0), ("labels", IGNORED), ("response_mask", 0), ("old_logprobs", 0)):
            if side + name in t:
                grid = t[side + name][chosen[side]]
                out[side + name] = grid.new_full(real.shape, fill)
                out[side + name][real] = grid[torch.arange(grid.shape[1]) < length[:, None]]
    for name, column in t.items():
        if column.dim() == 1 and not name.startswith("pair_"):
            out[name] = column[keep]
    return Batch(b.channel, b.line, out)


def split(b: Batch, rows: int) -> List[Batch]:
    """Micro-batches of at most this many rows."""
    return [select(b, range(i, min(i + rows, b.rows))) for i in range(0, b.rows, rows)]


def without_cut_off(b: Batch) -> Batch:
    """DAPO's overlong filtering: a rollout that a length limit cut off has weight 0; its group's advantages remain
    unchanged."""
    if b.channel != "rl":
        return b
    require("row_info" in b.line, b.line.get("file", "rl batch"), "doesn't say which rollouts were cut off")
    ended = [not {"cut_off", "truncated"} & set(row.get("flags") or ()) for row in b.line["row_info"]]
    return b._replace(t={**b.t, "row_weight": b.t["row_weight"] * torch.tensor(ended)})


def idle(channel: str) -> Batch:
    """A batch without an active token, which a rank runs while others still have work."""
    t = {"row_weight": torch.zeros(1)}
    for side in SIDES[channel]:
        t[side + "input_ids"], t[side + "attention_mask"] = torch.zeros(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64)
        t[side + "position_ids"], t[side + "labels"] = torch.arange(2)[None], torch.full((1, 2), IGNORED)
    if channel == "rl":
        t.update(response_mask=torch.zeros(1, 2, dtype=torch.int64), advantage=torch.zeros(1), reward_null=torch.ones(1, dtype=torch.int64))
    if channel == "dpo":
        t.update(ref_chosen_logps=torch.zeros(1), ref_rejected_logps=torch.zeros(1))
    if channel == "sdpo":
        t.update({"pair_" + n: torch.zeros(0, dtype=torch.int64) for n in PAIRS}, pair_weight=torch.zeros(0))
    return Batch(channel, {"pad_id": 0, "vocab_size": 1, "sites": []}, t)


def steps(root: Path, split: Optional[str] = None) -> Iterator[Dict[str, Batch]]:
    """Yields the step files of a folder (`collator.composer.files: step`), each as its batches by channel, checked."""
    place = pathlib.Path(root)
    lines = {line["file"]: line for line in _index(os.fspath(root))[0]}
    for text in (place / "steps.jsonl").read_text("utf-8").splitlines():
        step = json.loads(text)
        if split not in (None, step["split"]):
            continue
        path = (place / step["file"]).resolve()
        require(place.resolve() in path.parents, step["file"], "leads out of the folder")
        data = path.read_bytes()
        require(hashlib.sha256(data).hexdigest() == step["sha256"], step["file"], "is not the file the list was written for")
        tensors = {n: as_torch(x) for n, x in read_tensors(str(path), bytearray(data)).items()}
        yield from_step(tensors, [lines[file] for file in step["batches"]], step["file"])


def from_step(t: Tensors, lines: Sequence[Dict[str, Any]], where: str) -> Dict[str, Batch]:
    """The batches that a step file was made from. Either the rl rows come first and then the sdpo rows, all of the same
    width, or each row is an example in both."""
    out = {}
    by_example = "rewards" in t and "row_channel" not in t
    if by_example:
        rl = next(line for line in lines if line["channel"] == "rl")
        sdpo = {"pad_id": rl["pad_id"], "vocab_size": rl["vocab_size"], "channel": "sdpo", "equal_width": True, "sites": [None] * len(t["rewards"])}
        lines = [*lines, sdpo] if "sdpo_loss_mask" in t and (t["sdpo_loss_mask"] == 1).any() else lines
    for line in lines:
        channel = line["channel"]
        if channel == "dpo":
            own = {k[4:] if k.startswith("dpo_row_") else k: v for k, v in t.items() if k.startswith("dpo_")}
        elif by_example and channel == "rl":
            own = {k: v for k, v in t.items() if not k.startswith(("dpo_", "ctx_teacher_", "sdpo_"))}
            own = close_gaps(own, [n for n in ("input_ids", "position_ids", "response_mask", "old_logprobs", "attention_mask") if n in own])
        elif by_example:
            own = {k: v for k, v in t.items() if k.startswith("ctx_teacher_") or k in ("input_ids", "attention_mask", "position_ids", "sdpo_loss_mask")}
            own["row_weight"] = t["sdpo_row_weight"]
        else:
            rows = t["row_channel"] == ["rl", "sdpo"].index(channel)
            own = {k: v[rows] for k, v in t.items() if not k.startswith("dpo_") and k != "row_channel"}
            keep = ("ctx_teacher_", "sdpo_loss_mask") if channel == "rl" else ("old_logprobs", "reward", "advantages", "group")
            own = {k: v for k, v in own.items() if not k.startswith(keep)}
        out[channel] = Batch(channel, line, unpack(from_composer(line, own, where)))
        check(out[channel], where)
    return out


def close_gaps(t: Tensors, names: Sequence[str]) -> Tensors:
    """Moves padding from within rows (of a student as wide as its teacher) to their ends."""
    mask = t["attention_mask"].bool()
    real = torch.arange(mask.shape[1]) < mask.sum(1)[:, None]
    out = dict(t)
    for name in names:
        out[name] = torch.zeros_like(t[name])
        out[name][real] = t[name][mask]
    return out


def from_composer(line: Dict[str, Any], t: Tensors, where: str) -> Tensors:
    """Translates a file in the composer layout (the reference trainer's names) to the padded layout's names.

    `sdpo_loss_mask` [S,T'] is 1 at the positions of the teacher's logits, and 0 or below elsewhere. A row is a site, or
    all sites of a rollout whose hints accumulate. With equal width, the student is padded where the teacher has a hint,
    so the positions differ only by that padding. Otherwise rows end at the target's last token and differ only in the
    hint, so the student's position is the same distance from the end of its row. The target ids then have to match.
    """
    channel = line["channel"]
    if channel == "rl":
        return {{"rewards": "reward", "advantages": "advantage"}.get(k, k): v for k, v in t.items()}
    if channel == "dpo":
        out = {k[4:] if k.startswith("dpo_") else k: v for k, v in t.items()}
        for side in ("chosen", "rejected"):
            out[side + "_labels"] = out[side + "_input_ids"].masked_fill(out.pop(side + "_response_mask") == 0, IGNORED)
            if side + "_ref_logprobs" in out:
                out[f"ref_{side}_logps"] = out.pop(side + "_ref_logprobs")
        return out
    seen = t["attention_mask"].cumsum(1)  # of the student's tokens, up to each position
    t = close_gaps(t, [n for n in ("input_ids", "position_ids", "response_mask", "attention_mask") if n in t])
    out = {k[4:] if k.startswith("ctx_") else k if k.startswith("row_") else "student_" + k: v for k, v in t.items() if k != "sdpo_loss_mask"}
    mask, ids = t["sdpo_loss_mask"], out["teacher_input_ids"]
    on = mask == 1
    require(mask.shape == ids.shape and (on | (mask <= 0)).all() and not on[:, -1].any(), where, "sdpo_loss_mask: not 1, or 0 and below, of the teacher's shape, with a token after each 1")
    row, pos = on.nonzero(as_tuple=True)
    if line.get("equal_width"):
        student = seen[row, pos + 1] - 2
    else:
        student = pos - (out["teacher_attention_mask"].sum(1) - out["student_attention_mask"].sum(1))[row]
    out.update(pair_student_row=row, pair_student_pos=student, pair_teacher_row=row, pair_teacher_pos=pos, pair_target_id=ids[row, pos + 1],
               pair_site=sites_of(line, row, student, where), pair_weight=out["row_weight"][row])
    return out


def sites_of(line: Dict[str, Any], row: torch.Tensor, pos: torch.Tensor, where: str) -> torch.Tensor:
    """Each pair's site: its row's only site, or the one whose `pairs` in the index line contain its target."""
    rows = line.get("row_info", ())
    if all(len(info["sites"]) == 1 for info in rows):
        return row
    site, at = 0, {}
    for r, info in enumerate(rows):
        for s in info["sites"]:
            at.update({(r, p - 1): site for run in s["pairs"] for p in range(run["Start"], run["End"])})
            site += 1
    pairs = list(zip(row.tolist(), pos.tolist()))
    require(len(pairs) == len(at) and all(p in at for p in pairs), where, "sdpo_loss_mask: not the targets of the sites in its line")
    return torch.tensor([at[p] for p in pairs], dtype=torch.int64)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python3 -m natgo.trl.microbatch RUN/batches")
    counts: Dict[str, List[int]] = {}
    for b in read(sys.argv[1]):
        active = len(b.t["pair_target_id"]) if b.channel == "sdpo" else sum(int(trained(b, s).sum()) for s in SIDES[b.channel])
        tokens = sum(int(b.t[s + "attention_mask"].sum()) for s in SIDES[b.channel])
        have = counts.setdefault(f"{b.channel}/{b.line['split']}", [0] * 4)
        counts[f"{b.channel}/{b.line['split']}"] = [x + y for x, y in zip(have, (1, b.rows, tokens, active))]
    for key, (batches, rows, tokens, active) in counts.items():
        print(json.dumps({"channel": key, "batches": batches, "rows": rows, "tokens": tokens, "n_active": active}))


if __name__ == "__main__":
    try:
        main()
    except (BatchError, OSError, KeyError) as err:
        sys.exit(f"{type(err).__name__}: {err}")
