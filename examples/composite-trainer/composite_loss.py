"""The composite objective: grpo + alpha_sdpo * jsd + beta_replay * dpo (+ sft_weight * nll where there are sft batches).

A model here is a module called as model(ids, mask, positions, row, at) that returns the logits [N,V] at (row, at): it
gathers hidden states before the head, so nothing of the size B x T x V ever exists. Student and teacher alike see the
mask and the position ids. Losses are sums over a micro-batch, divided by what the whole step has on all ranks, so
neither the division into micro-batches nor the number of ranks changes a gradient.
"""

import copy
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from batches import SIDES, Batch, idle, trained

CHANNELS = ("rl", "sdpo", "dpo", "sft")
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
    dpo_beta: float = 0.1
    clip_epsilon: float = 0.2  # the ratio is held in [1 - clip_epsilon, 1 + clip_epsilon_high]
    clip_epsilon_high: float = None  # clip_epsilon unless given; DAPO's clip-higher
    reduction: str = "token"  # GRPO over the step: token, sequence, or constant: sums divided by max_tokens
    max_tokens: int = 1024
    reference: str = ""  # fingerprint that ref_ columns must have to be used

    def highest(self):
        return self.clip_epsilon if self.clip_epsilon_high is None else self.clip_epsilon_high

    def weight(self, channel):
        return {"rl": 1.0, "sdpo": self.alpha_sdpo, "dpo": self.beta_replay, "sft": self.sft_weight}[channel]


class ShapeMismatch(ValueError):
    """Student and teacher have logits of different shapes."""


@contextmanager
def scoring(model):
    """Eval mode and no gradients; afterwards every module is back in the mode it was in."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for m, training in modes:
            m.training = training


class Teacher:
    """The model that scores hinted rows: `live` is the student itself, `frozen` the student at the start, `ema` trails
    it."""

    def __init__(self, student, kind="frozen", decay=0.95, start=None):
        self.student, self.kind, self.decay = student, kind, decay
        self.model = {"live": lambda: student, "frozen": lambda: start or frozen(student), "ema": lambda: frozen(student)}[kind]()

    @torch.no_grad()
    def update(self):
        if self.kind == "ema":
            for mine, its in zip(self.model.parameters(), self.student.parameters()):
                mine.lerp_(its, 1 - self.decay)
            for mine, its in zip(self.model.buffers(), self.student.buffers()):
                mine.copy_(its)


def frozen(model):
    return copy.deepcopy(model).eval().requires_grad_(False)


def side_logits(model, b: Batch, side, row, at):
    return model(*(b.t[side + n] for n in ("input_ids", "attention_mask", "position_ids")), row, at)


def at_least_float32(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def token_log_probs(model, b: Batch, side):
    """Log-probs of the trained tokens, [N], and the row of each. The token at t is scored by the logits at t-1."""
    row, at = trained(b, side).nonzero(as_tuple=True)
    logits = at_least_float32(side_logits(model, b, side, row, at - 1))
    if "temperature" in b.t:
        logits = logits / b.t["temperature"].to(logits)[row, None]
    target = b.t[side + "input_ids"][row, at]
    return logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(1), row


def per_row(values, row, rows):
    return values.new_zeros(rows).index_add(0, row, values)


def jsd(student, teacher, o: Objective):
    """Generalised JSD of each row of logits [N,V] -> [N]; the gradient goes to the student alone."""
    return JSD.apply(student, teacher, o)


class JSD(torch.autograd.Function):
    """In float32 (float64 for such logits), in log space, with the gradient in closed form, which is all that is kept.

    It works on d = log p - log q (q student, p teacher) with what both rows share cancelled before rounding, and on g =
    log M - log q as log1p of expm1(d): equal rows give exactly 0, and nearly equal ones, such as a student and its
    hinted self, keep their precision. At beta 0 and 1 the summands are Bregman's, p d - p + q and -q d - q + p, which
    sum to the same. -inf on both sides (a masked vocabulary) counts for nothing.
    """

    @staticmethod
    def forward(ctx, student, teacher, o):
        z, t = ((x - x.amax(1, keepdim=True)).clamp(min=torch.finfo(x.dtype).min / 4) / o.temperature for x in map(at_least_float32, (student, teacher)))
        lse_z, lse_t = (x.exp().sum(1, keepdim=True, dtype=torch.float64).log() for x in (z, t))  # the row's maximum is 0
        q, p, d = (z - lse_z.to(z)).exp(), (t - lse_t.to(t)).exp(), (t - z) - (lse_t - lse_z).to(z)
        beta = o.jsd_beta
        if beta == 0:
            element, grad = p * d - p + q, q - p
        elif beta == 1:
            element, grad = -q * d - q + p, -q * d
        else:
            c = torch.log1p(torch.expm1(-d.abs()).mul_(torch.full_like(d, beta).masked_fill_(d > 0, 1 - beta)))
            g = c + F.relu(d)
            element, grad = beta * p * (-c - F.relu(-d)) - (1 - beta) * q * g, -(1 - beta) * q * g
        loss, grad = element.sum(1, dtype=torch.float64).to(element), grad - q * grad.sum(1, keepdim=True)
        if o.jsd_clip > 0:
            grad, loss = grad.masked_fill((loss > o.jsd_clip)[:, None], 0), loss.clamp(max=o.jsd_clip)
        scale = 1 / (beta * (1 - beta)) if o.jsd_normalize and 0 < beta < 1 else 1.0
        ctx.save_for_backward(grad.mul_(scale / o.temperature).to(student.dtype))
        return loss * scale

    @staticmethod
    def backward(ctx, upstream):
        (grad,) = ctx.saved_tensors
        return grad * upstream[:, None].to(grad), None, None


def units(b: Batch, o: Objective):
    """What a micro-batch adds to its channel's denominator of the step. float64."""
    if b.channel == "sdpo":
        return b.t["pair_weight"].double().sum()
    w = row_weights(b)
    tokens = trained(b, SIDES[b.channel][0]).sum(1)
    if b.channel == "sft" or b.channel == "rl" and o.reduction == "token":
        return (w * tokens).sum()
    if b.channel == "rl" and o.reduction == "constant":
        return w.sum() * o.max_tokens
    return (w * (tokens > 0)).sum()


