package evidence

import (
	"bufio"
	stdjson "encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// result is one line of the labelled sets.
type result struct {
	Family, Group, Source, Tool string
	Arguments                   stdjson.RawMessage
	Text                        string
	Failed                      bool
}

func labelled(t testing.TB, name string) []result {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "sdpo", "testdata", "calls", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []result
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r result
		if err := stdjson.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// score counts the failures found, and the successful results mistaken for failures.
type score struct{ found, failed, wrong, fine int }

func (s score) precision() float64 { return float64(s.found) / float64(max(1, s.found+s.wrong)) }
func (s score) recall() float64    { return float64(s.found) / float64(max(1, s.failed)) }

// and returns s with one more result.
func (s score) and(failed, found bool) score {
	switch {
	case failed && found:
		s.found, s.failed = s.found+1, s.failed+1
	case failed:
		s.failed++
	case found:
		s.wrong, s.fine = s.wrong+1, s.fine+1
	default:
		s.fine++
	}
	return s
}

func measure(t testing.TB, name string) (total score, families map[string]score) {
	t.Helper()
	families = map[string]score{}
	for _, r := range labelled(t, name) {
		got := Read(r.Text, Call{Arguments: json.Raw(r.Arguments)})
		families[r.Family] = families[r.Family].and(r.Failed, got.Failed)
		if r.Failed != got.Failed && strings.HasSuffix(name, "dev") { // never show texts of the held-out half
			t.Logf("%s/%s %s: failed %v, %q %s (%s)\n%s", r.Family, r.Group, r.Source, r.Failed, got.Rule,
				got.Quote, got.Why, tail(r.Text))
		}
	}
	for _, s := range families {
		total = score{total.found + s.found, total.failed + s.failed, total.wrong + s.wrong, total.fine + s.fine}
	}
	return total, families
}

func tail(s string) string { return s[max(0, len(s)-400):] }

// table is the score by family, as shown in the builder's README.
func table(total score, families map[string]score) string {
	var b strings.Builder
	b.WriteString("| family | found / failed | wrong / benign |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		s := families[name]
		fmt.Fprintf(&b, "| %s | %d / %d | %d / %d |\n", name, s.found, s.failed, s.wrong, s.fine)
	}
	fmt.Fprintf(&b, "| all | %d / %d | %d / %d |\n\nPrecision %.3f, recall %.3f.\n", total.found, total.failed,
		total.wrong, total.fine, total.precision(), total.recall())
	return b.String()
}

// readme returns the page that has the tables.
func readme(t testing.TB) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "sdpo", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

var calls = flag.String("calls", "", "the name, without .jsonl, of a file in the folder of labelled sets to measure")

// TestCalls prints the score for the file that the flag names.
func TestCalls(t *testing.T) {
	if *calls == "" {
		t.Skip("no file")
	}
	t.Log(table(measure(t, *calls)))
}

// TestHeldOut checks precision and recall on the half from which no rule was written, and that the README contains this
// table.
func TestHeldOut(t *testing.T) {
	total, families := measure(t, "held")
	if total.precision() < 0.97 || total.recall() < 0.97 {
		t.Errorf("precision %.3f, recall %.3f", total.precision(), total.recall())
	}
	page := readme(t)
	if want := table(total, families); !strings.Contains(page, want) {
		t.Errorf("the README's table differs from:\n%s", want)
	}
	for _, r := range Rules {
		if row := fmt.Sprintf("| `%s` | %s | %s |", r.Name, r.Class, r.Doc); !strings.Contains(page, row) {
			t.Errorf("the README lacks %s", row)
		}
	}
	if total, _ := measure(t, "dev"); total.precision() < 0.98 || total.recall() < 0.98 {
		t.Errorf("on the half that the rules were written from: precision %.3f, recall %.3f", total.precision(),
			total.recall())
	}
}

// TestFresh measures a set that was collected after the first rules were finished, and used afterwards to generalise
// them.
func TestFresh(t *testing.T) {
	if total, families := measure(t, "fresh"); total.precision() < 0.98 || total.recall() < 0.94 {
		t.Errorf("precision %.3f, recall %.3f\n%s", total.precision(), total.recall(), table(total, families))
	}
}

// TestBlind measures the programs that blind.py ran, in two halves split by program and library. Rules were changed
// only for failures in the first half (blind-dev). Before that, they found 0.90 of the failures in both halves. The
// texts of the second half are never shown.
func TestBlind(t *testing.T) {
	for name, least := range map[string]score{
		"blind-dev": {found: 158, failed: 159, fine: 34},
		"blind":     {found: 137, failed: 141, wrong: 2, fine: 32},
	} {
		t.Run(name, func(t *testing.T) {
			if s, families := measure(t, name); s.found < least.found || s.wrong > least.wrong ||
				s.failed != least.failed {
				t.Errorf("%s: got %+v, want %+v at least\n%s", name, s, least, table(s, families))
			}
		})
	}
}

// TestStrangers measures the programs that strangers.py ran, whose names appear in no other set, in two halves. Rules
// were changed only for failures in the first half. Before that, they found 0.82 of the failures in both halves. The
// texts of the second half are never shown.
func TestStrangers(t *testing.T) {
	for name, least := range map[string]score{
		"strangers-dev": {found: 237, failed: 239, fine: 31},
		"strangers":     {found: 209, failed: 217, fine: 31},
	} {
		t.Run(name, func(t *testing.T) {
			if s, families := measure(t, name); s.found < least.found || s.wrong > least.wrong ||
				s.failed != least.failed {
				t.Errorf("%s: got %+v, want %+v at least\n%s", name, s, least, table(s, families))
			}
		})
	}
}

// TestSweep measures the output of every program on a machine and of every function in a hundred libraries, as
// collected by sweep.py, in two halves. Rules were written only from the first half, and at first found 0.977 of the
// second half's failures. The earlier rules had found 0.84 in both halves. The texts of the second half are never
// shown.
func TestSweep(t *testing.T) {
	for name, least := range map[string]score{
		"sweep-dev": {found: 1448, failed: 1460, wrong: 1, fine: 140},
		"sweep":     {found: 1351, failed: 1383, wrong: 2, fine: 138},
	} {
		t.Run(name, func(t *testing.T) {
			s, families := measure(t, name)
			if s.found < least.found || s.wrong > least.wrong || s.failed != least.failed {
				t.Errorf("%s: got %+v, want %+v at least\n%s", name, s, least, table(s, families))
			}
			if s.recall() < 0.97 || s.precision() < 0.97 {
				t.Errorf("%s: recall %.3f, precision %.3f", name, s.recall(), s.precision())
			}
			if want := table(s, families); name == "sweep" && !strings.Contains(readme(t), want) {
				t.Errorf("the README's table differs from:\n%s", want)
			}
		})
	}
}

// TestAgents measures what agents.py and agents_more.py have: results of tools that no other set has. The first two
// were labelled before rules were changed for them: these found 121 of 173 failures and were wrong 17 times before.
// With rules written from the first half, they found 64 of the 82 of the second; then it was used, too. agents-new was
// labelled after that, and no rule was changed for it: the old rules found 50 of its 65.
func TestAgents(t *testing.T) {
	for name, least := range map[string]score{
		"agents-dev": {found: 87, failed: 91, wrong: 1},
		"agents":     {found: 81, failed: 82, wrong: 4},
		"agents-new": {found: 59, failed: 65, wrong: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, families := measure(t, name)
			t.Logf("precision %.3f, recall %.3f", s.precision(), s.recall())
			if s.found < least.found || s.wrong > least.wrong || s.failed != least.failed {
				t.Errorf("%s: got %+v, want %+v at least\n%s", name, s, least, table(s, families))
			}
		})
	}
}

// TestWide measures results of 275 tools that no other set has, in two halves split by tool and kind. Half of them are
// what real programs printed. All were labelled before a rule was changed for them: the rules of the time found 185 of
// 215 failures in the first half (9 others wrong) and 170 of 203 in the second (15 wrong). Rules and weights were then
// made from the first half. The texts of the second are never shown.
func TestWide(t *testing.T) {
	for name, least := range map[string]score{
		"wide-dev": {found: 200, failed: 215, wrong: 4},
		"wide":     {found: 181, failed: 203, wrong: 13},
	} {
		t.Run(name, func(t *testing.T) {
			s, families := measure(t, name)
			if s.found < least.found || s.wrong > least.wrong || s.failed != least.failed {
				t.Errorf("%s: got %+v, want %+v at least\n%s", name, s, least, table(s, families))
			}
		})
	}
}

// TestKindsDev measures results of 61 families of tools, which were labelled before any measurement. In the first one,
// 276 of the 345 failures were found and 12 other results were wrong. Rules were then written for the formats among
// them; no weight is trained on them.
func TestKindsDev(t *testing.T) {
	for name, least := range map[string]score{
		"kinds-dev":   {found: 321, failed: 345, wrong: 4},
		"kinds2-dev":  {found: 283, failed: 287, wrong: 6},
		"kinds3":      {found: 203, failed: 210, wrong: 5},
		"kinds3-last": {found: 72, failed: 73, wrong: 5},
		"kinds4-last": {found: 46, failed: 47},
	} {
		t.Run(name, func(t *testing.T) {
			s, families := measure(t, name)
			if s.found < least.found || s.wrong > least.wrong || s.failed != least.failed {
				t.Errorf("%+v, precision %.3f, recall %.3f\n%s", s, s.precision(), s.recall(), table(s, families))
			}
		})
	}
}

// TestShapes checks that the surroundings of an error distinguish it from text with the same words.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		text   string
		failed bool
	}{
		{"[ERROR] no room in the vault", true},
		{"[ERROR] no room in the vault\n[INFO] trying another vault\n[INFO] stored", false},
		{"The function raised VaultError: no room", true},
		{"The tool failed with DoesNotExist: vault 7", true},
		{"Our handbook says when the vault raised its fees: never.", false},
		{"InvalidVault: vault 7 has two doors", true},
		{"⚠️ VaultError: no room", true},
		{"InvalidVault: vault 7\nThe class is made by the factory.\nIt is part of the package vaults.", false},
		{"Vault check failed: door 7 stands open\nthe guard left\nthe lamp is out", true},
		{`{"code": 1, "msg": "the vault has no such door", "data": null}`, true},
		{`{"code": 1, "msg": "success", "data": null}`, false},
		{`{"code": 1, "msg": "the vault has no such door", "data": {"door": 6}}`, false},
		{`{"code": 200, "msg": "the vault has no such door", "data": null}`, false},
		{`{"status_code": 400, "detail": "door must be a number", "extra": [{"key": "door"}]}`, true},
		{`{"id": 7, "status_code": 400, "detail": "door must be a number", "host": "a"}`, false},
		{"no element found: line 1, column 3", true},
		{"vault: unknown option '--door'\nusage: vault [OPTION]\n" + strings.Repeat("  --x  a thing\n", 40), true},
		{"[INFO] building\n[INFO] BUILD FAILURE\n[ERROR] door 7\n[ERROR] see the manual", true},
		{"[INFO] building\n[INFO] BUILD FAILURE\n[ERROR] door 7\nIt was built at the second try", false},
		{"nothing to commit, working tree clean", false},
		{"Nothing to report: all 5 vaults are shut.", false},
		{"Nothing to lock: the vault is empty.", true},
		{"Your order is confirmed, you need to bring an ID.", false},
		{"The vault holds 2 bars, you asked for 3.", true},
		{"The vault is open. It needs 2 keys, they are at the desk.", false},
		{"The vault needs 2 keys; there is 1.", true},
		{"Please count the bars again next week.", false},
		{"The vault was shut, please ring the bell again", true},
		{"The guard is busy with a call until 3pm.", false},
		{"The guard is busy with another vault.", true},
		{"d", false},
		{"S", false},
		{"is", false},
		{"Error!\nthe vault is shut", true},
		{"error\n0.1\n0.2", false},
		{"ToolResult(success=False, error='vault shut', took=3)", true},
		{"ToolResult(success=True, error=None, took=3)", false},
		{"success=False, error=vault shut", true},
		{"<tool_response>{\"error\": \"vault shut\"}</tool_response>", true},
		{"<vault status=\"error\">shut</vault>", true},
		{"the vault: error: shut", true},
		{"the vault was shut (VaultError)", true},
		{"VaultError: shut, but the second key was tried and worked on door 2", false},
		{"0 errors in 3 vaults", false},
		{"a b", false},
		{"failed: 0, passed: 3", false},
		{`{"status": false, "message": "vault shut"}`, true},
		{`{"name": "vault", "result": null, "exception": "shut"}`, true},
		{`{"name": "vault", "result": "shut", "exception": "shut"}`, false},
		{`[{"type": "missing", "loc": ["door"], "msg": "Field required"}]`, true},
		{`{"stdout": "shut", "stderr": "VaultWarning: rust\n", "success": true}`, false},
		{"bash: line 1: cd: /vault: No such file or directory\n\n[exit code: 1]", true},
		{"E0501 10:00:00.1 1 vault.go:1] shut\nE0501 10:00:01.1 1 vault.go:1] shut\n[Command failed with exit code 1]", true},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := Read(c.text, Call{}); got.Failed != c.failed {
				t.Errorf("%q: %+v", c.text, got)
			}
		})
	}
}

