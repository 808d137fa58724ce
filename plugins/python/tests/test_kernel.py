"""Tests of the kernels' library. TestTorch names it in NATGO_TEST_LIBRARY, having built it."""

import os
import subprocess
import sys
import textwrap

import pytest

from natgo import kernel

torch = pytest.importorskip("torch")
LIBRARY = os.environ.get("NATGO_TEST_LIBRARY", kernel.LIBRARY)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not os.path.exists(LIBRARY), reason="the library is not built")]


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setattr(kernel, "LIBRARY", LIBRARY)
    monkeypatch.setattr(kernel, "_loaded", None)


def sides(dtype, rows=6, vocab=4001):
    """Logits that differ by nothing, a little, a lot, and by a constant."""
    torch.manual_seed(0)
    student = (torch.randn(rows, vocab) * 3).to(dtype)
    teacher = (student.float() + torch.randn(rows, vocab) * torch.tensor([0, 1e-3, 0.1, 1, 3, 0])[:, None]).to(dtype)
    teacher[5] = student[5] + 5
    return student, teacher


@pytest.mark.parametrize("beta", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_kernels_are_exact(dtype, beta):
    from natgo.trl.divergence import in_torch

    student, teacher = sides(getattr(torch, dtype))
    for temperature, normalize, clip in ((1, False, 0), (2, True, 0), (0.7, True, 0.01)):
        loss, grad = kernel.jsd(student, teacher, beta, temperature, normalize, clip, True)
        want, slope = in_torch(student.double(), teacher.double(), beta, temperature, normalize, clip)
        assert ((loss - want).abs() <= 1e-5 * want.abs() + 1e-9).all()
        assert (grad - slope).abs().max() < 2e-6
        assert loss[0] == 0 and not grad[0].any()
        assert kernel.jsd(student, teacher, beta, temperature, normalize, clip, False)[1] is None


def test_a_gradient_of_rows_that_are_not_contiguous():
    from natgo import loss

    student, teacher = sides(torch.float32)
    plain = student[:, :4000].clone().requires_grad_(True)
    wide = student.clone().requires_grad_(True)
    upstream = torch.arange(6.0)
    (loss.jsd(plain, teacher[:, :4000].clone()) * upstream).sum().backward()
    (loss.jsd(wide[:, :4000], teacher[:, :4000].T.contiguous().T) * upstream).sum().backward()
    assert torch.equal(wide.grad[:, :4000], plain.grad) and not wide.grad[:, 4000].any()
    with pytest.raises(ValueError, match="beta is 2"):
        loss.jsd(student, teacher, beta=2)


@pytest.mark.parametrize("cut", [lambda x: x[:, :-1], lambda x: x[:-1], lambda x: x[0]])
def test_sides_of_different_shapes(cut):
    from natgo import loss

    student, teacher = sides(torch.float32)
    for a, b in ((student, cut(teacher)), (cut(student), teacher)):
        with pytest.raises(ValueError, match="expected two tensors of logits"):
            loss.jsd(a, b)


def test_where_torch_computes_it(monkeypatch):
    student, teacher = sides(torch.float32)
    assert kernel.jsd(student.double(), teacher.double(), 0.5, 1, False, 0, True) is None
    assert kernel.jsd(student[:0], teacher[:0], 0.5, 1, False, 0, True) is None
    assert kernel.jsd(student.to("meta"), teacher.to("meta"), 0.5, 1, False, 0, True) is None
    assert kernel.jsd(student, teacher, 0.5, 1, False, 0, True) is not None
    monkeypatch.setattr(kernel, "LIBRARY", "/nowhere/libnatgo.so")
    monkeypatch.setattr(kernel, "_loaded", None)
    assert kernel.jsd(student, teacher, 0.5, 1, False, 0, True) is None


def test_a_forked_process_falls_back_with_one_warning():
    script = f"""
        import os, sys, torch
        from natgo import kernel, loss
        kernel.LIBRARY = {LIBRARY!r}
        student, teacher = torch.randn(8, 5000, requires_grad=True), torch.randn(8, 5000)
        if sys.argv[1] == "before":
            want = loss.jsd(student, teacher).detach()
        if os.fork() == 0:
            got = [loss.jsd(student, teacher) for _ in range(3)]
            got[0].sum().backward()
            os._exit(0 if sys.argv[1] == "after" or torch.allclose(got[2], want) else 7)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        print(kernel.jsd(student, teacher, 0.5, 1, False, 0, True) is not None)
    """
    for when, warned in (("before", 1), ("after", 0)):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), when], capture_output=True, text=True, timeout=60, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0 and done.stdout == "True\n", done.stderr
        assert done.stderr.count("forked") == warned, done.stderr
