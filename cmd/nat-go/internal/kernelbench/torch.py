"""torch, for `nat-go bench kernels --torch`: a generalised JSD as trainers write it, and as torch.compile fuses
it best.

usage: torch.py V ROWS, then lines on standard input. "time forward|backward BETA THREADS" is answered by "ok SECONDS"
for the fastest of FORMS, found when it is first asked for, or by "no REASON" where torch can't compile. "load FILE"
replaces the logits and is answered by "ok". Ends when its input does.
"""
import sys
import time

import torch
import torch.nn.functional as F

v, rows = map(int, sys.argv[1:])
torch.manual_seed(0)
student = torch.randn(rows, v) * 3
teacher = student + torch.randn(rows, v)


def trainer(z, t, beta):
    """As trainers write it."""
    a, b = F.log_softmax(z, -1), F.log_softmax(t, -1)
    if beta == 0:
        return F.kl_div(a, b, reduction="none", log_target=True).sum(-1)
    w = torch.tensor(beta)
    m = torch.logsumexp(torch.stack([a + torch.log1p(-w), b + torch.log(w)]), dim=0)
    return (w * F.kl_div(m, b, reduction="none", log_target=True) + (1 - w) * F.kl_div(m, a, reduction="none", log_target=True)).sum(-1)


def log_softmaxes(z, t, beta):
    """Two log-softmaxes, the mixture in probabilities, one reduction."""
    a, b = F.log_softmax(z, -1), F.log_softmax(t, -1)
    q, p = a.exp(), b.exp()
    if beta == 0:
        return (p * (b - a)).sum(-1)
    m = (beta * p + (1 - beta) * q).clamp_min(1e-38).log()
    return (beta * p * (b - m) + (1 - beta) * q * (a - m)).sum(-1)


def normalizers(z, t, beta):
    """The normalisers separately, so that everything else is one pass over the logits."""
    d = (t - t.logsumexp(-1, keepdim=True)) - (z - z.logsumexp(-1, keepdim=True))
    q = (z - z.logsumexp(-1, keepdim=True)).exp()
    if beta == 0:
        return (q * d.exp() * d).sum(-1)
    ratio = d.exp()
    m = (beta * ratio + (1 - beta)).log()
    return (q * (beta * ratio * (d - m) - (1 - beta) * m)).sum(-1)


def differences(z, t, beta):
    """The mixture as a softplus of the difference, with only the student's and the teacher's probabilities."""
    a, b = z - z.logsumexp(-1, keepdim=True), t - t.logsumexp(-1, keepdim=True)
    if beta == 0:
        return (b.exp() * (b - a)).sum(-1)
    m = torch.logaddexp(a + torch.log1p(torch.tensor(-beta)), b + torch.log(torch.tensor(beta)))
    return (beta * b.exp() * (b - m) + (1 - beta) * a.exp() * (a - m)).sum(-1)


def closed(z, t, beta):
    """The gradient in closed form beside the loss: no second traversal by autograd."""
    a, b = F.log_softmax(z, -1), F.log_softmax(t, -1)
    q, p = a.exp(), b.exp()
    if beta == 0:
        return (p * (b - a)).sum(-1), q - p
    m = (beta * p + (1 - beta) * q).clamp_min(1e-38).log()
    loss, g = beta * p * (b - m) + (1 - beta) * q * (a - m), (1 - beta) * q * (a - m)
    return loss.sum(-1), g - q * g.sum(-1, keepdim=True)


def differentiated(form):
    def run(z, t, beta):
        x = z.detach().requires_grad_(True)
        loss = form(x, t, beta)
        loss.sum().backward()
        return loss.detach(), x.grad
    return run


def compiled(form):
    return torch.compile(form, dynamic=False, fullgraph=True)


for limit in ("recompile_limit", "cache_size_limit"):  # a form is compiled once for each beta and number of threads
    if hasattr(getattr(getattr(torch, "_dynamo", None), "config", None), limit):
        setattr(torch._dynamo.config, limit, 64)
FORMS = (trainer, log_softmaxes, normalizers, differences)
fastest = {}


def candidates(what):
    if what == "forward":
        return {f.__name__: compiled(f) for f in FORMS}
    return {"closed": compiled(closed), **{f.__name__: differentiated(compiled(f)) for f in FORMS}}


def runner(what, form, beta):
    """Returns a function that calls a form once. A closure made in choose's loop would run the loop's last form."""
    def run():
        with torch.set_grad_enabled(what != "forward"):
            return form(student, teacher, beta)
    return run


def choose(what, beta):
    """The fastest compiled form for a task by the best of three runs; each is first compiled and run twice."""
    times, expected = {}, trainer(student, teacher, beta)
    for name, form in candidates(what).items():
        run = runner(what, form, beta)
        got = run()
        loss = got if what == "forward" else got[0]
        if not torch.allclose(loss, expected, rtol=1e-3, atol=1e-5):
            continue  # rounds too much to count
        run()
        times[name] = min(seconds(run) for _ in range(3)), run
    name = min(times, key=lambda n: times[n][0])
    return name, times[name][1]


def seconds(run):
    """Processor time for a single thread, which other processes hardly affect; wall time for several."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def run(what, beta, threads):
    torch.set_num_threads(threads)
    key = what, beta, threads
    if key not in fastest:
        fastest[key] = choose(what, beta)[1]
    fastest[key]()
    return seconds(fastest[key])


def load(path):
    size = rows * v
    both = torch.from_file(path, size=2 * size).clone()
    student.copy_(both[:size].view(rows, v))
    teacher.copy_(both[size:].view(rows, v))


print(torch.__version__, flush=True)
for line in sys.stdin:
    if line.startswith("load "):
        load(line[5:].rstrip("\n"))
        print("ok", flush=True)
        continue
    _, what, beta, threads = line.split()
    try:
        print("ok", run(what, float(beta), int(threads)), flush=True)
    except Exception as err:
        print("no", type(err).__name__, str(err).splitlines()[0] if str(err) else "", flush=True)
