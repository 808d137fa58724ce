package customizer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config reads a YAML block the way a run does, with the service's hosts filled in.
func config(t *testing.T, url, yaml string) *Config {
	t.Helper()
	text := fmt.Sprintf("entity_host: %s\ndatastore_host: %s\nnamespace: team-a\ncustomization_config: meta/x@v1+A100\n%s", url, url, yaml)
	doc, fs := yamldoc.Parse("c.yml", []byte(text))
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

func open(t *testing.T, c *Config, env trainers.Env) *Adapter {
	t.Helper()
	a, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

const preferenceRow = `{"prompt": "p", "chosen_response": "c", "rejected_response": "r"}`

func dataset(t *testing.T, train, validation []byte) trainers.DataSet {
	return datasetOf(t, "preference", map[string][]byte{
		"training_file.jsonl":   train,
		"validation_file.jsonl": validation,
	})
}

// datasetOf returns a data set with files of one kind of record; nil means no such file.
func datasetOf(t *testing.T, kind string, files map[string][]byte) trainers.DataSet {
	t.Helper()
	f := trainers.Format{Dir: "dataset/customizer"}
	d := trainers.DataSet{RunID: "r_1", RunDir: t.TempDir(), Formats: map[string]trainers.Format{}}
	if err := os.MkdirAll(d.Path(f.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if b == nil {
			continue
		}
		file := trainers.File{Path: f.Dir + "/" + name, Kind: kind, Split: trainers.Train}
		if strings.Contains(name, trainers.Validation) {
			file.Split = trainers.Validation
		}
		f.Files = append(f.Files, file)
		if err := os.WriteFile(d.Path(file.Path), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.Formats["customizer"] = f
	return d
}

func small(t *testing.T) trainers.DataSet {
	return dataset(t, []byte(preferenceRow+"\n"), []byte(preferenceRow+"\n"))
}

// rowsOf returns preference rows of at least n bytes, different for each n.
func rowsOf(n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 0))
	var b bytes.Buffer
	b.WriteString(preferenceRow)
	for b.Len() < n {
		fmt.Fprintf(&b, "\n{\"prompt\": \"%x\", \"chosen_response\": \"c\", \"rejected_response\": \"r\"}", rng.Uint64())
	}
	return b.Bytes()
}

func TestUpload(t *testing.T) {
	for _, c := range []struct {
		name    string
		service customizertest.Service
	}{
		{"regular", customizertest.Service{Token: "tok"}},
		{"lfs", customizertest.Service{Token: "tok", LFSOver: 100}},
		{"lfs without verify", customizertest.Service{LFSOver: 100, NoVerify: true}},
		{"lfs in parts", customizertest.Service{LFSOver: 100, ChunkSize: 1000}},
		{"mixed", customizertest.Service{LFSOver: 5000}},
	} {
		for _, size := range []int{1, 511, 1000, 24576, 300_000} {
			t.Run(fmt.Sprintf("%s %d", c.name, size), func(t *testing.T) {
				service := c.service
				s := customizertest.Start(t, &service)
				var last trainers.Progress
				a := open(t, config(t, s.URL, "hf_token: tok"),
					trainers.Env{Progress: func(p trainers.Progress) { last = p }})
				train, valid := rowsOf(size), rowsOf(size/3+1)
				ref, err := a.Submit(t.Context(), dataset(t, train, valid), "r_1-abcd")
				if err != nil {
					t.Fatal(err)
				}
				repo := "team-a/" + ref.Metadata["dataset_name"]
				if got := s.File(repo, "training/training_file.jsonl"); !bytes.Equal(got, train) {
					t.Errorf("training file: %d bytes arrived of %d", len(got), len(train))
				}
				if got := s.File(repo, "validation/validation_file.jsonl"); !bytes.Equal(got, valid) {
					t.Errorf("validation file: %d bytes arrived of %d", len(got), len(valid))
				}
				if last.What != "upload validation/validation_file.jsonl" || last.Done != last.Total {
					t.Errorf("last progress %+v", last)
				}
			})
		}
	}
}

// TestUploadReports: each file's bytes are counted up to its size, whichever upload method is used.
func TestUploadReports(t *testing.T) {
	for _, over := range []int{0, 1} {
		s := customizertest.Start(t, &customizertest.Service{LFSOver: over})
		var mu sync.Mutex
		last := map[string]trainers.Progress{}
		env := trainers.Env{Progress: func(p trainers.Progress) {
			mu.Lock()
			defer mu.Unlock()
			last[p.What] = p
		}}
		data := dataset(t, rowsOf(100_000), rowsOf(5000))
		if _, err := open(t, config(t, s.URL, ""), env).Submit(t.Context(), data, "k"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if p := last["upload training/training_file.jsonl"]; len(last) != 2 || p.Done != p.Total || p.Total < 100_000 ||
			p.Unit != "byte" {
			t.Errorf("%+v", last)
		}
		mu.Unlock()
	}
}

func TestStoredObjectIsNotSentAgain(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{LFSOver: 10, Stored: true})
	if _, err := open(t, config(t, s.URL, ""), trainers.Env{}).Submit(t.Context(), small(t), "k"); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Requests() {
		if r.Method == http.MethodPut {
			t.Errorf("sent %s", r.Path)
		}
	}
}

func TestNoValidationFile(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{})
	ref, err := open(t, config(t, s.URL, ""), trainers.Env{}).
		Submit(t.Context(), dataset(t, []byte(preferenceRow), nil), "k")
	if err != nil {
		t.Fatal(err)
	}
	if s.File("team-a/"+ref.Metadata["dataset_name"], "validation/validation_file.jsonl") != nil {
		t.Error("a validation file was uploaded")
	}
}

func TestSFTRefusesPreferences(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{})
	conf := config(t, s.URL, "hyperparameters: {training_type: sft, finetuning_type: lora, lora: {adapter_dim: 16}}")
	_, err := open(t, conf, trainers.Env{}).Submit(t.Context(), small(t), "k")
	if err == nil || !strings.Contains(err.Error(), "training_type is sft, but the rows are preferences") {
		t.Fatalf("err = %v", err)
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests before the refusal", n)
	}
	rows := []byte(`{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`)
	if _, err := open(t, conf, trainers.Env{}).
		Submit(t.Context(), datasetOf(t, "demonstration", map[string][]byte{"sft_training_file.jsonl": rows}),
			"k"); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Hyper map[string]any `json:"hyperparameters"`
	}
	mustJSON(t, lastBody(t, s, "POST /v1/customization/jobs"), &body)
	if _, has := body.Hyper["dpo"]; has {
		t.Error("a dpo block is sent with sft")
	}
	if d := cmp.Diff(map[string]any{"adapter_dim": 16.0}, body.Hyper["lora"]); d != "" {
		t.Error(d)
	}
}

