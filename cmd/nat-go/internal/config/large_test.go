package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// TestLargeFilesEnd checks that files with a hundred thousand mistakes, and short files that would expand to gigabytes,
// end in a bounded number of findings, and that what is allocated on the way is bounded, too: work that grows with the
// square of the number of keys allocates far more.
func TestLargeFilesEnd(t *testing.T) {
	const n = 30_000
	many := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, strings.ReplaceAll(format, "#", "%[1]d"), i)
		}
		return b.String()
	}
	value := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, text string
		most       uint64 // MiB allocated
		code       string // among the findings
	}{
		{"unknown keys", "dataset:\n" + many("  key_#: 1\n"), 160, yamldoc.CodeMore},
		{"unknown sections", many("key_#: 1\n"), 200, yamldoc.CodeMore},
		{"a key set again and again", "dataset:\n" + strings.Repeat("  formats: trl\n", n), 120, yamldoc.CodeMore},
		{"components", "trainers:\n" + many("  t#: {_type: nemo_customizer_trainer}\n"), 250, codeNotEnabled},
		{"unset variables on one line", "sources: {a: {_type: workflow_output, path: [" + many(`"${V#}",`) + "]}}", 250, yamldoc.CodeMore},
		{
			"one variable in one text",
			"sources: {a: {_type: workflow_output, path: '" + strings.Repeat("${V}", n) + "'}}",
			60,
			codeUnset,
		},
		{
			"a long variable in one text",
			"sources: {a: {_type: workflow_output, path: '" + strings.Repeat("${LONG}", n) + "'}}",
			60,
			codeReference,
		},
		{
			"a long variable in many",
			"sources: {a: {_type: workflow_output, path: [" + strings.Repeat("'${LONG}',", n) + "]}}",
			250,
			codeReference,
		},
		{
			"a long text, aliased",
			"sources: {a: {_type: workflow_output, path: [&x '" + value + "'" + strings.Repeat(",*x", n) + "]}}",
			120,
			yamldoc.CodeTooMany,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := testOptions("")
			opt.Getenv = func(name string) (string, bool) { return value, name == "LONG" }
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, fs := Parse("c.yml", []byte(c.text), opt)
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > c.most {
				t.Errorf("%d MiB were allocated, want at most %d", got, c.most)
			}
			if len(fs) > 3*yamldoc.MaxFindings {
				t.Errorf("%d findings", len(fs))
			}
			found := false
			for _, f := range fs {
				found = found || f.Code == c.code
			}
			if !found {
				t.Errorf("no %s among %d findings: %s", c.code, len(fs), finding.Count(fs))
			}
		})
	}
}
