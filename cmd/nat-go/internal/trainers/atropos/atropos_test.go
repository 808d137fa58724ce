package atropos

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server behaves like the real one in the respects that matter here.
type server struct {
	mu      sync.Mutex
	batch   int
	waits   int // register-env answers before success
	groups  []map[string]any
	fetched int
	early   int // pushes before registration
	gz      int
	fault   func(n int, w http.ResponseWriter) bool // for the nth push; true: it has answered
	envs    int
	gone    []string
	steps   int
	drains  bool   // fetches a group whenever the queue length is asked for
	trainer string // the one that is registered
}

// restart makes the server forget everything. A trainer registers again, and others register before us.
func (s *server) restart(trainer string, steps, envs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups, s.fetched, s.envs, s.trainer, s.steps = nil, 0, envs, trainer, steps
}

func (s *server) start(t *testing.T) string {
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		s.gz++
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, _ = io.ReadAll(z)
		}
	}
	var v map[string]any
	_ = json.Unmarshal(body, &v) // unreadable input is refused below
	switch r.URL.Path {
	case "/info":
		reply(w, map[string]any{"batch_size": s.batch, "max_token_len": 100})
	case "/register-env":
		if s.waits--; s.waits >= 0 {
			reply(w, map[string]any{"status": "wait for trainer to start"})
			return
		}
		s.envs++
		reply(
			w,
			map[string]any{
				"status":     "success",
				"env_id":     s.envs - 1,
				"wandb_name": fmt.Sprint(v["desired_name"], "_", s.envs-1),
			},
		)
	case "/scored_data":
		if s.envs == 0 {
			s.early++
		}
		n := len(s.groups)
		if s.fault != nil && s.fault(n, w) {
			return
		}
		if v["tokens"] == nil {
			w.WriteHeader(422)
			return
		}
		s.groups = append(s.groups, v)
		reply(w, map[string]any{"status": "received"})
	case "/status-env":
		if v["env_id"] == nil {
			w.WriteHeader(422)
			return
		}
		if v["env_id"].(float64) >= float64(s.envs) {
			w.WriteHeader(500)
			return
		}
		own := 0
		for _, g := range s.groups {
			if g["env_id"] == v["env_id"] {
				own++
			}
		}
		reply(
			w,
			map[string]any{
				"current_step":    3 + s.steps,
				"queue_size":      len(s.groups),
				"self_queue_size": own - s.fetched,
			},
		)
	case "/status":
		reply(w, map[string]any{"current_step": 3 + s.steps, "queue_size": len(s.groups) - s.fetched})
		if s.drains {
			s.fetched++
		}
	case "/wandb_info":
		reply(w, map[string]any{"group": s.trainer, "project": nil})
	case "/disconnect-env":
		s.gone = append(s.gone, fmt.Sprint(v["env_id"]))
		reply(w, map[string]any{"status": "success"})
	default:
		w.WriteHeader(404)
	}
}

