"""Times jinja2 on one template and many conversations: {"src", "inputs"} is the first line; each further one asks for a
round, answered by its seconds of processor time. A round goes before it untimed, since the other side had the processor's caches."""
import json
import sys
import time

from oracle import env

q = json.loads(sys.stdin.readline())
t = env.from_string(q["src"])


def round_():
    for m in q["inputs"]:
        t.render(messages=m, tools=None, documents=None, add_generation_prompt=False, bos_token="<s>", eos_token="</s>")


for _ in sys.stdin:
    round_()
    a = time.process_time()
    round_()
    print(time.process_time() - a, flush=True)