func lastBody(t *testing.T, s *customizertest.Service, line string) []byte {
	t.Helper()
	var body []byte
	for _, r := range s.Requests() {
		if r.Line() == line {
			body = r.Body
		}
	}
	if body == nil {
		t.Fatalf("no request %s", line)
	}
	return body
}

func mustJSON(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func TestOptionalJobFields(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{})
	conf := config(t, s.URL, `
wandb_api_key: wandb-secret
entity_token: ent-secret
output_model: team-a/m
job_name: n
project: p
custom_fields: {a: b}
integrations: {wandb: {project: wp, tags: [x, y]}}
dataset_version: reuse
hyperparameters: {seed: 7, warmup_steps: 10, optimizer: adamw_with_flat_lr, dpo: {max_grad_norm: 1.5}}
`)
	if _, err := open(t, conf, trainers.Env{}).Submit(t.Context(), small(t), "r-1-key"); err != nil {
		t.Fatal(err)
	}
	var got any
	mustJSON(t, lastBody(t, s, "POST /v1/customization/jobs"), &got)
	want := map[string]any{
		"config":        "meta/x@v1+A100",
		"dataset":       map[string]any{"name": "nat-dpo", "namespace": "team-a"},
		"output_model":  "team-a/m",
		"name":          "n",
		"project":       "p",
		"custom_fields": map[string]any{"a": "b", "nat_go_submission": "r-1-key"},
		"integrations": []any{map[string]any{
			"type":  "wandb",
			"wandb": map[string]any{"project": "wp", "tags": []any{"x", "y"}},
		}},
		"hyperparameters": map[string]any{
			"training_type":   "dpo",
			"finetuning_type": "all_weights",
			"epochs":          3.0,
			"batch_size":      4.0,
			"learning_rate":   5e-5,
			"seed":            7.0,
			"warmup_steps":    10.0,
			"optimizer":       "adamw_with_flat_lr",
			"dpo": map[string]any{
				"ref_policy_kl_penalty":        0.1,
				"preference_loss_weight":       1.0,
				"preference_average_log_probs": false,
				"sft_loss_weight":              0.0,
				"max_grad_norm":                1.5,
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, r := range s.Requests() {
		if r.Line() == "POST /v1/customization/jobs" &&
			(r.Header.Get("Wandb-Api-Key") != "wandb-secret" || r.Header.Get("Authorization") != "Bearer ent-secret") {
			t.Errorf("headers %v", r.Header)
		}
	}
}

// TestLostAnswer: whatever happens to the answer to "create the job", there is exactly one job, and it is found.
func TestLostAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(w http.ResponseWriter)
	}{
		{"dropped connection", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
		{"500 after the job was made", func(w http.ResponseWriter) { w.WriteHeader(500) }},
		{"truncated JSON", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"id": "cust-`) }},
		{"HTML page", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html><title>Bad gateway</title>") }},
	} {
		for _, version := range []string{"run", "reuse"} {
			t.Run(c.name+" "+version, func(t *testing.T) {
				s := &customizertest.Service{OutputModel: "team-a/m"}
				var losing atomic.Bool
				s.Fault = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if r.Method != http.MethodPost || r.URL.Path != "/v1/customization/jobs" || losing.Swap(true) {
						return false
					}
					req, _ := http.NewRequest(http.MethodPost, s.URL+r.URL.Path, bytes.NewReader(body))
					resp, err := http.DefaultClient.Do(req) // the service creates the job
					if err != nil {
						t.Error(err)
						return true
					}
					resp.Body.Close()
					c.lose(w)
					return true
				}
				customizertest.Start(t, s)
				t.Cleanup(http.DefaultClient.CloseIdleConnections)
				a := open(t, config(t, s.URL, "dataset_version: "+version), trainers.Env{})
				data := small(t)
				_, err := a.Submit(t.Context(), data, "r_1-key")
				if err == nil || !trainers.Unsettled(err) {
					t.Fatalf("err = %v, unsettled %v", err, trainers.Unsettled(err))
				}
				if _, found, err := a.Find(t.Context(), data, "another-key"); found || err != nil {
					t.Errorf("found another's job: %v, %v", found, err)
				}
				ref, found, err := a.Find(t.Context(), data, "r_1-key")
				if err != nil || !found {
					t.Fatalf("found %v, %v", found, err)
				}
				if s.JobCount() != 1 || ref.ID == "" || ref.Metadata["output_model"] == "" {
					t.Errorf("%d jobs, ref %+v", s.JobCount(), ref)
				}
			})
		}
	}
}

// TestFindLooksThroughAllPages of a list whose pages are smaller than requested.
func TestFindLooksThroughAllPages(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{PageSize: 2})
	a := open(t, config(t, s.URL, ""), trainers.Env{})
	data := small(t)
	for i := range 7 {
		if _, err := a.Submit(t.Context(), data, fmt.Sprintf("key-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		ref, found, err := a.Find(t.Context(), data, fmt.Sprintf("key-%d", i))
		if err != nil || !found || ref.ID != fmt.Sprintf("cust-%022d", i+1) {
			t.Errorf("key-%d: %+v, %v, %v", i, ref, found, err)
		}
	}
	if _, found, err := a.Find(t.Context(), data, "key-7"); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestCheck: a namespace that can't be created is not fatal, as long as the service is up and accepts the token.
func TestCheck(t *testing.T) {
	for status, code := range map[int]int{200: 0, 403: 0, 404: 0, 409: 0, 422: 0, 500: 0, 401: exit.Environment} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s := &customizertest.Service{}
			s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if status != 200 && strings.HasSuffix(r.URL.Path, "/namespaces") {
					w.WriteHeader(status)
					return true
				}
				return false
			}
			customizertest.Start(t, s)
			err := open(t, config(t, s.URL, ""), trainers.Env{}).Check(t.Context())
			if got := exit.Code(trainers.Exit(err)); got != code {
				t.Errorf("HTTP %d: exit %d, want %d: %v", status, got, code, err)
			}
		})
	}
	if err := open(t, config(t, "http://127.0.0.1:1", ""), trainers.Env{}).
		Check(t.Context()); exit.Code(trainers.Exit(err)) != exit.Environment {
		t.Errorf("err = %v", err)
	}
}

// TestFaults covers what can go wrong with a request, and how it is handled.
func TestFaults(t *testing.T) {
	status := func(code int, body string, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	reset := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}
	loris := func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	huge := func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	const create, preupload, jobs, put = "/repos/create", "/preupload/", "/customization/jobs", "/lfs/"
	for _, c := range []struct {
		name  string
		path  string // part of the failing request's path
		times int    // how often; 0: always
		fault func(http.ResponseWriter, *http.Request)
		code  int    // exit code; 0: it succeeds in the end
		tries int    // requests made to the path
		want  string // in the error
	}{
		{"401", create, 0, status(401, `{"error": "no"}`), 3, 1, "the token is missing or wrong"},
		{"403", jobs, 0, status(403, `{"detail": "forbidden"}`), 3, 1, "does not grant permission"},
		{"409 of a job is an error", jobs, 0, status(409, `{"detail": "name taken"}`), 1, 1, "name taken"},
		{"409 of a repository that is there", create, 0, status(409, `{"error": "exists"}`), 0, 1, ""},
		{"409 of a data set that is there", "/v1/datasets", 0, status(409, `{"detail": "exists"}`), 0, 1, ""},
		{"a data set that can't be registered", "/v1/datasets", 0, status(422, `{"detail": "files_url"}`), 1, 2, "files_url"},
		{
			"413",
			"/commit/",
			0,
			status(413, "<html><head><title>413 Request Entity Too Large</title>"),
			1,
			1,
			"limits the size",
		},
		{"422", jobs, 0, status(422, `{"detail": [{"loc": ["body", "hyperparameters", "epochs"], "msg": "too many"}]}`), 1, 1, "hyperparameters.epochs: too many"},
		{"429 with Retry-After", jobs, 2, status(429, `{}`, "Retry-After", "0.02"), 0, 3, ""},
		{"429 for ever", jobs, 0, status(429, `{"detail": "slow down"}`), 3, 3, "slow down"},
		{"5xx storm before the job", preupload, 4, status(503, "upstream"), 0, 5, ""},
		{"5xx storm for ever", preupload, 0, status(502, "<html><title>Bad Gateway</title>"), 3, 6, `titled "Bad Gateway"`},
		{"500 of a job", jobs, 0, status(500, `{"detail": "boom"}`), 3, 1, "boom"},
		{"reset", preupload, 1, reset, 0, 2, ""},
		{"reset mid-upload", put, 1, reset, 0, 3, ""},
		{"slow-loris", preupload, 0, loris, 3, 6, "no answer within"},
		{"endless answer", preupload, 0, huge, 3, 1, "longer than 8 MiB"},
		{"truncated JSON", preupload, 0, status(200, `{"files": [`), 3, 1, "broken or unexpected JSON"},
		{"empty answer", preupload, 0, status(200, ``), 3, 1, "an empty answer"},
		{"HTML page", preupload, 0, status(200, `<!doctype html><title>Sign in</title>`), 3, 1, `titled "Sign in"`},
		{"file ignored", preupload, 0, status(200, `{"files":[{"path":"training/training_file.jsonl","uploadMode":"regular","shouldIgnore":true}]}`), 1, 1, "would ignore"},
		{"unknown mode", preupload, 0, status(200, `{"files":[{"path":"training/training_file.jsonl","uploadMode":"xet"}]}`), 1, 1, `"xet"`},
		{"redirect that loses the body", jobs, 0, status(301, ``, "Location", "/elsewhere"), 3, 1, "would lose the request body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hits atomic.Int32
			s := &customizertest.Service{LFSOver: 1}
			if c.path == "/commit/" {
				s.LFSOver = 0
			}
			s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if !strings.Contains(r.URL.Path, c.path) {
					return false
				}
				if n := hits.Add(1); c.times > 0 && int(n) > c.times {
					return false
				}
				c.fault(w, r)
				return true
			}
			customizertest.Start(t, s)
			timeout := "1m"
			if c.want == "no answer within" {
				timeout = "150ms"
			}
			conf := config(t, s.URL, "hf_token: canary-hf\nentity_token: canary-ent\nrequest_timeout: "+timeout)
			_, err := open(t, conf, trainers.Env{}).Submit(t.Context(), dataset(t, rowsOf(300_000), nil), "k")
			if got := exit.Code(trainers.Exit(err)); got != c.code {
				t.Errorf("exit %d, want %d: %v", got, c.code, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
			if c.path != put && int(hits.Load()) < c.tries || c.code != 0 && int(hits.Load()) != c.tries {
				t.Errorf("%d requests, want %d", hits.Load(), c.tries)
			}
			if err != nil {
				t.Log(err)
			}
		})
	}
}

func TestStatusMapping(t *testing.T) {
	s := customizertest.Start(t,
		&customizertest.Service{States: []string{
			"created", "pending", "running", "cancelling", "ready", "unknown", "new", "failed", "canceled", "cancelled",
			"completed",
		}})
	a := open(t, config(t, s.URL, ""), trainers.Env{})
	ref, err := a.Submit(t.Context(), small(t), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []trainers.State{
		"pending", "pending", "running", "running", "running", "running", "running", "failed", "canceled", "canceled",
		"completed",
	} {
		st, err := a.Status(t.Context(), ref)
		if err != nil || st.State != want || st.Progress != nil {
			t.Errorf("%+v, %v; want %s", st, err, want)
		}
	}
	if _, err := a.Status(t.Context(), trainers.JobRef{ID: "cust-none"}); exit.Code(trainers.Exit(err)) != exit.Failed {
		t.Errorf("unknown job: %v", err)
	}
}

func TestCancel(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{States: []string{"running"}})
	a := open(t, config(t, s.URL, ""), trainers.Env{})
	ref, err := a.Submit(t.Context(), small(t), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if st, err := a.Status(t.Context(), ref); err != nil || st.State != trainers.Canceled {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestCancelOfAnEndedJob: a service that refuses to cancel because the job has ended is right.
func TestCancelOfAnEndedJob(t *testing.T) {
	s := &customizertest.Service{States: []string{"completed"}}
	s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			w.WriteHeader(409)
			return true
		}
		return false
	}
	customizertest.Start(t, s)
	a := open(t, config(t, s.URL, ""), trainers.Env{})
	ref, err := a.Submit(t.Context(), small(t), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Error(err)
	}
}

func TestDeploy(t *testing.T) {
	for _, c := range []struct {
		name    string
		service customizertest.Service
		yaml    string
		model   string
		err     string
	}{
		{
			"named by the create call",
			customizertest.Service{OutputModel: "d/m"},
			"",
			"d/m@cust-0000000000000000000001", "",
		},
		{"named when complete", customizertest.Service{LateModel: "d/late"}, "", "d/late", ""},
		{"never named", customizertest.Service{}, "", "", "made no output model"},
		{
			"name taken",
			customizertest.Service{OutputModel: "d/m", DeployConfig: "other/conf"},
			"deployment_config: {deployment_name: prod}", "", "serves other/conf",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := c.service
			s := customizertest.Start(t, &service)
			a := open(t, config(t, s.URL, "deploy_on_completion: true\n"+c.yaml), trainers.Env{})
			ref, err := a.Submit(t.Context(), small(t), "Run_2026.01-0badcafe")
			if err != nil {
				t.Fatal(err)
			}
			ref, started, err := a.Deploy(t.Context(), ref)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exit.Code(trainers.Exit(err)) != exit.Failed {
					t.Fatalf("err = %v", err)
				}
				return
			}
			if err != nil || !started || ref.Metadata["output_model"] != c.model {
				t.Fatalf("%+v, %v, %v", ref, started, err)
			}
			if ref.Metadata["deployment"] != "nat-deployment-run-2026-01-0badcafe" {
				t.Error(ref.Metadata["deployment"])
			}
			again, _, err := a.Deploy(t.Context(), ref) // after a crash
			if err != nil || !cmp.Equal(again, ref) {
				t.Errorf("again: %+v, %v", again, err)
			}
			if st, err := a.StatusOfDeployment(t.Context(), ref); err != nil || st.State != trainers.Completed {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// TestDeployAgain: a failed deployment of ours makes way for another; somebody else's does not.
func TestDeployAgain(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{OutputModel: "d/m", Deployment: []string{"failed"}})
	a := open(t, config(t, s.URL, "deploy_on_completion: true"), trainers.Env{})
	ref, err := a.Submit(t.Context(), small(t), "k")
	if err == nil {
		ref, _, err = a.Deploy(t.Context(), ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Deploy(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if n := s.Count("DELETE /v1/deployment/model-deployments/team-a/nat-deployment-k"); n != 1 {
		t.Errorf("%d deletions", n)
	}
	other := customizertest.Start(t, &customizertest.Service{
		OutputModel:  "d/m",
		Deployment:   []string{"failed"},
		DeployConfig: "other/conf",
	})
	a = open(t, config(t, other.URL, "deploy_on_completion: true"), trainers.Env{})
	if ref, err = a.Submit(t.Context(), small(t), "k"); err == nil {
		_, _, err = a.Deploy(t.Context(), ref)
	}
	if err == nil || !strings.Contains(err.Error(), "serves other/conf") || other.Count("DELETE /v1/deployment/model-deployments/team-a/nat-deployment-k") != 0 {
		t.Errorf("err = %v", err)
	}
}

func TestDeploymentStates(t *testing.T) {
	s := customizertest.Start(t, &customizertest.Service{
		OutputModel: "d/m",
		Deployment:  []string{"created", "pending", "unknown", "failed", "error", "cancelled", "ready"},
	})
	a := open(t, config(t, s.URL, "deploy_on_completion: true"), trainers.Env{})
	ref, err := a.Submit(t.Context(), small(t), "k")
	if err == nil {
		ref, _, err = a.Deploy(t.Context(), ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []trainers.State{
		"pending", "pending", "running", "failed", "failed", "canceled", "completed",
	} {
		if st, err := a.StatusOfDeployment(t.Context(), ref); err != nil || st.State != want {
			t.Errorf("%+v, %v; want %s", st, err, want)
		}
	}
	if st, err := a.StatusOfDeployment(t.Context(), ref.With("deployment", "not-there")); err != nil ||
		st.State != trainers.Pending {
		t.Errorf("missing: %+v, %v", st, err)
	}
}

// TestInterrupted: an interruption before the job is created stops the submission; nothing is left unsettled.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &customizertest.Service{}
	s.Fault = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.Contains(r.URL.Path, "/commit/") {
			cancel()
		}
		return false
	}
	customizertest.Start(t, s)
	_, err := open(t, config(t, s.URL, ""), trainers.Env{}).Submit(ctx, dataset(t, []byte(preferenceRow), nil), "k")
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	if s.JobCount() != 0 {
		t.Error("a job was made")
	}
}

// TestSecretsStayHidden: if a service repeats every secret in its errors, none of them gets into ours.
func TestSecretsStayHidden(t *testing.T) {
	s := &customizertest.Service{}
	s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path != "/v1/customization/jobs" {
			return false
		}
		w.WriteHeader(422)
		fmt.Fprintf(w, `{"detail": "bad %s %s, also canary-hf and canary+url/=="}`, r.Header.Get("Authorization"), r.Header.Get("Wandb-Api-Key"))
		return true
	}
	customizertest.Start(t, s)
	conf := config(t, s.URL, "hf_token: canary-hf\nentity_token: canary-ent\nwandb_api_key: canary-wandb\ndatastore_token: canary+url/==")
	_, err := open(t, conf, trainers.Env{}).Submit(t.Context(), small(t), "k")
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("err = %v", err)
	}
	if text := fmt.Sprintf("%v %+v", conf.HFToken, *conf); strings.Contains(text, "canary") {
		t.Errorf("a printed config shows a secret: %s", text)
	}
	if _, err := New(config(t, "http://u:canary-pw@", ""), trainers.Env{}); err == nil ||
		strings.Contains(err.Error(), "canary-pw") {
		t.Errorf("err = %v", err)
	}
}