func reply(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func config(t *testing.T, url, yaml string) *Config {
	t.Helper()
	doc, fs := yamldoc.Parse(
		"c.yml",
		[]byte("url: "+url+"\npoll_interval: 5ms\nstart_timeout: 5s\n"+yaml),
	)
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	c := new(Config)
	if fs := schema.MustOf(c).Decode(doc, doc.Root, c, schema.Options{}); len(fs) > 0 {
		t.Fatal(fs)
	}
	c.backoff = time.Millisecond
	return c
}

func adapter(t *testing.T, c *Config) *Adapter {
	t.Helper()
	a, err := New(c, trainers.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// line returns a valid group of n sequences.
func line(n, first int) string {
	g := Group{}
	for i := range n {
		a := int64(first + i)
		g.Tokens = append(g.Tokens, []int64{a, a + 1, a + 2})
		g.Masks = append(g.Masks, []int64{-100, a + 1, a + 2})
		g.Scores = append(g.Scores, float64(i))
		g.InferenceLogProbs = append(g.InferenceLogProbs, []float64{0, -0.5, -1})
	}
	b, _ := json.Marshal(g)
	return string(b)
}

func data(t *testing.T, rows ...string) trainers.DataSet {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.jsonl"), []byte(strings.Join(rows, "\n")+"\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	return trainers.DataSet{
		RunID:  "r1",
		RunDir: dir,
		Formats: map[string]trainers.Format{
			"atropos": {Files: []trainers.File{{Path: "train.jsonl", Kind: "rollout", Split: trainers.Train}}},
		},
	}
}

func TestPush(t *testing.T) {
	s := &server{batch: 8, waits: 3}
	a := adapter(t, config(t, s.start(t), ""))
	same := strings.Replace(line(4, 1), `"scores":[0,1,2,3]`, `"scores":[1,1,1,1]`, 1)
	d := data(t, line(4, 10), line(2, 20), `{"tokens": [[1]], "masks": [[1]], "scores": [NaN]}`, same, line(4, 40),
		`{"tokens":[[1,2],[1],[1],[1]],"masks":[[-100,3],[1],[1],[1]],"scores":[1,2,3,4]}`)
	if err := a.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref, err := a.Submit(t.Context(), d, "k1")
	if err != nil {
		t.Fatal(err)
	}
	if s.early != 0 || len(s.groups) != 2 {
		t.Fatalf("%d groups pushed, %d of them too early", len(s.groups), s.early)
	}
	if got, want := ref.Metadata["left_out"], "group_bad_row=1 group_bad_shape=1 group_same_scores=1 group_wrong_size=1"; got != want {
		t.Errorf("left out %q, want %q", got, want)
	}
	want := map[string]any{}
	if err := json.Unmarshal([]byte(line(4, 10)), &want); err != nil {
		t.Fatal(err)
	}
	want["env_id"] = 0.0
	for _, lp := range want["inference_logprobs"].([]any) {
		lp.([]any)[0] = 1.0
	}
	if diff := cmp.Diff(want, s.groups[0]); diff != "" {
		t.Error(diff)
	}
	again, err := a.Submit(t.Context(), d, "k1")
	if err != nil || len(s.groups) != 2 || !cmp.Equal(again, ref) {
		t.Errorf("a second Submit under the same key: %+v, %d groups, %v", again, len(s.groups), err)
	}
	st, err := a.Status(t.Context(), ref)
	if err != nil || st.State != trainers.Running {
		t.Errorf("%+v, %v", st, err)
	}
	s.fetched = 2
	if st, err = a.Status(t.Context(), ref); err != nil || st.State != trainers.Completed || *st.Progress != 100 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := a.Cancel(t.Context(), ref); err != nil || len(s.gone) != 1 || s.gone[0] != "0" {
		t.Errorf("%v, %v", s.gone, err)
	}
	if err := a.Cancel(t.Context(), trainers.JobRef{Metadata: map[string]string{"env_id": "-1"}}); err == nil {
		t.Error("a negative env_id was sent")
	}
}

func TestBatchSizeMustBeAMultiple(t *testing.T) {
	s := &server{batch: 6}
	_, err := adapter(t, config(t, s.start(t), "")).Submit(t.Context(), data(t, line(4, 1)), "k")
	if err == nil || !strings.Contains(err.Error(), "never fill") || s.envs != 0 {
		t.Errorf("err = %v", err)
	}
}

func TestNoTrainer(t *testing.T) {
	for name, s := range map[string]*server{"not registered": {batch: -1}, "not started": {batch: 8, waits: 1 << 30}} {
		t.Run(name, func(t *testing.T) {
			c := config(t, s.start(t), "")
			c.StartTimeout = 30 * time.Millisecond
			_, err := adapter(t, c).Submit(t.Context(), data(t, line(4, 1)), "k")
			if !trainers.Transient(err) || len(s.groups) != 0 {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestLostAnswers: a group whose answer was lost is not sent twice; one whose connection was refused is.
func TestLostAnswers(t *testing.T) {
	s := &server{batch: 8}
	lost := false
	s.fault = func(n int, w http.ResponseWriter) bool {
		if n == 1 && !lost {
			lost = true
			w.WriteHeader(502)
			return true
		}
		return false
	}
	ref, err := adapter(
		t,
		config(t, s.start(t), ""),
	).Submit(t.Context(), data(t, line(4, 1), line(4, 2), line(4, 3)), "k")
	if err != nil || len(s.groups) != 2 || ref.Metadata["uncertain"] != "1" {
		t.Errorf("%+v, %d groups, %v", ref, len(s.groups), err)
	}
}

// TestRefusedGroup: a group that the server refused is sent again, and counted once.
func TestRefusedGroup(t *testing.T) {
	var g Group
	if err := json.Unmarshal([]byte(line(4, 1)), &g); err != nil {
		t.Fatal(err)
	}
	g.DistillTokenIDs = make([][][]int64, len(g.Tokens)) // without log-probs, the columns are omitted
	row, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{batch: 4, fault: func(_ int, w http.ResponseWriter) bool { w.WriteHeader(400); return true }}
	a, d := adapter(t, config(t, s.start(t), "")), data(t, string(row))
	if _, err := a.Submit(t.Context(), d, "k"); err == nil {
		t.Fatal("a group that was refused was accepted")
	}
	s.fault = nil
	ref, err := a.Submit(t.Context(), d, "k")
	if err != nil || len(s.groups) != 1 || ref.Metadata["without_teacher"] != "1" {
		t.Errorf("%+v, %d groups, %v", ref, len(s.groups), err)
	}
}

// TestKilled: when a process dies while a group is on its way, the next one continues after that group.
func TestKilled(t *testing.T) {
	s := &server{batch: 4}
	a := adapter(t, config(t, s.start(t), ""))
	d := data(t, line(4, 1), line(4, 2), line(4, 3), line(4, 4))
	ctx, cancel := context.WithCancel(t.Context())
	s.fault = func(n int, _ http.ResponseWriter) bool {
		if n == 1 {
			cancel()
		}
		return false
	}
	if _, err := a.Submit(ctx, d, "k"); err == nil || !strings.Contains(err.Error(), "interrupted after 2") {
		t.Fatalf("err = %v", err)
	}
	l, err := a.load(d, "k")
	if err != nil || l.Sent != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	l.Sending = true // as if it had died within the third push
	if err := a.saveUnsynced(d, l); err != nil {
		t.Fatal(err)
	}
	s.fault = nil
	ref, err := a.Submit(t.Context(), d, "k")
	if err != nil || len(s.groups) != 3 || ref.Metadata["uncertain"] != "1" || s.envs != 2 ||
		ref.Metadata["env_id"] != "0 1" {
		t.Errorf("%+v, %d groups, %d environments, %v", ref, len(s.groups), s.envs, err)
	}
}

// TestRestartedServer: once the run-api has restarted, the number of an environment belongs to someone else. Nothing is
// pushed, asked or disconnected under it.
func TestRestartedServer(t *testing.T) {
	for name, c := range map[string]struct {
		trainer     string
		steps, envs int
	}{
		"the number is free":    {"t1", 0, 0},
		"another has it":        {"t1", -1, 2},
		"another trainer":       {"t2", 9, 5},
		"and has come as far":   {"t2", 0, 1},
		"the steps begin again": {"t1", -3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{batch: 4, trainer: "t1"}
			a := adapter(t, config(t, s.start(t), ""))
			d := data(t, line(4, 1), line(4, 2), line(4, 3), line(4, 4))
			ctx, cancel := context.WithCancel(t.Context())
			s.fault = func(n int, _ http.ResponseWriter) bool {
				if n == 1 {
					cancel()
				}
				return false
			}
			if _, err := a.Submit(ctx, d, "k"); err == nil {
				t.Fatal("not interrupted")
			}
			s.restart(c.trainer, c.steps, c.envs)
			ref, err := a.Submit(t.Context(), d, "k")
			if err != nil || len(s.groups) != 2 || ref.Metadata["groups"] != "2" || ref.Metadata["uncertain"] != "2" ||
				ref.Metadata["env_id"] != strconv.Itoa(c.envs) {
				t.Fatalf("%+v, %d groups, %v", ref, len(s.groups), err)
			}
			for _, g := range s.groups {
				if g["env_id"] != float64(c.envs) {
					t.Errorf("pushed as %v", g["env_id"])
				}
			}
			s.restart("t3", c.steps, 9)
			st, err := a.Status(t.Context(), ref)
			if err != nil || st.State != trainers.Failed || !strings.Contains(st.Message, "restarted") {
				t.Errorf("%+v, %v", st, err)
			}
			if err := a.Cancel(t.Context(), ref); err != nil || s.gone != nil {
				t.Errorf("%v was disconnected, %v", s.gone, err)
			}
		})
	}
}

// TestServersNames checks that a name from the server can't control a terminal, and isn't longer than a name may be.
func TestServersNames(t *testing.T) {
	s := &server{batch: 4, trainer: "t\x1b[2J"}
	conf := config(t, s.start(t), "")
	conf.Name = "n\x1b]0;title\x07\u202e" + strings.Repeat("x", 1000)
	ref, err := adapter(t, conf).Submit(t.Context(), data(t, line(4, 1)), "k")
	if err != nil || len(ref.ID) > 300 || strings.ContainsAny(ref.ID+ref.Metadata["wandb_group"], "\x1b\x07\u202e") ||
		!strings.HasPrefix(ref.ID, `n\u001b]0;title`) {
		t.Errorf("%q %q, %v", ref.ID, ref.Metadata, err)
	}
}

func TestQueueLimit(t *testing.T) {
	s := &server{batch: 4, drains: true}
	if _, err := adapter(t, config(t, s.start(t), "max_queue: 1")).
		Submit(t.Context(), data(t, line(4, 1), line(4, 2), line(4, 3)), "k"); err != nil ||
		len(s.groups) != 3 {
		t.Errorf("%d groups, %v", len(s.groups), err)
	}
}

func TestGzip(t *testing.T) {
	s := &server{batch: 64}
	if _, err := adapter(t, config(t, s.start(t), "")).Submit(t.Context(), data(t, line(64, 1)), "k"); err != nil ||
		s.gz != 1 ||
		len(s.groups) != 1 {
		t.Errorf("%d groups, %d compressed, %v", len(s.groups), s.gz, err)
	}
}

func TestCheck(t *testing.T) {
	base := func() *Group {
		return &Group{Tokens: [][]int64{{1, 2}, {3}}, Masks: [][]int64{{-100, 2}, {3}}, Scores: []float64{0, 1}}
	}
	for _, c := range []struct {
		name string
		edit func(*Group)
		want ledger.Reason
	}{
		{"good", func(*Group) {}, ""},
		{"score NaN", func(g *Group) { g.Scores[0] = math.NaN() }, groupBadNumber},
		{"score -inf", func(g *Group) { g.Scores[0] = math.Inf(-1) }, groupBadNumber},
		{"log-prob -inf", func(g *Group) { g.InferenceLogProbs = [][]float64{{0, math.Inf(-1)}, {-1}} }, ""},
		{"log-prob inf", func(g *Group) { g.InferenceLogProbs = [][]float64{{0, math.Inf(1)}, {-1}} }, groupBadNumber},
		{"advantage -inf", func(g *Group) { g.Advantages = [][]float64{{0, math.Inf(-1)}, {-1}} }, groupBadNumber},
		{"log-probs short", func(g *Group) { g.InferenceLogProbs = [][]float64{{0}, {-1}} }, groupBadShape},
		{"mask of another token", func(g *Group) { g.Masks[0][1] = 7 }, groupBadShape},
		{"mask short", func(g *Group) { g.Masks[0] = g.Masks[0][:1] }, groupBadShape},
		{"negative token", func(g *Group) { g.Tokens[1][0], g.Masks[1][0] = -1, -1 }, groupBadShape},
		{"token beyond int32", func(g *Group) { g.Tokens[1][0], g.Masks[1][0] = 1<<40, 1<<40 }, groupBadShape},
		{"empty sequence", func(g *Group) { g.Tokens[1], g.Masks[1] = nil, nil }, groupBadShape},
		{"nothing trained", func(g *Group) { g.Masks = [][]int64{{-100, -100}, {-100}} }, groupNoTarget},
		{"too long", func(g *Group) {
			g.Tokens[0], g.Masks[0] = make([]int64, 10), make([]int64, 10)
		}, groupTooLong},
		{"same scores", func(g *Group) { g.Scores = []float64{2, 2} }, groupSame},
		{"three", func(g *Group) {
			g.Tokens, g.Masks, g.Scores = append(g.Tokens, []int64{9}), append(g.Masks, []int64{9}), append(g.Scores, 5)
		}, groupWrongSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := base()
			c.edit(g)
			f := g.check(2, 10, true)
			if f == nil != (c.want == "") || f != nil && f.reason != c.want {
				t.Errorf("%s: got %+v, want %q", c.name, f, c.want)
			}
		})
	}
}

// TestTeacherOfAllOrOfNone: a group whose distillation columns don't cover every sequence is sent without them.
func TestTeacherOfAllOrOfNone(t *testing.T) {
	ids, logs := [][][]int64{{{}, {4, 5}}, {{}}}, [][][]float64{{{}, {-1, math.Inf(-1)}}, {{}}}
	for name, c := range map[string]struct {
		ids   [][][]int64
		logs  [][][]float64
		whole bool
	}{
		"whole":                       {ids, logs, true},
		"failed on one sequence":      {[][][]int64{{{}, {4, 5}}, {}}, [][][]float64{{{}, {-1, -2}}, {}}, false},
		"nothing for a trained token": {[][][]int64{{{}, {}}, {{}}}, [][][]float64{{{}, {}}, {{}}}, false},
		"too short":                   {[][][]int64{{{4}}, {{}}}, [][][]float64{{{-1}}, {{}}}, false},
		"too long": {
			[][][]int64{{{}, {4}, {4}}, {{}}},
			[][][]float64{{{}, {-1}, {-1}}, {{}}},
			false,
		},
		"ragged":                         {[][][]int64{{{}, {4}}, {{}}}, [][][]float64{{{}, {-1, -2}}, {{}}}, false},
		"without log-probs":              {ids, nil, false},
		"of another number of sequences": {ids[:1], logs[:1], false},
		"not a number": {
			[][][]int64{{{}, {4}}, {{}}},
			[][][]float64{{{}, {math.NaN()}}, {{}}},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Group{Tokens: [][]int64{{1, 2}, {3}}, Masks: [][]int64{{-100, 2}, {-100}}, Scores: []float64{0, 1}}
			g.DistillTokenIDs, g.DistillLogProbs = c.ids, c.logs
			f := g.check(2, 10, true)
			if f != nil || (g.NoTeacher == "") != c.whole || (g.DistillTokenIDs != nil) != c.whole ||
				(g.DistillLogProbs != nil) != c.whole {
				t.Errorf("%s: %+v, %q, %v", name, f, g.NoTeacher, g.DistillTokenIDs)
			}
		})
	}
}

// taught returns a group of n sequences with k teacher entries at every position but the first.
func taught(n, length, k int) *Group {
	g := new(Group)
	for i := range n {
		tokens, masks, logs := []int64{}, []int64{}, []float64{}
		ids, lps := [][]int64{}, [][]float64{}
		for p := range length + i {
			id := int64(100*i + p)
			tokens, masks, logs = append(tokens, id), append(masks, id), append(logs, -0.5)
			ids, lps = append(ids, []int64{}), append(lps, []float64{})
			for j := range k * min(p, 1) {
				ids[p], lps[p] = append(ids[p], id+int64(j)), append(lps[p], -1-float64(j)/4)
			}
		}
		masks[0], logs[0] = -100, 1
		g.Tokens, g.Masks, g.Scores = append(g.Tokens, tokens), append(g.Masks, masks), append(g.Scores, float64(i)/8)
		g.InferenceLogProbs = append(g.InferenceLogProbs, logs)
		g.DistillTokenIDs, g.DistillLogProbs = append(g.DistillTokenIDs, ids), append(g.DistillLogProbs, lps)
	}
	return g
}

// rlBatch returns a group as a batch of the rl channel, with what collator.teacher.rollouts adds. Row silent, if it
// exists, is one on which the teacher failed.
func rlBatch(g *Group, task int64, k, silent int) []tensors.Tensor {
	width := 0
	for _, ids := range g.Tokens {
		width = max(width, len(ids))
	}
	n := len(g.Tokens)
	grid := func() []int64 { return make([]int64, n*width) }
	ids, mask, trained := grid(), grid(), grid()
	logs, top, lps := make([]float32, n*width), make([]int64, n*width*k), make([]float32, n*width*k)
	var reward []float32
	for i := range top {
		top[i], lps[i] = -1, float32(math.Inf(-1))
	}
	for i, row := range g.Tokens {
		reward = append(reward, float32(g.Scores[i]))
		for p, id := range row {
			at := i*width + p
			ids[at], mask[at] = id, 1
			if g.Masks[i][p] >= 0 {
				trained[at], logs[at] = 1, float32(g.InferenceLogProbs[i][p])
			}
			for j, v := range g.DistillTokenIDs[i][p] {
				if i != silent {
					top[at*k+j], lps[at*k+j] = v, float32(g.DistillLogProbs[i][p][j])
				}
			}
		}
	}
	tasks := make([]int64, n)
	for i := range tasks {
		tasks[i] = task
	}
	return []tensors.Tensor{
		tensors.Of(
			"input_ids",
			ids,
			n,
			width,
		), tensors.Of("attention_mask", mask, n, width), tensors.Of("response_mask", trained, n, width),
		tensors.Of(
			"old_logprobs",
			logs,
			n,
			width,
		), tensors.Of("reward", reward, n), tensors.Of("reward_null", make([]int64, n), n),
		tensors.Of(
			"group",
			tasks,
			n,
		), tensors.Of("teacher_topk_ids", top, n, width, k), tensors.Of("teacher_topk_logprobs", lps, n, width, k),
	}
}

// TestRealServerHandsBackTeachers: groups of 8 from rl batches, with their scores and a teacher's best 20 at every
// position, reach a trainer unchanged; a group in which the teacher failed on a sequence arrives with its scores but
// without the columns. What a group asks of its teacher travels with it: one has fewer entries, another asked for none
// and its absence is not reported.
func TestRealServerHandsBackTeachers(t *testing.T) {
	url := realServer(t)
	post(
		t,
		url+"/register",
		`{"wandb_group":"g","wandb_project":"p","batch_size":32,"max_token_len":512,"checkpoint_dir":"/c",`+
			`"save_checkpoint_interval":100,"starting_step":0,"num_steps":50}`,
	)
	go func() {
		time.Sleep(200 * time.Millisecond)
		if resp, err := http.Get(url + "/batch"); err == nil { // the trainer starts
			resp.Body.Close()
		}
	}()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	const k = 20
	whole := taught(8, 12, k)
	few := taught(8, 12, 5)
	data := batches(
		t,
		"rl",
		rlBatch(whole, 0, k, -1),
		rlBatch(whole, 1, k, 5),
		rlBatch(few, 2, k, -1),
		rlBatch(whole, 3, k, -1),
	)
	ask(t, data, map[int]int{2: 5, 3: -1})
	ref, err := adapter(t, config(t, url, "")).Submit(t.Context(), data, "k")
	if err != nil || ref.Metadata["groups"] != "4" || ref.Metadata["without_teacher"] != "1" {
		t.Fatalf("%+v, %v", ref, err)
	}
	resp, err := http.Get(url + "/batch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Batch []*Group }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Batch) != 4 {
		t.Fatalf("batch of %d groups, %v", len(answer.Batch), err)
	}
	found := map[string]int{}
	for _, got := range answer.Batch {
		want := *whole
		asked := fmt.Sprint(got.GroupOverrides["teacher_top_k"])
		found[fmt.Sprint(asked, got.DistillTokenIDs != nil)]++
		if asked == "5" {
			want = *few
		}
		if want.GroupOverrides = got.GroupOverrides; got.DistillTokenIDs == nil {
			want.DistillTokenIDs, want.DistillLogProbs = nil, nil
		}
		want.EnvID = got.EnvID
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(map[string]int{"<nil>true": 1, "<nil>false": 1, "5true": 1, "-1false": 1}, found); diff != "" {
		t.Error("groups by what they ask for, with and without the columns", diff)
	}
}

// ask writes what each batch's group asks of its teacher into the index of batches.
func ask(t *testing.T, data trainers.DataSet, topK map[int]int) {
	t.Helper()
	path := data.Path(filepath.Join(data.Batches, "index.jsonl"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, k := range topK {
		row := fmt.Sprintf(`{"scored": {"teacher_top_k": %d}}`, k)
		lines[i] = strings.TrimSuffix(lines[i], "}") + `, "row_info": [` + row + strings.Repeat(", "+row, 7) + "]}"
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsSentIsFinite: whatever numbers a group holds, anything that passes the check can be written as JSON.
func TestWhatIsSentIsFinite(t *testing.T) {
	number := rapid.SampledFrom([]float64{0, 1, -3, math.NaN(), math.Inf(1), math.Inf(-1), 1e308})
	property.Check(t, func(t *rapid.T) {
		g := &Group{
			Tokens: [][]int64{{1, 2}},
			Masks:  [][]int64{{-100, 2}},
			Scores: rapid.SliceOfN(number, 1, 1).Draw(t, "scores"),
		}
		g.InferenceLogProbs = [][]float64{rapid.SliceOfN(number, 2, 2).Draw(t, "logprobs")}
		g.DistillTokenIDs = [][][]int64{{{1}, {2}}}
		g.DistillLogProbs = [][][]float64{
			{rapid.SliceOfN(number, 1, 1).Draw(t, "d0"), rapid.SliceOfN(number, 1, 1).Draw(t, "d1")},
		}
		if g.check(1, 0, false) == nil {
			if _, err := json.Marshal(g); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func batches(t *testing.T, channel string, files ...[]tensors.Tensor) trainers.DataSet {
	t.Helper()
	dir := t.TempDir()
	sub := filepath.Join(dir, "batches", channel, "train")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	index := ""
	for i, list := range files {
		var b bytes.Buffer
		if err := tensors.Write(&b, list, nil); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%05d.safetensors", i)
		if err := os.WriteFile(filepath.Join(sub, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		index += fmt.Sprintf(`{"file": "%s/train/%s", "channel": "%s", "split": "train"}`+"\n", channel, name, channel)
	}
	if err := os.WriteFile(filepath.Join(dir, "batches", "index.jsonl"), []byte(index), 0o644); err != nil {
		t.Fatal(err)
	}
	return trainers.DataSet{RunID: "r1", RunDir: dir, Batches: "batches"}
}

func collect(t *testing.T, d trainers.DataSet) (groups []*Group, faults []*fault) {
	t.Helper()
	if err := each(d, func(g *Group, f *fault) error {
		groups, faults = append(groups, g), append(faults, f)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return groups, faults
}

// TestComposerBatches: batches in the composer layout are refused, and the error names the setting.
func TestComposerBatches(t *testing.T) {
	for channel, name := range map[string]string{"rl": "rewards", "sdpo": "sdpo_loss_mask"} {
		t.Run(channel, func(t *testing.T) {
			d := batches(t, channel, []tensors.Tensor{tensors.Of(name, []float32{1}, 1)})
			err := each(d, func(*Group, *fault) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "collator.format: composer") {
				t.Errorf("%s: %v", channel, err)
			}
		})
	}
}

// TestRLBatches: the rows of a task are spread over several batches.
func TestRLBatches(t *testing.T) {
	d := batches(t, "rl",
		[]tensors.Tensor{
			tensors.Of(
				"input_ids",
				[]int64{7, 8, 9, 1, 2, 3},
				2,
				3,
			), tensors.Of("attention_mask", []int64{1, 1, 1, 1, 1, 1}, 2, 3),
			tensors.Of(
				"response_mask",
				[]int64{0, 0, 1, 0, 1, 1},
				2,
				3,
			), tensors.Of("old_logprobs", []float32{0, 0, -2, 0, -0.5, float32(math.Inf(-1))}, 2, 3),
			tensors.Of(
				"reward",
				[]float32{0.5, 1},
				2,
			), tensors.Of("reward_null", []int64{1, 0}, 2), tensors.Of("group", []int64{1, 0}, 2),
		},
		[]tensors.Tensor{
			tensors.Of("input_ids", []int64{4, 5, 6, 6}, 2, 2), tensors.Of("attention_mask", []int64{1, 1, 1, 0}, 2, 2),
			tensors.Of(
				"response_mask",
				[]int64{0, 1, 1, 0},
				2,
				2,
			), tensors.Of("old_logprobs", []float32{0, -1, float32(math.NaN()), 0}, 2, 2),
			tensors.Of(
				"reward",
				[]float32{0, 1},
				2,
			), tensors.Of("reward_null", []int64{0, 0}, 2), tensors.Of("group", []int64{0, 2}, 2),
		})
	groups, faults := collect(t, d)
	if len(groups) != 3 || faults[0] != nil || faults[1].reason != groupNotScored ||
		faults[2].reason != groupBadNumber {
		t.Fatalf("%+v, %+v", groups, faults)
	}
	if f := groups[0].check(2, 0, true); f != nil {
		t.Fatal(f)
	}
	want := &Group{
		Tokens:            [][]int64{{1, 2, 3}, {4, 5}},
		Masks:             [][]int64{{-100, 2, 3}, {-100, 5}},
		Scores:            []float64{1, 0},
		InferenceLogProbs: [][]float64{{1, -0.5, -9999}, {1, -1}},
	}
	if diff := cmp.Diff(want, groups[0]); diff != "" {
		t.Error(diff)
	}
}

func TestSDPOBatches(t *testing.T) {
	inf := float32(math.Inf(-1))
	d := batches(t, "sdpo", []tensors.Tensor{
		tensors.Of(
			"student_input_ids",
			[]int64{1, 2, 3, 4, 5, 0},
			2,
			3,
		), tensors.Of("student_attention_mask", []int64{1, 1, 1, 1, 1, 0}, 2, 3),
		tensors.Of("pair_student_row", []int64{0, 0, 1}, 3), tensors.Of("pair_student_pos", []int64{0, 1, 0}, 3),
		tensors.Of(
			"pair_teacher_topk_ids",
			[]int64{2, 9, 3, -1, 5, 8},
			3,
			2,
		), tensors.Of("pair_teacher_topk_logprobs", []float32{-0.5, -1, -0.25, inf, -2, -3}, 3, 2),
	})
	groups, _ := collect(t, d)
	if len(groups) != 2 {
		t.Fatal(groups)
	}
	if f := groups[0].check(1, 0, true); f != nil {
		t.Fatal(f)
	}
	want := &Group{
		Tokens: [][]int64{{1, 2, 3}}, Masks: [][]int64{{-100, 2, 3}}, Scores: []float64{0},
		DistillTokenIDs: [][][]int64{{{}, {2, 9}, {3}}}, DistillLogProbs: [][][]float64{{{}, {-0.5, -1}, {-0.25}}},
	}
	if diff := cmp.Diff(want, groups[0]); diff != "" {
		t.Error(diff)
	}
}

func TestIndexStaysInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.jsonl"), []byte(`{"file":"../../etc/passwd","channel":"rl","split":"train"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := each(trainers.DataSet{RunDir: dir, Batches: "."}, func(*Group, *fault) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("err = %v", err)
	}
}

// encoded returns a row as a run writes it, from a task with n rollouts.
func encoded(t *testing.T, n int) string {
	t.Helper()
	var rollouts []*builders.Resolved
	for i := range n {
		nodes := ttc.Chain(
			[]chat.Message{{Role: "user", Form: chat.Text, Text: "q"}, {Role: "assistant", Form: chat.Text, Text: "a"}},
			ttc.Yes,
		).Nodes
		nodes[0].TokenIDs, nodes[1].TokenIDs, nodes[1].LogProbs = []int32{
			1,
			2,
		}, []int32{
			3,
			int32(i),
		}, []float32{
			-0.5,
			float32(math.Inf(-1)),
		}
		reward := float64(i)
		rollouts = append(
			rollouts,
			&builders.Resolved{
				Record:   &builders.Rollout{Task: "t", Reward: &reward},
				Origin:   &builders.Origin{},
				Messages: builders.Passage{Nodes: nodes},
			},
		)
	}
	format, _ := rows.Lookup("atropos")
	row, _, err := rows.NewEncoder(format, rows.Options{}).AppendTogether(nil, rows.Train, rollouts)
	if err != nil {
		t.Fatal(err)
	}
	return string(row)
}

// TestRealServer pushes to atroposlib's own server and reads the groups back the way a trainer does.
func TestRealServer(t *testing.T) {
	url := realServer(t)
	post(
		t,
		url+"/register",
		`{"wandb_group":"g","wandb_project":"p","batch_size":8,"max_token_len":512,"checkpoint_dir":"/c","save_checkpoint_interval":100,"starting_step":0,"num_steps":50}`,
	)
	go func() {
		time.Sleep(200 * time.Millisecond)
		resp, err := http.Get(url + "/batch") // the trainer starts
		if err == nil {
			resp.Body.Close()
		}
	}()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	a := adapter(t, config(t, url, ""))
	g := &Group{}
	if err := json.Unmarshal([]byte(line(4, 100)), g); err != nil {
		t.Fatal(err)
	}
	for range g.Tokens {
		g.DistillTokenIDs = append(g.DistillTokenIDs, [][]int64{{}, {1, 2}, {3}})
		g.DistillLogProbs = append(g.DistillLogProbs, [][]float64{{}, {-1, -2}, {-3}})
	}
	distilled, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	written := encoded(t, 4)
	d := data(t, written, string(distilled), line(2, 20), `{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}`, line(4, 40))
	ref, err := a.Submit(t.Context(), d, "k")
	if err != nil {
		t.Fatal(err)
	}
	if ref.Metadata["groups"] != "3" || ref.ID != "nat-go_0" {
		t.Errorf("%+v", ref)
	}
	var answer struct {
		Batch []map[string]any `json:"batch"`
	}
	resp, err := http.Get(url + "/batch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Batch) != 2 {
		t.Fatalf("batch of %d groups, HTTP %d, %v", len(answer.Batch), resp.StatusCode, err)
	}
	var row map[string]any
	if err := json.Unmarshal([]byte(written), &row); err != nil {
		t.Fatal(err)
	}
	for k, v := range row {
		if diff := cmp.Diff(v, answer.Batch[0][k]); diff != "" {
			t.Errorf("%s of a row of ours: %s", k, diff)
		}
	}
	var want map[string]any
	if err := json.Unmarshal(distilled, &want); err != nil {
		t.Fatal(err)
	}
	for _, lp := range want["inference_logprobs"].([]any) {
		lp.([]any)[0] = 1.0
	}
	for k, v := range want {
		if diff := cmp.Diff(v, answer.Batch[1][k]); diff != "" {
			t.Errorf("%s: %s", k, diff)
		}
	}
	st, err := a.Status(t.Context(), ref)
	if err != nil || st.State != trainers.Completed || !strings.Contains(st.Message, "do not fill a batch") {
		t.Errorf("%+v, %v", st, err)
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Error(err)
	}
}

func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("%s: HTTP %d", url, resp.StatusCode)
	}
}

// realServer starts atroposlib's run-api from PyPI, in a virtual environment kept in the user's cache folder.
func realServer(t *testing.T) string {
	t.Helper()
	pythontest.Long(t, "no server of Atropos's own is asked")
	python, err := venv()
	if err != nil {
		if pythontest.Required("python") {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: no real Atropos server: ", err)
	}
	var said []string
	for range 3 { // another process can take the port before the server does
		url, lines := startServer(t, python)
		if url != "" {
			return url
		}
		said = append(said, lines...)
	}
	t.Fatal("the server did not start: ", strings.Join(said, "\n"))
	return ""
}

// startServer starts run-api on a free port and returns its URL. If the server ends instead, it returns what it said.
func startServer(t *testing.T, python string) (url string, said []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	cmd := exec.Command(python, "-m", "atroposlib.cli.run_api", "--host", "127.0.0.1", "--port", port)
	cmd.Dir = t.TempDir()
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for s := bufio.NewScanner(out); s.Scan(); said = append(said, s.Text()) {
		if strings.Contains(s.Text(), "Uvicorn running") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return "http://127.0.0.1:" + port, nil
		}
	}
	return "", said
}

// venv returns the python of a virtual environment with what the server needs; atroposlib's own list of dependencies
// pulls in much more.
func venv() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "nat-go", "atropos-0.4.0")
	python := filepath.Join(dir, "bin", "python")
	if exec.Command(python, "-c", "import atroposlib, fastapi, uvicorn, numpy").Run() == nil {
		return python, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	for _, argv := range [][]string{
		{"python3", "-m", "venv", dir},
		{python, "-m", "pip", "install", "-q", "--no-deps", "atroposlib==0.4.0"},
		{python, "-m", "pip", "install", "-q", "fastapi", "uvicorn", "pydantic", "numpy"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %.300s", strings.Join(argv, " "), err, out)
		}
	}
	return python, nil
}

// TestTopKOfRows checks that a row without a request to a teacher doesn't get the one of the next row.
func TestTopKOfRows(t *testing.T) {
	dir := t.TempDir()
	index := `{"file":"a.safetensors","channel":"rl","split":"train","row_info":[{},{"scored":{"teacher_top_k":5}}]}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "index.jsonl"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	batches, err := trainBatches(dir)
	if err != nil {
		t.Fatal(err)
	}
	if k := batches["rl"][0].topK; len(k) != 2 || k[0] != nil || k[1] == nil || *k[1] != 5 {
		t.Errorf("%v", k)
	}
}
