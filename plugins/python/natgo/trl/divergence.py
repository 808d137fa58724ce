"""The divergence of a student's predictions from a teacher's, exact where both are nearly equal."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F

from natgo import kernel


@dataclass
class Divergence:
    """The generalised JSD, as in `nat-go loss jsd`: beta KL(p||M) + (1 - beta) KL(q||M), q the student, p the teacher,
    M = (1 - beta) q + beta p."""

    beta: float = 0.5  # 0: KL(teacher||student), 1: KL(student||teacher)
    temperature: float = 1.0  # of both sides' logits
    normalize: bool = False  # divide by beta (1-beta): continuous at both ends
    clip: float = 0.0  # above 0: the upper limit of a position's loss, before it is normalised
    top_k: int = 0  # above 0: compare the student's best, and everything else as one more entry

    def __post_init__(self) -> None:
        for name, value, good, want in (
            ("beta", self.beta, 0 <= self.beta <= 1, "from 0 to 1"), ("temperature", self.temperature, 0 < self.temperature < math.inf, "above 0"),
            ("clip", self.clip, self.clip >= 0, "of at least 0"), ("top_k", self.top_k, self.top_k >= 0, "of at least 0"),
        ):
            if not good:
                raise ValueError(f"the divergence's {name} is {value}: expected a number {want}")


class TopK(NamedTuple):
    """A stored teacher: its top tokens at each position and their log-probs at temperature 1."""

    ids: torch.Tensor
    """int64 [N,K], -1 where there are fewer."""
    logprobs: torch.Tensor
    """float32 [N,K], in nats."""


def contrasted(right: torch.Tensor, wrong: torch.Tensor, alpha: float, temperature: float) -> torch.Tensor:
    """Logits [N,V] of a teacher proportional to p_right^(1 + alpha) / p_wrong^alpha, both at the temperature.

    It is the dense target of RLCSD's contrast (arXiv 2606.11709, section 4.3; `opsd_ectr` in its authors' code), which
    clamps log p_wrong at -30. Here both are clamped, so that equal ones leave the teacher unchanged, to the bit.
    """
    r, w = ((at_least_float32(x) / temperature).log_softmax(1).clamp(min=-30) for x in (right, wrong))
    return right + alpha * temperature * (r - w)


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def divergence(student: torch.Tensor, teacher: Union[torch.Tensor, TopK], d: Divergence) -> torch.Tensor:
    """Returns [N]: the divergence at each row of logits [N,V]; the gradient goes only to the student.

    On a support of k tokens, everything else is one more entry, with exactly the remaining mass on each side.
    Differences within the rest are not seen, so the divergence is a lower bound of the divergence over the whole
    vocabulary.
    """
    if isinstance(teacher, TopK):
        return _of_stored(student, teacher, d)
    if d.top_k:
        best = student.detach().topk(min(d.top_k, student.shape[1]), 1).indices
        return _jsd(_support(student, best, d.temperature), _support(teacher, best, d.temperature), d, 1.0)
    return _jsd(student, teacher, d, d.temperature)


def _jsd(student: torch.Tensor, teacher: torch.Tensor, d: Divergence, temperature: float) -> torch.Tensor:
    return JSD.apply(student, teacher, d.beta, temperature, d.normalize, d.clip)  # type: ignore[no-any-return, no-untyped-call]


def _support(logits: torch.Tensor, ids: torch.Tensor, temperature: float, there: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Log-probs [N,K+1] of some tokens and, last, of all others together; `there` marks the ids that count."""
    z = at_least_float32(logits) / temperature
    nothing = torch.finfo(z.dtype).min / 4
    whole, rest = z.logsumexp(1, keepdim=True), z.scatter(1, ids, nothing).logsumexp(1, keepdim=True)
    at = z.gather(1, ids) - whole
    return torch.cat((at if there is None else at.masked_fill(~there, nothing), rest - whole), 1)


