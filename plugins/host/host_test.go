package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

var testPlugin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "natgo-host")
	if err != nil {
		panic(err)
	}
	testPlugin = filepath.Join(dir, "plugin")
	if out, err := exec.Command("go", "build", "-o", testPlugin, "./testdata/plugin").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "can't build the test plugin: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// group makes a group of one example with candidates whose outputs have about size bytes.
func group(i, candidates, size int) *ttc.Group {
	ex := &ttc.Example{ID: fmt.Sprintf("ex%d", i), Row: int64(i), File: "f.json"}
	for c := range candidates {
		ex.Candidates = append(ex.Candidates, ttc.Candidate{
			Step: "move", Turn: "t0", Index: int64(c), Prompt: ttc.Prompt{Text: fmt.Sprintf("prompt %d", i)},
			Output: fmt.Sprintf("answer %d %d %s", i, c, strings.Repeat("x", size)), Score: float64(c),
		})
	}
	return &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}}
}

// collect sends groups and returns their results.
func collect(t *testing.T, s *Session, groups []*ttc.Group) ([]Result, error) {
	t.Helper()
	ctx := t.Context()
	go func() {
		defer s.CloseSend()
		for _, g := range groups {
			if s.Send(ctx, g) != nil {
				return
			}
		}
	}()
	var out []Result
	for {
		r, err := s.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
}

func TestPipeline(t *testing.T) {
	for _, instances := range []int{1, 3} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			t.Parallel()
			p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin, Instances: instances}, zerolog.New(zerolog.NewTestWriter(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s, err := p.Open(context.Background(), "pairs", "mine", []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var groups []*ttc.Group
			for i := range 2000 {
				groups = append(groups, group(i, 8, 1000))
			}
			got, err := collect(t, s, groups)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(groups) {
				t.Fatalf("%d results of %d groups", len(got), len(groups))
			}
			for i, r := range got {
				if r.Group != groups[i] || len(r.Records) != 7 || r.Err != nil {
					t.Fatalf("result %d: group %v, %d records, %v", i, r.Group.Key, len(r.Records), r.Err)
				}
				if p := r.Records[3].(*builders.Preference); p.ChosenIndex != 3 || p.RejectedScore != 4 || string(p.Metadata) != `{"pair":true}` {
					t.Fatalf("record %+v", p)
				}
			}
		})
	}
}
