"""Checks the token batches of one chat template with jinja2 and tokenizers, knowing nothing of how they were made.

stdin: {
  "name", "template", "tokenizer" (file), "batches" (folder), "cumulative" (the same for hints that add up), "vars", "tools",
  "conversations": {example: [message, ...]},
  "records": {record hash: {"example", and of one kind:
      "trained": [message, ...] | "prompt": n, "chosen": [message], "rejected": [message] | "sites": [{"message", "hint"}]}},
  "drops": [{"unit", "reason", "example", "detail"}]
}
stdout: {"checks", "wrongs", "wrong": [[where, what], ...],
         "calls": whether the render of a conversation shows a call's name and arguments,
         "turns": [kept, of, what the template can carry], "sites": the same, "pairs": the same,
         "proof": [[count, what the template leaves out of turns, with the first], ...],
         "truths": {name: [how many were looked at, how many are wrong]}}: "behind" hints with an earlier message between them and
         their turn, "later" turns that see the hint of a later one, "prompts" pairs whose sides continue different prompts,
         "stops" turns trained beyond the first token at which sampling stops.

What ends a turn of each family, and what its generation prompt may open a thought with, is written down here by hand.
"""
import array
import json
import os
import re
import struct
import sys

import tokenizers

from hf import Renderer, normalised

STOPS = [
    ("Apertus", ["<|assistant_end|>", "<|tools_suffix|>"]),
    ("Apriel-1.5", ["</s>"]),  # the eos token, which it writes behind turns alone; <|end|> is behind every message
    ("Apriel|[Pp]hi", ["<|end|>"]),
    ("Seed-OSS", ["<seed:eos>"]),
    ("[Cc]ohere|tiny_aya", ["<|END_OF_TURN_TOKEN|>"]),
    ("GLM|glm", ["<|user|>", "<|observation|>"]),
    ("GigaChat", ["<|message_sep|>"]),
    ("Kimi-K3", ["<|end_of_msg|>"]),
    ("MiniMax-M1", ["<end_of_sentence>"]),
    ("MiniMax", ["[e~["]),
    ("[Mm]istral|Ministral|llava", ["</s>"]),
    ("Nemotron-Nano-v2", ["<SPECIAL_12>"]),
    ("Reka", ["<sep>"]),
    ("Spark|[Dd]eep[Ss]eek", ["<｜end▁of▁sentence｜>"]),
    ("gemma-4|gemma4|diffusion_gemma", ["<turn|>", "<|tool_response>"]),
    ("gemma", ["<end_of_turn>"]),
    ("granite", ["<|end_of_text|>"]),
    ("ling", ["<|role_end|>"]),
    ("functionary-medium-v3.1", ["<|eot_id|>", "<|eom_id|>"]),
    ("functionary|(?<!Hermes-2-Pro-)(?<!Hermes-3-)[Ll]lama-?[ _-]?3|firefunction", ["<|eot_id|>"]),
    ("muse", ["<|eot|>"]),
    ("gpt-?oss", ["<|return|>", "<|call|>"]),
    ("Laguna", ["</assistant>"]),
    ("Hy3", ["<｜hy_eos:opensource｜>"]),
    ("Solar", ["<|end|>", "<|calls|>"]),
    ("smolvlm|idefics", ["<end_of_utterance>"]),
    ("rwkv", ["\n\n"]),
    ("", ["<|im_end|>"]),
]

# Whose stop is also within a turn, where it stops nothing: before every call, or wherever a text has it.
PASSES = re.compile("GigaChat|rwkv")

# What a template may put into a turn that no model wrote: an empty thought, or white space.
FILLER = re.compile(r"\s*(?:<\|turn>model\n|<(\|?[a-z:_]+\|?)>\s*</\1>|</[a-z:_]+>|<\|channel>thought\s*<channel\|>|<\|channel\|>final<\|message\|>|<\|START_THINKING\|><\|END_THINKING\|>"
                    r"|<\|close\|>think<\|sep\|>|<\|START_RESPONSE\|>)?\s*")
