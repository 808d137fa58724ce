package endpoint

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/oracletest"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve acts as `nat serve`: it answers in the shapes of the recorded answers.
type serve struct {
	mu    sync.Mutex
	asked []string
	key   string // the workflow's parameter
	fault func(question string, n int, w http.ResponseWriter) bool
	busy  atomic.Int32
	most  atomic.Int32
}

func (s *serve) start(t *testing.T) string {
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

func (s *serve) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := s.busy.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.busy.Add(-1)
	body, _ := io.ReadAll(r.Body)
	var in map[string]string
	_ = json.Unmarshal(body, &in) // unreadable input lacks the key
	key := s.key
	if key == "" {
		key = "input_message"
	}
	switch {
	case r.URL.Path != "/generate/full":
		w.WriteHeader(404)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
		return
	case in[key] == "":
		w.WriteHeader(422)
		fmt.Fprintf(w, `{"detail":[{"type":"missing","loc":["body",%q],"msg":"Field required","input":{}}]}`, key)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, in[key])
	n, fault := len(s.asked), s.fault
	s.mu.Unlock()
	if fault != nil && fault(in[key], n, w) {
		return
	}
	if strings.Contains(in[key], "[raises]") {
		fmt.Fprintf(w, `{"code":"workflow_error","message":"exploded: %s","details":"RuntimeError"}`, in[key])
		return
	}
	fmt.Fprintf(w, "data: {\"value\":\"answer to \"}\n\n")
	for i := range 2 {
		payload, _ := json.Marshal(map[string]any{
			"event_type":      "TTC_END",
			"event_timestamp": 1.5,
			"name":            "dpo_candidate_move",
			"UUID":            "u",
			"metadata":        map[string]any{},
			"data": map[string]any{
				"input":           in[key],
				"output":          fmt.Sprintf("o%d", i),
				"turn_id":         "t",
				"candidate_index": i,
				"score":           float64(i),
			},
		})
		line, _ := json.Marshal(map[string]any{
			"id":        "u",
			"parent_id": "p",
			"type":      "TTC_END",
			"name":      "dpo_candidate_move",
			"payload":   string(payload),
		})
		fmt.Fprintf(w, "intermediate_data: %s\n\n", line)
	}
	fmt.Fprintf(w, "observability_trace: {}\n\ndata: {\"value\":%q}\n\n", in[key])
}

