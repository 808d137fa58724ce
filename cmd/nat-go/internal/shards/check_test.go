package shards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/source"
)

// TestForgedPlan checks that a plan with a correct sum, which anyone can compute, is rejected if no real plan could
// have its content.
func TestForgedPlan(t *testing.T) {
	long := strings.Repeat("x", maxRequestBytes)
	for name, c := range map[string]struct {
		forge func(*Plan)
		says  string
	}{
		"commands in the id": {func(p *Plan) { p.RunID = "r\nrm -r x" }, "invalid run id"},
		"a path as the id":   {func(p *Plan) { p.RunID = "../r" }, "invalid run id"},
		"escapes in the id":  {func(p *Plan) { p.RunID = "r\x1b[2J" }, "invalid run id"},
		"no shards":          {func(p *Plan) { p.Shards = nil }, "invalid number of shards 0"},
		"too many shards":    {func(p *Plan) { p.Shards = make([]Shard, MaxShards+1) }, "a plan has 1 to 100000"},
		"another input":      {func(p *Plan) { p.Shards[0].Parts[0].Input = 1 }, "unknown input 1"},
		"a negative input":   {func(p *Plan) { p.Shards[0].Parts[0].Input = -1 }, "unknown input -1"},
		"a negative row":     {func(p *Plan) { p.Shards[0].Parts[0].From.Row = -1 }, "before the start of input"},
		"a negative offset":  {func(p *Plan) { p.Shards[0].Parts[0].To.Offset = -1 }, "before the start of input"},
		"an end before":      {func(p *Plan) { p.Shards[0].Parts[0].From.Row = 9 }, "ends before it begins"},
		"a negative count":   {func(p *Plan) { p.Shards[0].Examples = -1 }, "invalid size of shard 0: -1 examples"},
		"ids from elsewhere": {func(p *Plan) { p.Shards[0].Named = &runfolder.File{Path: "../x"} }, `0 bytes in the file "../x"`},
		"a large request":    {func(p *Plan) { p.Request = []byte(`"` + long + `"`) }, "invalid request of"},
		"too many ids":       {func(p *Plan) { p.Shards[0].Named = named0(maxNamedBytes + 1) }, "invalid ids of shard"},
		"a sound plan":       {func(*Plan) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := Folder(t.TempDir())
			p := &Plan{
				Version: Version, RunID: "r", Request: []byte(`{}`), Decided: runfolder.NewDecided(""),
				Inputs: make([]source.Input, 1),
				Shards: []Shard{{Parts: []Part{{Part: source.Part{To: source.Cursor{Row: 3, Offset: 9}}}}}},
			}
			c.forge(p)
			if err := f.Write(p); err != nil {
				t.Fatal(err)
			}
			_, err := f.Read()
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func named0(bytes int64) *runfolder.File { return &runfolder.File{Path: namedPath(0), Bytes: bytes} }

// TestForgedManifest checks that a shard's manifest may name only files in the shard's folder, and only a possible
// number of groups.
func TestForgedManifest(t *testing.T) {
	for name, c := range map[string]struct {
		done Done
		says string
	}{
		"a file elsewhere": {Done{Files: []runfolder.File{{Path: "../../x"}}}, `invalid file "../../x"`},
		"a path from root": {Done{Files: []runfolder.File{{Path: "/etc/x"}}}, `invalid file "/etc/x"`},
		"a file twice":     {Done{Files: []runfolder.File{{Path: "a"}, {Path: "a"}}}, `invalid file "a"`},
		"a negative size":  {Done{Files: []runfolder.File{{Path: "a", Bytes: -1}}}, "of -1 bytes"},
		"no end of groups": {Done{Groups: 1 << 63}, "groups"},
		"a sound one":      {Done{Files: []runfolder.File{{Path: "records/records.log", Bytes: 1}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Parts{Dir: Folder(t.TempDir()), Plan: &Plan{Sum: "s"}}
			folder := p.Dir.Shard(Build, 0)
			if err := os.MkdirAll(string(folder), 0o700); err != nil {
				t.Fatal(err)
			}
			c.done.Plan, c.done.Stage = p.Plan.Sum, Build
			if err := WriteDone(folder, &c.done); err != nil {
				t.Fatal(err)
			}
			_, err := p.ReadDone(Build, 0)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// TestManyObjects checks that a plan with more objects than any real plan is rejected before the objects are created.
func TestManyObjects(t *testing.T) {
	f := Folder(t.TempDir())
	text := `{"plan_version":2,"shards":[` + strings.Repeat("{},", maxObjects) + `{}]}`
	if err := os.WriteFile(filepath.Join(string(f), planName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "objects") {
		t.Errorf("%v", err)
	}
}