# What opens a thought at the end of a generation prompt.
OPENER = re.compile(r"(?:<\|assistant_start\|>|<[a-z:_]+>\s*(?:</[a-z:_]+>)?|<\|START_THINKING\|>(?:<\|END_THINKING\|>)?|Here are my reasoning steps:\n|<\|channel>thought\s*<channel\|>|<\|START_RESPONSE\|>|<\|think\|>)\s*")

# What begins the next turn, in renders that go on behind the model's last.
NEXT = re.compile("<｜(?:Assistant|User)｜>|<\\|START_OF_TURN_TOKEN\\|>")

q = json.load(sys.stdin)
jinja = Renderer(q["template"])
tok = tokenizers.Tokenizer.from_file(q["tokenizer"])
stops = next(s for pattern, s in STOPS if re.search(pattern, q["name"]))
written = {}  # a call's arguments as they were sampled, by the object that they are here: two calls may write one value differently


def message(raw):
    """A message as templates want it; of a call the name comes first, then its arguments."""
    m = normalised(raw)
    for c, was in zip(m.get("tool_calls", []), raw.get("tool_calls") or []):
        c["function"] = {k: c["function"][k] for k in ("name", "arguments")}
        written[id(c["function"]["arguments"])] = was["function"]["arguments"]
    return m


conversations = {k: [message(m) for m in ms] for k, ms in q["conversations"].items()}
tools = q["tools"]
variables = {k: v for k, v in q["vars"].items() if k not in ("bos_token", "eos_token")}  # these the renderer has

checks, wrong = 0, []
truths = {name: [0, 0] for name in ("behind", "later", "prompts", "stops")}


def check(ok, where, what, *values):
    global checks
    checks += 1
    if not ok:
        wrong.append([where, what % values if values else what])
    return ok


def truth(name, ok, where, what, *values):
    truths[name][0] += 1
    truths[name][1] += not ok
    return check(ok, where, what, *values)


# --- the template, as jinja2 renders it

def as_strings(m):
    if not m.get("tool_calls"):
        return m
    return dict(m, tool_calls=[dict(c, function=dict(c["function"], arguments=text_of(c["function"]["arguments"]))) for c in m["tool_calls"]])


def text_of(arguments):
    return written.get(id(arguments)) or json.dumps(arguments)


def short_ids(m):
    """Call ids as nine characters, which is all that some templates take: the beginning of the SHA-256 of the id."""
    import hashlib
    short = lambda i: hashlib.sha256(i.encode()).hexdigest()[:9]
    m = dict(m)
    if m.get("tool_calls"):
        m["tool_calls"] = [dict(c, id=short(c["id"])) for c in m["tool_calls"]]
    if m.get("tool_call_id"):
        m["tool_call_id"] = short(m["tool_call_id"])
    return m


def thoughts(m):
    """Reasoning under the name that the template reads."""
    m = dict(m)
    if "reasoning_content" in m and "reasoning_content" not in q["template"] and "thinking" in q["template"]:
        m["thinking"] = m.pop("reasoning_content")
    return m


forms = [lambda m: m, as_strings, short_ids, lambda m: short_ids(as_strings(m))]


def tiny():
    call = {"id": "call_" + 24 * "x", "type": "function", "function": {"name": "qzf", "arguments": {"k": "qzv"}}}
    return [{"role": "user", "content": "qzu"}, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "qzr", "tool_call_id": call["id"], "name": "qzf"}]


def render(messages, prompt, **kw):
    text = jinja([form(thoughts(m)) for m in messages], tools, prompt, **dict(variables, **kw))
    return tok.normalizer.normalize_str(text) if tok.normalizer else text  # as the model would be given it


raised = ""  # what the template said when it last refused


def attempt(messages, prompt, **kw):
    global raised
    try:
        return render(messages, prompt, **kw)
    except Exception as e:
        raised = "%s: %s" % (type(e).__name__, str(e)[:80])
        return None


