package sdpo

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// diverging returns a configuration that looks for divergences alone.
func diverging() Config {
	c := schema.New[Config]()
	c.Sites, c.Hints.Sources = []string{divergence}, []string{sourceSuccess}
	return c
}

// parts returns a rollout's site: "none", "answer", or the message index and position of a call.
func parts(b *Builder, traces [][]*trace, e int, reward float64) string {
	all := b.courses(traces)
	all[e].reward = reward
	part(all)
	switch p := all[e].parting; {
	case all[e].why != "":
		return "none"
	case p.at == nil:
		return "answer"
	default:
		return fmt.Sprintf("%d.%d", p.at.turn, p.at.seq)
	}
}

func readAll(t testing.TB, b *Builder, exs []*ttc.Example) (traces [][]*trace) {
	t.Helper()
	for _, ex := range exs {
		traces = append(traces, []*trace{b.read(ex, ex.Graph.Branch(len(ex.Graph.Nodes)-1))})
	}
	return traces
}

// airlineWrites are the tools that change the airline's data base.
var airlineWrites = evidence.Set(strings.Fields(`book_reservation cancel_reservation update_reservation_flights update_reservation_baggages
	update_reservation_passengers send_certificate`))

// airlineRollout is a rollout, with the calls that a right one makes.
type airlineRollout struct {
	*ttc.Example
	right []string
}

func airline(t testing.TB) map[string][]airlineRollout {
	t.Helper()
	data, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Task   int                `json:"task_id"`
		Reward float64            `json:"reward"`
		Traj   stdjson.RawMessage `json:"traj"`
		Info   struct {
			Task struct {
				Actions []struct {
					Name   string             `json:"name"`
					Kwargs stdjson.RawMessage `json:"kwargs"`
				} `json:"actions"`
			} `json:"task"`
		} `json:"info"`
	}
	if err := stdjson.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	tasks := map[string][]airlineRollout{}
	for _, x := range all {
		r := airlineRollout{Example: example(t, string(x.Traj))}
		r.Task, r.Reward = fmt.Sprint(x.Task), &x.Reward
		for _, a := range x.Info.Task.Actions {
			if airlineWrites[a.Name] {
				r.right = append(r.right, spell(a.Name, string(a.Kwargs)))
			}
		}
		tasks[r.Task] = append(tasks[r.Task], r)
	}
	return tasks
}

func spell(name, arguments string) string {
	var v any
	_ = stdjson.Unmarshal([]byte(arguments), &v)
	b, _ := stdjson.Marshal(v) // keys are sorted
	return name + string(b)
}

// truth is the first write that a right rollout doesn't make; "answer" if one is missing.
func (r airlineRollout) truth(t *trace) string {
	left := slices.Clone(r.right)
	for i := range t.calls {
		c := &t.calls[i]
		if !airlineWrites[c.made.Name] || strings.HasPrefix(t.walk[c.result].Message.AllText(), "Error") {
			continue
		}
		at := slices.Index(left, spell(c.made.Name, c.made.Arguments))
		if at < 0 {
			return fmt.Sprintf("%d.%d", c.turn, c.seq)
		}
		left = slices.Delete(left, at, at+1)
	}
	if len(left) > 0 {
		return "answer"
	}
	return "none"
}

// baseline is the first call of a tool that writes which no passed sibling made with the same text; "answer" if one
// that they all made is missing.
func baseline(traces [][]*trace, rewards []float64, self int) string {
	count, mine := map[string]int{}, map[string]bool{}
	passed := 0
	for e := range traces {
		if e == self || rewards[e] < 1 {
			continue
		}
		passed++
		for i := range traces[e][0].calls {
			if c := traces[e][0].calls[i]; airlineWrites[c.made.Name] {
				count[c.made.Name+c.made.Arguments]++
			}
		}
	}
	for i := range traces[self][0].calls {
		if c := traces[self][0].calls[i]; airlineWrites[c.made.Name] {
			if mine[c.made.Name+c.made.Arguments] = true; count[c.made.Name+c.made.Arguments] == 0 {
				return fmt.Sprintf("%d.%d", c.turn, c.seq)
			}
		}
	}
	for key, n := range count {
		if n >= passed && !mine[key] {
			return "answer"
		}
	}
	return "none"
}

