"""Runs of real programs: family, program, label, command, files.

fail: the program could not do what was asked. answer: a code other than 0 is the answer. good: it worked.
"""

PY_OK = "def mean(xs):\n    return sum(xs) / len(xs)\n\n\nprint(mean([1, 2, 3]))\n"
PY_RAISE = "rows = [{'id': 1}, {'id': 2}]\nfor i in range({n}):\n    print('row', i, 'read')\nprint(rows[0]['name'])\n"
PY_HANDLED = (
    "import traceback\ntry:\n    {}['x']\nexcept KeyError:\n    traceback.print_exc()\n"
    "print('fell back to the default')\nprint('wrote 12 rows to out.csv')\n"
)
PY_CHAIN = "try:\n    int('x')\nexcept ValueError as e:\n    raise RuntimeError('cannot read the limit') from e\n"
TESTS_FAIL = (
    "import pytest\n\n\ndef test_sum():\n    assert 1 + 1 == 3\n\n\ndef test_error():\n"
    "    raise ValueError('bad date')\n\n\ndef test_ok():\n    pass\n"
)
TESTS_OK = "import pytest\n\n\ndef test_raises():\n    with pytest.raises(ValueError):\n        int('x')\n"
UNIT_FAIL = (
    "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 2)\n\n"
    "    def test_b(self):\n        raise KeyError('x')\n\n\nunittest.main()\n"
)
C_BAD = "#include <stdio.h>\nint main(void) {\n    int x = \"a\"\n    printf(\"%d\\n\", y);\n    return 0;\n}\n"
C_WARN = "#include <stdio.h>\nint main(void) {\n    int error;\n    printf(\"no error: %s\\n\", 3);\n    return 0;\n}\n"
C_CRASH = "int main(void) {\n    volatile int *p = 0;\n    return *p;\n}\n"
C_LINK = "int missing(void);\nint main(void) { return missing(); }\n"
GO_MOD = "module example\n\ngo 1.21\n"
GO_BAD = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(undefinedName)\n\tvar x int = \"a\"\n}\n"
GO_PANIC = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"reading\")\n\tvar m map[string]int\n\tm[\"a\"] = 1\n}\n"
GO_OK = "package main\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n)\n\nfunc main() {\n\tfmt.Println(\"handled:\", errors.New(\"no such user\"))\n\tfmt.Println(\"done\")\n}\n"
GO_EXIT = "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n\tfmt.Println(\"can't open the ledger\")\n\tos.Exit(3)\n}\n"
GO_TEST = "package main\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif 1+1 != 3 {\n\t\tt.Errorf(\"got 2, want 3\")\n\t}\n}\n"
CARGO = "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"
RS_BAD = "fn main() {\n    let x: i32 = \"a\";\n    println!(\"{}\", y);\n}\n"
RS_PANIC = "fn main() {\n    println!(\"loading\");\n    let v: Vec<i32> = vec![];\n    println!(\"{}\", v[3]);\n}\n"
RS_OK = "fn main() {\n    let r: Result<i32, _> = \"x\".parse::<i32>();\n    println!(\"{:?}\", r);\n    println!(\"done\");\n}\n"
RS_TEST = "#[test]\nfn sums() {\n    assert_eq!(1 + 1, 3);\n}\n"
JS_THROW = "console.log('loading 3 orders')\nconst order = undefined\nconsole.log(order.total)\n"
JS_OK = "try { JSON.parse('{') } catch (e) { console.log('skipped a bad line:', e.message) }\nconsole.log('imported 41 of 42 lines')\n"
JS_REJECT = "async function f() { throw new Error('no such warehouse') }\nf()\n"
JS_TEST = (
    "const test = require('node:test')\nconst assert = require('node:assert')\n"
    "test('sums', () => { assert.strictEqual(1 + 1, 3) })\ntest('ok', () => {})\n"
)
JS_LINT = "const unused = 1\nif (undefinedThing == 2) { console.log('x') }\n"
ESLINT = "module.exports = [{ rules: { 'no-undef': 'error', 'no-unused-vars': 'error', eqeqeq: 'error' } }]\n"
TS_BAD = "const n: number = 'a'\nfunction f(x: string) { return x.length }\nf(3)\n"
LINT = "import os\nimport sys\n\n\ndef f( a ):\n    l = 1\n    return undefined_name\n"
TYPED = "def f(x: int) -> str:\n    return x\n\n\nf('a')\n"
JAVA_BAD = "public class Main {\n    public static void main(String[] a) {\n        int x = \"a\";\n        System.out.println(y);\n    }\n}\n"
JAVA_THROW = (
    "public class Main {\n    static int at(int[] a, int i) { return a[i]; }\n    public static void main(String[] a) {\n"
    "        System.out.println(\"start\");\n        System.out.println(at(new int[2], 5));\n    }\n}\n"
)
JAVA_OK = (
    "public class Main {\n    public static void main(String[] a) {\n        try { Integer.parseInt(\"x\"); }"
    " catch (NumberFormatException e) { System.out.println(\"skipped: \" + e); }\n        System.out.println(\"done\");\n    }\n}\n"
)
MAKE_BAD = "all: report\n\nreport:\n\t@echo building\n\t@false\n"
MAKE_OK = "all:\n\t@echo 'checking error paths: 0 errors'\n\t-@false\n\t@echo done\n"
PERL_DIE = "print \"start\\n\";\nopen(my $f, '<', 'missing.txt') or die \"can't open missing.txt: $!\";\n"
DATA = "id,name,total\n1,Ada,30\n2,Bob,12\n3,Cy,7\n"
LOG = "".join(
    f"2024-05-0{d} 10:0{m}:00 {lvl} {msg}\n"
    for d, m, lvl, msg in [
        (1, 1, "INFO", "started"), (1, 2, "ERROR", "db: connection refused"), (1, 3, "WARN", "retrying"),
        (2, 1, "ERROR", "payment: ValueError: bad amount"), (2, 2, "INFO", "stopped with exit code 1"),
    ]
)
GIT = "git init -q -b main . && git config user.email a@example.org && git config user.name A && "
GIT1 = GIT + "git add -A && git commit -q -m first && "
SQL = "CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE); INSERT INTO users VALUES(1,'Ada','a@x'),(2,'Bob','b@x');"

