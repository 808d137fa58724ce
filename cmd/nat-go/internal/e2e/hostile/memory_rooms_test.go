//go:build linux

package hostile

import (
	"encoding/binary"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
)

// frames writes frames of `nat-go collate`: the given length, whether it is true or not, followed by a function's
// output.
func frames(all ...func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, f := range all {
			if err := f(w); err != nil {
				return err
			}
		}
		return nil
	}
}

func frame(begin, each, end string, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		length := uint32(len(begin) + n*len(each) + len(end))
		if err := binary.Write(w, binary.LittleEndian, length); err != nil {
			return err
		}
		return repeated(begin, each, end, n)(w)
	}
}

// collateAttacks are attacks by the program that `nat-go collate` makes batches for.
func collateAttacks(t *testing.T) (as []attack) {
	t.Helper()
	model, err := filepath.Abs("../../../../../examples/hints/tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	const mega = 1 << 20
	settings := func(more string) func(io.Writer) error {
		return frame(`{"tokenizer":"`+model+`","channels":["sft"],"collator":{"policy":"p"}`+more+`}`, "", "", 0)
	}
	endless := func(w io.Writer) error {
		if err := binary.Write(w, binary.LittleEndian, ^uint32(0)); err != nil {
			return err
		}
		return repeated("", strings.Repeat("x", mega), "", 4096)(w)
	}
	trace := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]},`
	for _, c := range []struct {
		name  string
		input func(io.Writer) error
		code  int
		says  string
	}{
		{"length of 4 GiB", frames(settings(""), endless), 1, "unexpected end of input"},
		{"large text", frames(settings(""), frame(`{"traces":["`, strings.Repeat("x", mega), `"]}`, 60)), 0, "drops"},
		{"empty traces", frames(settings(""), frame(`{"traces":[`, "{},", `{}]}`, 20*mega)), 0, "too_large"},
		{"too many traces", frames(settings(""), frame(`{"traces":[`, trace, `{}]}`, 700_000)), 0, "too_large"},
		{"settings", frame(`{"tokenizer":"x","channels":["sft"],"collator":{"a":[`, "{},", `{}]}}`, 5*mega), 2, "settings"},
		{"nested settings", frame(`{"collator":{"a":`, "[", ``, 15*mega), 2, "settings"},
	} {
		as = append(as, attack{
			name: "collate " + c.name, args: []string{"collate"}, input: c.input, code: c.code, says: c.says,
		})
	}
	return as
}

// planAttacks are attacks by a plan of shards in a place that others can write to.
func planAttacks() (as []attack) {
	version := `{"plan_version":` + strconv.Itoa(shards.Version)
	return append(
		as,
		attack{
			name: "plan of empty shards", args: []string{"shard", "status", "."}, code: 1, says: "objects",
			files: map[string]string{
				"plan.json": version + `,"shards":[` + strings.Repeat("{},", 20<<20) + `{}]}`,
			},
		},
		attack{
			name: "plan with a long request", args: []string{"shard", "status", "."}, code: 1, says: "invalid request of",
			files: map[string]string{
				"plan.json": version + `,"request":"` + strings.Repeat("x", 90<<20) + `"}`,
			},
		},
		attack{
			name: "plan that never ends", args: []string{"shard", "status", "."}, code: 3, says: "not a regular file",
			files: map[string]string{"plan.json": "-> /dev/zero"},
		},
	)
}
