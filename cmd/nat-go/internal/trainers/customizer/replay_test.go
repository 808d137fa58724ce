package customizer

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// exchange is one line of a transcript.
type exchange struct {
	Service string `json:"service"`
	Request struct {
		Method  string            `json:"method"`
		Target  string            `json:"raw_target"`
		Headers map[string]string `json:"headers"`
		Len     int64             `json:"body_len"`
		SHA256  string            `json:"body_sha256"`
		Text    string            `json:"body_text"`
		Elided  bool              `json:"body_elided"`
	} `json:"request"`
	Response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Text    string            `json:"body_text"`
		JSON    json.RawMessage   `json:"body_json"`
		Dropped bool              `json:"dropped_connection"`
	} `json:"response"`
}

type outcome struct {
	Driver string          `json:"driver"`
	Config json.RawMessage `json:"adapter_config"`
	RunID  string          `json:"run_id"`
	Calls  []struct {
		Call   string          `json:"call"`
		OK     bool            `json:"ok"`
		Result json.RawMessage `json:"result"`
	} `json:"calls"`
	What string `json:"what"`
}

// TestReplay plays the recorded transcripts of NAT 1.9.0: the same requests, in the same order, with the same decoded
// bodies. Where NAT is wrong the transcript is edited to what is right; each edit is one of the differences that the
// package's documentation lists.
func TestReplay(t *testing.T) {
	for _, dir := range scenarios(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			out := readOutcome(t, dir)
			if !strings.Contains(out.Driver, "TrainerAdapter") {
				t.Skip("not a session of NAT's adapter: " + out.Driver)
			}
			script, skip := edit(readTranscript(t, dir), out)
			if skip != "" {
				t.Skip(skip)
			}
			p := newPlayer(t, script)
			p.beyond = !call(out, "submit") && (len(script) == 0 || script[len(script)-1].Response.Status/100 == 2)
			a := p.adapter(t, out)
			p.play(t, a, out)
			p.finish(t)
		})
	}
}

func scenarios(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("NATGO_CONFORMANCE")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "..", "..", "shared", "conformance")
	}
	dirs, _ := filepath.Glob(filepath.Join(root, "wire", "customizer", "*", "transcript.jsonl"))
	if len(dirs) == 0 {
		t.Skip("no transcripts under " + root + " (set NATGO_CONFORMANCE)")
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func readOutcome(t *testing.T, dir string) outcome {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "outcome.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out outcome
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func readTranscript(t *testing.T, dir string) []exchange {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "transcript.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []exchange
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var x exchange
		if err := json.Unmarshal(sc.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

// edit turns what NAT did into what is right. skip names a difference that leaves nothing of the transcript to play.
func edit(in []exchange, out outcome) (script []exchange, skip string) {
	conf := configOf(out)
	for i, x := range in {
		if x.Request.Elided {
			return nil, "the transcript leaves out the file (TestUpload has files of every size)"
		}
		if strings.Contains(x.Request.Target, "/xet-write-token/") {
			return nil, "this client goes to Xet without asking; ours asks the store (TestUpload)"
		}
		if conf.Hyperparameters.TrainingType == "sft" {
			return nil, "NAT sends preference rows as sft; we refuse (TestSFTRefusesPreferences)"
		}
		// A conflict is not asked again, nor a job whose answer was lost.
		if x.Request.Method == http.MethodPost && x.Request.Headers["x-stainless-retry-count"] > "0" {
			before := in[i-1].Response
			if before.Status == http.StatusConflict || strings.HasSuffix(x.Request.Target, "/jobs") && before.Status != http.StatusTooManyRequests {
				continue
			}
		}
		// An empty token sends no header.
		if strings.TrimSpace(x.Request.Headers["authorization"]) == "Bearer" {
			delete(x.Request.Headers, "authorization")
		}
		// Xet is not offered.
		x.Request.Text = strings.Replace(x.Request.Text, `["basic","multipart","xet"]`, `["basic","multipart"]`, 1)
		// The LFS action's header is sent, as git-lfs does.
		if x.Request.Method == http.MethodPut && strings.Contains(in[i-1].Response.Text+string(in[i-1].Response.JSON), "lfs-action-token") {
			x.Request.Headers["authorization"] = "Bearer lfs-action-token"
		}
		// The deployment is polled by its name.
		if x.Request.Method == http.MethodGet && x.Request.Target == "/v1/deployment/model-deployments" {
			x = byName(x, conf, out)
		}
		script = append(script, x)
		// What is refused at the start is not tried further.
		if x.Service == "entity" && x.Response.Status == http.StatusUnauthorized {
			break
		}
	}
	return script, ""
}

func byName(x exchange, conf *Config, out outcome) exchange {
	n := "nat-deployment-run"
	if conf.Deployment.Name != nil {
		n = *conf.Deployment.Name
	}
	x.Request.Target += "/" + conf.Namespace + "/" + n
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	body := x.Response.JSON
	if body == nil {
		body = json.RawMessage(x.Response.Text)
	}
	_ = json.Unmarshal(body, &list) // an error reply stays as it is
	for _, d := range list.Data {
		x.Response.JSON, x.Response.Text = d, string(d)
	}
	return x
}

func configOf(out outcome) *Config {
	c := new(Config)
	doc, _ := schema.Parse("adapter_config", out.Config, schema.DefaultLimits)
	if doc == nil {
		return c
	}
	spec := schema.MustOf(c)
	_ = spec.Decode(doc, doc.Root, c, schema.Options{}) // "type" is an unknown key here
	return c
}

// key is the key of the replayed submission; what it is part of is put back to NAT's names before comparing.
const key = "run_20260102_030405_ab12cd34-0badcafe"

// player answers requests from a script and remembers the first that is not in it.
type player struct {
	mu             sync.Mutex
	script         []exchange
	next           int
	bad            string
	beyond         bool // NAT gave up on an answer that is all right; we go on
	ended          bool
	statuses, seen int
	server         map[string]*httptest.Server
}

func newPlayer(t *testing.T, script []exchange) *player {
	p := &player{script: script, server: map[string]*httptest.Server{}}
	for _, service := range []string{"entity", "datastore"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, service) }))
		t.Cleanup(s.Close)
		p.server[service] = s
	}
	return p
}

