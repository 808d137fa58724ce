"""Eager torch, for `nat-go bench kernels --torch`: a generalised JSD as trainers write it, timed on request.

usage: torch.py V ROWS; then a line "forward|backward BETA THREADS" each, answered by "ok". Ends with its input."""
import sys

import torch
import torch.nn.functional as F

v, rows = map(int, sys.argv[1:])
torch.manual_seed(0)
student = torch.randn(rows, v) * 3
teacher = student + torch.randn(rows, v)


def jsd(z, t, beta):
    a, b = F.log_softmax(z, -1), F.log_softmax(t, -1)
    if beta == 0:
        return F.kl_div(a, b, reduction="none", log_target=True).sum(-1)
    w = torch.tensor(beta)
    m = torch.logsumexp(torch.stack([a + torch.log1p(-w), b + torch.log(w)]), dim=0)
    return (w * F.kl_div(m, b, reduction="none", log_target=True) + (1 - w) * F.kl_div(m, a, reduction="none", log_target=True)).sum(-1)


print(torch.__version__, flush=True)
for line in sys.stdin:
    what, beta, threads = line.split()
    torch.set_num_threads(int(threads))
    if what == "forward":
        with torch.no_grad():
            jsd(student, teacher, float(beta))
    else:
        x = student.detach().requires_grad_(True)
        jsd(x, teacher, float(beta)).sum().backward()
    print("ok", flush=True)