// TestAirlineDivergences scores the sites of real rollouts by the calls that a right rollout makes, which no builder
// reads. Each is judged as if it had failed, so that a passed one can be accused.
func TestAirlineDivergences(t *testing.T) {
	b, err := New(diverging())
	if err != nil {
		t.Fatal(err)
	}
	type score struct{ wrong, ofWrong, missing, ofMissing, accused, ofPassed int }
	var ours, simple score
	count := func(s *score, reward float64, truth, got string) {
		switch {
		case reward == 1:
			s.ofPassed++
			if got != "none" {
				s.accused++
			}
		case truth == "answer":
			s.ofMissing++
			if got == truth {
				s.missing++
			}
		case truth != "none":
			s.ofWrong++
			if got == truth {
				s.wrong++
			}
		}
	}
	for _, rollouts := range airline(t) {
		var exs []*ttc.Example
		var rewards []float64
		for _, r := range rollouts {
			exs, rewards = append(exs, r.Example), append(rewards, *r.Reward)
		}
		traces := readAll(t, b, exs)
		for e, r := range rollouts {
			others := slices.Delete(slices.Clone(rewards), e, e+1)
			if slices.Max(others) < 1 {
				continue
			}
			truth := r.truth(traces[e][0])
			count(&ours, *r.Reward, truth, parts(b, traces, e, 0))
			count(&simple, *r.Reward, truth, baseline(traces, rewards, e))
		}
	}
	t.Logf("ours %+v, compared writes %+v", ours, simple)
	if want := (score{14, 14, 11, 12, 0, 33}); ours != want {
		t.Errorf("got %+v, want %+v", ours, want)
	}
}

// TestPlantedDivergences finds one planted difference among noise, and no difference where there is noise alone: the
// order and number of reads, the spelling of arguments, ids, words.
func TestPlantedDivergences(t *testing.T) {
	b, err := New(diverging())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for n := range 200 {
		var writes []string
		for i := range 2 + r.IntN(4) {
			writes = append(writes, fmt.Sprintf(`{"id":"w%d","amount":%d,"note":"x"}`, i, r.IntN(1000)))
		}
		broken := slices.Clone(writes)
		at := r.IntN(len(writes) + 1)
		want := "answer"
		switch {
		case at == len(writes):
			broken = broken[:at-1]
		case r.IntN(2) == 0:
			broken[at] = fmt.Sprintf(`{"id":"w%d","amount":%d,"note":"y"}`, at, 1000+r.IntN(1000))
			want = fmt.Sprint(at)
		default:
			broken = slices.Insert(broken, at, `{"id":"extra","amount":1,"note":"z"}`)
			want = fmt.Sprint(at)
		}
		var exs []*ttc.Example
		for range 2 + r.IntN(3) {
			exs = append(exs, noisy(t, r, writes, 1))
		}
		exs = append(exs, noisy(t, r, broken, 0))
		for range r.IntN(3) {
			exs = append(exs, noisy(t, r, writes, 1))
		}
		traces := readAll(t, b, exs)
		self := slices.IndexFunc(exs, func(ex *ttc.Example) bool { return *ex.Reward == 0 })
		got := parts(b, traces, self, 0)
		if got != "answer" && got != "none" {
			c := b.courses(traces)[self]
			for i := range c.writes {
				if d := c.write(i); got == fmt.Sprintf("%d.%d", d.turn, d.seq) {
					got = fmt.Sprint(i)
				}
			}
		}
		if got == want {
			found++
		}
		pair := readAll(t, b, []*ttc.Example{noisy(t, r, writes, 0), noisy(t, r, writes, 1)})
		if got := parts(b, pair, 0, 0); got != "none" {
			t.Errorf("pair %d differs in noise alone, got %s", n, got)
		}
	}
	if found < 200 {
		t.Errorf("found %d of 200 planted divergences", found)
	}
}

// noisy is a rollout with some writes, among reads that vary.
func noisy(t testing.TB, r *rand.Rand, writes []string, reward float64) *ttc.Example {
	ms := []string{user(fmt.Sprintf("please %d", r.Int()))}
	id := 0
	call := func(name, args, answer string) {
		id++
		own := fmt.Sprintf("c%d-%d", r.IntN(1e6), id)
		ms = append(ms, calls([3]string{own, name, args}), result(own, answer))
	}
	for _, w := range append(slices.Clone(writes), "") {
		for _, k := range r.Perm(3)[:r.IntN(4)] {
			call("get_order", fmt.Sprintf(`{"order": %d}`, k), fmt.Sprintf("order %d is here", k))
		}
		if w == "" {
			break
		}
		switch r.IntN(3) {
		case 0:
			w = strings.ReplaceAll(w, `":`, `" :  `)
		case 1:
			var v struct {
				ID     string `json:"id"`
				Amount int    `json:"amount"`
				Note   string `json:"note"`
			}
			_ = stdjson.Unmarshal([]byte(w), &v)
			w = fmt.Sprintf(`{"note":%q,"id":%q,"amount":%d.0}`, v.Note, v.ID, v.Amount)
		}
		call("set_order", w, fmt.Sprintf("done %d", r.Int()))
		if r.IntN(2) == 0 {
			ms = append(ms, says(fmt.Sprintf("one done %d", r.Int())), user("go on"))
		}
	}
	ex := example(t, talk(append(ms, says("bye"))...))
	ex.Reward = &reward
	return ex
}

