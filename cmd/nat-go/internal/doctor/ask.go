package doctor

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/process"
)

// askTRL is the script that queries TRL.
//
//go:embed ask_trl.py
var askTRL []byte

// Trainer is a trainer to query, with the Python in which it is installed.
type Trainer struct {
	Python  string        // path or name of the interpreter
	Timeout time.Duration // time limit for each input
	// Settings are the trainer's settings (SFTConfig, DPOConfig) that differ from its defaults.
	Settings  map[string]any
	Tokenizer string // folder of the tokenizer
	Template  string // source of the chat template
}

// Limits on a script's answer.
const (
	maxAnswer  = 64 << 20  // maximum size of a line in bytes
	maxAnswers = 512 << 20 // maximum total size in bytes
	maxStderr  = 4 << 10   // number of bytes kept from the end of the script's standard error
)

// granted lists the environment variables that the script inherits. These variables let Python find its packages, and
// don't contain credentials.
var granted = []string{
	"PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
	"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX",
}

// answer is a line from the script.
type answer struct {
	Kind     string            `json:"kind"`
	Versions map[string]string `json:"versions"`
	Row      int               `json:"row"`
	Sides    map[string]struct {
		IDs     []int32 `json:"ids"`
		Trained []int8  `json:"trained"`
	} `json:"sides"`
	Code string `json:"code"`
	Text string `json:"text"`
}

// asked is the trainer's answer for an input.
type asked struct {
	versions map[string]string
	sides    map[int][]Side // keyed by row number, starting at 0; rows that the trainer omits are missing
	notes    []string
	done     bool
}

// errAnswered is the reason given for killing a script whose answer is complete or invalid.
var errAnswered = errors.New("already answered")

// ask makes the trainer tokenise an input's rows. scratch is an empty folder.
func (t *Trainer) ask(ctx context.Context, in *Input, scratch string) (*asked, error) {
	script, rows := filepath.Join(scratch, "ask.py"), filepath.Join(scratch, "rows.jsonl")
	question, err := json.Marshal(map[string]any{
		"method": in.Method, "tokenizer": t.Tokenizer, "template": t.Template, "settings": t.Settings,
		"rows": rows, "scratch": filepath.Join(scratch, "trainer"),
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(script, askTRL, 0o600), os.WriteFile(rows, in.numbered(), 0o600)); err != nil {
		return nil, exit.Environmentf("can't write the trainer's input: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	last := &tail{limit: maxStderr}
	var a *asked
	var listened error
	answered := make(chan struct{})
	p, err := process.Start(process.Config{
		Args: []string{t.Python, "-B", script}, Env: environ(scratch), Dir: scratch, Input: true,
		Stdout: func(r io.Reader) {
			a, listened = t.listen(r, in)
			close(answered)
		},
		Stderr: func(r io.Reader) { _, _ = io.Copy(last, r) },
	})
	if err != nil {
		return nil, exit.Environmentf("can't start Python: %w; use --python or NATGO_TRAINER_PYTHON to specify "+
			"one in which the trainer is installed", err)
	}
	defer context.AfterFunc(ctx, func() { p.Kill(ctx.Err()) })()
	go func() {
		_, _ = p.Stdin.Write(append(question, '\n')) // if the write fails, the missing answer is reported
		p.Stdin.Close()
	}()
	<-answered // wait: when ctx is done, the script is killed and its output ends
	late, ended := ctx.Err(), a.done || listened != nil
	if ended { // the rest of the output isn't needed
		p.Kill(errAnswered)
	}
	waited := p.Err()
	if late == nil && !ended {
		late = ctx.Err() // the script may have closed its output without exiting
	}
	switch {
	case errors.Is(late, context.DeadlineExceeded):
		return nil, exit.Environmentf("%s did not answer within %s (--timeout)", t.Python, t.Timeout)
	case late != nil:
		return nil, exit.With(exit.Interrupted, late)
	case listened != nil:
		return nil, listened
	case !a.done:
		return nil, exit.Environmentf("%s exited before answering (%v); its last output: %s", t.Python, waited, last)
	}
	return a, nil
}

// numbered returns the rows as JSON lines with an additional column for the row number. The number matches answers to
// rows, because a trainer may drop rows.
func (in *Input) numbered() []byte {
	var b bytes.Buffer
	for _, r := range in.rows {
		fmt.Fprintf(&b, `{"nat_go_row": %d, %s`+"\n", r.number, bytes.TrimLeft(r.line, "{ \t\r\n"))
	}
	return b.Bytes()
}

// listen reads the script's answers until it is done or reports an error.
func (t *Trainer) listen(out io.Reader, in *Input) (*asked, error) {
	a := &asked{sides: map[int][]Side{}}
	for line, err := range lines.Read(io.LimitReader(out, maxAnswers), maxAnswer) {
		if err != nil {
			return a, exit.Environmentf("can't read the answer from %s: %w", t.Python, err)
		}
		var x answer
		if err := json.Unmarshal(line, &x); err != nil {
			return a, exit.Environmentf("%s answered %.200q, which is not JSON", t.Python, line)
		}
		switch x.Kind {
		case "versions":
			a.versions = x.Versions
		case "note":
			if len(a.notes) < 20 {
				a.notes = append(a.notes, x.Text)
			}
		case "row":
			if err := a.row(&x, in); err != nil {
				return a, exit.Environmentf("invalid answer from %s: %w", t.Python, err)
			}
		case "error":
			return a, t.refusal(&x, a.versions["trl"])
		case "done":
			a.done = true
			return a, nil
		}
	}
	return a, nil
}

func (t *Trainer) refusal(x *answer, version string) error {
	if x.Code == "missing" {
		return exit.Environmentf("%s lacks a package: %.500s; install it there (%s -m pip install trl), or specify "+
			"another Python with --python or NATGO_TRAINER_PYTHON", t.Python, x.Text, t.Python)
	}
	return exit.Failedf("TRL %s rejects these rows or settings: %s", version, x.Text)
}

// row adds the answer for one row.
func (a *asked) row(x *answer, in *Input) error {
	if x.Row < 0 || x.Row >= len(in.rows) || a.sides[x.Row] != nil {
		return fmt.Errorf("unknown or repeated row %d", x.Row)
	}
	for _, name := range sideNames[in.Method] {
		s, ok := x.Sides[name]
		if !ok || len(s.IDs) != len(s.Trained) {
			return fmt.Errorf("row %d has %d ids and %d mask values on the %s side", x.Row, len(s.IDs),
				len(s.Trained), name)
		}
		side := Side{Name: name, IDs: s.IDs, Trained: make([]bool, len(s.IDs))}
		for i, t := range s.Trained {
			side.Trained[i] = i > 0 && t != 0
		}
		a.sides[x.Row] = append(a.sides[x.Row], side)
	}
	return nil
}

// environ returns the script's environment, which contains no credentials, makes Hugging Face's libraries work
// offline, and redirects their caches to scratch.
func environ(scratch string) []string {
	env := []string{
		"HF_HOME=" + filepath.Join(scratch, "hf"), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1",
		"TRANSFORMERS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1",
		"CUDA_VISIBLE_DEVICES=", "TOKENIZERS_PARALLELISM=false", "WANDB_MODE=disabled", "PYTHONUNBUFFERED=1",
	}
	for _, name := range granted {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	slices.Sort(env)
	return env
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	text  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b[max(0, len(b)-t.limit):]...)
	t.text = t.text[max(0, len(t.text)-t.limit):]
	return len(b), nil
}

func (t *tail) String() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?")), "\n")
	return fmt.Sprintf("%q", strings.Join(lines[max(0, len(lines)-5):], "\n"))
}