shows_calls, form = False, forms[0]
possible = []
for form in forms:
    text = attempt(tiny(), False)
    if text is not None:
        possible.append(form)
    if text and text.count("qzf") > 0 and "qzv" in text and "{'k'" not in text:
        shows_calls = True
        break
else:
    form = (possible or forms)[0]

cache = {}


def look(example, i, prompt, silent):
    """The render of the first i messages; None where the template refuses."""
    key = example, i, prompt, silent
    if key not in cache:
        kw = {"enable_thinking": False, "thinking": False} if silent else {}
        cache[key] = attempt(conversations[example][:i], prompt, **kw)
    return cache[key]


def leaves(v):
    if isinstance(v, dict):
        for k, x in v.items():
            yield k
            yield from leaves(x)
    elif isinstance(v, list):
        for x in v:
            yield from leaves(x)
    elif isinstance(v, str):
        yield v


def said(m):
    """What of a message has to be in its turn."""
    if isinstance(m["content"], str) and m["content"].strip():
        yield m["content"].strip()
    for c in m.get("tool_calls", []):
        yield c["function"]["name"]
        yield from leaves(c["function"]["arguments"])


def holds(text, m):
    for part in said(m):
        if part not in text and json.dumps(part, ensure_ascii=False)[1:-1] not in text and json.dumps(part)[1:-1] not in text and part.replace("\\", "\\\\").replace("'", "\\'") not in text:
            return False
    return True


def common(a, b):
    return len(os.path.commonprefix([a, b]))


def turn_of(given, closed, m, before):
    """Where the model's part of a turn begins in the prompt it was given, and its text; the stop may be missing. before is
    the message before it."""
    if closed.startswith(given):
        return len(given), NEXT.split(closed[len(given):])[0]
    # The prompt opens a thought, and the template shows the turn without one.
    best = None
    for k in range(common(given, closed), max(0, common(given, closed) - 40), -1):
        if OPENER.fullmatch(given[k:]):
            best = k
    if best is not None:
        return best, NEXT.split(closed[best:])[0]
    # Something stands behind the turn, or the past reads otherwise now: the turn is what follows the prompt's end.
    options = set()
    for n in range(8, min(60, len(given))):
        head = given[-n:]
        parts = closed.split(head)
        for k in range(len(parts) - 1, 0, -1):
            text = NEXT.split(head.join(parts[k:]))[0]
            if holds(text, m) and not (len(before) > 12 and before in text):
                options.add(text)
                break
    whole = {o for o in options if m.get("reasoning_content", "") in o}
    return (len(given), min(whole or options, key=len)) if options else None


def to_stop(text):
    """A turn up to the end of its first stop, or of its last one if that is no proof of an end; without one as it is."""
    if PASSES.search(q["name"]):
        cuts = [text.rindex(s) + len(s) for s in stops if s in text]
        return text[:max(cuts)] if cuts else text
    cuts = [text.index(s) + len(s) for s in stops if s in text]
    return text[:min(cuts)] if cuts else text


def expected(example, i, silent):
    """The prompt's length, the turn without its stop's end, for message i."""
    given, closed = look(example, i, True, silent), look(example, i + 1, False, silent)
    if given is None or closed is None:
        return None
    return turn_of(given, closed, conversations[example][i], said_before(example, i))


def said_before(example, i):
    """The text of the message before message i, which is no part of its turn."""
    text = conversations[example][i - 1]["content"] if i else ""
    return text.strip() if isinstance(text, str) else ""


# --- the batches

DTYPES = {"I64": "q", "F32": "f", "I32": "i", "U8": "B", "BOOL": "B"}


def tensors(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(n))
        body = f.read()
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        a = array.array(DTYPES[t["dtype"]])
        a.frombytes(body[t["data_offsets"][0]:t["data_offsets"][1]])
        out[name] = (t["shape"], a)
    return out


