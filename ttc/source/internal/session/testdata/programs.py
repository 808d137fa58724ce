#!/usr/bin/env python3
"""Drives agents from npm and PyPI against a scripted server on loopback, and compares what they store with what they sent.

    python3 ttc/source/internal/session/testdata/programs.py bin/nat-go [FOLDER [PROGRAM ...]]

It needs no account, no network but the registries, and for OpenHands Python 3.12. FOLDER (.cache/programs) keeps the programs and the recordings,
which hold vendors' texts. It prints README's table, and writes versions, counts and digests into programs.json.
"""

import glob
import hashlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import peers

QUESTION, AGAIN = "How many files are in this folder?", "And what does b.txt say?"
FILES = {"a.txt": "apple\n", "b.txt": "bee\n"}
KEY, MODEL = "sk-none", "scripted"
SECONDS = 150  # for one start of a program
NODE = "node@24"
HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "programs.json")

# Each answer's text, and what its calls do.
SCRIPT = [
    ("I look at the folder and at a file.", ["list", "read"]),
    ("I look at a missing file.", ["fail"]),
    ("There are two files.", []),
    ("It says bee.", []),
]

# The first of these tools that a request offers is called, with arguments in a spacing of their own. DIR is the folder.
TOOLS = {
    "list": [
        ("Bash", '{"command": "ls",  "description": "List"}'), ("bash", '{"command": "ls",  "description": "List"}'),
        ("exec_command", '{"cmd":  "ls"}'), ("exec", '{"command":  "ls"}'), ("run_commands", '{"commands":  ["ls"]}'),
        ("list_directory", '{"dir_path":  "DIR"}'), ("terminal", '{"command":  "ls"}'),
    ],
    "read": [
        ("Read", '{"file_path":  "DIR/a.txt"}'), ("read", '{"path":  "DIR/a.txt", "filePath": "DIR/a.txt"}'),
        ("read_file", '{"file_path":  "DIR/a.txt"}'), ("view", '{"path":  "DIR/a.txt"}'),
        ("read_files", '{"files":  [{"path": "DIR/a.txt"}]}'), ("file_editor", '{"command":  "view", "path": "DIR/a.txt"}'),
        ("exec_command", '{"cmd":  "cat a.txt"}'),
    ],
}


