"""The composite objective: grpo + alpha_sdpo * jsd + beta_replay * dpo (+ sft_weight * nll where there are sft
batches).

A model here is a module called as model(ids, mask, positions, row, at) that returns the logits [N,V] at (row, at): it
gathers hidden states before the head, so a B x T x V tensor never exists. Student and teacher alike see the
mask and the position ids. Losses are sums over a micro-batch, divided by the whole step's total on all ranks, so
neither the division into micro-batches nor the number of ranks changes a gradient.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F

from natgo.trl.divergence import Divergence, TopK, at_least_float32, contrasted, divergence
from natgo.trl.microbatch import SIDES, Batch, idle, trained
from natgo.trl.scoring import scoring

CHANNELS = ("rl", "sdpo", "dpo", "sft")
Term = Tuple[torch.Tensor, Dict[str, Any]]
"""A loss summed over a micro-batch, and sums of the metrics shown with it."""
TERMS = {"rl": "loss/grpo", "sdpo": "loss/sdpo_kl", "dpo": "loss/trace_replay_dpo", "sft": "loss/sft"}


@dataclass
class Objective:
    alpha_sdpo: float = 0.0  # 0: plain GRPO
    beta_replay: float = 0.0
    sft_weight: float = 1.0
    jsd_beta: float = 0.5  # 0: KL(teacher||student), 1: KL(student||teacher)
    temperature: float = 1.0  # of both sides' logits in the JSD
    jsd_normalize: bool = False  # divide by beta (1-beta): continuous at both ends
    jsd_clip: float = 0.0  # above 0: the upper limit of a position's loss
    contrast: float = 0.0  # how far the teacher moves from what it says under a wrong hint
    top_k: int = 0  # above 0: the JSD is over the student's best, and everything else as one more entry
    dpo_beta: float = 0.1
    clip_epsilon: float = 0.2  # the ratio is held in [1 - clip_epsilon, 1 + clip_epsilon_high]
    clip_epsilon_high: Optional[float] = None  # clip_epsilon unless given; DAPO's clip-higher
    reduction: str = "token"  # GRPO over the step: token, sequence, or constant: sums divided by max_tokens
    max_tokens: int = 1024
    reference: str = ""  # fingerprint that ref_ columns must have to be used

    def __post_init__(self) -> None:
        if not 0 <= self.contrast < math.inf:
            raise ValueError(f"contrast is {self.contrast}: expected a number of at least 0")
        self.divergence()  # raises an error if a setting of its is wrong

    def highest(self) -> float:
        return self.clip_epsilon if self.clip_epsilon_high is None else self.clip_epsilon_high

    def divergence(self) -> Divergence:
        return Divergence(self.jsd_beta, self.temperature, self.jsd_normalize, self.jsd_clip, self.top_k)

    def weight(self, channel: str) -> float:
        return {"rl": 1.0, "sdpo": self.alpha_sdpo, "dpo": self.beta_replay, "sft": self.sft_weight}[channel]


class ShapeMismatch(ValueError):
    """Student and teacher have logits of different shapes."""


def side_logits(model: Any, b: Batch, side: str, row: Any, at: Any) -> torch.Tensor:
    return model(*(b.t[side + n] for n in ("input_ids", "attention_mask", "position_ids")), row, at)  # type: ignore[no-any-return]


def token_log_probs(model: Any, b: Batch, side: str) -> Tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of the trained tokens, [N], and the row of each. The token at t is scored by the logits at t-1."""
    row, at = trained(b, side).nonzero(as_tuple=True)
    logits = at_least_float32(side_logits(model, b, side, row, at - 1))
    if "temperature" in b.t:
        logits = logits / b.t["temperature"].to(logits)[row, None]
    target = b.t[side + "input_ids"][row, at]
    return logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(1), row


def per_row(values: torch.Tensor, row: torch.Tensor, rows: int) -> torch.Tensor:
    return values.new_zeros(rows).index_add(0, row, values)


def units(b: Batch, o: Objective) -> torch.Tensor:
    """A micro-batch's contribution to its channel's denominator in the step. float64."""
    if b.channel == "sdpo":
        return b.t["pair_weight"].double().sum()
    w = row_weights(b)
    tokens = trained(b, SIDES[b.channel][0]).sum(1)
    if b.channel == "sft" or b.channel == "rl" and o.reduction == "token":
        return (w * tokens).sum()
    if b.channel == "rl" and o.reduction == "constant":
        return w.sum() * o.max_tokens
    return (w * (tokens > 0)).sum()