def rows_of(x, prefix):
    """Each row's ids without padding, and its labels; positions and masks are checked on the way."""
    shape, ids = x[prefix + "input_ids"]
    _, mask = x[prefix + "attention_mask"]
    _, at = x[prefix + "position_ids"]
    labels = x.get(prefix + "labels", (None, None))[1]
    for r in range(shape[0]):
        lo, hi = r * shape[1], (r + 1) * shape[1]
        m = list(mask[lo:hi])
        n = sum(m)
        check(m == [1] * n + [0] * (len(m) - n), prefix, "an attention mask is not a run of ones")
        check(list(at[lo:lo + n]) == list(range(n)), prefix, "positions don't count from 0")
        row = list(ids[lo:lo + n])
        lab = list(labels[lo:hi]) if labels is not None else None
        if lab is not None:
            check(all(a == -100 or k < n and a == row[k] for k, a in enumerate(lab)), prefix, "a label is not its token")
        yield row, lab


def pieces(ids, flags):
    """The text of a row, and the byte... character ranges of its flagged runs."""
    runs, start = [], 0
    for k in range(1, len(ids) + 1):
        if k == len(ids) or flags[k] != flags[start]:
            runs.append((start, k, flags[start]))
            start = k
    text, out = "", []
    for a, b, on in runs:
        part = tok.decode(ids[a:b], skip_special_tokens=False)
        if on:
            out.append((len(text), len(text) + len(part)))
        text += part
    return text, out


def spell(text, spans):
    return [text[a:b] for a, b in spans]


def without_empty_thoughts(text):
    return re.sub(r"<think>\s*</think>\s*", "", text)


def check_row(where, example, text, spans, messages, silent):
    """A row's text is the render, and what is trained are the turns of these messages."""
    ms = conversations[example]
    last = max(messages)
    ok = False
    want_turn = expected(example, last, silent)
    if not check(want_turn is not None, where, "jinja2 can't render message %d" % last):
        return
    at, turn = want_turn
    given = look(example, last, True, silent)[:at]
    turn = to_stop(turn)
    for n in sorted({last + 1, len(ms)}):
        whole = look(example, n, False, silent)
        ok = ok or whole is not None and (text == whole or any(text == whole.rstrip() + pad + s for s in stops for pad in ("", "\n", "\n\n"))
                                          or text.startswith(whole[:len(given)]) and whole.startswith(text))
    ok = ok or text.startswith(given + turn.rstrip()) and text[len(given + turn.rstrip()):].strip() in ["", "</s>"] + stops
    check(ok, where, "the text is not the render: ...%r", text[-200:])
    # What is trained, turn by turn: runs come in order, a turn may have several with filler between them.
    spans = list(spans)
    for i in sorted(messages):
        want = expected(example, i, silent)
        if not check(want is not None, where, "jinja2 can't render message %d" % i):
            continue
        at, turn = want
        given = look(example, i, True, silent)[:at]
        if not text.startswith(given) and os.environ.get("DEBUG"):
            k = common(text, given)
            print("GIVEN", repr(given[k - 60:k + 200]), "TEXT", repr(text[k - 60:k + 200]), file=sys.stderr)
        if not check(text.startswith(given), where, "the row doesn't begin with what the model was given before message %d", i):
            continue
        bare = to_stop(turn)
        stopped = bare.endswith(tuple(stops))
        options = [bare] if stopped else [b + s for s in stops for b in (bare, bare.rstrip("\n"), bare.rstrip("\n") + "\n")]
        options = [o for o in options if text.startswith(given + o)]
        if not options and os.environ.get("DEBUG"):
            print("GIVEN", repr(given[-300:]), "TURN", repr(turn[-300:]), "AT", at, "TEXT", repr(text[at - 100:at + 200]), file=sys.stderr)
        if not check(options, where, "message %d does not stand as jinja2 has it, or without its stop token: %r", i, text[at:at + len(bare) + 30][-200:]):
            continue
        end = at + max(len(o) for o in options)
        mine = [s for s in spans if s[0] < end]
        spans = spans[len(mine):]
        if not check(mine, where, "nothing of message %d is trained", i):
            continue
        # Runs of turns that lie next to each other are one run.
        if mine[-1][1] > end:
            spans.insert(0, (end, mine[-1][1]))
            mine[-1] = (mine[-1][0], end)
        before = text[at:mine[0][0]]
        opened = ms[i].get("reasoning_content") and OPENER.fullmatch(before)  # by the prompt of a thinking model
        check(mine[0][0] >= at and (opened or FILLER.fullmatch(before)), where, "message %d: %r before what is trained", i, text[at:mine[0][0]] if mine[0][0] >= at else text[mine[0][0]:at])
        for (_, a), (b, _) in zip(mine, mine[1:]):
            check(FILLER.fullmatch(text[a:b]), where, "message %d: %r in it is not trained", i, text[a:b])
        check(mine[-1][1] == end, where, "message %d is trained up to %r, not to the end of its stop token", i, text[mine[-1][0]:mine[-1][1]][-60:])
        check(text[:mine[-1][1]].endswith(tuple(stops)), where, "message %d doesn't end in a stop token: %r", i, text[:mine[-1][1]][-60:])
        check(holds(text[at:end], ms[i]), where, "message %d is shown in part only: %r", i, text[at:end][:200])
        inner = text[mine[0][0]:mine[-1][1]]
        last = max((s for s in stops if inner.endswith(s)), key=len, default="")
        truth("stops", PASSES.search(q["name"]) or not any(s in inner[:len(inner) - len(last)] for s in stops), where,
              "message %d is trained beyond a stop token: %r", i, inner[:200])
    check(not spans, where, "trained, and in no turn: %r", spell(text, spans)[:3])


