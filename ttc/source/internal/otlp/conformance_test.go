package otlp

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
)

// exports are the recorded exports. spelled: they keep the arguments as the model wrote them; tools: they list the
// available tools; failures: they mark which results are failures.
var exports = map[string]struct{ spelled, tools, failures bool }{
	"v2_legacy":               {spelled: true},
	"v2_latest_span":          {failures: true},
	"v2_latest_event":         {failures: true},
	"v2_latest_both":          {failures: true},
	"openinference":           {spelled: true, tools: true, failures: true},
	"openinference_stream":    {spelled: true, tools: true, failures: true},
	"openinference_responses": {spelled: true, tools: true, failures: true},
	"openllmetry":             {tools: true},
	"openllmetry_stream":      {tools: true},
	"openllmetry_responses":   {tools: true},
	"openllmetry_events":      {spelled: true},
	"openllmetry_old":         {spelled: true, tools: true},
}

// TestRecordedCalls compares the calls in each recorded export, as a multiset, with what was sent over the wire.
func TestRecordedCalls(t *testing.T) {
	for name, has := range exports {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.Read(t, Factory(), filepath.Join(sessiontest.Recorded(t, "otlp"), name, "*.jsonl"))
			want := sessiontest.Wire(t, has.spelled)
			if got := sessiontest.Trained(r, has.spelled); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "--\n"), strings.Join(want, "--\n"))
			}
			if r.Stats.Calls != int64(len(want)) || len(r.Stats.Dropped) != 0 || len(r.Examples) != 1 {
				t.Fatalf("%d examples, %+v", len(r.Examples), r.Stats)
			}
			ex := r.Examples[0]
			if (len(ex.Tools) == 3) != has.tools {
				t.Errorf("%d tools", len(ex.Tools))
			}
			if want := map[bool]ttc.Fidelity{false: ttc.Partial, true: ttc.TextOnly}[has.tools]; ex.Fidelity != want {
				t.Errorf("fidelity %s", ex.Fidelity)
			}
			failed := 0
			for _, n := range ex.Graph.Nodes {
				if n.Error != nil && *n.Error {
					failed++
				}
			}
			if failed != map[bool]int{true: 1}[has.failures] {
				t.Errorf("%d failures are known", failed)
			}
		})
	}
}
