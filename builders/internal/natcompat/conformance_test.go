package natcompat

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// recorder keeps what a builder emits.
type recorder struct {
	records []*builders.Preference
	counts  map[string]int64
	order   []string // names of the counters
}

func (r *recorder) Record(rec builders.Record) error {
	r.records = append(r.records, rec.(*builders.Preference))
	return nil
}

func (r *recorder) Drop(d ledger.Drop) error { return fmt.Errorf("NAT reports no drops, got %v", d) }

func (r *recorder) Count(name string, n int64) error {
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	r.counts[name] += n
	r.order = append(r.order, name)
	return nil
}

// buildRun reads the file of a collection run as a NAT-exact run does and builds its pairs.
func buildRun(t *testing.T, path string, cfg dpo.Config) (*recorder, error) {
	t.Helper()
	ctx := context.Background()
	sc := schema.New[readers.NATConfig]()
	src, err := readers.NAT().Open(ctx, &sc, path, source.Options{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	g := &ttc.Group{}
	for {
		ex, _, err := src.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		g.Examples = append(g.Examples, ex)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	return out, b.Build(ctx, g, out)
}

// collection prints records as NAT's TrajectoryCollection.
func collection(records []*builders.Preference, runID string) json.Raw {
	b := []byte(`{"trajectories": [`)
	last := ""
	for i, r := range records {
		id, _ := r.Metadata.Get("example_id")
		switch {
		case i == 0:
			b = append(b, '[')
		case string(id) != last:
			b = append(b, "], ["...)
		default:
			b = append(b, ", "...)
		}
		last = string(id)
		b = append(b, `{"episode": [{"prompt": `...)
		if r.Prompt.Ref.Part == builders.InlineMessages {
			b = append(b, '[')
			for k, m := range r.Prompt.Messages {
				if k > 0 {
					b = append(b, ", "...)
				}
				b = json.AppendASCII(append(b, `{"role": `...), m.Role)
				b = append(json.AppendASCII(append(b, `, "content": `...), m.Text), '}')
			}
			b = append(b, ']')
		} else {
			b = json.AppendASCII(b, r.Prompt.Text)
		}
		b = json.AppendASCII(append(b, `, "chosen_response": `...), r.Chosen.Text)
		b = json.AppendASCII(append(b, `, "rejected_response": `...), r.Rejected.Text)
		b = pyvalue.AppendJSONFloat(append(b, `}], "reward": `...), r.Reward)
		b = append(append(append(b, `, "shaped_rewards": null, "metadata": `...), r.Metadata...), '}')
	}
	if len(records) > 0 {
		b = append(b, ']')
	}
	return append(json.AppendASCII(append(b, `], "run_id": `...), runID), '}')
}

// canonical returns the Python repr of a value, which shows its type, its order and every digit.
func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	r, err := json.Parse(raw, json.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := pyvalue.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pyvalue.Repr(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func conformanceCases(t *testing.T) []string {
	t.Helper()
	return oracletest.Glob(t, "nat", "cases", "*")
}

func caseConfig(t *testing.T, dir string) dpo.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Builders map[string]yaml.Node `yaml:"trajectory_builders"`
	}
	if err := yaml.Unmarshal(expandDefaults(text), &file); err != nil {
		t.Fatal(err)
	}
	cfg := schema.New[dpo.Config]()
	node := file.Builders["b"]
	if err := node.Decode(&cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func expandDefaults(text []byte) []byte {
	return []byte(os.Expand(string(text), func(name string) string {
		_, def, _ := strings.Cut(name, ":-")
		return def
	}))
}

func TestNATsOwnCases(t *testing.T) {
	for _, dir := range conformanceCases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			cfg := caseConfig(t, dir)
			for k := 0; ; k++ {
				in, want := "workflow_output.json", "trajectories.json"
				if k > 0 {
					in, want = fmt.Sprintf("workflow_output_run%d.json", k), fmt.Sprintf("trajectories_run%d.json", k)
				}
				if _, err := os.Stat(filepath.Join(dir, "input", in)); err != nil {
					break
				}
				out, err := buildRun(t, filepath.Join(dir, "input", in), cfg)
				expected, fileErr := os.ReadFile(filepath.Join(dir, "expected", want))
				if fileErr != nil {
					if err == nil {
						t.Errorf("run %d: NAT made no collection, we made %d pairs", k, len(out.records))
					}
					continue
				}
				if err != nil {
					t.Fatalf("run %d: %v", k, err)
				}
				runID := fmt.Sprintf("oracle_run%d", k)
				if got, want := canonical(t, collection(out.records, runID)), canonical(t, expected); got != want {
					t.Errorf("run %d:\ngot  %.2000s\nwant %.2000s", k, got, want)
				}
				checkMetrics(t, filepath.Join(dir, "expected", "metrics.json"), k, out.counts)
			}
		})
	}
}

func checkMetrics(t *testing.T, path string, k int, got map[string]int64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Parse(text, json.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(key string) json.Raw {
		list, _ := raw.Get(key)
		i := 0
		for v := range list.Elements() {
			if i == k {
				return v
			}
			i++
		}
		return nil
	}
	for key, v := range at("builder").Members() {
		name, _ := key.Text()
		if want, ok := v.Int64(); ok && got[name] != want {
			t.Errorf("run %d: %s is %d, NAT has %d", k, name, got[name], want)
		}
	}
	if want, ok := at("steps_rejected_by_model").Int64(); ok && got["steps_rejected_by_model"] != want {
		t.Errorf("run %d: %d steps rejected, NAT rejects %d", k, got["steps_rejected_by_model"], want)
	}
}