def behind(messages, limit, hint, kw):
    """The messages before the limit that the template shows behind a hint: each is marked, in its text and its calls' arguments."""
    def marked(k, m):
        m, mark = dict(m), " qz%dzq" % k
        if isinstance(m.get("content"), str) and m["content"]:
            m["content"] += mark
        if m.get("tool_calls"):
            m["tool_calls"] = [dict(c, function={"name": c["function"]["name"], "arguments": dict(c["function"]["arguments"], qz=mark)}) for c in m["tool_calls"]]
        return m
    text = attempt([marked(k, m) if k < limit else m for k, m in enumerate(messages)], True, **kw)
    if text is None or hint not in text:
        return None
    after = text[text.rindex(hint):]
    return [k for k in range(limit) if "qz%dzq" % k in after]


kept_turns, kept_sites, kept_pairs = {}, {}, 0
weights = {}
lines = [json.loads(line) for line in open(os.path.join(q["batches"], "index.jsonl"))]
for line in lines:
    x = tensors(os.path.join(q["batches"], line["file"]))
    _, row_weight = x["row_weight"]
    for w in row_weight:
        check(w == w and 0 <= w < float("inf"), line["file"], "a weight is %r", w)
    for name, (_, a) in x.items():
        if a.typecode == "f" and "logp" not in name:
            check(all(v == v and abs(v) != float("inf") for v in a), line["file"], "%s is not finite", name)
    for r, info in enumerate(line["row_info"]):
        weights.setdefault((line["channel"], info["record"]), []).append(row_weight[r])
    if line["channel"] == "sft":
        for r, (ids, labels) in enumerate(rows_of(x, "")):
            info = line["row_info"][r]
            rec = q["records"][info["record"]]
            where = "sft %s %s" % (info["example"], info["messages"])
            flags = [v != -100 for v in labels[:len(ids)]]
            check(sum(flags) == x["row_n_active"][1][r], where, "row_n_active is not the number of labels")
            text, spans = pieces(ids, flags)
            for m in info["messages"]:
                check((info["example"], m) not in kept_turns, where, "message %d is trained twice", m)
                kept_turns[info["example"], m] = sum(flags)
            check_row(where, info["example"], text, spans, info["messages"], "no_think" in info.get("flags", []))
    elif line["channel"] == "dpo":
        sides = [list(rows_of(x, p)) for p in ("chosen_", "rejected_")]
        for r, info in enumerate(line["row_info"]):
            rec = q["records"][info["record"]]
            n = info["prompt"]
            kept_pairs += 1
            check(sides[0][r][0][:n] == sides[1][r][0][:n], "dpo", "the sides don't share the prompt's tokens")
            before = [ids[:next(k for k, v in enumerate(labels) if v != -100)] for ids, labels in (sides[0][r], sides[1][r])]
            truth("prompts", before[0] == before[1], "dpo %s" % info["example"], "the sides continue prompts of %d and %d tokens", len(before[0]), len(before[1]))
            for k, name in enumerate(("chosen", "rejected")):
                ids, labels = sides[k][r]
                where = "dpo %s %s" % (info["example"], name)
                key = where
                conversations[key] = conversations[rec["example"]][:rec["prompt"]] + [message(m) for m in rec[name]]
                flags = [v != -100 for v in labels[:len(ids)]]
                check(not any(flags[:n]), where, "a token of the prompt is trained")
                text, spans = pieces(ids, flags)
                if "kept_filler" in info.get("flags", []):
                    whole = look(key, len(conversations[key]), False, "no_think" in info["flags"])
                    check(without_empty_thoughts(whole or "").startswith(without_empty_thoughts(text)), where, "more than empty thoughts differs from the render")
                    continue
                check_row(where, key, text, spans, [i for i in range(rec["prompt"], len(conversations[key])) if conversations[key][i]["role"] == "assistant"],
                          "no_think" in info.get("flags", []))
    elif line["channel"] == "sdpo":
        students, teachers = list(rows_of(x, "student_")), list(rows_of(x, "teacher_"))
        pairs = {}
        cols = [x["pair_" + c][1] for c in ("student_row", "student_pos", "teacher_row", "teacher_pos", "target_id", "site", "weight")]
        for p in zip(*cols):
            pairs.setdefault(p[5], []).append(p)
        site_at, teacher_from = 0, 0
        for r, info in enumerate(line["row_info"]):
            rec = q["records"][info["record"]]
            silent = "no_think" in info.get("flags", [])
            ids = students[r][0]
            flags = [False] * len(ids)
            for s in info["sites"]:
                for p in pairs.get(site_at + info["sites"].index(s), []):
                    flags[p[1] + 1] = True
            text, spans = pieces(ids, flags)
            targets = sorted({rec["sites"][s["site"]]["message"] for s in info["sites"]})
            where = "sdpo %s %s" % (info["example"], targets)
            check_row(where, info["example"], text, spans, targets, silent)
            for s in info["sites"]:
                site = rec["sites"][s["site"]]
                at = "%s site %d" % (where, s["site"])
                check((info["example"], s["site"]) not in kept_sites, at, "the site stands in two rows")
                kept_sites[info["example"], s["site"]] = True
                mine = pairs.get(site_at, [])
                site_at += 1
                if not check(mine, at, "no pairs"):
                    continue
                told = teachers[mine[0][2]][0]
                check(all(ids[p[1] + 1] == p[4] == told[p[3] + 1] for p in mine), at, "paired ids differ")
                n = mine[0][3] - mine[0][1]
                check(all(p[3] - p[1] == n for p in mine) and n > 0, at, "the teacher is not shifted by one hint")
                end = mine[-1][1] + 2
                k = next((k for k in range(end) if ids[k] != told[k]), end)
                check(k <= mine[0][1] + 1 and any(ids[j:end] == told[j + n:] for j in range(max(0, k - 60), k + 1)), at, "teacher minus hint is not the student")
                shown = tok.decode(told, skip_special_tokens=False)
                check(shown.count(site["hint"]) == 1, at, "the hint stands in the teacher %d times", shown.count(site["hint"]))
                before = conversations[info["example"]][:site["message"]]
                if s["mode"] in ("append", "line", "prepend", "lead", "below"):
                    old, hint = before[-1]["content"], site["hint"]
                    gap = "\n\n" if old else ""
                    text = {"append": old + gap + hint, "line": old + gap + hint + "\n", "prepend": hint + gap + old,
                            "lead": hint + " " + old, "below": old + "\n" + hint}[s["mode"]]
                    before = before[:-1] + [dict(before[-1], content=text)]
                else:
                    before = before + [{"role": s["mode"], "content": site["hint"]}]
                kw = {"enable_thinking": False, "thinking": False} if silent else {}
                hinted = attempt(before, True, **kw)
                want = expected(info["example"], site["message"], silent)
                given = look(info["example"], site["message"], True, silent)
                if check(hinted is not None and want is not None, at, "jinja2 can't render the hint"):
                    cut = len(given) - want[0]
                    check(shown.startswith(hinted[:len(hinted) - cut]), at, "the teacher is not the render with the hint")
                    inside = s["mode"] not in ("system", "user")
                    after = behind(before, site["message"] - inside, site["hint"], kw)
                    truth("behind", after == [], at, "behind the hint is text of the earlier messages %s", after)