def row_weights(b: Batch):
    """A rollout nobody scored has no advantage: it weighs nothing."""
    w = b.t["row_weight"].double()
    return w * (b.t["reward_null"] == 0) if "reward_null" in b.t else w


def rl_loss(model, b, o, **_):
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


def sdpo_loss(model, b, o, teacher=None, **_):
    t = b.t
    z = side_logits(model, b, "student_", t["pair_student_row"], t["pair_student_pos"])
    with scoring(teacher.model) as scorer:
        p = side_logits(scorer, b, "teacher_", t["pair_teacher_row"], t["pair_teacher_pos"])
    if z.shape != p.shape:
        raise ShapeMismatch(f"the student's logits are {list(z.shape)}, the teacher's {list(p.shape)}")
    w = t["pair_weight"].to(torch.promote_types(z.dtype, torch.float32))
    loss = jsd(z, p, o)
    target = at_least_float32(z.detach()).log_softmax(1).gather(1, t["pair_target_id"][:, None])[:, 0]
    return (w * loss)[w > 0].sum(), {"target_logp": (w * target).sum(), "pairs": w.sum()}


def dpo_loss(model, b, o, reference=None, ref_given=False, **_):
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


def sft_loss(model, b, o, **_):
    logp, row = token_log_probs(model, b, "")
    return -(row_weights(b).to(logp)[row] * logp).sum(), {"tokens": len(row)}


LOSSES = {"rl": rl_loss, "sdpo": sdpo_loss, "dpo": dpo_loss, "sft": sft_loss}


def over_ranks(values, op):
    """values reduced over all ranks by SUM, MAX or MIN; unchanged if there is only one."""
    if not (dist.is_available() and dist.is_initialized()):
        return list(values)
    values = torch.tensor(list(values), dtype=torch.float64)
    dist.all_reduce(values, getattr(dist.ReduceOp, op))
    return values.tolist()


def has_reference(b: Batch, o: Objective):
    return bool(o.reference) and b.line.get("reference") == o.reference and "ref_chosen_logps" in b.t


def composite(model, batches, o: Objective, teacher=None, reference=None):
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
    sums = {}
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


def metrics(sums, o: Objective):
    """Turns a step's sums into means over pairs or tokens, under the names used in logs."""
    out = {}
    for channel in dict.fromkeys(c for c, _ in sums):
        n = max(sums.get((channel, "pairs"), sums.get((channel, "tokens"), 0.0)), 1e-30)
        out[TERMS[channel]] = sums[channel, "loss"]
        out.update({f"{channel}_{k}": v / n for (c, k), v in sums.items() if c == channel and k not in ("loss", "pairs", "tokens")})
    total = sum(o.weight(c) * v for (c, k), v in sums.items() if k == "loss")
    return {"loss/total": total, **out, "loss/alpha_sdpo": o.alpha_sdpo, "loss/beta_replay": o.beta_replay}


@torch.no_grad()
def untargeted_kl(model, start, b: Batch):
    """KL(start || model) summed over the student's positions outside all pairs, and their number: what training changed
    that it was not meant to."""
    rest = b.t["student_attention_mask"].bool().clone()
    rest[:, :-1] &= rest[:, 1:].clone()  # the last token's logits predict nothing that is there
    rest[:, -1] = False
    rest[b.t["pair_student_row"], b.t["pair_student_pos"]] = False
    row, at = rest.nonzero(as_tuple=True)
    with scoring(model), scoring(start):
        now, then = (at_least_float32(side_logits(m, b, "student_", row, at)).log_softmax(1) for m in (model, start))
    return float((then.exp() * (then - now)).sum()), len(row)