// TestFormsElsewhere checks that records, searches, progress and documentation in words that a protocol or program also
// uses aren't failures, and that a program that fails after other output is found.
func TestFormsElsewhere(t *testing.T) {
	const crash = stackHead + "\n  File \"a.py\", line 1, in f\nKeyError: 'x'"
	for _, c := range []struct {
		arguments, text string
		failed          bool
	}{
		{``, "lint: no issues found", false},
		{``, "search: no vaults found near door 7", false},
		{``, "kafka: no brokers available", true},
		{``, "It isn't possible to divide by zero in the real numbers.", false},
		{``, "It isn't possible to ship vault 7: it is too heavy", true},
		{``, "429: number of open vaults", false},
		{``, "500: five hundred doors returned", false},
		{``, "404: vault not found", true},
		{``, "500: something went wrong", true},
		{``, "status: CANCELLED", false},
		{``, "status: UNAVAILABLE until 14:00 (vault in use)", false},
		{``, "status: UNAVAILABLE, message: no vault answers", true},
		{``, "status: NOT_FOUND\nMeaning: there is no such vault.\n\nstatus: INTERNAL\nMeaning: a defect.", false},
		{``, "rpc error: code = NotFound desc = no vault\n\nThis is what clients see. To fix it, create the vault first and " +
			"then call Get again with its name, as the guide to vaults shows. See also the list of codes.", false},
		{``, "rpc error: code = Unavailable desc = closing #12\nopened by a\nrpc error: code = Unknown desc = EOF #9\nby b", false},
		{``, "Just a moment...\nYour order 48 has been placed.", false},
		{``, "Just a moment...", true},
		{``, "Just a moment...\nEnable JavaScript and cookies to continue", true},
		{``, "Verify you are human\nThe widget shows this label beside its box. It is configured with a site key.", false},
		{``, "This site can't be reached\n\nChrome shows this heading if a name has no address.\n\n1. Clear the cache", false},
		{``, "This site can’t be reached\n\nvault.example refused to connect.\nERR_CONNECTION_REFUSED", true},
		{``, "X Issue 12 closed\nX Issue 13 closed", false},
		{``, "X Run unit tests\n✓ Build", false},
		{``, "X Issue #12 could not be closed", true},
		{``, "ACK: REJECTED is the fifth code of the protocol.", false},
		{``, "NAK COMMAND_REFUSED: door 7 is open", true},
		{``, `{"status": false, "location": "Living room"}`, false},
		{``, `{"status": "no", "question": "Is the vault shut at night?"}`, false},
		{``, `{"success": false, "mission": "Vault 7", "rocket": "Door 9"}`, false},
		{``, `{"ok": false, "local": "2026-01-02 10:00"}`, false},
		{``, `{"status": false, "feedback": "Invalid date format"}`, true},
		{``, `{"name": "DISK_SPACE", "status": "FAILED", "message": "Disk usage is at 95 %"}`, false},
		{``, `{"name": "VAULT_TOTAL", "details": [{"field": "door", "issue": "rounded"}]}`, false},
		{``, `{"ok": false, "body": "Dear guard, see you at noon", "from": "Ann"}`, false},
		{``, "<Report><File>a</File><Errors><Error line=\"3\">no tag</Error></Errors></Report>", false},
		{``, "<configuration><Errors><Error code=\"404\"/></Errors></configuration>", false},
		{``, "<Response><Errors><Error><Code>NoVault</Code></Error></Errors></Response>", true},
		{``, "vault.example:8080: HTTP 503 Service Unavailable", true},
		{``, "Error: expected one of a,b,c\nError: got d,e,f\nError: x,y,z", true},
		{``, "- a,b,c\n- d,e,f\n\nmake: *** No rule to make target 'x'.  Stop.", false},
		{`{"command": "python a.py"}`, "- loading\n- training\n" + crash, true},
		{`{"command": "python a.py"}`, "# Vaults\n# Doors: 10\n" + crash, true},
		{`{"command": "cat a.md"}`, "# Vaults\n# Doors: 10\n" + crash, false},
		{`{"code": "print(open('a.md').read())"}`, "# Vaults\n# Doors: 10\n" + crash, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := Read(c.text, Call{Arguments: json.Raw(c.arguments)}); got.Failed != c.failed {
				t.Errorf("%s %q: %+v", c.arguments, c.text, got)
			}
		})
	}
}