def _of_stored(student: torch.Tensor, teacher: TopK, d: Divergence) -> torch.Tensor:
    if d.temperature != 1:
        raise ValueError(f"a stored teacher's log-probs are at temperature 1, not {d.temperature:g}")
    if teacher.ids.numel() and int(teacher.ids.max()) >= student.shape[1]:
        raise ValueError(f"the stored teacher names token {int(teacher.ids.max())}: the student's logits have {student.shape[1]} entries")
    there = teacher.ids >= 0
    ids = torch.where(there, teacher.ids, teacher.ids[:, :1].clamp(min=0))  # one that is there already takes nothing from the rest
    best = teacher.logprobs.double().masked_fill(~there, -torch.inf).clamp(max=0)
    top, others = best.max(1, keepdim=True).values, best.exp().sum(1, keepdim=True)
    rest = (-torch.expm1(top) - (others - top.exp())).clamp(min=0).log()  # exact if one entry is nearly 1
    p = torch.cat((best, rest), 1).to(at_least_float32(student)).clamp(min=torch.finfo(torch.float32).min / 4)
    return _jsd(_support(student, ids, 1.0, there), p, d, 1.0)


class JSD(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """Computed in float32 (float64 for such logits), by nat-go's kernels if they can be used. Only the gradient, in
    closed form, is kept."""

    @staticmethod
    def forward(ctx: Any, student: torch.Tensor, teacher: torch.Tensor, beta: float, temperature: float, normalize: bool, clip: float) -> torch.Tensor:
        Divergence(beta, temperature, normalize, clip)
        made = kernel.jsd(student, teacher, beta, temperature, normalize, clip, ctx.needs_input_grad[0])
        loss, grad = in_torch(student, teacher, beta, temperature, normalize, clip) if made is None else made
        ctx.save_for_backward(None if grad is None else grad.to(student.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        (grad,) = ctx.saved_tensors
        return grad * upstream[:, None].to(grad), None, None, None, None, None


def in_torch(
    student: torch.Tensor, teacher: torch.Tensor, beta: float, temperature: float, normalize: bool, clip: float
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The loss and its gradient, in log space.

    It works on d = log p - log q (q student, p teacher) with the part common to both rows cancelled before rounding,
    and on g = log M - log q as log1p of expm1(d): equal rows yield exactly 0, and nearly equal ones, such as a student
    and its hinted self, keep their precision. At beta 0 and 1 the summands are Bregman's, p d - p + q and -q d - q + p,
    which sum to the same. -inf on both sides (a masked vocabulary) doesn't count.
    """
    z, t = ((x - x.amax(1, keepdim=True)).clamp(min=torch.finfo(x.dtype).min / 4) / temperature for x in map(at_least_float32, (student, teacher)))
    lse_z, lse_t = (x.exp().sum(1, keepdim=True, dtype=torch.float64).log() for x in (z, t))  # the row's maximum is 0
    q, p, d = (z - lse_z.to(z)).exp(), (t - lse_t.to(t)).exp(), (t - z) - (lse_t - lse_z).to(z)
    if beta == 0:
        element, grad = p * d - p + q, q - p
    elif beta == 1:
        element, grad = -q * d - q + p, -q * d
    else:
        c = torch.log1p(torch.expm1(-d.abs()).mul_(torch.full_like(d, beta).masked_fill_(d > 0, 1 - beta)))
        g = c + F.relu(d)
        element, grad = beta * p * (-c - F.relu(-d)) - (1 - beta) * q * g, -(1 - beta) * q * g
    loss, grad = element.sum(1, dtype=torch.float64).to(element), grad - q * grad.sum(1, keepdim=True)
    if clip > 0:
        grad, loss = grad.masked_fill((loss > clip)[:, None], 0), loss.clamp(max=clip)
    scale = 1 / (beta * (1 - beta)) if normalize and 0 < beta < 1 else 1.0
    return loss * scale, grad.mul_(scale / temperature)
