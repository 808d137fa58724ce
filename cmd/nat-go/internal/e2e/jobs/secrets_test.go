package jobs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
	"github.com/nat-go/nat-go/internal/secret"
)

// plantedSecrets are kinds of secrets as a person would write them in a setting; the bars surround the secret.
var plantedSecrets = []string{
	"train --token |cnry-plain|", "train --token=|cnry-1-equals|", "train --api-key '|cnry quoted|'",
	"HF_TOKEN=|cnry| python train.py",
	"export OPENAI_KEY=|cnry-openai| && train", `curl -H "Authorization: Bearer |cnry-bearer-1|" http://x`, "Authorization: Basic |Y25yeTpjbnJ5MTIz|",
	"|hf_cnryAbCdEfGhIjKlMnOpQrSt0123|", "|sk-proj-cnryABCD1234567890efgh|", "|ghp_cnry16C7e42F292c6912E7710c838347Ae|",
	"|github_pat_cnry11ABCDEFG0abcdefghij|",
	"|AKIAIOSFODNN7CNRYAAA|", "|eyJjbnJ5IjoxfQ.eyJzdWIiOiJjbnJ5In0.cnryPq3xNlZ0aQ|",
	"http://user:|cnry-password|@host:80/x", "https://|cnrytokeninurl|@host/x",
	"|xoxb-cnry-123456789012-abcdef|", "|glpat-cnryABCD1234567890|", "|nvapi-cnryAbcdefghijklmnop0123|",
	"http://host/x?access_token=|cnry123def456|&y=1",
	"x-api-key: |cnry1234abcdef|", "AWS_SECRET_ACCESS_KEY=|cnryXUtnFEMI/K7MDENG/bPxRfiCY|",
	"login --password \"|cnry-pw|\"", "db_password=|cnry9Tr0ub4dor|",
	"-----BEGIN RSA PRIVATE KEY-----\n|MIIcnryIBAAKCAQEA|\n-----END RSA PRIVATE KEY-----",
	"PGPASS=|cnryplain|", "DB_PASS=|cnryword|", "psql with PGPASS=|cnryquiet| in it",
	"call it with Bearer |cnry0123abcd4567|, please",
	"send Bearer |cnrylettersonly|", "bearer |cnry-short|", "|squ_c4c40123456789abcdef0123456789abcdef0123|",
	"|dckr_pat_cnryAbCdEfGhIj0123456789klm|",
	"|CFPAT-cnry0123456789abcdefghijklmnopqrstuvwxyzAB|", "root:|cnry9pw|@tcp(db:3306)/x", "my password is |cnry9word|",
	"wandb login |c0c0e0f0123456789abcdef0123456789abcdef0|",
	"--pass |cnryflag|", "|oy2cnryabcdefghijklmnopqrstuvwxyz0123456789abcd|", "|AGE-SECRET-KEY-1CNRYQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54|",
	"user:|cnry4pass|@tcp(10.0.0.1)/", "Basic |Y25yeTpwYXNzd29yZA==|", "password = '|cnry$x9quoted|'",
}

// planted removes the bars: it returns the text, and the secret in it.
func planted(kind string) (text, hidden string) {
	before, rest, _ := strings.Cut(kind, "|")
	hidden, after, _ := strings.Cut(rest, "|")
	return before + hidden + after, hidden
}

// textFields lists the paths in a spec where a text is allowed; * is a key of a map, # the first element of a list.
func textFields(s *schema.Spec, path []string, depth int) (all [][]string) {
	if s == nil || depth > 6 {
		return nil
	}
	child := func(step string) []string { return append(path[:len(path):len(path)], step) }
	switch s.Kind {
	case schema.String, schema.Any:
		return [][]string{path}
	case schema.Object:
		for _, f := range s.Fields {
			all = append(all, textFields(f.Spec, child(f.Name), depth+1)...)
		}
	case schema.Map:
		if s.Elem == nil {
			return [][]string{child("*")}
		}
		all = textFields(s.Elem, child("*"), depth+1)
	case schema.List:
		if s.Elem == nil {
			return [][]string{child("#")}
		}
		all = textFields(s.Elem, child("#"), depth+1)
	case schema.Union:
		for _, one := range s.OneOf {
			all = append(all, textFields(one, path, depth+1)...)
		}
	}
	return all
}