# --- the server: what it is asked and what it answers, in four dialects ---


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, project):
        super().__init__(("127.0.0.1", 0), Handler)
        self.project, self.asked, self.lock = project, [], threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply("application/json", json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        dialect = next((d for d in DIALECTS if d.path in self.path), None)
        if not dialect or self.path.split("?")[0].endswith("count_tokens"):
            return self.reply("application/json", "{}")
        with self.server.lock:
            request = json.loads(body)
            answer = scripted(dialect, request, body, self.server.project)
            self.server.asked.append({"dialect": dialect.__name__, "path": self.path, "request": request, "answer": answer})
        streamed = request.get("stream") or "stream" in self.path
        text = dialect.answer(f"r{len(self.server.asked)}", *answer[:2], streamed)
        self.reply("text/event-stream" if streamed else "application/json", text)

    def reply(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def scripted(dialect, request, body, project):
    """Returns the text and calls of the answer, and whether the request is one of the conversation."""
    offered = dialect.offered(request)
    if QUESTION not in body or not offered:
        return "A folder of files", [], False  # such as a title
    step = sum(text in body for text, _ in SCRIPT[:-1])
    if step == len(SCRIPT) - 1 and AGAIN not in body:
        return "Nothing more.", [], False
    text, calls = SCRIPT[step]
    made = []
    for i, what in enumerate(calls):
        for name, arguments in TOOLS["read" if what == "fail" else what]:
            if name in offered:
                arguments = arguments.replace("DIR", project)
                made.append((f"call_{step}{i}", name, arguments.replace("a.txt", "none.txt") if what == "fail" else arguments))
                break
    return text, made, True


def events(*payloads, named=True):
    return "".join((f"event: {p['type']}\n" if named else "") + f"data: {json.dumps(p)}\n\n" for p in payloads)


class chat:
    path = "/chat/completions"
    system = staticmethod(lambda r: "".join(peers.text_of(m["content"]) for m in r["messages"] if m["role"] in ("system", "developer")))
    given = staticmethod(lambda r: peers.of_chat(r["messages"]))
    offered = staticmethod(lambda r: [t["function"]["name"] for t in r.get("tools") or []])

    def answer(name, text, calls, streamed):
        calls = [{"index": i, "id": c, "type": "function", "function": {"name": n, "arguments": a}} for i, (c, n, a) in enumerate(calls)]
        message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        whole = {"id": name, "object": "chat.completion.chunk" if streamed else "chat.completion", "created": 1, "model": MODEL}
        finish = "tool_calls" if calls else "stop"
        if not streamed:
            return json.dumps({**whole, "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})
        first = {**whole, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last = {**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}
        return events(first, last, named=False) + "data: [DONE]\n\n"


class responses:
    path = "/responses"
    given = staticmethod(lambda r: list(peers.of_items([{"type": "message", **i} for i in items_of(r)])))
    offered = staticmethod(lambda r: [t.get("name") for t in r.get("tools") or []])

    def system(r):
        said = "".join(peers.text_of(i["content"]) for i in items_of(r) if i.get("role") in ("system", "developer"))
        return r.get("instructions") or said

    def answer(name, text, calls, streamed):
        items = [{"type": "message", "id": f"{name}m", "role": "assistant", "status": "completed",
                  "content": [{"type": "output_text", "text": text, "annotations": []}]}]
        items += [{"type": "function_call", "id": f"{name}{c}", "call_id": c, "name": n, "arguments": a, "status": "completed"}
                  for c, n, a in calls]
        usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}
        whole = {"id": name, "object": "response", "created_at": 1, "status": "completed", "model": MODEL, "output": items, "usage": usage}
        if not streamed:
            return json.dumps(whole)
        out = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
        for i, item in enumerate(items):
            out.append({"type": "response.output_item.added", "output_index": i, "item": {**item, "content": [], "arguments": ""}})
            if item["type"] == "message":
                at = {"item_id": item["id"], "output_index": i, "content_index": 0}
                out.append({"type": "response.content_part.added", **at, "part": {"type": "output_text", "text": ""}})
                out.append({"type": "response.output_text.delta", **at, "delta": text})
            else:
                out.append({"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": i,
                            "delta": item["arguments"]})
            out.append({"type": "response.output_item.done", "output_index": i, "item": item})
        return events(*out, {"type": "response.completed", "response": whole})


def items_of(request):
    said = request["input"]
    return said if isinstance(said, list) else [{"type": "message", "role": "user", "content": said}]


class anthropic:
    path = "/messages"
    system = staticmethod(lambda r: peers.text_of(r["system"][-1:]))
    given = staticmethod(lambda r: [m for said in r["messages"] for m in peers.of_blocks(said)])
    offered = staticmethod(lambda r: [t["name"] for t in r.get("tools") or []])

    def answer(name, text, calls, streamed):
        blocks = [{"type": "text", "text": text}] + [{"type": "tool_use", "id": c, "name": n, "input": json.loads(a)} for c, n, a in calls]
        stop, usage = "tool_use" if calls else "end_turn", {"input_tokens": 9, "output_tokens": 3}
        whole = {"id": name, "type": "message", "role": "assistant", "model": MODEL, "content": blocks, "stop_reason": stop,
                 "stop_sequence": None, "usage": usage}
        if not streamed:
            return json.dumps(whole)
        out = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
        for i, block in enumerate(blocks):
            if block["type"] == "text":
                start, delta = {**block, "text": ""}, {"type": "text_delta", "text": text}
            else:
                start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": calls[i - 1][2]}
            out.append({"type": "content_block_start", "index": i, "content_block": start})
            out.append({"type": "content_block_delta", "index": i, "delta": delta})
            out.append({"type": "content_block_stop", "index": i})
        out.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage})
        return events(*out, {"type": "message_stop"})


class gemini:
    path = "enerateContent"
    system = staticmethod(lambda r: "".join(p.get("text", "") for p in r.get("systemInstruction", {}).get("parts", [])))
    offered = staticmethod(lambda r: [f["name"] for t in r.get("tools") or [] for f in t.get("functionDeclarations", [])])

    def given(r):
        for said in r["contents"]:
            role = {"model": "assistant"}.get(said.get("role"), "user")
            for p in said["parts"]:
                if call := p.get("functionCall"):
                    yield role, "", [(call.get("id"), call.get("args"))]
                elif result := p.get("functionResponse"):
                    response = result["response"]
                    yield "tool", response.get("output", response.get("error", "")), []
                else:
                    yield role, p.get("text", ""), []

    def answer(name, text, calls, streamed):
        parts = [{"text": text}] + [{"functionCall": {"id": c, "name": n, "args": json.loads(a)}} for c, n, a in calls]
        whole = {"responseId": name, "modelVersion": MODEL, "candidates": [
            {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}}
        return events(whole, named=False) if streamed else json.dumps(whole)


DIALECTS = [chat, responses, anthropic, gemini]


# --- the programs: how each is told of the server, started, and where it stores its sessions ---

PI = {"scripted": {"baseUrl": "SERVER/v1", "api": "openai-completions", "apiKey": KEY, "models": [{"id": MODEL}]}}
OPENCODE = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "SERVER/v1", "apiKey": KEY},
            "models": {MODEL: {"name": MODEL, "tool_call": True}}}
CODEX = ["codex", "exec", "--skip-git-repo-check", "-m", "gpt-5.5", "-s", "read-only", "-c", "model_provider=scripted",
         "-c", "model_providers.scripted={name='scripted',base_url='SERVER/v1',wire_api='responses'}"]



def of_sdk(version, *packages):
    """Returns a program that uses a version of the AI SDK."""
    tracing = [f"@opentelemetry/{p}" for p in ("api@1.9", "context-async-hooks@2", "otlp-transformer@0.223", "sdk-trace-base@2")]
    return (" ".join([f"ai@{version}", *packages, *tracing]), "traces.json", {"aisdk.mjs": beside("aisdk.mjs")}, {},
            ["sh", "-c", 'exec node "$HOME/aisdk.mjs" "$@"', "-", "SERVER", "../home/traces.json", QUESTION, AGAIN])


def beside(name):
    """Returns a file next to this one."""
    with open(os.path.join(HERE, name)) as f:
        return f.read()


# Per program: its package, what it stores, its files below the home folder, its environment, and its commands. In texts
# SERVER is the server.
PROGRAMS = {
    "Claude Code": ("@anthropic-ai/claude-code", ".claude/projects/**/*.jsonl", {}, {
        "ANTHROPIC_BASE_URL": "SERVER", "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }, ["claude", "-p", QUESTION, "--allowedTools", "Bash,Read"], ["claude", "-p", AGAIN, "--continue"]),
    "Codex": ("@openai/codex", ".codex/sessions/**/*.jsonl", {".codex/config.toml": ""}, {"OPENAI_API_KEY": KEY},
              [*CODEX, QUESTION], [*CODEX, "resume", "--last", AGAIN]),
    "Gemini CLI": ("@google/gemini-cli", ".gemini/tmp/*/chats/*.json*", {
        ".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}),
    }, {
        "GOOGLE_GEMINI_BASE_URL": "SERVER", "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }, ["gemini", "-m", "gemini-2.5-flash", "-y", "-p", QUESTION], ["gemini", "-m", "gemini-2.5-flash", "-y", "-r", "latest", "-p", AGAIN]),
    "opencode": ("opencode-ai", "export.json", {
        ".config/opencode/opencode.json": json.dumps({"provider": {"scripted": OPENCODE}, "model": f"scripted/{MODEL}", "autoupdate": False}),
    }, {"OPENCODE_DISABLE_MODELS_FETCH": "1"}, ["opencode", "run", QUESTION], ["opencode", "run", "--continue", AGAIN],
        ["sh", "-c", "opencode export $(opencode session list --format json | sed -n 's/.*\"id\": \"\\(ses_[^\"]*\\)\".*/\\1/p' | head -n 1) >$HOME/export.json"]),
    "Copilot CLI": ("@github/copilot", ".copilot/session-state/*/events.jsonl", {}, {
        "COPILOT_PROVIDER_BASE_URL": "SERVER/v1", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL, "COPILOT_OFFLINE": "true",
    }, ["copilot", "--allow-all-tools", "--allow-all-paths", "-p", QUESTION], ["copilot", "--allow-all-tools", "--allow-all-paths", "--continue", "-p", AGAIN]),
    "Cline": ("cline", ".cline/data/sessions/*/*.messages.json", {}, {"CLINE_TELEMETRY_DISABLED": "1"},
              ["cline", "auth", "-p", "openai", "-k", KEY, "-m", MODEL, "-b", "SERVER/v1"], ["cline", QUESTION]),
    "Pi": ("@mariozechner/pi-coding-agent", ".pi/agent/sessions/**/*.jsonl", {".pi/agent/models.json": json.dumps({"providers": PI})}, {},
           ["pi", "--provider", "scripted", "--model", MODEL, "-p", QUESTION],
           ["pi", "--provider", "scripted", "--model", MODEL, "--continue", "-p", AGAIN]),
    "OpenClaw": ("openclaw", ".openclaw/agents/*/sessions/*.jsonl", {".openclaw/openclaw.json": json.dumps({
        "models": {"providers": {"scripted": {**PI["scripted"], "models": [{"id": MODEL, "name": MODEL}]}}},
        "agents": {"defaults": {"model": {"primary": f"scripted/{MODEL}"}, "workspace": "DIR", "skipBootstrap": True}},
    })}, {}, ["openclaw", "agent", "--local", "--session-id", "s1", "-m", QUESTION], ["openclaw", "agent", "--local", "--session-id", "s1", "-m", AGAIN]),
    "OpenHands": ("pip:openhands-sdk openhands-tools", ".openhands/conversations/*", {"conversation.py": beside("conversation.py")}, {},
                  ["sh", "-c", 'exec python "$HOME/conversation.py" "$@"', "-", "SERVER", "../home/.openhands/conversations", QUESTION, AGAIN]),
    "AI SDK 5": of_sdk(5, "@ai-sdk/openai-compatible@1"),
    "AI SDK 6": of_sdk(6, "@ai-sdk/openai-compatible@2"),
    "AI SDK 7": of_sdk(7, "@ai-sdk/openai-compatible@3", "@ai-sdk/otel@1"),
}


# Why what a program stores isn't compared.
REASONS = {
    "OpenClaw": "its sessions are in SQLite, and its export shortens messages",
}


def install(folder, packages):
    """Installs a package, and others that it needs, in a folder of its own, with a Node that every program takes. It
    returns the version of the first."""
    if packages.startswith("pip:"):
        return install_python(folder, packages.removeprefix("pip:").split())
    packages = packages.split()
    where = os.path.join(folder, "npm", packages[0].replace("/", "+"))
    programs = os.path.join(where, "node_modules", ".bin")
    if not os.path.exists(os.path.join(where, "package.json")):
        os.makedirs(where)
        with open(os.path.join(where, "package.json"), "w") as f:
            f.write('{"private": true}')
        env = {**os.environ, "PATH": programs + os.pathsep + os.environ["PATH"]}
        for what in [NODE], packages:  # which npm chooses by the Node that is there
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *what], cwd=where, env=env, check=True)
    name = packages[0][0] + packages[0][1:].split("@")[0]
    with open(os.path.join(where, "node_modules", name, "package.json")) as f:
        return json.load(f)["version"], programs


def install_python(folder, packages):
    """Installs packages of PyPI in an environment of their own."""
    where = os.path.join(folder, "pip", packages[0])
    programs = os.path.join(where, "bin")
    if not os.path.exists(where):
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
        subprocess.run([os.path.join(programs, "pip"), "install", "-q", *packages], check=True)
    version = f"import importlib.metadata as m; print(m.version('{packages[0]}'))"
    asked = subprocess.run([os.path.join(programs, "python"), "-c", version], check=True, capture_output=True, text=True)
    return asked.stdout.strip(), programs


def drive(folder, name):
    """Runs a program's script once. The recording is in FOLDER/NAME: the home folder, and wire.json."""
    package, _, files, environment, *commands = PROGRAMS[name]
    version, programs = install(folder, package)
    at = os.path.join(folder, name.replace(" ", "-").lower())
    shutil.rmtree(at, ignore_errors=True)
    home, project = os.path.join(at, "home"), os.path.join(at, "project")
    os.makedirs(home)
    server = Server(project)

    def told(text):
        return text.replace("SERVER", server.url).replace("DIR", project)

    for path, text in [(os.path.join(project, f), t) for f, t in FILES.items()] + [(os.path.join(home, f), told(t)) for f, t in files.items()]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    os.symlink(os.path.dirname(programs), os.path.join(home, "node_modules"))  # for scripts in home
    env = {"HOME": home, "PATH": programs + os.pathsep + os.environ["PATH"], "LANG": "C.UTF-8", "NO_COLOR": "1", "CI": "1",
           "NO_PROXY": "127.0.0.1", **{k: told(v) for k, v in environment.items()}}
    said = []
    for command in commands:
        said.append(start([told(a) for a in command], project, env))
    end(home)
    server.shutdown()
    with open(os.path.join(at, "wire.json"), "w") as f:
        json.dump({"version": version, "said": said, "asked": server.asked}, f, indent=1)


def start(command, project, env):
    """Returns what a program said; one that doesn't end is killed with what it started."""
    p = subprocess.Popen(command, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         start_new_session=True, text=True, errors="replace")
    try:
        return p.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        return p.communicate()[0] + f"\nkilled after {SECONDS} s"


def end(home):
    """Ends what a program left running, such as Cline's daemon: the processes whose home is the recording's."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as f:
                if f"HOME={home}".encode() in f.read().split(b"\0"):
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)
        except OSError:  # it has ended, or is another user's
            continue


# --- the measurement ---


def measure(folder, name):
    at = os.path.join(folder, name.replace(" ", "-").lower())
    with open(os.path.join(at, "wire.json")) as f:
        wire = json.load(f)
    asked = [a for a in wire["asked"] if a["answer"][2]]
    stored = sorted(glob.glob(os.path.join(at, "home", PROGRAMS[name][1]), recursive=True))
    result = {"version": wire["version"], "calls": len(asked), "others": len(wire["asked"]) - len(asked)}
    if len(asked) < len(SCRIPT) - 1:  # Cline continues only in a terminal
        return {**result, "reason": (wire["said"][-1].strip().splitlines() or ["it said nothing"])[-1][:200]}
    if name in REASONS or not stored:
        return {**result, "reason": REASONS.get(name, f"it stores nothing as {PROGRAMS[name][1]}")}
    result["digests"] = {os.path.basename(f): digest(f) for f in stored}
    truth = []
    for a in asked:
        dialect = globals()[a["dialect"]]
        truth.append((a["answer"][0], [(c, args) for c, _, args in a["answer"][1]], plain(dialect.given(a["request"]))))
    system = dialect.system(asked[0]["request"])
    read = [plain(m) for f in stored for m in peers.nat_go(f)]
    kept, trained, right, _, exact, arguments, prompt = peers.measure((truth, system), read)
    values = [(t, [(c, json.loads(a)) for c, a in made], given) for t, made, given in truth]
    return {**result, "kept": kept, "trained": trained, "context": right, "exact": exact,
            "values": peers.measure((values, system), read)[4], "arguments": arguments, "prompt": prompt}


def digest(path):
    """Returns a digest of a file, or of the files below a folder."""
    found = hashlib.sha256()
    for file in sorted(glob.glob(os.path.join(path, "**", "*.json"), recursive=True)) or [path]:
        with open(file, "rb") as f:
            found.update(f.read())
    return found.hexdigest()[:16]


def plain(messages):
    """Returns messages with the ids that the server gave; Gemini CLI stores them with the tool's name before."""
    return [(role, text, [(c and c.split("__")[-1], a) for c, a in calls]) for role, text, calls in messages]


def row(name, r):
    """Returns a program's row of the table."""
    name = f"{name.removesuffix(' ' + r['version'].split('.')[0])} {r['version']}"
    if "reason" in r:
        return f"| {name} | not compared: {r['reason']} | | |"
    spelled = r["exact"] == r["arguments"]
    arguments = f"{r['exact'] if spelled else r['values']} of {r['arguments']}" + ", as values" * (not spelled)
    return f"| {name} | {r['kept']} of {r['calls']} | {r['context']} of {r['calls']} | {arguments} |"


def main():
    folder = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ".cache/programs")
    results = {}
    if os.path.exists(RESULTS):
        with open(RESULTS) as f:
            results = json.load(f)
    for name in sys.argv[3:] or PROGRAMS:
        if not os.path.exists(os.path.join(folder, name.replace(" ", "-").lower(), "wire.json")):
            drive(folder, name)
        results[name] = measure(folder, name)
        print(row(name, results[name]), flush=True)
    with open(RESULTS, "w") as f:
        json.dump({name: results[name] for name in PROGRAMS if name in results}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