def row_weights(b: Batch) -> torch.Tensor:
    """An unscored rollout doesn't have an advantage, so it has weight 0."""
    w = b.t["row_weight"].double()
    return w * (b.t["reward_null"] == 0) if "reward_null" in b.t else w


def rl_loss(model: Any, b: Batch, o: Objective, **_: Any) -> Term:
    """PPO's clipped surrogate. Without old log-probs the policy is compared with itself: a ratio of 1 with a
    gradient."""
    logp, row = token_log_probs(model, b, "")
    on = trained(b, "")
    old = b.t["old_logprobs"][on].to(logp) if "old_logprobs" in b.t else logp.detach()
    ratio, advantage = (logp - old).exp(), b.t["advantage"].to(logp)[row]
    loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - o.clip_epsilon, 1 + o.highest()) * advantage)
    w = row_weights(b).to(logp)
    if o.reduction == "sequence":
        w = w / on.sum(1).clamp(min=1)
    off = (ratio.detach() - 1).abs()
    return (w[row] * loss).sum(), {"ratio_off_1": off.sum(), "logp_off": (logp - old).detach().abs().sum(), "tokens": len(row)}


def sdpo_loss(model: Any, b: Batch, o: Objective, teacher: Any = None, **_: Any) -> Term:
    """The weighted divergence at each pair. Without a teacher, the batch's stored one is used."""
    t = b.t
    z = side_logits(model, b, "student_", t["pair_student_row"], t["pair_student_pos"])
    w = t["pair_weight"].to(torch.promote_types(z.dtype, torch.float32))
    target = at_least_float32(z.detach()).log_softmax(1).gather(1, t["pair_target_id"][:, None])[:, 0]
    if teacher is None:
        p: Any = TopK(t["pair_teacher_topk_ids"], t["pair_teacher_topk_logprobs"])
    else:
        with teacher.scoring() as scorer:
            p = side_logits(scorer, b, "teacher_", t["pair_teacher_row"], t["pair_teacher_pos"])
            if o.contrast:
                wrong = side_logits(scorer, b, "contrast_", t["pair_teacher_row"], t["pair_contrast_pos"])
                p = contrasted(p, wrong, o.contrast, o.temperature)
        z, p = same_vocabulary(z, p, b.line["vocab_size"])
    loss = divergence(z, p, o.divergence())
    return (w * loss)[w > 0].sum(), {"target_logp": (w * target).sum(), "pairs": w.sum()}