// put returns a value with a text at the given path.
func put(path []string, text string) any {
	if len(path) == 0 {
		return text
	}
	switch path[0] {
	case "*":
		return map[string]any{"any_name": put(path[1:], text)}
	case "#":
		return []any{put(path[1:], text)}
	}
	return map[string]any{path[0]: put(path[1:], text)}
}

// TestNoSecretOfAConfigurationIsKept plants every kind of secret in every field of a configuration that takes text.
// Neither the copy in the run folder nor a finding contains it, and the code that masks what is printed knows it.
func TestNoSecretOfAConfigurationIsKept(t *testing.T) {
	types := builtin.Types()
	fields, checks := 0, 0
	check := func(section, typ string, path []string) {
		fields++
		for k := range 6 { // each kind is tried in every fourth field
			kind := plantedSecrets[(fields+4*k)%len(plantedSecrets)]
			text, hidden := planted(kind)
			block := put(path, text)
			if typ != "" {
				block.(map[string]any)["_type"] = typ
				block = map[string]any{"x": block}
			}
			file, err := yaml.Marshal(map[string]any{section: block})
			if err != nil {
				t.Fatal(err)
			}
			var values secret.Values
			c, found := config.Parse("c.yml", file, config.Options{
				Types:   types,
				Secrets: &values,
				Getenv:  func(string) (string, bool) { return "", false },
			})
			var out bytes.Buffer
			for _, color := range []bool{false, true} {
				_ = finding.Text(&out, found, color)
			}
			_ = finding.JSON(&out, found)
			if c != nil {
				source, err := c.Source()
				if err != nil {
					t.Fatal(err)
				}
				out.Write(source)
			}
			checks++
			if strings.Contains(out.String(), hidden) {
				t.Errorf("%s %s.%s: %q is in\n%.700s", section, typ, strings.Join(path, "."), hidden, out.String())
				return
			}
			if len(hidden) > 4 && strings.Contains(values.Redact("said "+hidden+" twice"), hidden) {
				t.Errorf("%s %s.%s: %q would be printed", section, typ, strings.Join(path, "."), hidden)
				return
			}
		}
	}
	for section, of := range map[string]map[string]config.Component{
		"sources":             types.Sources,
		"trajectory_builders": types.Builders,
		"trainers":            types.Trainers,
		"trainer_adapters":    types.Adapters,
	} {
		for typ, component := range of {
			spec := component.Spec
			if spec == nil && component.Config != nil {
				spec = schema.MustOf(component.Config)
			}
			for _, path := range textFields(spec, nil, 0) {
				check(section, typ, path)
			}
		}
	}
	for section, into := range map[string]any{
		"collator":   config.Collator{},
		"dataset":    config.Dataset{},
		"finetuning": config.Finetuning{},
	} {
		for _, path := range textFields(schema.MustOf(into), nil, 0) {
			check(section, "", path)
		}
	}
	if fields < 100 || checks < 600 {
		t.Errorf("only %d fields were tried, %d times", fields, checks)
	}
	t.Logf("%d fields, %d configurations", fields, checks)
}

// leaky is a run with a local trainer that prints everything it was given, with secrets in its command, its variables
// and elsewhere.
type leaky struct {
	*e2e.Project
	secrets   []string
	variables []string // in the copy of the configuration in place of secrets
}

const trainerKey = "-----BEGIN PRIVATE KEY-----\ncnryMultiLineFirst0123456789abcdefgh\ncnryMultiLineSecond123456789abcdefg\n-----END PRIVATE KEY-----"

