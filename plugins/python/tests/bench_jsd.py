"""Measures natgo.loss.jsd beside eager torch and torch.compile: one process, the same logits, in turns.

    python tests/bench_jsd.py [path/to/libnatgo.so]

`torch` is what natgo falls back to, `plain` a JSD as people write it, `compiled` the latter under torch.compile. Medians
of 7 rounds, microseconds a row.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

from natgo import kernel, loss
from natgo.trl.divergence import in_torch

ROUNDS, BYTES = 7, 64 << 20


def plain(student, teacher):
    q, p = F.log_softmax(student, -1), F.log_softmax(teacher, -1)
    m = torch.logaddexp(q, p) - 0.6931471805599453
    return 0.5 * ((p.exp() * (p - m)).sum(-1) + (q.exp() * (q - m)).sum(-1))


def forward_backward(f):
    def run(student, teacher):
        student.grad = None
        f(student, teacher).sum().backward()

    return run


def fallback(student, teacher):
    return in_torch(student, teacher, 0.5, 1.0, False, 0.0)[0]


def main():
    kernel.LIBRARY = sys.argv[1] if len(sys.argv) > 1 else kernel.LIBRARY
    assert kernel._library() is not None, f"no library at {kernel.LIBRARY}"
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    for vocab in (32000, 151936):
        rows = BYTES // 4 // vocab
        student = torch.randn(rows, vocab) * 3
        teacher = student + torch.randn(rows, vocab)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            compiled = torch.compile(plain)
            for what, given, forms in (
                ("forward", student, {"natgo": loss.jsd, "torch": fallback, "plain": plain, "compiled": compiled}),
                ("forward and gradient", student.clone().requires_grad_(True),
                 {"natgo": forward_backward(loss.jsd), "plain": forward_backward(plain), "compiled": forward_backward(compiled)}),
            ):
                times = {name: [] for name in forms}
                for n in range(ROUNDS + 1):
                    for name, f in forms.items():
                        start = time.perf_counter()
                        f(given, teacher)
                        if n:  # the first one compiles
                            times[name].append((time.perf_counter() - start) / rows * 1e6)
                own = statistics.median(times["natgo"])
                said = ", ".join(f"{name} {statistics.median(t):.1f} ({statistics.median(t) / own:.1f}x)" for name, t in times.items())
                print(f"V {vocab}, {rows} rows, {threads} threads, {what}: {said}", flush=True)


if __name__ == "__main__":
    main()