def check_cumulative(line, x):
    """No turn sees the hint of a later one, in rows that have all hints of a rollout."""
    teachers = list(rows_of(x, "teacher_"))
    site, at = x["pair_site"][1], x["pair_teacher_pos"][1]
    of = x["pair_teacher_row"][1]
    first = 0
    for info in line["row_info"]:
        sites = q["records"][info["record"]]["sites"]
        told = [sites[s["site"]] for s in info["sites"]]
        for k, mine in enumerate(told):
            positions = [(at[p], of[p]) for p in range(len(site)) if site[p] == first + k]
            if not positions:
                continue  # the second hint of a turn
            end, row = max(positions)
            text = tok.decode(teachers[row][0][:end + 2], skip_special_tokens=False)
            seen = sum(1 for other in told if other["hint"] == mine["hint"] and other["message"] <= mine["message"])
            later = [other["hint"] for other in told if other["message"] > mine["message"] and other["hint"] != mine["hint"] and other["hint"] in text
                     and not any(o["hint"] == other["hint"] for o in told if o["message"] <= mine["message"])]
            truth("later", text.count(mine["hint"]) == seen and not later, "cumulative %s message %d" % (info["example"], mine["message"]),
                  "it sees its own hint %d times, not %d, and the later ones %r", text.count(mine["hint"]), seen, later)
        first += len(told)