// TestDivergenceSites: what a site and its hint look like. A hint has a sibling's arguments only if the rollout had
// read them.
func TestDivergenceSites(t *testing.T) {
	rollout := func(reward float64, said string, last ...string) *ttc.Example {
		ex := example(t, talk(append([]string{user(said)}, last...)...), refund)
		ex.Reward = &reward
		return ex
	}
	paid := func(args string) []string {
		return []string{calls([3]string{"1", "refund", args}), result("1", "ok"), says("Done.")}
	}
	good := rollout(1, "Refund order 7731 in full.", paid(`{"order":"7731","percent":100}`)...)
	for _, tt := range []struct {
		name string
		bad  *ttc.Example
		want string
	}{
		{
			"another write", rollout(0, "Refund order 7731, all 100 percent.", paid(`{"order":"7731","percent":50}`)...),
			`1.0>-1 failed divergence success: A rollout that went better called refund here. The arguments: {"order":"7731","percent":100}`,
		},
		{
			"unknown arguments", rollout(0, "Refund my order.", paid(`{"order":"1","percent":50}`)...),
			`1.0>-1 failed divergence success: A rollout that went better called refund here. Its arguments must fit this schema: ` + refundSchema,
		},
		{
			"nothing written", rollout(0, "Refund order 7731, all 100 percent.", says("I can't.")),
			`1.-1>-1 failed divergence success: A rollout that went better called refund here. The arguments: {"order":"7731","percent":100}`,
		},
		{
			"arguments that the turn says", rollout(0, "Refund order 7731, all 100 percent.", says(`The arguments: {"order":"7731","percent":100}? No.`)),
			`1.-1>-1 failed divergence success: A rollout that went better called refund here. Its arguments must fit this schema: ` + refundSchema,
		},
		{
			"one write too many", rollout(0, "x", append(paid(`{"percent": 100, "order":"7731"}`)[:2], paid(`{"order":"1","percent":1}`)...)...),
			`3.0>-1 failed divergence success: A rollout that went better did without refund here and changed nothing more.`,
		},
	} {
		got := build(t, diverging(), good, tt.bad)
		if s := got.sites(); len(s) != 1 || s[0] != tt.want {
			t.Errorf("%s: got %q\nwant %s", tt.name, s, tt.want)
		}
		d := got.records[0].(*builders.Distillation)
		if d.Example != 1 || d.Sites[0].HintKind != builders.Hindsight {
			t.Errorf("%s: got %+v", tt.name, d)
		}
		if m := string(d.Metadata); !strings.HasSuffix(m,
			`"divergence": {"before": 0.5, "rollouts_before": 2, "after": 0, "rollouts_after": 1}}`) {
			t.Errorf("%s: got the metadata %s", tt.name, m)
		}
	}
	alone := build(t, diverging(), rollout(0, "x", paid(`{"order":"1","percent":1}`)...))
	if len(alone.records) > 0 || !slices.Equal(alone.why(), []string{"example no_better_sibling"}) {
		t.Errorf("without a better sibling: got %v %v", alone.sites(), alone.why())
	}
	for name, tt := range map[string]struct {
		change func(*ttc.Example)
		why    string
	}{
		"no reward": {func(ex *ttc.Example) { ex.Reward = nil }, "example no_reward"},
		"NaN":       {func(ex *ttc.Example) { nan := math.NaN(); ex.Reward = &nan }, "example non_finite_score"},
		"two leaves": {func(ex *ttc.Example) {
			ex.Graph.Nodes = append(ex.Graph.Nodes, ttc.Node{Parent: 0, Message: ex.Graph.Nodes[1].Message})
		}, "example several_branches"},
	} {
		ex := rollout(0, "x", paid(`{"order":"1","percent":1}`)...)
		tt.change(ex)
		if got := build(t, diverging(), good, ex); len(got.records) > 0 || !slices.Contains(got.why(), tt.why) {
			t.Errorf("%s: got %v %v", name, got.sites(), got.why())
		}
	}
	same := build(t, diverging(), good, rollout(0, "x", paid(`{"percent":100,"order":"7731"}`)...))
	if len(same.records) > 0 || !slices.Contains(same.why(), "example same_writes") {
		t.Errorf("with the same writes: got %v %v", same.sites(), same.why())
	}
	other := rollout(0, "x", append([]string{
		calls([3]string{"1", "get_order", `{}`}), result("1", "none"),
	}, paid(`{"order":"1","percent":1}`)...)...)
	read := rollout(1, "x", append([]string{
		calls([3]string{"1", "get_order", `{}`}), result("1", "7731"),
	}, paid(`{"order":"7731","percent":100}`)...)...)
	other.Tools, read.Tools = nil, nil // get_order is not among them
	if got := build(t, diverging(), other, read); !slices.Contains(got.why(), "example environment_parted") {
		t.Errorf("another result for the same read: got %v %v", got.sites(), got.why())
	}
}