func newLeaky(t *testing.T, script string) *leaky {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	input, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := &leaky{Project: &e2e.Project{Dir: t.TempDir(), Input: input, Exe: e2e.Program(t)}}
	script = `printf 'granted %s\nmulti %s\nset %s\nargs %s\n' "$CNRY_GRANTED" "$CNRY_KEY" "$OPENAI_KEY" "$*"; ` + script
	command := []string{"/bin/sh", "-c", script, "train"}
	for _, kind := range plantedSecrets {
		text, hidden := planted(kind)
		command = append(command, text)
		p.secrets = append(p.secrets, hidden)
	}
	command = append(command, "--token", "cnry-two-words")
	p.secrets = append(p.secrets, "cnry-two-words", "cnry-granted-value", "cnryMultiLineFirst", "cnryMultiLineSecond",
		"cnry-set-value", "cnry-override", "cnry-of-teacher",
		base64.StdEncoding.EncodeToString([]byte("cnry-granted-value")))
	p.secrets = deleteShort(p.secrets)
	for i, word := range command {
		p.variables = append(p.variables, fmt.Sprintf("NATGO_TRAINER_ADAPTERS_A_COMMAND_%d=%s", i, word))
	}
	p.variables = append(p.variables, "NATGO_TRAINER_ADAPTERS_A_SET_OPENAI_KEY=cnry-set-value",
		"NATGO_TRAINER_ADAPTERS_C_HF_TOKEN=cnry-override",
		"NATGO_TRAINER_ADAPTERS_C_ENTITY_HOST=http://user:cnry-password@127.0.0.1:1", "NATGO_COLLATOR_TEACHER_API_KEY=cnry-of-teacher")
	text, err := yaml.Marshal(map[string]any{
		"trajectory_builders": map[string]any{"b": map[string]any{"_type": "dpo_traj_builder"}},
		"trainers":            map[string]any{"t": map[string]any{"_type": "nemo_customizer_trainer"}},
		"trainer_adapters": map[string]any{"a": map[string]any{
			"_type":         "exec_trainer_adapter",
			"command":       command,
			"poll_interval": "20ms",
			"stop_timeout":  "2s",
			"env":           []string{"CNRY_GRANTED", "CNRY_KEY"},
			"set":           map[string]string{"OPENAI_KEY": "cnry-set-value"},
		}, "c": map[string]any{
			"_type": "nemo_customizer_trainer_adapter", "entity_host": "http://user:cnry-password@127.0.0.1:1",
			"datastore_host": "http://127.0.0.1:1", "namespace": "n", "customization_config": "x",
		}},
		"dataset": map[string]any{"formats": []string{"trl"}},
		"collator": map[string]any{"teacher": map[string]any{
			"endpoint": "http://127.0.0.1:1",
			"api_key":  "cnry-of-teacher",
			"model":    "m",
		}},
		"finetuning": map[string]any{
			"enabled":            true,
			"trainer":            "t",
			"trajectory_builder": "b",
			"trainer_adapter":    "a",
			"output_dir":         "out",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "finetune.yml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// deleteShort removes secrets that are too short to be told apart from other words.
func deleteShort(list []string) (out []string) {
	for _, s := range list {
		if len(s) > 4 {
			out = append(out, s)
		}
	}
	return out
}

func (p *leaky) cmd(args ...string) *exec.Cmd {
	cmd := exec.Command(p.Exe, args...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "CNRY_GRANTED=cnry-granted-value", "CNRY_KEY="+trainerKey)
	return cmd
}

func (p *leaky) run(more ...string) *exec.Cmd {
	return p.cmd(append([]string{
		"finetune", "run", "--config-file", "finetune.yml", "--from", p.Input, "--run-id", "r1", "--metrics",
		filepath.Join(p.Dir, "metrics.prom"),
		"-o", "trainer_adapters.c.hf_token=cnry-override",
	}, more...)...)
}

// look searches what was printed and every file that was written, except the configuration and the trainer's own
// output.
func (p *leaky) look(t *testing.T, printed string) {
	t.Helper()
	grep := func(where, text string) {
		for _, s := range p.secrets {
			if strings.Contains(text, s) {
				at := strings.Index(text, s)
				t.Errorf("%s: %q in ...%s...", where, s, text[max(0, at-100):min(len(text), at+100)])
			}
		}
	}
	grep("the terminal", printed)
	err := filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "finetune.yml" ||
			strings.HasSuffix(path, filepath.Join("trainer", "output.log")) {
			return err
		}
		b, err := os.ReadFile(path)
		grep(path, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoSecretGetsOut plants secrets in a run and looks for them after each way in which it can end.
func TestNoSecretGetsOut(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		flags  []string
		end    func(t *testing.T, cmd *exec.Cmd, out func() string)
		later  [][]string // commands run on it afterwards
		code   int
	}{
		"completes": {
			script: "exit 0",
			later: [][]string{
				{"finetune", "status", "out/r1"},
				{"finetune", "wait", "out/r1"},
				{"dataset", "verify", "out/r1"},
			},
		},
		"fails":   {script: `echo "bad token cnry-two-words $CNRY_KEY" >&2; exit 3`, code: 1, later: [][]string{{"finetune", "status", "out/r1", "--json"}, {"finetune", "list"}}},
		"json":    {script: "exit 4", flags: []string{"--json"}, code: 1},
		"dry run": {script: "exit 0", flags: []string{"--dry-run"}},
		"detached": {
			script: "sleep 0.2; exit 5",
			flags:  []string{"--detach"},
			later:  [][]string{{"finetune", "wait", "out/r1"}, {"finetune", "cancel", "out/r1"}},
		},
		"usage":         {script: "exit 0", flags: []string{"--seed", "hf_cnryAbCdEfGhIjKlMnOpQrSt0123"}, code: 2},
		"a bad setting": {script: "exit 0", flags: []string{"-o", "trainer_adapters.a.poll_interval=hf_cnryAbCdEfGhIjKlMnOpQrSt0123"}, code: 2},
		"an unknown key": {
			script: "exit 0",
			flags:  []string{"-o", "trainer_adapters.a.comand=--token=cnry-1-equals"},
			code:   2,
		},
		"another's service": {script: "exit 0", flags: []string{"--trainer-adapter", "c"}, code: 3},
		"cannot start":      {script: "exit 0", flags: []string{"-o", `trainer_adapters.a.env=["CNRY_GRANTED", "CNRY_UNSET"]`}, code: 3},
		"interrupted": {
			script: "echo ready; sleep 20",
			code:   130,
			end: func(t *testing.T, cmd *exec.Cmd, out func() string) {
				wait(t, func() bool { return strings.Contains(out(), "ready") })
				_ = cmd.Process.Signal(syscall.SIGINT)
			},
			later: [][]string{{"finetune", "cancel", "out/r1"}, {"finetune", "status", "out/r1"}},
		},
		"killed": {script: "echo ready; sleep 1", code: -1, end: func(t *testing.T, cmd *exec.Cmd, out func() string) {
			wait(t, func() bool { return strings.Contains(out(), "ready") })
			_ = cmd.Process.Kill()
		}, later: [][]string{{"finetune", "resume", "out/r1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLeaky(t, c.script)
			cmd := p.run(c.flags...)
			printed := new(lockedBuffer)
			cmd.Stdout, cmd.Stderr = printed, printed
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if c.end != nil {
				c.end(t, cmd, printed.String)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d, want %d\n%s", code, c.code, printed.String())
			}
			p.look(t, printed.String())
			for _, args := range c.later {
				cmd := p.cmd(args...)
				cmd.Env = append(cmd.Env, p.variables...)
				out, _ := cmd.CombinedOutput()
				p.look(t, string(out))
			}
		})
	}
}

// TestServicesEchoIsNotKept: a service that answers 429 or 500 with the token it was sent leaves no trace of it in
// job.json.
func TestServicesEchoIsNotKept(t *testing.T) {
	for _, status := range []int{429, 500, 422} {
		s := &customizertest.Service{Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path != "/v1/customization/jobs" {
				return false
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"detail": "%s and %s are bad, and %s"}`, r.Header.Get("Authorization"), r.Header.Get("wandb-api-key"),
				base64.StdEncoding.EncodeToString([]byte(r.Header.Get("Authorization"))))
			return true
		}}
		p := newProject(t, s, "")
		r := e2e.Finish(t, p.Command(p.RunArgs()...))
		if r.Code == 0 {
			t.Errorf("%d: %s", status, r.Stderr)
		}
		noSecrets(t, p.Project)
	}
}

func wait(t *testing.T, done func() bool) {
	t.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("waited in vain")
}

// lockedBuffer holds what a program prints, and can be read while it runs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNoSecretGetsOutLater runs the other commands that read a configuration, or what was made with it, and looks for
// the secrets in all they print and write.
func TestNoSecretGetsOutLater(t *testing.T) {
	p := newLeaky(t, "exit 0")
	plan := filepath.Join("sh", "s.shards")
	withoutTrainer := []string{
		"-o", "finetuning.trainer_adapter=f", "-o", "trainer_adapters.f._type=files_trainer_adapter",
	}
	for _, c := range []struct {
		args  []string
		input string
		code  int
	}{
		{args: p.run().Args[1:]},
		{args: []string{"finetune", "run", "--config-file", "finetune.yml", "--from", p.Input, "--run-id", "r2"}},
		{args: []string{"dataset", "convert", "out/r1", "--format", "kto"}},
		{args: []string{"dataset", "merge", "out/r1", "out/r2", "--run-id", "both"}},
		{args: []string{"dataset", "stats", "out/r1", "--json"}},
		{args: []string{"dataset", "show", "out/r1"}},
		{args: []string{"view", "out/r1", "--export", "page.html"}},
		{args: []string{"view", "out/r1", "out/both", "--export", "pages.html"}},
		{args: []string{"inspect", p.Input}},
		{args: []string{"inspect", "out/r1/config.yml"}, code: 2},
		{args: []string{"init", p.Input, "--write", "other.yml"}},
		{args: append([]string{
			"shard", "plan", "--config-file", "finetune.yml", "--from", p.Input, "--run-id", "s", "--output-dir", "sh",
			"--shards", "2",
		}, withoutTrainer...)},
		{args: []string{"shard", "script", "slurm", plan}},
		{args: []string{"shard", "script", "k8s", plan, "--image", "nat-go", "--claim", "data"}},
		{args: []string{"shard", "script", "ray", plan}},
		{args: []string{"shard", "run", plan, "--index", "0"}},
		{args: []string{"shard", "run", plan, "--index", "1"}},
		{args: []string{"shard", "status", plan}},
		{args: []string{"shard", "merge", plan}},
		{args: []string{"builders", "try", "dpo", "--from", p.Input, "--config-file", "finetune.yml"}},
		{args: []string{"builders", "new", "mine", "--lang", "go"}},
		{args: []string{"doctor", "trl", "out/r1"}, code: 2},
		{args: []string{"collate"}, input: "\x48\x00\x00\x00" +
			`{"teacher": {"api_key": "cnry-of-teacher"}, "hf_token": "cnry-override"}`, code: 2},
	} {
		cmd := p.cmd(c.args...)
		cmd.Env = append(append(cmd.Env, p.variables...), "XDG_CACHE_HOME="+filepath.Join(p.Dir, "cache"))
		cmd.Stdin = strings.NewReader(c.input)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%q: exit %d, want %d\n%s", c.args, code, c.code, out)
		}
		p.look(t, string(out))
	}
}
