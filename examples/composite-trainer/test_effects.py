"""Compares the hint effects of runs with torch's, over the whole vocabulary. TestHintEffects runs it."""

import json
import os
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from safetensors.torch import save_file

from natgo.trl.microbatch import read
from natgo.trl.losses import side_logits
from natgo.trl.scoring import scoring
from score_logits import padded
from train import TinyDecoder, load_model

VOCAB = 613  # of the toy tokenizer


def make(path):
    """A tiny model whose predictions differ from context to context, as a trained one's do."""
    torch.manual_seed(1)
    model = TinyDecoder(VOCAB)
    with torch.no_grad():
        model.lm_head.weight.mul_(6)
        for block in model.blocks:
            block["out"].weight.mul_(3)
    save_file(model.state_dict(), path)


def serve(path):
    """A stand-in: the tiny model behind vLLM's /v1/completions with prompt_logprobs. Prints its port."""
    model, lock = load_model("tiny", path, VOCAB).eval(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ids, k = q["prompt"], q["prompt_logprobs"]
            with lock, scoring(model):
                logp = model(*padded([{"ids": ids, "positions": list(range(len(ids)))}])).double().log_softmax(-1).float()
            entries = [None]
            for i in range(1, len(ids)):
                best = set(logp[i - 1].topk(k).indices.tolist()) | {ids[i]}
                entries.append({str(v): {"logprob": float(logp[i - 1, v])} for v in best})
            body = json.dumps({"choices": [{"prompt_logprobs": entries}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until nobody needs it


def jsd(student, teacher):
    """Generalised JSD at beta 0.5 over the whole vocabulary, in float64."""
    a, b = student.double().log_softmax(-1), teacher.double().log_softmax(-1)
    m = torch.logaddexp(a, b) - torch.log(torch.tensor(2.0, dtype=torch.float64))
    return 0.5 * ((a.exp() * (a - m)).sum(-1) + (b.exp() * (b - m)).sum(-1))


class Effects(unittest.TestCase):
    def torchs(self, run):
        """Batches of a run with torch's divergence at each pair."""
        model = load_model("tiny", os.environ["NATGO_INIT"], VOCAB).eval()
        for b in read(Path(run) / "batches", "sdpo"):
            with scoring(model):
                sides = [side_logits(model, b, s, b.t[f"pair_{s}row"], b.t[f"pair_{s}pos"]) for s in ("student_", "teacher_")]
            yield b, jsd(*sides)

    def test_logits(self):
        pairs, worst = 0, 0.0
        for b, want in self.torchs(os.environ["NATGO_LOGITS"]):
            got = b.t["pair_jsd"].double()
            self.assertEqual(got.shape, want.shape)
            worst, pairs = max(worst, float((got - want).abs().max())), pairs + len(want)
            for i, s in enumerate(b.line["sites"]):
                mean = float(want[b.t["pair_site"] == i].mean())
                self.assertLess(abs(s["effect"]["jsd_lower"] - mean), 1e-4)
                self.assertEqual(s["effect"]["jsd_lower"], s["effect"]["jsd_upper"])
                self.assertGreater(mean, 1e-3)
        self.assertGreater(pairs, 50)
        self.assertLess(worst, 1e-4)
        print(f"{pairs} pairs, off by at most {worst:.2g} nats")

    def test_brackets(self):
        for k in os.environ["NATGO_TOPK"].split():
            sites, width = 0, 0.0
            for b, want in self.torchs(f"{os.environ['NATGO_BRACKETS']}{k}"):
                for i, s in enumerate(b.line["sites"]):
                    mean, e = float(want[b.t["pair_site"] == i].mean()), s["effect"]
                    self.assertEqual(e["route"], "top_k")
                    self.assertLessEqual(e["jsd_lower"], mean)
                    self.assertLessEqual(mean, e["jsd_upper"])
                    sites, width = sites + 1, width + e["jsd_upper"] - e["jsd_lower"]
            self.assertGreater(sites, 2)
            print(f"top {k}: {sites} sites, brackets {width / sites:.3g} nats wide")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(sys.argv[2])
    elif sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        unittest.main()