// TestClauses checks forms that were added together: a terminal's screen, a program's own commands, objects whose flag is
// explained by a remark, and sentences whose last clause says that nothing was done. Each has texts that look like it
// and report success, or describe something.
func TestClauses(t *testing.T) {
	for _, c := range []struct {
		arguments, text string
		failed          bool
	}{
		// prompt
		{`{"keystrokes":"ls /x\n"}`, "New Terminal Output:\nroot@9f2c:/app# ls /x\nls: cannot access '/x': No such file or directory\nroot@9f2c:/app#", true},
		{``, "root@9f2c:/app# python3 t.py\nTraceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nValueError: bad\nroot@9f2c:/app#", true},
		{``, "(venv) ann@host:~/src$ ./run\nbash: ./run: Permission denied\n(venv) ann@host:~/src$", true},
		{``, "(venv) ann@host:~/src$ tail -1 a.log\nERROR cannot open queue\n(venv) ann@host:~/src$", false},
		{``, "ann@host:~$ python3 a.py\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'\nretrying\n12 rows written\nann@host:~$", false},
		{``, "ann@host:~$ ls\na.txt\nann@host:~$", false},
		{`{"keystrokes": "cut list\n"}`, "ann@host:~$ ls\na.txt\nann@host:~$ cut list\ncut: you have to name a column\nann@host:~$", true},
		{``, "ann@host:~$ ls z\nls: cannot access 'z': No such file or directory\nann@host:~$ ls\na.txt\nann@host:~$", false},
		{``, "bash-5.2# ls z\nls: cannot access 'z': No such file or directory\nbash-5.2#", true},
		{``, "ann@host:~$", false},
		{``, "Current terminal state:\nuser@box:/srv$ node a.js\nnode:internal/modules/cjs/loader:1143\n  throw err;\n  ^\n\nError: Cannot find module '/srv/a.js'\n    at x (node:internal:1:1)\n\nNode.js v20.1.0\nuser@box:/srv$ ", true},
		// git's own commands, prefixes
		{`{"command":"git merge nope"}`, "merge: nope - not something we can merge", true},
		{`{"command":"git stash pop"}`, "stash: nothing to pop, no entries are present", true},
		{`{"command":"env -Z ls"}`, "env: option requires a valid value -- 'Z'", true},
		{`{"command":"nohup"}`, "nohup: must name a command to run", true},
		{`{"command":"sudo ls"}`, "sudo: ann is not in the sudoers file", true},
		{`{"command":"time make"}`, "make: nothing to be done for 'all'.", false},
		{`{"command":"git log -1"}`, "log: rotate the files, they must not grow", false},
		// echoes
		{`{"command":"test -d out || echo \"cannot find out, starting afresh\""}`, "cannot find out, starting afresh", false},
		{`{"command":"which rg || echo 'rg not found'"}`, "rg not found", false},
		{`{"command":"(cd vault || { echo 'no such vault'; }) && ls"}`, "no such vault", false},
		{`{"command":"cp a b || echo 'copy failed'; ls z"}`, "ls: cannot access 'z': No such file or directory", true},
		{`{"command":"cat a || echo none; frob"}`, "bash: frob: command not found", true},
		// objects
		{``, `{"moved": false, "comment": "The target folder does not exist"}`, true},
		{``, `{"archived": false, "note": "Weekly plan for the garden"}`, false},
		{``, `{"refunded": false, "info": "Order 7 is not eligible for a refund"}`, true},
		{``, `{"charged": false}`, false},
		{``, `{"deleted": false, "title": "Old notes", "owner": "ann"}`, false},
		{``, `{"order": null, "message": "No order with number 77 exists"}`, true},
		{``, `{"hits": null, "message": "No results"}`, false},
		{``, `{"error": null, "message": "Vault cannot be found"}`, false},
		{``, `{"next": null, "message": "Saved"}`, false},
		{``, `{"LookupResponse": {"error": {"code": "NotFound", "message": "no vault 7"}}}`, true},
		{``, `{"LookupResponse": {"vault": 7, "last_error": "door open"}}`, false},
		{``, `{"searchResponse": {"status": "ok", "errors": []}}`, false},
		{``, `{"url":"https://vault.example/a","code":503,"codeText":"Service Unavailable","bytes":12,"result":"","durationMs":40}`, true},
		{``, `{"url":"https://vault.example/a","code":200,"codeText":"OK","bytes":12,"result":"Error handling in Go","durationMs":40}`, false},
		// frameworks
		{``, "Found multiple occurrences of the search block in a.go; nothing was replaced", true},
		{``, "Found 3 matches for the vault in 2 files", false},
		{``, "Found several matches for old_str. Add context.", true},
		{``, "<path>a.py</path>\nThe patch was not applied\n\n<error_message>\nline 3 differs\n</error_message>", true},
		{``, "<path>a.xml</path>\n<content>\n1 | <error>\n2 | no room\n</content>", false},
		{``, "<name>log</name>\nall good\n<entries>\n<error>old</error>\n</entries>", false},
		{``, "command failed in sandbox: read-only file system", true},
		{``, "Two tests failed in CI: vault_test, door_test", false},
		{``, "Calculator.run(\"2+\") raised error: unexpected end", true},
		{``, "The vault raised errors for years before it was fixed; the handbook lists all of them.", false},
		// sentences
		{``, "The position is beyond display limits.", true},
		{``, "Index 9 lies outside array bounds", true},
		{``, "Deleted vaults can't be opened.", true},
		{``, "Signed contracts may not be edited.", true},
		{``, "Deleted 3 vaults. They can be restored for 30 days.", false},
		{``, "Closed 2 doors", false},
		{``, "Guest 4 is 15 years old. Account not opened.", true},
		{``, "The lift is in use until 14:00; nothing was booked.", true},
		{``, "Dates lie in different years. No invoice was issued.", true},
		{``, "The visa lapsed in May. Application not submitted.", true},
		{``, "Dry run: 3 doors to paint. Nothing written.", false},
		{``, "Compared both folders: identical. Nothing copied, no files updated.", false},
		{``, "Checked 12 rows. No changes made.", false},
		{``, "Subscription cancelled. No invoice was issued.", false},
		{``, "All images are already optimised. No files written.", false},
		{``, "Backup finished in 3 s, no snapshot created.", false},
		{``, "Formatted 3 files, no changes made.", false},
		{``, "Rooms 4 and 5 are free on Monday, not booked.", false},
		{``, "The gardener came on Monday; no report was filed.", false},
		{``, "Postcode and city differ. Please re-enter the address.", true},
		{``, "Slot 7 has gone; please choose another day.", true},
		{``, "The tunnel takes at most nine cars; twelve were given.", true},
		{``, "The code fails the Luhn check.", true},
		{``, "The build fails the nightly check.", false},
		{``, "Do not forget to lock the vault; the alarm fails at night.", false},
		{``, "Never leave the door open: the lock must be shut.", false},
		{``, "Don't have access to vault 7.", true},
		{``, "Do not have permission to open vault 7", true},
		{``, "Uploads fail when the disk is full; the page then shows 507. Free some space.", false},
		{``, "Login fails if the clock is wrong. Set it with ntpdate.", false},
		{``, "A 503 response means the server is overloaded.", false},
		{``, "503 Service Unavailable: the vault is down", true},
		{``, "could not read settings.toml, using defaults\n4 doors loaded", false},
		{``, "cannot reach cache; fallback used", false},
		{``, "cannot use the default printer", true},
		{``, "FATAL:  role \"ann\" does not exist", true},
		{``, "ERROR: relation \"vault\" does not exist\nSTATEMENT: select 1\nLOG:  checkpoint complete", false},
		// time limits and exit codes of further harnesses
		{``, "Command executed in terminal within working directory '/srv'. Exit code: 1\nOutput:\nThe box stays shut\n", true},
		{``, "Command executed in terminal. Exit code: 0\nOutput:\nError budget: 3 %\n", false},
		{`{"command": "grep -c door a"}`, "Command executed in terminal. Exit code: 1\nOutput:\n0\n", false},
		{``, "3 doors\n<bash_metadata>\nbash tool terminated command after exceeding timeout 9000 ms\n</bash_metadata>", true},
		{``, "3 doors\n<note>\nthe lift is slow\n</note>", false},
		{``, "Command execution timed out", true},
		{``, "Edit #3 failed: the old text differs in its indentation", true},
		{``, "Get \"https://vault.example/a\": EOF", true},
		{``, "Get \"Vaults of Europe\" from the library, then read it.", false},
		// forms' fields, logs of an execution, states
		{``, `{"email": ["Enter a valid address, this field is required."], "age": ["A valid integer is required."]}`, true},
		{``, `{"doors": ["The first can't be opened.", "The second is red."]}`, false},
		{``, `{"name": ["can't be blank", "is too short (minimum is 2 characters)"]}`, true},
		{``, `{"name": ["can't be blank"], "count": 3}`, false},
		{``, `{"house_rules": ["Pets are not allowed.", "You must be 18."]}`, false},
		{``, `{"quotes": ["Not all who wander are lost."]}`, false},
		{``, `{"quotes": []}`, false},
		{``, `{"non_field_errors": ["The two passwords differ"]}`, true},
		{``, `{"logs": {"out": [], "err": []}, "error": {"name": "KeyError", "value": "door"}}`, true},
		{``, `{"logs": {"out": ["a"], "err": []}, "error": {"name": "KeyError", "value": "door"}}`, false},
		{``, `{"passed": false, "feedback": "The door can't be opened this way."}`, false},
		// what was done, and what words mean
		{``, "Vault 3 moved. Its key was not copied.", false},
		{``, "You own 3 doors, 4 were requested.", true},
		{``, "3 doors were open, 4 were painted.", false},
		{``, "\"Access denied\" means that the guard doesn't know you.", false},
		{``, "Ann wrote: the door could not be opened, please help", false},
		{``, "Root cause: the hinge is invalid for this door.", false},
		{``, "Shapes differ: (3,) and (4,)", true},
		{``, "\"The door could not be opened. Never again!\" 2 of 5 stars", false},
		{``, "“I can't find the key.”", false},
		{``, "\"door\" can't be opened", true},
		{``, "Hi team, the door could not be opened on Sunday. Bo", false},
		{``, "Deposit of 9.50 paid. The rest was not charged.", false},
		{``, "The vault is being counted; doors can't be opened now.", true},
		{``, "Key 4 created. It can be used now.", false},
		{``, "[vaults] VaultError: no room", true},
		{``, "[vaults] VaultError: no room\n[vaults] another one was found\n[vaults] stored", false},
		{``, "Not executed: the guard is away", true},
		{``, "Hi Bo, vault 7 can't be booked.", true},
		{`{"command": "scp a b:"}`, "ssh: Could not resolve hostname b: Name or service not known\nlost connection", true},
		// answers, records and documents in the words of these forms
		{``, `{"assignee": null, "title": "Cannot open the gate"}`, false},
		{``, `{"reply_to": null, "message": "I cannot come today, sorry. Bo"}`, false},
		{``, `{"winner": null, "message": "The game is not over"}`, false},
		{``, `{"requirements": ["must be at least 12 characters long"], "tips": ["Ensure that the lid is shut"]}`, false},
		{``, `{"comments": ["This list is great", "This value is a bargain"]}`, false},
		{``, `{"faq": ["This field is required reading"]}`, false},
		{``, `{"suggestions": ["Enter a valid postcode to see shops nearby"]}`, false},
		{``, `{"customer_response": {"message": "I can't open the box"}}`, false},
		{``, `{"last_response": {"status": 500, "message": "Server error"}}`, false},
		{``, `{"completed": false, "note": "buy milk and bread"}`, false},
		{``, `{"infected": false, "note": "All 312 files are clean"}`, false},
		{``, `{"read": true, "starred": false, "text": "Hi, the door could not be opened. Bo"}`, false},
		{``, `{"retracted": false, "abstract": "We show that the bound cannot be improved.", "doi": "10.1/x"}`, false},
		{``, "<job>7</job>\nfinished\n<error>0</error>", false},
		{``, "[vaults] VaultError: no room\n[vaults] retry ok", false},
		{``, "Edit 3 failed the review, edit 4 passed.", false},
		{``, "Failed in 2024: three banks", false},
		{``, "Found 3 matches for old_string in src/\nsrc/a.py:3:old_string = 1\nsrc/b.py:9:old_string", false},
		{``, "I tried reusing the same input jack as before and it works.", false},
		{``, "Post \"Hello\": sent", false},
		{``, "Get \"https://vault.example/a\": 200 OK", false},
		{``, "Not sent: 3 letters, sent: 12 letters", false},
		{``, "Not paid: invoices 3, 4 and 7", false},
		{``, "Not processed: 0", false},
		{``, "Order confirmed. It can not be changed now.", false},
		{``, "Seeds planted in row 3. They cannot be harvested yet.", false},
		{``, "Claim 81 is under review. No decision has been made.", false},
		{``, "Balance 12.50. No payments made.", false},
		{``, "Estimate: 420 for three nights. No room was booked.", false},
		{``, "Form saved as draft; not submitted.", false},
		{``, "Lint found no problems; no files updated.", false},
		{``, "Password changed. Please re-enter it on your phone.", false},
		{``, "Created accounts must be confirmed by mail", false},
		{``, "The patch fails the CI check, two lines are too long.", false},
		{``, "The two shapes differ in size.", false},
		{``, "The temperature is outside safe limits since 9:00.", false},
		{``, "quotas\n(killed: 3 mosquitoes)\n</trap>", false},
		{``, "ann@host:~$ cat notes.md\nError: this page is about errors\nann@host:~$", false},
		{``, "ann@host:~$ ls z\nls: cannot access 'z': No such file or directory\nann@host:~$ cd /srv && pwd\n/srv\nann@host:/srv$", false},
		{``, `{"status": 200, "vault": null, "message": "No vault with number 7"}`, false},
		{``, `{"to": null, "message": "I can't come to your party"}`, false},
		{``, `{"event": null, "message": "There is no event on this day"}`, false},
		{``, `{"user": null, "message": "No user matches this query"}`, false},
		// failures beside them
		{``, `{"booking": null, "message": "Booking X7 does not exist"}`, true},
		{``, `{"item": null, "message": "Access denied"}`, true},
		{``, `{"title": ["This field may not be blank."]}`, true},
		{``, `{"age": ["must be greater than 17"]}`, true},
		{``, `{"url": ["Enter a valid URL."]}`, true},
		{``, `{"user": ["must exist"]}`, true},
		{``, `{"GetVaultResponse": {"success": false, "message": "no vault"}}`, true},
		{``, `{"printed": false, "remark": "Printer is offline"}`, true},
		{``, "Found 2 occurrences of the old_string; it must be unique", true},
		{``, "Hunk #3 failed at line 40", true},
		{``, "I tried reusing the same input, I must stop using this action input.", true},
		{``, "Post \"https://vault.example/a\": x509: certificate signed by unknown authority", true},
		{``, "Not sent: the mailbox is full.", true},
		{``, "The draft does not exist. Nothing was sent.", true},
		{``, "Payment was not received. No ticket was issued.", true},
		{``, "Value 9 is outside permitted limits", true},
		{``, "Error: could not connect\nINFO: see the log for details", true},
		{``, "ann@host:~$ cd x && ./run\nbash: ./run: Permission denied\nann@host:~/x$", true},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := Read(c.text, Call{Arguments: json.Raw(c.arguments)}); got.Failed != c.failed {
				t.Errorf("%s %q: %+v", c.arguments, c.text, got)
			}
		})
	}
}

