package resume

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// servers are a workflow, a teacher and a training service on loopback that can misbehave, and a third party's server,
// which all redirects lead to.
type servers struct {
	workflow, teacher *httptest.Server
	service           *customizertest.Service
	other             *httptest.Server

	mu     sync.Mutex
	rand   *rand.Rand
	how    []string // ways to misbehave; none: they behave well
	share  float64  // of the requests that get misbehaviour
	did    map[string]int
	leaked []string // secrets that the other server received
}

const soakToken = "soak-token-51f2"

// misdeeds are what a server does instead of answering or, for the second half of them, along with its answer.
var misdeeds = []string{
	"500", "429", "429 for a day", "redirect", "redirect in a circle", "stall", "flood", "flood of headers", "nothing",
	"hang up", "not what was asked for",
	"answer cut", "answer lost", "answer trickled",
}

func newServers(t *testing.T, r *rand.Rand) *servers {
	t.Helper()
	s := &servers{rand: r, did: map[string]int{}}
	s.other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := fmt.Sprint(r.Header, r.URL); strings.Contains(text, soakToken) {
			s.mu.Lock()
			s.leaked = append(s.leaked, text)
			s.mu.Unlock()
		}
		_, _ = io.WriteString(w, `data: {"value": "not yours"}`+"\n\n")
	}))
	s.workflow = httptest.NewServer(s.unruly(e2e.Workflow))
	s.teacher = httptest.NewServer(s.unruly(scores))
	t.Cleanup(func() {
		for _, h := range []*httptest.Server{s.workflow, s.teacher, s.other} {
			h.CloseClientConnections()
			h.Close()
		}
	})
	return s
}