func (p *player) adapter(t *testing.T, out outcome) *Adapter {
	t.Helper()
	conf := configOf(out)
	slash := strings.Repeat("/", strings.Count(strings.TrimPrefix(conf.EntityHost, "{{ENTITY}}"), "/"))
	conf.backoff = time.Millisecond
	conf.EntityHost, conf.DatastoreHost = p.server["entity"].URL+slash, p.server["datastore"].URL+slash
	a, err := New(conf, trainers.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// natural puts back NAT's names.
func natural(s string) string {
	s = strings.ReplaceAll(s, "nat-dpo-run-20260102-030405-ab12cd34-0badcafe", "nat-dpo")
	for _, what := range []string{"nat-deploy-config-", "nat-deployment-"} {
		s = strings.ReplaceAll(s, what+"run_20260102_030405_ab12cd34", what+"run")
		s = strings.ReplaceAll(s, what+"run-20260102-030405-ab12cd34-0badcafe", what+"run")
	}
	return s
}

func (p *player) answer(w http.ResponseWriter, r *http.Request, service string) {
	body, err := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.bad != "" || p.next >= len(p.script) {
		if p.bad == "" && !p.beyond {
			p.bad = "a request beyond the script: " + r.Method + " " + r.RequestURI
		}
		http.Error(w, "off the script", http.StatusTeapot)
		return
	}
	x := p.script[p.next]
	p.next++
	if d := compare(x, service, r, body); d != "" {
		p.bad = "request " + r.Method + " " + r.RequestURI + ":\n" + d
		http.Error(w, "off the script", http.StatusTeapot)
		return
	}
	p.reply(w, x)
}

func (p *player) reply(w http.ResponseWriter, x exchange) {
	text := x.Response.Text
	if text == "" {
		text = string(x.Response.JSON)
	}
	text = strings.NewReplacer("{{ENTITY}}", p.server["entity"].URL, "{{DATASTORE}}", p.server["datastore"].URL).Replace(text)
	for k, v := range x.Response.Headers {
		switch strings.ToLower(k) {
		case "content-length", "date", "server", "connection", "transfer-encoding":
		default:
			w.Header().Set(k, v)
		}
	}
	if x.Response.Dropped {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(x.Response.Status)
	_, _ = io.WriteString(w, text)
}

// compare says how a request differs from the recorded one: method, target, token, content type, decoded body.
func compare(x exchange, service string, r *http.Request, body []byte) string {
	type shape struct {
		Service, Method, Target, Authorization, ContentType string
		Body                                                any
	}
	target := r.RequestURI
	if u, err := url.PathUnescape(target); err == nil {
		target = u
	}
	got := shape{service, r.Method, natural(target), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), nil}
	want := shape{x.Service, x.Request.Method, natural(x.Request.Target), x.Request.Headers["authorization"], x.Request.Headers["content-type"], nil}
	got.Body, want.Body = decodeBody(got.ContentType, natural(string(body))), decodeBody(want.ContentType, natural(x.Request.Text))
	return cmp.Diff(want, got)
}

func decodeBody(contentType, text string) any {
	switch {
	case strings.Contains(contentType, "x-ndjson"):
		var out []any
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			out = append(out, decodeBody("application/json", line))
		}
		return out
	case strings.Contains(contentType, "json"):
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return text
		}
		return v
	case strings.Contains(contentType, "form"):
		v, _ := url.ParseQuery(text)
		return v
	}
	return text
}