// TestExitCodesThatAnswer checks that an exit code with which a program answers isn't a failure.
func TestExitCodesThatAnswer(t *testing.T) {
	for _, c := range []struct {
		command string
		code    int
		failed  bool
	}{
		{"grep door vaults.txt", 1, false},
		{"/usr/bin/diff a.txt b.txt", 1, false},
		{"git diff --exit-code", 1, false},
		{"cd vaults && test -f door", 1, false},
		{"make doors", 1, true},
		{"grep door vaults.txt", 2, true},
		{"grep door vaults.txt", 127, true},
	} {
		t.Run(fmt.Sprint(c.command, c.code), func(t *testing.T) {
			arguments, err := stdjson.Marshal(map[string]string{"command": c.command})
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf(`{"stdout": "", "stderr": "", "exit_code": %d}`, c.code)
			if got := Read(text, Call{Arguments: arguments}); got.Failed != c.failed {
				t.Errorf("%s: %+v", c.command, got)
			}
		})
	}
}

// TestVoice checks that a program's complaint is distinguished from its output by its speaker, its subject and its
// share of the text.
func TestVoice(t *testing.T) {
	const crash = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'"
	for _, c := range []struct {
		command, text string
		failed        bool
	}{
		{"frobcut list", "frobcut: you have to name a column\nTry 'frobcut --help'.\n", true},
		{"cut list", "cut: you must specify a list of bytes\nTry 'cut --help' for more information.", true},
		{"cat list", "frobcut: you have to name a column", false},
		{"frobzip a.z", "frobzip: a.z: wrong number (file was not created by frobzip)\n\nTry frobzip-recover.", true},
		{"frobzip a.z", "frobzip: a.z: created 3 files", false},
		{"frobnicate", "Usage: frobnicate [OPTION]...", true},
		{"frobnicate --help", "Usage: frobnicate [OPTION]...", false},
		{"cat README", "Usage: frobnicate [OPTION]...", false},
		{"frobkey -l a.txt", "a.txt is not a key that I know.", true},
		{"frobkey -l b.txt", "a.txt is not a key that I know.", false},
		{"frobkey -l a.txt", "a.txt: 3 keys", false},
		{"frobdb --table=users", "unknown table users", true},
		{"frob run", "10:00:01 INFO frob: one\n10:00:02 INFO frob: two\n" + crash, true},
		{"tail frob.log", "10:00:01 INFO frob: one\n10:00:02 INFO frob: two\n" + crash, false},
	} {
		t.Run(c.command, func(t *testing.T) {
			arguments, err := stdjson.Marshal(map[string]string{"command": c.command})
			if err != nil {
				t.Fatal(err)
			}
			if got := Read(c.text, Call{Arguments: arguments}); got.Failed != c.failed {
				t.Errorf("%s: %q: %+v", c.command, c.text, got)
			}
		})
	}
}