for line in [json.loads(line) for line in open(os.path.join(q["cumulative"], "index.jsonl"))] if os.path.exists(os.path.join(q["cumulative"], "index.jsonl")) else []:
    if line["channel"] == "sdpo":
        check_cumulative(line, tensors(os.path.join(q["cumulative"], line["file"])))

# --- what is kept, and what could be

for key, w in weights.items():
    check(len(set(w)) >= 1 and sum(w) > 0, str(key), "the rows of a record weigh nothing")

books = {}
for d in q["drops"]:
    books.setdefault(d["unit"], []).append(d)


def carries(example, i):
    """Whether the template, as jinja2 renders it, shows all of a message in a turn."""
    for silent in (False, True):
        want = expected(example, i, silent)
        if want is not None and holds(to_stop(want[1]), conversations[example][i]):
            return True
    return False


def proof(example, i):
    """Why the template, as jinja2 renders it, does not show a message in a turn: the parts that the render lacks, or the
    text with which the prompt continues differently."""
    m = conversations[example][i]
    given, closed = attempt(conversations[example][:i], True), attempt(conversations[example][:i + 1], False)
    if given is None or closed is None:
        return "the template raises " + raised
    before = attempt(conversations[example][:i], False) or given
    new = closed[common(before, closed):]
    gone = []
    text, calls = m["content"].strip() if isinstance(m["content"], str) else "", m.get("tool_calls", [])
    if text and not holds(new, {"content": text}):
        gone.append("the text next to the call" if calls else "the turn's text")
    if calls and not any(c["function"]["name"] in new for c in calls):
        gone.append("the call")
    elif calls and not holds(new, {"content": "", "tool_calls": calls}):
        gone.append("arguments of the call")
    if gone:
        return "the render lacks " + " and ".join(gone)
    n = common(given, closed)
    n = max(0, given.rfind("<", 0, n + 1) if given[n:n + 1] != "<" else n)
    want = turn_of(given, closed, m, said_before(example, i))
    if want is None:
        return "the prompt continues with %r, but the render continues with the model's text" % given[n:n + 24]
    return "part of the turn follows its stop token"


