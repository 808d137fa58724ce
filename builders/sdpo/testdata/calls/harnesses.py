"""How agents' harnesses show a command that was run: name, tool, whether the exit code is shown, and the text.

Each function gets the command, standard output and error together, the exit code, and both streams apart.
"""

import json


def claude(cmd, both, code, out, err):
    return f"Exit code {code}\n{both}" if code else (both.rstrip("\n") or "(Bash completed with no output)")


def codex_json(cmd, both, code, out, err):
    return json.dumps({"output": both, "metadata": {"exit_code": code, "duration_seconds": 0.3}})


def codex_wall(cmd, both, code, out, err):
    return f"Exit code: {code}\nWall time: 0.3 seconds\nOutput:\n{both}"


def codex_exec(cmd, both, code, out, err):
    return (f"Chunk ID: 3fa1c0\nWall time: 0.3012 seconds\nProcess exited with code {code}\n"
            f"Original token count: {len(both) // 4}\nOutput:\n{both}")


def openhands(cmd, both, code, out, err):
    return (f"{both}[Current working directory: /home/user/project]\n[Python interpreter: /usr/bin/python3]\n"
            f"[Command finished with exit code {code}]")


def openhands_old(cmd, both, code, out, err):
    return f"{both.rstrip()}\n[The command completed with exit code {code}.]"


def mini_swe(cmd, both, code, out, err):
    return f"<returncode>{code}</returncode>\n<output>\n{both}</output>"


def mini_swe_json(cmd, both, code, out, err):
    return json.dumps({"returncode": code, "output": both, "exception_info": ""}, indent=2)


def gemini(cmd, both, code, out, err):
    return (f"Command: {cmd}\nDirectory: (root)\nOutput: {out.rstrip() or '(empty)'}\nError: {err.rstrip() or '(none)'}\n"
            f"Exit Code: {code}\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 4711")


def autogen(cmd, both, code, out, err):
    return f"exitcode: {code} ({'execution failed' if code else 'execution succeeded'})\nCode output: {both}"


def magentic(cmd, both, code, out, err):
    if code:
        return f"The script ran, then exited with an error (POSIX exit code: {code})\nIts output was:\n{both}"
    return f"The script ran successfully. Its output was:\n{both}"


def return_code(cmd, both, code, out, err):
    return f"Return code: {code}\nStdout:\n{out}\nStderr:\n{err}"


def trailing(cmd, both, code, out, err):
    return f"{both.rstrip()}\nexit code: {code}"


def brackets(cmd, both, code, out, err):
    return f"{both.rstrip()}\n\n[exit code: {code}]"


def harbor(cmd, both, code, out, err):
    return f"[stdout]\n{both}\n[metadata] " + json.dumps({"exit_code": code, "duration": 0.3})


def streams_json(cmd, both, code, out, err):
    return json.dumps({"stdout": out, "stderr": err, "exit_code": code})


def streams_blind(cmd, both, code, out, err):
    return json.dumps({"stdout": out, "stderr": err})


def roo(cmd, both, code, out, err):
    if code:
        return ("Command execution was not successful, inspect the cause and adjust as needed.\n"
                f"Exit code: {code}\nOutput:\n{both}")
    return f"Exit code: 0\nOutput:\n{both}"


def deep(cmd, both, code, out, err):
    word = "failed" if code else "succeeded"
    return f"{both.rstrip()}\n[Command {word} with exit code {code}]"


def pi(cmd, both, code, out, err):
    return f"{both.rstrip()}\n\nCommand exited with code {code}" if code else both


def bare(cmd, both, code, out, err):
    return both


def swe_agent(cmd, both, code, out, err):
    return f"{both.rstrip()}\n(Open file: n/a)\n(Current directory: /home/user/project)\nbash-$"


def prompt(cmd, both, code, out, err):
    return f"$ {cmd}\n{both.rstrip()}"


# Name, tool, argument's name, whether the code is shown.
CODED = [
    (claude, "Bash", "command"), (codex_json, "shell", "command"), (codex_wall, "shell", "command"),
    (codex_exec, "exec_command", "cmd"), (openhands, "execute_bash", "command"), (openhands_old, "run", "command"),
    (mini_swe, "bash", "command"), (mini_swe_json, "bash", "command"), (gemini, "run_shell_command", "command"),
    (autogen, "execute_code", "code"), (magentic, "ComputerTerminal", "code"), (return_code, "terminal", "input"),
    (trailing, "run_command", "command"), (brackets, "cmd", "command"), (harbor, "exec", "cmd"),
    (streams_json, "shell_exec", "command"), (roo, "execute_command", "command"), (deep, "execute", "command"),
    (pi, "bash", "command"),
]
UNCODED = [(bare, "run", "command"), (bare, "sh", "cmd"), (streams_blind, "subprocess", "command"),
           (swe_agent, "bash", "command"), (prompt, "console", "command"), (bare, "execute_bash", "command")]
