package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/internal/terminal"
)

func TestProgress(t *testing.T) {
	build := finetune.Progress{Step: "build", Done: 44 << 20, Total: 88 << 20, Unit: finetune.UnitByte, Detail: "1000 examples, 84000 records"}
	for _, c := range []struct {
		name     string
		p        finetune.Progress
		terminal bool
		want     string
	}{
		{"a file", build, false, "build   50 %  44.0 of 88.0 MiB, 1000 examples, 84000 records\n"},
		{"a bar", build, true, "\r\x1b[Kbuild  [############------------]   50 %  44.0 of 88.0 MiB, 1000 examples, 84000 records"},
		{"a pipe", finetune.Progress{Step: "build", Done: 3 << 19, Unit: finetune.UnitByte}, true, "\r\x1b[Kbuild  1.5 MiB"},
		{"records", finetune.Progress{Step: "write", Done: 10, Total: 40, Unit: "record"}, false, "write   25 %  10 of 40 records\n"},
		{"a wait", finetune.Progress{Step: "wait for the trainer"}, false, "wait for the trainer\n"},
		{"words", finetune.Progress{Text: "training: running"}, false, "training: running\n"},
	} {
		var out bytes.Buffer
		p := &progress{w: terminal.NewWriter(&out), terminal: c.terminal}
		p.show(c.p)
		p.show(c.p) // too soon
		if got := out.String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestProgressIsRare(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.show(finetune.Progress{Step: "build", Unit: finetune.UnitByte})
	if out.Len() > 0 {
		t.Errorf("a run that just began says %q", out.String())
	}
	p.last = time.Now().Add(-lineEvery)
	p.show(finetune.Progress{Step: "build", Unit: finetune.UnitByte})
	if out.Len() == 0 {
		t.Error("nothing is said after 10 s")
	}
}

// TestClosedOutputIsTold: a command whose output nobody reads says so, with the code of the environment.
func TestClosedOutputIsTold(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	for _, args := range [][]string{{"formats"}, {"version"}, {"explain", "--json"}} {
		var stderr strings.Builder
		code := Program{}.Main(args, strings.NewReader(""), w, &stderr)
		if code != exit.Environment || !strings.Contains(stderr.String(), "not all of the output was written") {
			t.Errorf("%v: exit %d: %s", args, code, stderr.String())
		}
		if strings.Count(stderr.String(), "broken pipe") != 1 {
			t.Errorf("%v says it more than once: %s", args, stderr.String())
		}
	}
}