def places(example, i, hint):
    """Whether the template can show a hint before message i and change nothing else."""
    for silent in (False, True):
        given = look(example, i, True, silent)
        if given is None:
            continue
        kw = {"enable_thinking": False, "thinking": False} if silent else {}
        before = conversations[example][:i]
        options = [before + [{"role": r, "content": hint}] for r in ("system", "user")]
        if before and before[-1]["role"] in ("tool", "user"):
            options.append(before[:-1] + [dict(before[-1], content=before[-1]["content"] + "\n\n" + hint)])
        for ms in options:
            hinted = attempt(ms, True, **kw)
            if hinted and hint in hinted:
                n = common(given, hinted)
                if hinted.endswith(given[n:]):
                    return True
    return False


def begin(name, rec, example, silent):
    """What a side of a pair continues."""
    key = "%s %s of %s" % (name, rec["prompt"], example)
    want = expected(key, rec["prompt"], silent)
    return look(key, rec["prompt"], True, silent)[:want[0]] if want else None


turns = [0, 0, 0]
sites = [0, 0, 0]
pairs_of = [kept_pairs, 0, 0]
proofs = {}
for rec in q["records"].values():
    ex = rec["example"]
    if "trained" in rec:
        for i in rec["trained"]:
            turns[1] += 1
            k = (ex, i) in kept_turns
            turns[0] += k
            can = k or carries(ex, i)
            turns[2] += can
            if not can:
                proofs.setdefault(proof(ex, i), []).append("%s message %d" % (ex, i))
    elif "sites" in rec:
        for s, site in enumerate(rec["sites"]):
            sites[1] += 1
            k = (ex, s) in kept_sites
            sites[0] += k
            sites[2] += k or carries(ex, site["message"]) and places(ex, site["message"], site["hint"])
    else:
        pairs_of[1] += 1
        can = True
        for name in ("chosen", "rejected"):
            key = "%s %s of %s" % (name, rec["prompt"], ex)
            conversations[key] = conversations[ex][:rec["prompt"]] + [message(m) for m in rec[name]]
            can = can and all(carries(key, i) for i in range(rec["prompt"], len(conversations[key])) if conversations[key][i]["role"] == "assistant")
        pairs_of[2] += can and any(begin("chosen", rec, ex, silent) == begin("rejected", rec, ex, silent) != None for silent in (False, True))
check(turns[0] + len(books.get("turn", [])) == turns[1], "books", "%d turns kept, %d dropped, of %d", turns[0], len(books.get("turn", [])), turns[1])
check(sites[0] + len(books.get("site", [])) == sites[1], "books", "%d sites kept, %d dropped, of %d", sites[0], len(books.get("site", [])), sites[1])

json.dump({"checks": checks, "wrongs": len(wrong), "wrong": wrong[:20], "calls": shows_calls, "turns": turns, "sites": sites, "pairs": pairs_of,
           "truths": truths, "proof": sorted(([len(v), "%s (first: %s)" % (k, v[0])] for k, v in proofs.items()), reverse=True)}, sys.stdout)