// play makes the calls that NAT made. The rows are written as NAT writes them, which other tests pin; here they come from
// the transcript where it holds them.
func (p *player) play(t *testing.T, a *Adapter, out outcome) {
	ctx := context.Background()
	err := a.Check(ctx)
	var ref trainers.JobRef
	if err == nil {
		ref, err = a.Submit(ctx, p.data(t), key)
	}
	if ok := call(out, "submit"); ok != (err == nil) && !p.beyond {
		t.Fatalf("submit: %v; NAT's was ok: %v\n%s", err, ok, p.bad)
	}
	if err != nil {
		t.Logf("error: %v", err)
		p.ended = true
		return
	}
	for p.left() > 0 && p.bad == "" {
		next := p.script[p.next].Request
		switch {
		case strings.HasSuffix(next.Target, "/status"):
			st, err := a.Status(ctx, ref)
			if err != nil {
				t.Logf("status: %v", err)
				continue
			}
			p.sameStatus(t, out, st)
		case next.Target == "/v1/deployment/configs":
			if ref, _, err = a.Deploy(ctx, ref); err != nil {
				t.Fatalf("deploy: %v", err)
			}
		case strings.HasPrefix(next.Target, "/v1/deployment/model-deployments"):
			if _, err := a.StatusOfDeployment(ctx, ref); err != nil {
				t.Fatalf("deployment: %v", err)
			}
		default: // a second submission, which is another run's business
			p.ended = true
			return
		}
	}
}

// sameStatus compares a status with what NAT made of the same answer, where the session shows each.
func (p *player) sameStatus(t *testing.T, out outcome, st trainers.JobStatus) {
	t.Helper()
	for _, c := range out.Calls {
		if c.Call != "status" || !c.OK {
			continue
		}
		if p.statuses--; p.statuses >= 0 {
			continue
		}
		var want trainers.JobStatus
		if err := json.Unmarshal(c.Result, &want); err != nil {
			t.Fatal(err)
		}
		if st.State != want.State || st.Message != want.Message || !cmp.Equal(st.Progress, want.Progress) {
			t.Errorf("status %+v, NAT's %+v", st, want)
		}
		p.seen++
		break
	}
	p.statuses = p.seen
}

func call(out outcome, name string) bool {
	for _, c := range out.Calls {
		if c.Call == name {
			return c.OK
		}
	}
	return false
}

func (p *player) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.script) - p.next
}

func (p *player) finish(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad != "" {
		t.Fatal(p.bad)
	}
	if p.next < len(p.script) && !p.ended {
		t.Fatalf("%d of %d requests played; next: %s %s", p.next, len(p.script), p.script[p.next].Request.Method, p.script[p.next].Request.Target)
	}
	t.Logf("%d requests played", p.next)
}

// data writes a run folder with the files that NAT uploaded, taken from the transcript; what it never got to upload is any
// row.
func (p *player) data(t *testing.T) trainers.DataSet {
	t.Helper()
	dir := t.TempDir()
	d := trainers.DataSet{RunID: "run_20260102_030405_ab12cd34", RunDir: dir, Formats: map[string]trainers.Format{"customizer": {
		Dir: "dataset/customizer", Files: []trainers.File{
			{Path: "dataset/customizer/training_file.jsonl", Kind: "preference", Split: trainers.Train},
			{Path: "dataset/customizer/validation_file.jsonl", Kind: "preference", Split: trainers.Validation},
		},
	}}}
	if err := os.MkdirAll(filepath.Join(dir, "dataset", "customizer"), 0o755); err != nil {
		t.Fatal(err)
	}
	for remote, local := range map[string]string{
		"training/training_file.jsonl": "dataset/customizer/training_file.jsonl", "validation/validation_file.jsonl": "dataset/customizer/validation_file.jsonl",
	} {
		if err := os.WriteFile(d.Path(local), p.uploaded(remote), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (p *player) uploaded(remote string) []byte {
	for i, x := range p.script {
		if !strings.Contains(x.Request.Target, "/commit/") {
			continue
		}
		for line := range strings.Lines(x.Request.Text) {
			var op struct {
				Value struct {
					Path    string `json:"path"`
					Content []byte `json:"content"`
					OID     string `json:"oid"`
				} `json:"value"`
			}
			switch err := json.Unmarshal([]byte(line), &op); {
			case err != nil || op.Value.Path != remote:
			case op.Value.OID == "":
				return op.Value.Content
			default:
				for _, put := range p.script[:i] {
					if put.Request.Method == http.MethodPut && strings.Contains(put.Request.Target, op.Value.OID) {
						return []byte(put.Request.Text)
					}
				}
			}
		}
	}
	return []byte(`{"prompt": "p", "chosen_response": "c", "rejected_response": "r"}`)
}