def same_vocabulary(z: torch.Tensor, p: torch.Tensor, vocabulary: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Both sides' logits without the entries that pad one of them beyond the tokenizer's vocabulary."""
    if z.shape == p.shape:
        return z, p
    width = min(z.shape[1], p.shape[1])
    if z.shape[0] != p.shape[0] or width < vocabulary:
        raise ShapeMismatch(f"the student's logits are {list(z.shape)}, the teacher's {list(p.shape)}, and the vocabulary has {vocabulary} entries")
    return z[:, :width], p[:, :width]


def dpo_loss(model: Any, b: Batch, o: Objective, reference: Any = None, ref_given: bool = False, **_: Any) -> Term:
    """-log sigmoid(beta * margin); the reference scores are a frozen copy's, unless the file's are known to come from
    it."""
    t, policy, base = b.t, [], []
    for side in SIDES["dpo"]:
        policy.append(per_row(*token_log_probs(model, b, side), b.rows))
        if ref_given:
            base.append(t[f"ref_{side}logps"].to(policy[-1]))
        else:
            with scoring(reference) as scorer:
                base.append(per_row(*token_log_probs(scorer, b, side), b.rows))
    margin = o.dpo_beta * ((policy[0] - base[0]) - (policy[1] - base[1]))
    w = row_weights(b).to(margin) * (trained(b, "chosen_").sum(1) > 0)
    return -(w * F.logsigmoid(margin)).sum(), {"margin": (w * margin.detach()).sum(), "accuracy": (w * (margin > 0)).sum(), "pairs": w.sum()}


def sft_loss(model: Any, b: Batch, o: Objective, **_: Any) -> Term:
    logp, row = token_log_probs(model, b, "")
    return -(row_weights(b).to(logp)[row] * logp).sum(), {"tokens": len(row)}


LOSSES: Dict[str, Callable[..., Term]] = {"rl": rl_loss, "sdpo": sdpo_loss, "dpo": dpo_loss, "sft": sft_loss}


def over_ranks(values: Iterable[Any], op: str) -> List[float]:
    """values reduced over all ranks by SUM, MAX or MIN; unchanged if there is only one."""
    if not (dist.is_available() and dist.is_initialized()):
        return list(values)
    sums = torch.tensor(list(values), dtype=torch.float64)
    dist.all_reduce(sums, getattr(dist.ReduceOp, op))
    return [float(x) for x in sums]


def has_reference(b: Batch, o: Objective) -> bool:
    return bool(o.reference) and b.line.get("reference") == o.reference and "ref_chosen_logps" in b.t


def composite(model: Any, batches: Sequence[Batch], o: Objective, teacher: Any = None, reference: Any = None) -> Dict[str, float]:
    """Runs a step's micro-batches, leaves their gradient in the model, summed over all ranks, and returns the step's metrics.

    Every rank runs as many forwards of each kind as the busiest one, on idle batches once its own are done: under sharded
    parameters a rank that skips a forward hangs the others.
    """
    mine = {c: [b for b in batches if b.channel == c and o.weight(c)] for c in CHANNELS}
    count = over_ranks([len(mine[c]) for c in CHANNELS], "MAX")
    whole = over_ranks([sum(float(units(b, o)) for b in mine[c]) for c in CHANNELS], "SUM")
    (ref_given,) = over_ranks([all(has_reference(b, o) for b in mine["dpo"])], "MIN")
    if count[CHANNELS.index("dpo")] and not ref_given and reference is None:
        raise ValueError("dpo batches whose reference log-probs can't be used (objective.reference) need a reference model")
    sums: Dict[Tuple[str, str], float] = {}
    for channel, n, denominator in zip(CHANNELS, count, whole):
        for i in range(int(n)):
            b = mine[channel][i] if i < len(mine[channel]) else idle(channel)
            loss, parts = LOSSES[channel](model, b, o, teacher=teacher, reference=reference, ref_given=bool(ref_given))
            loss = loss / (denominator or 1.0)
            if torch.is_grad_enabled():
                (o.weight(channel) * loss).backward()
            for name, value in {"loss": loss.detach(), **parts}.items():
                sums[channel, name] = sums.get((channel, name), 0.0) + float(value)
    if torch.is_grad_enabled() and dist.is_available() and dist.is_initialized():
        for p in model.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
    return metrics(dict(zip(sums, over_ranks(sums.values(), "SUM"))), o)


def metrics(sums: Dict[Tuple[str, str], float], o: Objective) -> Dict[str, float]:
    """Turns a step's sums into means over pairs or tokens, under the names used in logs."""
    out = {}
    for channel in dict.fromkeys(c for c, _ in sums):
        n = max(sums.get((channel, "pairs"), sums.get((channel, "tokens"), 0.0)), 1e-30)
        out[TERMS[channel]] = sums[channel, "loss"]
        out.update({f"{channel}_{k}": v / n for (c, k), v in sums.items() if c == channel and k not in ("loss", "pairs", "tokens")})
    total = sum(o.weight(c) * v for (c, k), v in sums.items() if k == "loss")
    return {"loss/total": total, **out, "loss/alpha_sdpo": o.alpha_sdpo, "loss/beta_replay": o.beta_replay}


@torch.no_grad()  # type: ignore[untyped-decorator]
def untargeted_kl(model: Any, start: Any, b: Batch) -> Tuple[float, int]:
    """KL(start || model) summed over the student's positions outside all pairs, and their number: a measure of
    unintended changes by training."""
    rest = b.t["student_attention_mask"].bool().clone()
    rest[:, :-1] &= rest[:, 1:].clone()  # the last token's logits predict nothing that is there
    rest[:, -1] = False
    rest[b.t["pair_student_row"], b.t["pair_student_pos"]] = False
    row, at = rest.nonzero(as_tuple=True)
    with scoring(model), scoring(start):
        now, then = (at_least_float32(side_logits(m, b, "student_", row, at)).log_softmax(1) for m in (model, start))
    return float((then.exp() * (then - now)).sum()), len(row)