// scores answers as vLLM does: for each token its own log-prob and those of three others.
func scores(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt []int `json:"prompt"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	list := []any{nil}
	for _, id := range q.Prompt[min(1, len(q.Prompt)):] {
		at := map[string]any{fmt.Sprint(id): map[string]any{"logprob": -0.5}}
		for k := range 3 {
			at[fmt.Sprint((id+1+k)%300)] = map[string]any{"logprob": -3 - float64(k)}
		}
		list = append(list, at)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"prompt_logprobs": list}}})
}

// behave makes the servers misbehave for a share of the requests from now on.
func (s *servers) behave(share float64, how ...string) {
	s.mu.Lock()
	s.share, s.how = share, how
	s.mu.Unlock()
}

func (s *servers) misdeed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.how) == 0 || s.rand.Float64() >= s.share {
		return ""
	}
	how := s.how[s.rand.IntN(len(s.how))]
	s.did[how]++
	return how
}

func (s *servers) unruly(behave http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if how := s.misdeed(); how != "" {
			s.misbehave(w, r, how, behave)
			return
		}
		behave(w, r)
	})
}

func (s *servers) misbehave(w http.ResponseWriter, r *http.Request, how string, behave http.HandlerFunc) {
	switch how {
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "Internal Server Error, "+r.Header.Get("Authorization"))
	case "429", "429 for a day":
		if how != "429" {
			w.Header().Set("Retry-After", "86400")
		}
		w.WriteHeader(http.StatusTooManyRequests)
	case "redirect":
		code := []int{301, 302, 303, 307, 308}[len(r.URL.Path)%5]
		http.Redirect(w, r, s.other.URL+r.URL.Path, code)
	case "redirect in a circle":
		http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
	case "stall":
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that the client is gone only after reading everything
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute): // longer than any limit here
		}
	case "flood":
		block := []byte(strings.Repeat("x", 1<<16))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	case "flood of headers":
		for i := range 20000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
		}
	case "nothing":
		w.WriteHeader(http.StatusOK)
	case "not what was asked for":
		_, _ = io.WriteString(w, "\x1b[2J<html>Please log in\x00\xff")
	case "hang up":
		panic(http.ErrAbortHandler)
	default:
		s.spoil(w, r, how, behave)
	}
}

// spoil answers with something that the client should not accept.
func (s *servers) spoil(w http.ResponseWriter, r *http.Request, how string, behave http.HandlerFunc) {
	answer := httptest.NewRecorder()
	behave(answer, r)
	body := answer.Body.Bytes()
	maps.Copy(w.Header(), answer.Header())
	switch how {
	case "answer cut":
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "answer lost":
		panic(http.ErrAbortHandler)
	case "answer trickled":
		w.WriteHeader(answer.Code)
		for i := range body {
			if _, err := w.Write(body[i : i+1]); err != nil || r.Context().Err() != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			if i > 20 && i < 40 {
				time.Sleep(100 * time.Millisecond) // in total longer than an answer may take
			}
		}
	}
}

// served is a soak whose runs send requests to servers: for examples, for log-probs, and for training.
type served struct {
	*soak
	*servers
	kinds map[bool]map[string]string // by whether the teacher is used: the files of the undisturbed run
}

func newServed(t *testing.T, s *soak) *served {
	t.Helper()
	b := &bed{Bed: &e2e.Bed{
		Dir: filepath.Join(s.Dir, "served"), Exe: s.Exe, Env: append(s.Env, "SOAK_TOKEN="+soakToken),
	}}
	v := &served{soak: &soak{bed: b, t: t, rand: s.rand}, servers: newServers(t, s.rand)}
	if err := os.Mkdir(v.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var questions []string
	for i := range 12 {
		questions = append(questions, fmt.Sprintf(`{"id": "%d", "question": "q%d"}`, i, i))
	}
	v.Write(t, "q.json", "["+strings.Join(questions, ",")+"]")
	service := &customizertest.Service{}
	service.Fault = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		how := v.misdeed()
		if how == "429 for a day" && r.Method == http.MethodGet {
			how = "429" // a wait for a job pauses for up to ten minutes if it is asked to, longer than soakHung
		}
		if how != "" {
			v.misbehave(w, r, how, func(w http.ResponseWriter, r *http.Request) { service.Answer(w, r, body) })
		}
		return how != ""
	}
	v.service = customizertest.Start(v.t, service)
	v.kinds = map[bool]map[string]string{}
	v.round("", false)
	if e2e.WithTokenizers() {
		v.round("", true)
	}
	return v
}

// configure names the servers to use: a workflow makes the examples, or a teacher scores them.
func (v *served) configure(taught bool) {
	hints, err := filepath.Abs("../../../../../examples/hints")
	if err != nil {
		v.t.Fatal(err)
	}
	from := fmt.Sprintf(`
sources:
  made:
    {_type: endpoint, endpoint: %q, dataset: q.json, token: "${SOAK_TOKEN}", timeout: 1s, tries: 2,
      max_answer_bytes: 1048576}
trajectory_builders: {b: {_type: dpo_traj_builder}}
`, v.workflow.URL)
	adapter := fmt.Sprintf(`
    _type: nemo_customizer_trainer_adapter
    entity_host: %[1]q
    datastore_host: %[1]q
    hf_token: "${SOAK_TOKEN}"
    entity_token: "${SOAK_TOKEN}"
    namespace: team-a
    customization_config: meta/x@v1+A100
    poll_interval_seconds: 0.02
    request_timeout: 1s
    connect_timeout: 1s
`, v.service.URL)
	if taught {
		adapter = "{_type: exec_trainer_adapter, command: [/bin/sh, -c, 'echo step=1'], poll_interval: 20ms}"
		from = fmt.Sprintf(`
sources: {kept: {_type: traces, path: %[1]s/traces.jsonl}}
trajectory_builders:
  b: {_type: sdpo_traj_builder, target: failed_turn, emit: [distillation, repair_pairs], hints: {sources: [schema]}}
collator:
  tokenizer: %[1]s/tokenizer
  teacher:
    {endpoint: %[2]q, model: m, api_key: "${SOAK_TOKEN}", top_k: 3, timeout: 1s, vocabulary: assume,
      max_answer_bytes: 1048576}
`, hints, v.teacher.URL)
	}
	v.Write(v.t, "finetune.yml", from+fmt.Sprintf(`
dataset: {formats: [customizer, trl], split: {validation: 0}}
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters:
  a: %s
finetuning: {enabled: true, trajectory_builder: b, trainer: t, trainer_adapter: a, output_dir: out}
`, adapter))
}

// round makes a run while the servers misbehave in one way, or in all of them, and completes it once they behave.
func (v *served) round(how string, taught bool) {
	v.t.Helper()
	jobs := v.service.JobCount()
	v.configure(taught)
	share := []float64{0.1, 0.4, 1}[v.soak.rand.IntN(3)]
	switch how {
	case "":
		v.behave(0)
	case "anything":
		v.behave(share/2, misdeeds...)
	default:
		v.behave(share, how)
	}
	const out = "out"
	r := v.finish(v.Run(nil, out))
	v.ended("the run", r)
	v.behave(0)
	for range 4 {
		if r.Code == 0 {
			break
		}
		next := v.Resume(out)
		if _, err := os.Stat(filepath.Join(v.Dir, out, "r", "records", "begun.json")); err != nil {
			_ = os.RemoveAll(filepath.Join(v.Dir, out, "r"))
			next = v.Run(nil, out) // it ended before it began
		}
		r = v.finish(next)
		v.ended("the resumed run", r)
	}
	if r.Code != 0 {
		v.t.Errorf("%q: can't be brought to its end: exit %d: %s", how, r.Code, r.Stderr)
		return
	}
	v.look(how, out, taught)
	if n := v.service.JobCount() - jobs; n != 1 && !taught {
		v.t.Errorf("%q: %d jobs were made", how, n)
	}
	if err := os.RemoveAll(filepath.Join(v.Dir, out)); err != nil {
		v.t.Error(err)
	}
}

// look checks a completed run.
func (v *served) look(how, out string, taught bool) {
	v.t.Helper()
	got := v.dataSet(out)
	maps.DeleteFunc(got, func(name, _ string) bool {
		return name == "records/commit.json" || name == "manifest.json" // they record when answers were written
	})
	dropped, err := os.ReadFile(filepath.Join(v.Dir, out, "r", "dropped.jsonl"))
	if err != nil {
		v.t.Error(err)
	}
	switch said := strings.Contains(string(dropped), `"teacher_`); {
	case v.kinds[taught] == nil:
		v.kinds[taught] = got
	case !said: // a site without log-probs is listed and counted, which is just as good
		if d := cmp.Diff(v.kinds[taught], got); d != "" {
			v.t.Errorf("%q: another data set (-want +got):\n%s", how, d)
		}
	}
	if r := v.finish(v.Command(nil, "dataset", "verify", filepath.Join(out, "r"))); r.Code != 0 {
		v.t.Errorf("%q: not sound: %s%s", how, r.Stdout, r.Stderr)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.leaked) > 0 {
		v.t.Errorf("%q: another server was sent the token: %s", how, v.leaked[0])
	}
	v.told(out)
}

// told looks for the token in every file that was written.
func (v *served) told(out string) {
	for _, name := range slices.Sorted(maps.Keys(v.Content(v.t, out))) {
		text, err := os.ReadFile(filepath.Join(v.Dir, out, "r", name))
		if err != nil || strings.Contains(string(text), soakToken) {
			v.t.Errorf("%s holds the token, or can't be read: %v", name, err)
		}
	}
}