RUNS = [
    # python: code that the agent wrote
    ("python", "python", "fail", "python3 run.py", {"run.py": PY_RAISE.replace("{n}", "2")}),
    ("python", "python", "fail", "python3 run.py", {"run.py": PY_RAISE.replace("{n}", "120")}),
    ("python", "python", "fail", "python3 run.py", {"run.py": PY_CHAIN}),
    ("python", "python", "fail", "python3 run.py", {"run.py": "print('x'\n"}),
    ("python", "python", "fail", "python3 run.py", {"run.py": "def f():\nprint(1)\n"}),
    ("python", "python", "fail", "python3 -c 'import pandas_not_there'", {}),
    ("python", "python", "fail", "python3 missing.py", {}),
    ("python", "python", "fail", "python3 -m no_such_module", {}),
    ("python", "python", "fail", "python3 run.py", {"run.py": "import sys\nsys.exit('refusing to overwrite out.csv')\n"}),
    ("python", "python", "fail", "python3 run.py", {"run.py": "import sys\ndef f(n): return f(n + 1)\nf(0)\n"}),
    ("python", "python", "fail", "python3 run.py 3", {"run.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, required=True)\np.parse_args()\n"}),
    ("python", "python", "fail", "python3 run.py", {"run.py": "assert sum([1, 2]) == 4, 'totals differ'\n"}),
    ("python", "python", "good", "python3 run.py", {"run.py": PY_OK}),
    ("python", "python", "good", "python3 run.py", {"run.py": PY_HANDLED}),
    ("python", "python", "good", "python3 run.py", {"run.py": "print('errors: 0')\nprint('failed: 0')\nprint('ok')\n"}),
    ("python", "python", "good", "python3 run.py", {"run.py": "import warnings\nwarnings.warn('deprecated: use read()')\nprint(3)\n"}),
    ("python", "python", "good", "python3 run.py", {"run.py": "for k in ['ValueError', 'KeyError']:\n    print(k, 3)\n"}),
    ("python", "python", "good", "python3 run.py || echo 'fell back to defaults'", {"run.py": "raise SystemExit('no config')\n"}),
    ("python", "python", "good", "python3 -c 'import json; print(json.dumps({\"error\": None, \"rows\": 3}))'", {}),
    # other languages
    ("node", "node", "fail", "node run.js", {"run.js": JS_THROW}),
    ("node", "node", "fail", "node run.js", {"run.js": JS_REJECT}),
    ("node", "node", "fail", "node missing.js", {}),
    ("node", "node", "fail", "node run.js", {"run.js": "const x = {\n"}),
    ("node", "node", "fail", "node -e \"require('left-pad-not-there')\"", {}),
    ("node", "node", "good", "node run.js", {"run.js": JS_OK}),
    ("node", "node", "good", "node -e \"console.error('warning: slow path'); console.log(42)\"", {}),
    ("node", "npm", "fail", "npm run bulid", {"package.json": '{"name":"shop","version":"1.0.0","scripts":{"build":"echo ok"}}'}),
    ("node", "npm", "fail", "npm run build", {"package.json": '{"name":"shop","version":"1.0.0","scripts":{"build":"node missing.js"}}'}),
    ("node", "npm", "good", "npm run build", {"package.json": '{"name":"shop","version":"1.0.0","scripts":{"build":"echo compiled with 0 errors"}}'}),
    ("python", "perl", "fail", "perl run.pl", {"run.pl": PERL_DIE}),
    ("python", "perl", "fail", "perl -e 'use No::Such::Module; print 1'", {}),
    ("python", "perl", "good", "perl -e 'eval { die \"bad\\n\" }; print \"caught: $@\"; print \"done\\n\"'", {}),
    ("build", "java", "fail", "javac Main.java", {"Main.java": JAVA_BAD}),
    ("build", "java", "fail", "java Main.java", {"Main.java": JAVA_THROW}),
    ("build", "java", "good", "java Main.java", {"Main.java": JAVA_OK}),
    # builds
    ("build", "gcc", "fail", "gcc -o main main.c", {"main.c": C_BAD}),
    ("build", "gcc", "fail", "gcc -o main main.c", {"main.c": C_LINK}),
    ("build", "gcc", "fail", "gcc -o main nothing.c", {}),
    ("build", "gcc", "fail", "gcc -o main main.c && ./main", {"main.c": C_CRASH}),
    ("build", "gcc", "good", "gcc -Wall -o main main.c", {"main.c": C_WARN}),
    ("build", "gcc", "good", "gcc -o main main.c && echo built", {"main.c": "int main(void) { return 0; }\n"}),
    ("build", "go", "fail", "go build ./...", {"go.mod": GO_MOD, "main.go": GO_BAD}),
    ("build", "go", "fail", "go run .", {"go.mod": GO_MOD, "main.go": GO_PANIC}),
    ("build", "go", "fail", "go run .", {"go.mod": GO_MOD, "main.go": GO_EXIT}),
    ("build", "go", "fail", "go build ./cmd/missing", {"go.mod": GO_MOD, "main.go": GO_OK}),
    ("build", "go", "good", "go run .", {"go.mod": GO_MOD, "main.go": GO_OK}),
    ("build", "go", "good", "go vet ./... && echo vetted", {"go.mod": GO_MOD, "main.go": GO_OK}),
    ("build", "cargo", "fail", "cargo build --offline", {"Cargo.toml": CARGO, "src/main.rs": RS_BAD}),
    ("build", "cargo", "fail", "cargo run -q --offline", {"Cargo.toml": CARGO, "src/main.rs": RS_PANIC}),
    ("build", "cargo", "fail", "cargo build --offline", {}),
    ("build", "cargo", "good", "cargo run --offline", {"Cargo.toml": CARGO, "src/main.rs": RS_OK}),
    ("build", "make", "fail", "make", {"Makefile": MAKE_BAD}),
    ("build", "make", "fail", "make deploy", {"Makefile": MAKE_OK}),
    ("build", "make", "fail", "make", {}),
    ("build", "make", "good", "make", {"Makefile": MAKE_OK}),
    # tests and checkers: their report is the answer
    ("tests", "pytest", "answer", "pytest -q", {"test_a.py": TESTS_FAIL}),
    ("tests", "pytest", "answer", "pytest", {"test_a.py": TESTS_FAIL}),
    ("tests", "pytest", "good", "pytest -q", {"test_a.py": TESTS_OK}),
    ("tests", "pytest", "fail", "pytest tests/test_missing.py", {"test_a.py": TESTS_OK}),
    ("tests", "pytest", "fail", "pytest --no-such-option", {"test_a.py": TESTS_OK}),
    ("tests", "unittest", "answer", "python3 run.py", {"run.py": UNIT_FAIL}),
    ("tests", "go-test", "answer", "go test ./...", {"go.mod": GO_MOD, "a_test.go": GO_TEST, "main.go": GO_OK}),
    ("tests", "cargo-test", "answer", "cargo test --offline", {"Cargo.toml": CARGO, "src/lib.rs": RS_TEST}),
    ("tests", "node-test", "answer", "node --test run.test.js", {"run.test.js": JS_TEST}),
    ("checkers", "ruff", "answer", "ruff check .", {"a.py": LINT}),
    ("checkers", "ruff", "good", "ruff check .", {"a.py": PY_OK}),
    ("checkers", "ruff", "fail", "ruff check missing.py", {}),
    ("checkers", "ruff", "fail", "ruff check --no-such-option", {}),
    ("checkers", "mypy", "answer", "mypy a.py", {"a.py": TYPED}),
    ("checkers", "mypy", "good", "mypy a.py", {"a.py": PY_OK}),
    ("checkers", "mypy", "fail", "mypy missing.py", {}),
    ("checkers", "flake8", "answer", "flake8 a.py", {"a.py": LINT}),
    ("checkers", "pylint", "answer", "pylint --score=y a.py", {"a.py": LINT}),
    ("checkers", "eslint", "answer", "eslint run.js", {"run.js": JS_LINT, "eslint.config.js": ESLINT}),
    ("checkers", "eslint", "fail", "eslint missing.js", {"eslint.config.js": ESLINT}),
    ("checkers", "tsc", "fail", "tsc --noEmit missing.ts", {}),
    ("checkers", "tsc", "fail", "tsc --noSuchOption a.ts", {"a.ts": TS_BAD}),
    # shell
    ("shell", "bash", "fail", "frobnicate --all", {}),
    ("shell", "bash", "fail", "./deploy.sh", {}),
    ("shell", "bash", "fail", "bash deploy.sh", {"deploy.sh": "echo deploying\nif true; then\n  echo unfinished\n"}),
    ("shell", "bash", "fail", "bash deploy.sh", {"deploy.sh": "set -u\necho step 1\necho $TARGET_HOST\n"}),
    ("shell", "bash", "fail", "cd /no/such/folder && ls", {}),
    ("shell", "bash", "fail", "echo 'x' > /proc/version", {}),
    ("shell", "bash", "fail", "timeout 1 sleep 5", {}),
    ("shell", "bash", "fail", "exit 3", {}),
    ("shell", "bash", "good", "frobnicate || true; echo 'going on'", {}),
    ("shell", "bash", "good", "for i in 1 2; do test $i = 2 && echo 'worked on try 2' && break; echo 'attempt 1 failed, retrying'; done", {}),
    ("shell", "bash", "good", "echo 'errors found: 0'", {}),
    ("shell", "bash", "good", "true", {}),
    ("shell", "ls", "fail", "ls -la build/", {}),
    ("shell", "ls", "good", "ls", {"error.log": "x", "failed_jobs.csv": "y", "exceptions.py": ""}),
    ("shell", "ls", "good", "ls -l errors", {"errors/404.html": "x", "errors/500.html": "y"}),
    ("shell", "cat", "fail", "cat config.yaml", {}),
    ("shell", "cat", "fail", "cat src", {"src/a": ""}),
    ("shell", "cat", "good", "cat app.log", {"app.log": LOG}),
    ("shell", "cat", "good", "cat run.py", {"run.py": PY_HANDLED}),
    ("shell", "cp", "fail", "cp missing.txt backup/", {}),
    ("shell", "mkdir", "fail", "mkdir src", {"src/a": ""}),
    ("shell", "rm", "fail", "rm old.txt", {}),
    ("shell", "mv", "fail", "mv a.txt b/c.txt", {"a.txt": "x"}),
    ("shell", "tar", "fail", "tar xzf release.tar.gz", {}),
    ("shell", "tar", "fail", "tar xzf release.tar.gz", {"release.tar.gz": "not an archive"}),
    ("shell", "tar", "good", "tar cf out.tar a.txt && tar tf out.tar", {"a.txt": "x"}),
    ("shell", "find", "fail", "find /no/such/folder -name '*.py'", {}),
    ("shell", "find", "good", "find . -name '*error*'", {"src/errors.py": "", "src/error_test.py": ""}),
    ("shell", "sed", "fail", "sed 's/a/b' f.txt", {"f.txt": "a"}),
    ("shell", "sed", "fail", "sed -n 1,5p missing.txt", {}),
    ("shell", "sed", "good", "sed -n 1,3p app.log", {"app.log": LOG}),
    ("shell", "awk", "fail", "awk '{print $1' data.csv", {"data.csv": DATA}),
    ("shell", "awk", "good", "awk '/ERROR/' app.log", {"app.log": LOG}),
    ("shell", "grep", "answer", "grep -rn retries src", {"src/a.py": "x = 1\n"}),
    ("shell", "grep", "fail", "grep -n '[' app.log", {"app.log": LOG}),
    ("shell", "grep", "fail", "grep retries missing.txt", {}),
    ("shell", "grep", "good", "grep -n ERROR app.log", {"app.log": LOG}),
    ("shell", "grep", "good", "grep -rn Error .", {"src/a.py": "raise ValueError('bad date')\n", "src/b.py": "except KeyError:\n"}),
    ("shell", "diff", "answer", "diff a.txt b.txt", {"a.txt": "error: old\n", "b.txt": "error: new\n"}),
    ("shell", "diff", "fail", "diff a.txt missing.txt", {"a.txt": "x\n"}),
    ("shell", "patch", "fail", "patch -p0 < fix.diff", {"a.txt": "one\n", "fix.diff": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-two\n+three\n"}),
    ("shell", "patch", "good", "patch -p0 < fix.diff", {"a.txt": "two\n", "fix.diff": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-two\n+three\n"}),
    ("shell", "jq", "fail", "jq '.items[' data.json", {"data.json": "{}"}),
    ("shell", "jq", "fail", "jq .items data.json", {"data.json": "{not json"}),
    ("shell", "jq", "fail", "jq '.a + 1' data.json", {"data.json": '{"a": "x"}'}),
    ("shell", "jq", "good", "jq .error data.json", {"data.json": '{"error": null, "n": 3}'}),
    ("shell", "jq", "good", "jq . data.json", {"data.json": '{"level": "error", "logger": "db", "message": "connection refused", "ts": 17}'}),
    ("shell", "head", "fail", "head -n 5 missing.csv", {}),
    ("shell", "head", "good", "head -n 3 data.csv", {"data.csv": DATA}),
    ("shell", "wc", "fail", "wc -l notes.md", {}),
    ("shell", "wc", "good", "grep -c ERROR app.log", {"app.log": LOG}),
    ("shell", "kill", "fail", "kill 999999", {}),
    ("shell", "sort", "fail", "sort -k missing data.csv", {"data.csv": DATA}),
    ("shell", "unzip", "fail", "unzip release.zip", {"release.zip": "no archive"}),
    ("shell", "pip", "fail", "pip install -r requirements-missing.txt", {}),
    ("shell", "pip", "fail", "pip uninstall-all", {}),
    # version control
    ("vcs", "git", "fail", "git status", {}),
    ("vcs", "git", "fail", GIT1 + "git checkout no-such-branch", {"a.txt": "x"}),
    ("vcs", "git", "fail", GIT1 + "git show deadbeef", {"a.txt": "x"}),
    ("vcs", "git", "fail", GIT1 + "git push origin main", {"a.txt": "x"}),
    ("vcs", "git", "fail", GIT1 + "git statsu", {"a.txt": "x"}),
    ("vcs", "git", "fail", GIT1 + "git apply fix.diff", {"a.txt": "one\n", "fix.diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n"}),
    ("vcs", "git", "fail", GIT1 + "git branch -d main", {"a.txt": "x"}),
    ("vcs", "git", "fail", "git clone ./nothing copy", {}),
    ("vcs", "git", "good", GIT1 + "git log --oneline", {"a.txt": "x"}),
    ("vcs", "git", "good", GIT + "git add -A && git commit -m 'Fix the fatal error: bad date in parse()'", {"a.txt": "x"}),
    ("vcs", "git", "good", GIT1 + "echo 'raise ValueError(\"bad\")' > a.txt && git diff", {"a.txt": "x"}),
    ("vcs", "git", "good", GIT1 + "git checkout -b fix-error-handling", {"a.txt": "x"}),
    ("vcs", "git", "good", GIT1 + "git status --short", {"a.txt": "x"}),
    # databases
    ("databases", "sqlite3", "fail", 'sqlite3 shop.db "SELEC * FROM users"', {}),
    ("databases", "sqlite3", "fail", 'sqlite3 shop.db "SELECT * FROM orders"', {}),
    ("databases", "sqlite3", "fail", f'sqlite3 shop.db "{SQL} INSERT INTO users VALUES(1,\'Cy\',\'c@x\');"', {}),
    ("databases", "sqlite3", "fail", f'sqlite3 shop.db "{SQL} SELECT missing FROM users;"', {}),
    ("databases", "sqlite3", "good", f'sqlite3 -header shop.db "{SQL} SELECT * FROM users;"', {}),
    ("databases", "sqlite3", "good", f'sqlite3 shop.db "{SQL} SELECT * FROM users WHERE id=9;"', {}),
    ("databases", "sqlite3", "good", "sqlite3 shop.db \"SELECT 'error: disk full' AS last_error, 3 AS tries;\"", {}),
    ("databases", "python-sqlite", "fail", "python3 run.py", {"run.py": "import sqlite3\nsqlite3.connect(':memory:').execute('SELECT * FROM t')\n"}),
    ("databases", "psql", "fail", "psql -h 127.0.0.1 -p 1 -c 'select 1'", {}),
    # http: a server on loopback stands at $URL
    ("http", "curl", "fail", "curl -sS -f $URL/missing", {}),
    ("http", "curl", "fail", "curl -sS http://127.0.0.1:1/", {}),
    ("http", "curl", "fail", "curl -sS http://no-such-host.invalid/", {}),
    ("http", "curl", "fail", "curl -sS --no-such-option $URL/", {}),
    ("http", "curl", "good", "curl -sS $URL/ok", {}),
    ("http", "curl", "good", "curl -sS $URL/jobs", {}),
    ("http", "curl", "good", "curl -sS $URL/page", {}),
    ("http", "curl", "good", "curl -sSI $URL/ok", {}),
    ("http", "urllib", "fail", "python3 -c \"import urllib.request as u; u.urlopen('$URL/missing')\"", {}),
    ("http", "requests", "fail", "python3 -c \"import requests; requests.get('$URL/boom').raise_for_status()\"", {}),
    ("http", "requests", "good", "python3 -c \"import requests; print(requests.get('$URL/ok').json())\"", {}),
    ("http", "fetch", "fail", "node -e \"fetch('http://127.0.0.1:1/').then(r => r.text())\"", {}),
    ("http", "fetch", "good", "node -e \"fetch('$URL/ok').then(r => r.text()).then(console.log)\"", {}),
]
