"""Checks error sites of sdpo batches with jinja2, knowing nothing of how they were made.

stdin: {"template", "conversations": [{"messages", "tools"}], "sites": [site]}, where a site is
  conversation, message   the target turn
  silent                  rendered with enable_thinking off
  student, teacher        ids of the rows, as the tensors have them
  pairs                   [student position, teacher position, target id] of the pair table
  hint                    what the teacher was told
  text                    the student's ids up to the target's last one, decoded
  target                  the paired ids, decoded
  told                    the teacher's ids that the student's row hasn't, decoded
  ids                     the turn's ids in the source, where it has them
stdout: {"checked": n, "wrongs": n, "wrong": [[site, what], ...]}
"""
import json
import re
import sys

from hf import Renderer, normalised

q = json.load(sys.stdin)
render = Renderer(q["template"])

# What a template may put into a turn that no model wrote: an empty thought, or white space.
FILLER = re.compile(r"\s*(<think>\s*</think>|</think>|<\|channel\|>final<\|message\|>)?\s*")


def check(s):
    c = q["conversations"][s["conversation"]]
    messages = [normalised(m) for m in c["messages"]]
    i, tools = s["message"], c["tools"] or None
    student, teacher, pairs = s["student"], s["teacher"], s["pairs"]

    # Both positions precede their target by one, and the targets are one run of the rows.
    for p, t, target in pairs:
        if student[p + 1] != target or teacher[t + 1] != target:
            return "a position is not the one before its target"
    first, last = pairs[0][0] + 1, pairs[-1][0] + 2
    shift = {t - p for p, t, _ in pairs}
    if len(shift) != 1 or len(pairs) > last - first:
        return "the pairs are not one turn"
    n = shift.pop()

    # Teacher minus hint is student: n tokens, somewhere before the target, are all that the teacher has more.
    at = next((k for k in range(first + 1) if student[k] != teacher[k]), first)
    # The piece may begin earlier: it may end with what stands before it.
    if student[:at] != teacher[:at] or student[at:last] != teacher[at + n:last + n]:
        return "the teacher without %d tokens before position %d is not the student" % (n, at)
    if n == 0 and s["hint"] or n and (s["hint"].strip() not in s["told"]):
        return "the hint is not what the teacher has more: %r" % s["told"]
    if s["hint"].strip() and s["hint"].strip() in s["text"]:
        return "the student has been told"

    # The student is what the model was given, then the turn.
    if s.get("ids"):
        k = len(s["ids"])
        if [t for _, _, t in pairs] != s["ids"] or student[last - k:last] != s["ids"]:
            return "the target's ids are not the source's"
        return None
    kw = {"enable_thinking": False} if s["silent"] else {}
    given = render(messages[:i], tools, True, **kw)
    if not s["text"].startswith(given):
        return "the row is not the render of what the model was given: %r" % s["text"][-300:]
    turn = s["text"][len(given):]
    full = render(messages[:i + 1], tools, False, **kw)
    then = render(messages[:i + 2], tools, False, **kw) if i + 1 < len(messages) else full
    if not full.startswith(s["text"]) and not then.startswith(s["text"]) and not full.rstrip().endswith(turn.rstrip()):
        return "the row is not the beginning of the render with the turn: %r" % turn
    if not turn.endswith(s["target"]) or not FILLER.fullmatch(turn[:len(turn) - len(s["target"])]):
        return "what is paired, %r, is not the turn, %r" % (s["target"], turn)
    if full.startswith(s["text"]) and full[len(s["text"]):].strip() not in ("", "<|end|>", "</s>"):
        return "the turn goes on: %r" % full[len(s["text"]):]
    m = messages[i]
    for part in [m["content"] if isinstance(m["content"], str) and not m.get("tool_calls") else ""] + [x["function"]["name"] for x in m.get("tool_calls", [])]:
        if part.strip() not in s["target"]:
            return "%r is not in the target %r" % (part, s["target"])
    return None


wrong = [[k, why] for k, s in enumerate(q["sites"]) if (why := check(s))]
print(json.dumps({"checked": len(q["sites"]), "wrong": wrong[:20], "wrongs": len(wrong)}))