// TestBlankParts reads results in which a quote, an examined line or the command is blank.
func TestBlankParts(t *testing.T) {
	for _, c := range []struct{ arguments, text string }{
		{`{}`, `{"errors":[{"field":"email","code":"taken"}],"user":"x"}`},
		{`{}`, `{"errors":[["a"]],"user":"x"}`},
		{`{}`, `{"error":[""],"success":false,"id":7}`},
		{`{"command":"\n"}`, "no command given"},
		{`{"command":["",""]}`, "no command given"},
		{`{"command":"f"}`, "x" + strings.Repeat(" ", 17000) + "y"},
		{`{"command":"f"}`, "x\n" + strings.Repeat(" ", 17000) + "y"},
	} {
		Read(c.text, Call{Arguments: json.Raw(c.arguments)}) // must not panic
	}
	for _, text := range []string{
		`{"errors":[{"field":"email"},{"message":"Email is already taken"}],"success":false}`,
		`{"errors":["Email is already taken"],"success":false}`,
	} {
		if f := Read(text, Call{}); !f.Failed || !strings.Contains(f.Quote, "already taken") {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// TestHalvesShareNoGroup checks that each group of a family is in only one of the halves.
func TestHalvesShareNoGroup(t *testing.T) {
	dev := map[string]bool{}
	n := 0
	for _, r := range labelled(t, "dev") {
		n++
		if r.Source != "further" {
			dev[r.Family+"/"+r.Group] = true
		}
	}
	for _, r := range labelled(t, "held") {
		n++
		if dev[r.Family+"/"+r.Group] {
			t.Errorf("%s of %s is in both halves", r.Group, r.Family)
		}
	}
	if n < 900 {
		t.Errorf("%d results", n)
	}
}

// TestLongResults checks that judging a result takes bounded time, because only the first and last lines of a long text
// are read.
func TestLongResults(t *testing.T) {
	noise := strings.Repeat("row 1 was read and nothing went wrong with it\n", 200_000)
	for text, want := range map[string]string{
		noise + "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'": "traceback",
		noise + "bash: line 1: foo: command not found":                                             "program_message",
		noise + "done": "",
		"ls: x: No such file or directory\n" + noise:   "",
		noise + "[Command finished with exit code 2]":  "exit_code",
		strings.Repeat("\n", 1<<20) + "Error: no seat": "error_prefix",
		strings.Repeat("a", 8<<20):                     "",
		strings.Repeat("[", 1<<20):                     "",
		strings.Repeat("{'a':", 40_000):                "",
		`{"error":` + strings.Repeat(`{"error":`, 500): "",
		strings.Repeat(`"`, 1<<20):                     "",
		strings.Repeat("Error: ", 1<<18):               "",
	} {
		t.Run(text[max(0, len(text)-60):], func(t *testing.T) {
			if f := Read(text, Call{}); f.Failed != (want != "") || f.Failed && f.Rule != want {
				t.Errorf("%.40q...: got %+v, want %q", text, f, want)
			}
		})
	}
	if allocs := testing.AllocsPerRun(3, func() { Read(noise, Call{}) }); allocs > 2000 {
		t.Errorf("%.0f allocations", allocs)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"dev", "held"} {
		for i, r := range labelled(f, name) {
			if i%20 == 0 {
				f.Add(r.Text, string(r.Arguments))
			}
		}
	}
	f.Add("The word of a negation alone: N't.", "")
	f.Fuzz(func(t *testing.T, text, args string) {
		raw, err := json.Parse([]byte(args), json.Limits{})
		if err != nil {
			raw = nil
		}
		got := Read(text, Call{Arguments: raw})
		if _, known := Named(got.Rule); got.Rule != "" && !known || got.Failed && got.Rule == "" ||
			len(got.Quote) > 200 || strings.Contains(got.Quote, "\n") {
			t.Fatalf("%+v", got)
		}
		if got.Rule != "" && !got.Failed && got.Why == "" {
			t.Fatalf("a near miss has no reason: %+v", got)
		}
		if again := Read(text, Call{Arguments: raw}); again != got {
			t.Fatalf("%+v, then %+v", got, again)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	all := append(labelled(b, "dev"), labelled(b, "held")...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := &all[i%len(all)]
		Read(r.Text, Call{Arguments: json.Raw(r.Arguments)})
	}
}

// TestForms checks that an error in the format of a protocol or program counts if the program itself writes it, but not
// if a document, log, program or test quotes it.
func TestForms(t *testing.T) {
	const operation = `{"statement_id": "01", "status": {"state": "%s"%s}}`
	for _, c := range []struct {
		arguments, text string
		failed          bool
	}{
		{``, "<?xml version=\"1.0\"?>\n<OTA_VaultRS>\n<Errors>\n<Error Code=\"9\">Door 7 is shut</Error>\n</Errors></OTA_VaultRS>", true},
		{``, "<?xml version=\"1.0\"?>\n<OTA_VaultRS><Success/><Errors/></OTA_VaultRS>", false},
		{``, `{"resourceType": "OperationOutcome", "issue": [{"severity": "error", "code": "not-found"}]}`, true},
		{``, `{"resourceType": "OperationOutcome", "issue": [{"severity": "information", "code": "informational"}]}`, false},
		{``, `{"resourceType": "Bundle", "entry": [{"resourceType": "OperationOutcome", "severity": "error"}]}`, false},
		{``, "MSH|^~\\&|LAB|HOSP\rMSA|AE|77|Unknown class\r", true},
		{``, "MSH|^~\\&|LAB|HOSP\rMSA|AA|77\r", false},
		{``, "status: PERMISSION_DENIED (7), details: no key", true},
		{``, "rpc error: code = NotFound desc = no vault 7", true},
		{``, "# Codes\nstatus: PERMISSION_DENIED (7) is for callers without a key.\nstatus: OK (0) is for all others.", false},
		{``, "status: OK (0)", false},
		{``, "a003 NO [NONEXISTENT] Unknown Mailbox: Vault", true},
		{``, "a003 OK [READ-WRITE] SELECT completed", false},
		{``, "550 5.1.1 No such user here", true},
		{``, "250 2.1.5 Ok", false},
		{``, "404: vault e-7", true},
		{``, "404: return nil, errNoVault", false},
		{``, "404: func open(door int) {", false},
		{``, "BEGIN\nALTER TABLE\npsql:a.sql:3: ERROR:  column \"door\" contains null values\nROLLBACK", true},
		{``, "BEGIN\nUPDATE 3\nROLLBACK", false},
		{`{"command": "tail pg.log"}`, "BEGIN\npsql:a.sql:3: ERROR:  column \"door\" contains null values\nROLLBACK", false},
		{``, "ERROR:  syntax error at or near \"12\"\nLINE 1: 12 doors\n        ^", true},
		{``, "002003 (42S02): SQL compilation error:\nVault 'A' does not exist.", true},
		{``, "SELECT Dor FROM Vault\n       ^\nERROR at Row:1:Column:8\nNo such column 'Dor' on entity 'Vault'.", true},
		{``, "NOTICE:  table \"vault\" does not exist, skipping\nDROP TABLE", false},
		{`{"command": "node a.js"}`, "node:events:497\n      throw er; // Unhandled 'error' event\n      ^\n\n" +
			"Error: listen EADDRINUSE\n    at listen (node:net:1)\nEmitted 'error' event at:\n  code: 'EADDRINUSE'\n}", true},
		{`{"command": "cat a.js"}`, "function f(er) {\n      throw er; // Unhandled 'error' event\n}", false},
		{``, "● Unrecognized CLI Parameter:\n\n  Unrecognized option \"covrage\".", true},
		{`{"command": "convert a.png b.jpg"}`, "convert-im6.q16: improper image header `a.png' @ error/png.c/4092.", true},
		{`{"command": "ffmpeg -i a.mov b.mp4"}`, "[mov @ 0x5] moov atom not found\nError opening input file a.mov.", true},
		{`{"command": "gh pr merge 4"}`, "X Pull request a/b#4 is not mergeable.\nTo merge it later, add the `--auto` flag.", true},
		{``, "X Corporation makes vaults and doors for banks in nine countries.", false},
		{``, "nats: no responders available for request", true},
		{``, `{"data": {"checkout": {"checkout": null, "userErrors": [{"message": "Checkout is already completed."}]}}}`, true},
		{``, `{"data": {"checkout": {"checkout": {"id": 9}, "userErrors": []}}}`, false},
		{``, `{"data": {"lint": {"errors": [{"message": "line 3 is too long"}]}}}`, false},
		{``, `{"sucesso": false, "erro": {"codigo": "CPF_INVALIDO", "mensagem": "CPF inválido"}}`, true},
		{``, `{"sucesso": true, "erro": null, "mensagem": "CPF válido"}`, false},
		{``, `{"statut": 409, "erreur": "Le créneau n'est plus disponible", "creneaux": []}`, true},
		{``, `{"ok": false, "fehler": ["Wert muss größer als 0 sein"]}`, true},
		{``, `{"ok": true, "fehler": []}`, false},
		{``, `{"ok": false, "say": "Ye've only 12 gold, come back with 30."}`, true},
		{``, fmt.Sprintf(operation, "FAILED", `, "error": {"message": "at or near"}`), true},
		{``, fmt.Sprintf(operation, "SUCCEEDED", ""), false},
		{``, `{"job": "nightly", "status": {"state": "FAILED", "error": {"message": "at or near"}}}`, false},
		{``, `{"returncode": 1, "installed": [], "log": "pg_config executable not found."}`, true},
		{``, `{"returncode": 0, "installed": ["a"], "log": "pg_config: error: none"}`, false},
		{``, `{"job": "nightly", "returncode": 1, "log": "pg_config executable not found."}`, false},
		{``, `{"outputs": [{"output_type": "error", "ename": "RuntimeError", "evalue": "no memory"}]}`, true},
		{``, `{"cells": [{"outputs": [{"output_type": "error", "ename": "E"}]}], "nbformat": 4}`, false},
		{``, `{"name": "UNPROCESSABLE_ENTITY", "details": [{"issue": "NOT_APPROVED"}], "debug_id": "f1"}`, true},
		{``, `{"name": "SPRING_SALE", "details": [{"item": "a vault"}], "id": "f1"}`, false},
		{``, "<html><head><title>Just a moment...</title></head><body>Enable JavaScript</body></html>", true},
		{``, "Access to this page has been denied\n\nPlease verify you are a human\n\n- Javascript is disabled", true},
		{``, "How to fix it\n\nAccess to this page has been denied is what bots are told.", false},
		{``, "### Ran Playwright code\n```js\n```\n### Page state\n- Page URL: chrome-error://chromewebdata/", true},
		{``, "### Ran Playwright code\n```js\n```\n### Page state\n- Page URL: https://shop.example/", false},
		{`{"command": "make -j4"}`, "cc -c a.c\nmake: *** [Makefile:14: a.o] Error 1\nmake: *** Waiting for unfinished jobs....\n" +
			"cc -c b.c\ncc -c c.c\ncc -c d.c", true},
		{`{"command": "make"}`, "cc -c a.c\nmake: [Makefile:14: a.o] Error 1 (ignored)\ncc -c b.c", false},
		{`{"command": "./gradlew bootRun"}`, "2026-01-01 10:00:00 INFO a\n2026-01-01 10:00:01 INFO b\n\n> Task :bootRun FAILED", true},
		{``, "logs/a.log:12:error: connect ETIMEDOUT 10.0.0.8:443\nlogs/b.log:2:error: ENOENT: no such file", false},
		{``, "Result 1\nTitle: KeyError in merge\nResult 2\nTitle: merge\nSnippet: Exception: cannot merge", false},
		{``, "run,exit_code,stderr\n1,0,\n2,137,Killed\n3,1,Segmentation fault (core dumped)", false},
		{`{"command": "npx vitest run"}`, " RUN  v2.1.1\n\nstderr | a.test.ts > rejects\nError: Request failed with status code 500\n" +
			"    at f (a.ts:1:2)\n\n ✓ a.test.ts (9 tests)\n\n Test Files  2 passed (2)\n   Duration  601ms", false},
		{`{"text": "Vault failed"}`, "Text \"Vault failed\" appeared after 1.2 s", false},
		{`{"code": "run()"}`, "INFO  loading 2 files\nINFO  file 1 ok\nINFO  all merged\n" + stackHead +
			"\n  File \"a.py\", line 1, in f\nKeyError: 'x'", true},
		{`{"code": "print(open('a.log').read())"}`, "INFO  file one\nINFO  file two\nINFO  all merged\n" + stackHead +
			"\n  File \"a.py\", line 1, in f\nKeyError: 'x'", false},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := Read(c.text, Call{Arguments: json.Raw(c.arguments)}); got.Failed != c.failed {
				t.Errorf("%s %q: %+v", c.arguments, c.text, got)
			}
		})
	}
}