// TestDivergenceOfOddRollouts checks a rollout whose own reads of the same thing differ, and rewards whose sum overflows.
func TestDivergenceOfOddRollouts(t *testing.T) {
	rollout := func(reward float64, ms ...string) *ttc.Example {
		ex := example(t, talk(append([]string{user("Refund order 7731.")}, ms...)...))
		ex.Reward = &reward
		return ex
	}
	call := func(id, name, args, answer string) []string {
		return []string{calls([3]string{id, name, args}), result(id, answer)}
	}
	refunds := func(percent string) []string {
		return append(call("3", "refund", `{"percent":`+percent+`}`, "ok"), says("Done."))
	}
	good := rollout(math.MaxFloat64, refunds("100")...)
	twice := append(call("1", "get_time", `{}`, "9:00"), call("2", "get_time", `{}`, "9:01")...)
	got := build(t, diverging(), good, good, rollout(-1, append(twice, refunds("50")...)...))
	if s := got.sites(); len(s) != 1 || !strings.HasPrefix(s[0], "5.0>-1 failed divergence") {
		t.Fatalf("got %v %v", s, got.why())
	}
	m := got.records[0].(*builders.Distillation).Metadata
	if !stdjson.Valid(m) || !strings.Contains(string(m), `"rollouts_before": 3`) || !strings.Contains(string(m), `"rollouts_after": 1`) {
		t.Errorf("got the metadata %s", m)
	}
}

// TestDivergenceSettings: sites need what they can be made of.
func TestDivergenceSettings(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"next_turn":    func(c *Config) { c.Target = "next_turn" },
		"repair_pairs": func(c *Config) { c.Emit = []string{emitRepairPairs} },
		"add success":  func(c *Config) { c.Hints.Sources = []string{sourceFeedback} },
	} {
		c := diverging()
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "sites: divergence") {
			t.Errorf("%s: got the error %v", name, err)
		}
	}
	both := diverging()
	both.Sites, both.Target = []string{failedCalls, divergence}, "both"
	if _, err := New(both); err != nil {
		t.Error(err)
	}
}

const refundSchema = `{"type":"object","properties":{"order":{"type":"string"},"percent":{"type":"integer"}}}`

const refund = `{"type":"function","function":{"name":"refund","parameters":` + refundSchema + `}}`

// TestWhatWrites: a tool that only reads is known by its mark, its name, or the setting.
func TestWhatWrites(t *testing.T) {
	c := diverging()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"get_user": false, "GetUser": false, "mcp__shop__list-items": false, "shop.search": false, "think": false,
		"transfer_to_human_agents": false, "transfer_funds": true, "Edit": true, "getaway_booking": true, "updateGet": true,
	} {
		if got := b.writes(&chat.ToolCall{Name: name}, nil); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	marked := &chat.Tool{Raw: json.Raw(`{"name":"run","annotations":{"readOnlyHint":true}}`)}
	if b.writes(&chat.ToolCall{Name: "run"}, marked) {
		t.Error("a tool that is marked as reading only writes")
	}
	c.Detect.Writes = []string{"^get_refund$"}
	if b, err = New(c); err != nil || !b.writes(&chat.ToolCall{Name: "get_refund"}, marked) ||
		b.writes(&chat.ToolCall{Name: "Edit"}, nil) {
		t.Errorf("detect.writes has no effect: %v", err)
	}
}
