package plugins_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestPrintGoesThroughTheGate: what a run would drop is printed with the reason.
func TestPrintGoesThroughTheGate(t *testing.T) {
	demonstration := func(answer string) builders.Record {
		return &builders.Demonstration{
			Messages: builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: []chat.Message{
				{Role: "user", Text: "q"}, {Role: "assistant", Text: answer},
			}},
			Train: builders.TrainLast, Weight: 1,
		}
	}
	var out strings.Builder
	err := plugins.Print(&out, host.Result{
		Group:   &ttc.Group{Examples: []*ttc.Example{{ID: "a"}}},
		Records: []builders.Record{demonstration("a"), demonstration("")},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || strings.Contains(lines[0], "dropped") ||
		!strings.Contains(lines[1], `"dropped":{"detail":"`) || !strings.Contains(lines[1], `"reason":"empty_response"`) {
		t.Error(out.String())
	}
}

// TestPrintResolvesOneRecordAtATime: the records of a long session with all preceding messages would take gigabytes.
func TestPrintResolvesOneRecordAtATime(t *testing.T) {
	result := host.Result{Group: &ttc.Group{Examples: []*ttc.Example{{ID: "a"}}}}
	for range 1000 {
		result.Records = append(result.Records, &builders.State{Messages: builders.Content{
			Ref: builders.Ref{Part: builders.InlineMessages}, Messages: []chat.Message{{Role: "user", Text: "q"}},
		}})
	}
	allocated := testing.AllocsPerRun(1, func() {
		if plugins.Print(refusing{}, result) == nil {
			t.Error("no error")
		}
	})
	if allocated >= 1000 {
		t.Errorf("%.0f allocations before the first line is written", allocated)
	}
}

// refusing is a writer that fails.
type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errors.New("refused") }