func config(t *testing.T, url, ext, questions string) Config {
	t.Helper()
	c := schema.New[Config]()
	c.Endpoint, c.Dataset, c.Backoff = url, filepath.Join(t.TempDir(), "questions"+ext), time.Millisecond
	if err := os.WriteFile(c.Dataset, []byte(questions), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

const threeQuestions = `{"id": "a", "question": "q1", "extra": 1}
{"id": "b", "question": "q2 [raises]"}
{"id": "c", "question": "q1"}
`

func collect(t *testing.T, c Config, dir string) (string, *Report, error) {
	t.Helper()
	path, report, err := askAll(t.Context(), c, dir, func(int, int) {})
	if err != nil {
		return "", nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), report, nil
}

func TestCollect(t *testing.T) {
	s := &serve{}
	c := config(t, s.start(t)+"/generate", ".jsonl", threeQuestions)
	dir := t.TempDir()
	text, report, err := collect(t, c, dir)
	if err != nil {
		t.Fatal(err)
	}
	if report.Questions != 3 || report.Asked != 3 || report.Raised != 1 ||
		!strings.Contains(report.First, "RuntimeError: exploded") {
		t.Errorf("%+v", report)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || rows[0]["generated_answer"] != "answer to q1" || rows[0]["extra"] != 1.0 ||
		rows[1]["generated_answer"] != nil || rows[2]["id"] != "c" {
		t.Errorf("%s", text)
	}
	before, err := os.Stat(filepath.Join(dir, "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	again, report, err := collect(t, c, dir)
	if after, err := os.Stat(filepath.Join(dir, "workflow_output.json")); err != nil || !os.SameFile(before, after) {
		t.Errorf("a complete collection was written again: %v", err)
	}
	if err != nil || again != text || report.Asked != 0 || len(s.asked) != 3 {
		t.Errorf("a second collection asked %d, %d in all, %v", report.Asked, len(s.asked), err)
	}
	read := schema.New[nat.Config]()
	read.Path = []string{filepath.Join(dir, nat.FileName)}
	src, err := nat.Open(t.Context(), read, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	var seen []string
	for {
		ex, _, err := src.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%s:%d:%v", ex.ID, len(ex.Candidates), ex.Interrupted))
	}
	if got := strings.Join(seen, " "); got != "a:2:false b:0:true c:2:false" {
		t.Error(got)
	}
}

// TestResume: after a service dies partway, only what is missing is requested.
func TestResume(t *testing.T) {
	s := &serve{}
	var questions strings.Builder
	for i := range 20 {
		fmt.Fprintf(&questions, "{\"id\": %d, \"question\": \"q%d\"}\n", i, i)
	}
	s.fault = func(_ string, n int, w http.ResponseWriter) bool {
		if n > 8 {
			w.WriteHeader(502)
			return true
		}
		return false
	}
	c := config(t, s.start(t), ".jsonl", questions.String())
	c.Concurrency = 2
	dir := t.TempDir()
	if _, _, err := collect(t, c, dir); err == nil || !strings.Contains(err.Error(), "can be resumed") {
		t.Fatalf("err = %v", err)
	}
	s.mu.Lock()
	s.fault, s.asked = nil, nil
	s.mu.Unlock()
	_, report, err := collect(t, c, dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	// a request of the first collection may still reach the server: the same question, once more.
	slices.Sort(s.asked)
	if err != nil || report.Asked != 12 || len(slices.Compact(s.asked)) != 12 {
		t.Errorf("%+v, asked %q, %v", report, s.asked, err)
	}
	if s.most.Load() > 2 {
		t.Errorf("%d questions at once", s.most.Load())
	}
}

// TestTraps covers what NAT's own client ignores.
func TestTraps(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     *serve
		edit  func(*Config)
		want  string
		asked int
	}{
		{"parameter of another name", &serve{key: "question"}, func(*Config) {}, "set input_key: question", 0},
		{"that name", &serve{key: "question"}, func(c *Config) { c.InputKey = "question" }, "", 3},
		{"wrong address", &serve{}, func(c *Config) { c.Endpoint += "/api" }, "is this the address of a nat serve", 0},
		{"with a trailing slash", &serve{}, func(c *Config) { c.Endpoint += "/generate/full/" }, "", 3},
		{
			"no server",
			&serve{},
			func(c *Config) { c.Endpoint = "http://127.0.0.1:1"; c.Tries = 1 },
			"connection refused",
			0,
		},
		{"no address", &serve{}, func(c *Config) { c.Endpoint = "localhost" }, "expected an address like", 0},
		{"token refused", &serve{fault: func(_ string, _ int, w http.ResponseWriter) bool {
			w.WriteHeader(401)
			return true
		}}, func(c *Config) { c.Concurrency = 1 }, "token is missing or wrong", 1},
		{"busy, then not", &serve{fault: func(_ string, n int, w http.ResponseWriter) bool {
			if n == 1 {
				w.WriteHeader(503)
			}
			return n == 1
		}}, func(*Config) {}, "", 4},
		{"broken off", &serve{fault: func(_ string, n int, w http.ResponseWriter) bool {
			if n == 1 {
				fmt.Fprint(w, "data: {\"val")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			return false
		}}, func(*Config) {}, "", 4},
		{"steps without an end", &serve{fault: func(_ string, n int, w http.ResponseWriter) bool {
			if n == 1 {
				fmt.Fprint(w, "intermediate_data: {\"id\":\"x\",\"name\":\"n\",\"payload\":\"{}\"}\n\n")
			}
			return n == 1
		}}, func(*Config) {}, "", 4},
		{
			"slow", &serve{fault: func(_ string, _ int, _ http.ResponseWriter) bool {
				time.Sleep(60 * time.Millisecond)
				return false
			}}, func(c *Config) { c.Timeout, c.Tries = 20*time.Millisecond, 1 }, "no answer within 20ms",
			-1,
		}, // on a busy machine a question may not have reached the server
		{"endless", &serve{fault: func(_ string, _ int, w http.ResponseWriter) bool {
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
			return true
		}}, func(c *Config) { c.MaxAnswer, c.Tries = 2000, 1 }, "larger than max_answer_bytes", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(t, c.s.start(t), ".jsonl", threeQuestions)
			c.edit(&conf)
			_, _, err := collect(t, conf, t.TempDir())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
			c.s.mu.Lock()
			defer c.s.mu.Unlock()
			if len(c.s.asked) != c.asked && c.asked >= 0 {
				t.Errorf("asked %d, want %d", len(c.s.asked), c.asked)
			}
		})
	}
}

func TestTokenStaysHidden(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("user:canary-pw"))
	s := &serve{fault: func(_ string, _ int, w http.ResponseWriter) bool {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"detail": "Bearer canary-token is bad, and so are canary-pw and Basic %s"}`, basic)
		return true
	}}
	conf := config(t, strings.Replace(s.start(t), "http://", "http://user:canary-pw@", 1), ".jsonl", threeQuestions)
	conf.Token = "canary-token"
	_, _, err := collect(t, conf, t.TempDir())
	if err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), basic) {
		t.Errorf("err = %v", err)
	}
}

// TestMovedService: only the service itself is asked, whatever it says; a page that a redirect leads to never becomes
// data.
func TestMovedService(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		fmt.Fprint(w, "data: {\"value\":\"a page\"}\n\n")
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			h := httptest.NewServer(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, other.URL+r.URL.Path, status)
				}),
			)
			conf := config(t, h.URL, ".jsonl", threeQuestions)
			conf.Token = "canary-token"
			_, _, err := collect(t, conf, t.TempDir())
			h.Close()
			if err == nil || !strings.Contains(err.Error(), "redirected to "+other.URL) {
				t.Errorf("%d: %v", status, err)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Errorf("the other server was asked %d times", elsewhere.Load())
	}
}

func TestQuestionFiles(t *testing.T) {
	s := &serve{}
	url := s.start(t)
	for ext, text := range map[string]string{
		".json": `[{"id": 1, "question": "q1"}]`, ".csv": "\ufeffid,question\n007,\"q1, with a comma\"\n",
	} {
		t.Run(ext, func(t *testing.T) {
			got, _, err := collect(t, config(t, url, ext, text), t.TempDir())
			if err != nil || !strings.Contains(got, "answer to q1") || ext == ".csv" && !strings.Contains(got, `"id":"007"`) {
				t.Errorf("%s: %s, %v", ext, got, err)
			}
		})
	}
	for _, c := range []struct{ ext, text, want string }{
		{".xls", "", "empty"}, {".parquet", "PAR1", "Convert it"}, {".csv", "id,q\n", `missing column "question"`}, {".jsonl", `{"id": 1}`, "question_key"}, {".json", `[{"id": 1`, ""},
	} {
		t.Run(c.ext, func(t *testing.T) {
			if _, _, err := collect(t, config(t, url, c.ext, c.text), t.TempDir()); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.ext, err)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &serve{fault: func(string, int, http.ResponseWriter) bool { cancel(); return false }}
	if _, _, err := askAll(ctx, config(t, s.start(t), ".jsonl", threeQuestions), t.TempDir(), func(int, int) {}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// TestRecorded parses everything that a real nat serve sent in reply to questions asked the way we ask them: each step
// it emitted, and whether the workflow raised.
func TestRecorded(t *testing.T) {
	paths := oracletest.Glob(t, "nat", "serve", "*full*.body")
	paths = append(paths, oracletest.Glob(t, "nat", "serve", "*", "*full*.body")...)
	for _, path := range paths {
		status, err := os.ReadFile(strings.TrimSuffix(path, ".body") + ".status")
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(status), "200") { // is judged by its status, and never parsed
			continue
		}
		a, err := parse(b)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var steps []map[string]any
		if err := json.Unmarshal(a.steps.End(), &steps); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		want, raised := strings.Count("\n"+string(b), "\nintermediate_data:"), strings.Contains("\n"+string(b), "\n{")
		if len(steps) != want || raised != (a.raised != "") || !raised && a.value == nil {
			t.Errorf("%s: %d steps of %d, raised %q", path, len(steps), want, a.raised)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("data: {\"value\": 1}\n\nintermediate_data: {\"payload\": \"{\"}"))
	f.Add([]byte("{\"code\": \"x\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse(b)
		if err == nil && !json.Valid(a.steps.End()) && !strings.ContainsAny(string(a.steps), "NI") &&
			!strings.Contains(string(a.steps), "\xed") {
			t.Fatalf("steps are not JSON: %s", a.steps)
		}
	})
}
