package customizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	natjson "github.com/nat-go/nat-go/ttc/json"
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
	Calls  []outcomeCall   `json:"calls"`
	What   string          `json:"what"`
}

type outcomeCall struct {
	Call   string          `json:"call"`
	OK     bool            `json:"ok"`
	Result json.RawMessage `json:"result"`
}

// TestReplay plays the recorded transcripts of NAT 1.9.0: the same requests, in the same order, with the same decoded
// bodies. Where NAT is wrong, the transcript is corrected; each edit is one of the differences listed in the package's
// documentation.
func TestReplay(t *testing.T) {
	for _, dir := range scenarios(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			out := readOutcome(t, dir)
			transcript := readTranscript(t, dir)
			var files uploads
			if strings.Contains(out.Driver, "TrainerAdapter") {
				files = readInput(t, dir, configOf(out))
			} else if out, files = byHand(t, transcript, out); files == nil {
				t.Skip("no submission whose files are known: " + out.What)
			}
			p := newPlayer(t, edit(transcript, out, files))
			p.files = files
			a := p.adapter(t, out)
			p.play(t, a, out)
			p.finish(t)
		})
	}
}

func scenarios(t *testing.T) []string {
	t.Helper()
	dirs := oracletest.Glob(t, "wire", "customizer", "*", "transcript.jsonl")
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

// uploads holds the files made from NAT's rows, by their path in the repository.
type uploads map[string][]byte

// readInput makes the files from the rows that NAT's adapter was given, with our encoder in compat mode, split as NAT
// splits them. For sft, where NAT sends preferences, they are demonstrations of the chosen answers.
func readInput(t *testing.T, dir string, conf *Config) uploads {
	t.Helper()
	in, err := os.Open(filepath.Join(dir, "input.jsonl"))
	var r io.Reader = in
	if os.IsNotExist(err) {
		if in, err = os.Open(filepath.Join(dir, "input.jsonl.gz")); err == nil {
			r, err = gzip.NewReader(in)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	format, _ := rows.Lookup("customizer")
	enc := rows.NewEncoder(format, rows.Options{NAT: true, FullHistory: conf.UseFullMessageHistory})
	var lines [][]byte
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		enc.Begin()
		line, _, err := enc.Append(nil, rows.Train, recordOf(t, sc.Bytes(), conf.Hyperparameters.TrainingType))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	if len(lines) == 0 { // nothing to submit
		return nil
	}
	n := max(1, int(0.8*float64(len(lines))))
	rest := lines[n:]
	if len(lines) == 1 {
		rest = lines
	}
	return uploads{
		"training/training_file.jsonl":     bytes.Join(lines[:n], []byte("\n")),
		"validation/validation_file.jsonl": bytes.Join(rest, []byte("\n")),
	}
}

func recordOf(t *testing.T, line []byte, training string) *builders.Resolved {
	t.Helper()
	raw, err := natjson.Parse(bytes.Clone(line), natjson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	field := func(key string) builders.Passage {
		v, _ := raw.Get(key)
		if text, ok := v.Text(); ok {
			return builders.Passage{Text: text}
		}
		ms, err := chat.ParseMessages(v)
		if err != nil {
			t.Fatal(err)
		}
		return builders.Passage{Nodes: ttc.Chain(ms, ttc.No).Nodes}
	}
	r := &builders.Resolved{
		Record:   &builders.Preference{},
		Origin:   &builders.Origin{},
		Prompt:   field("prompt"),
		Chosen:   field("chosen_response"),
		Rejected: field("rejected_response"),
	}
	if training == "sft" {
		r.Record = &builders.Demonstration{Train: builders.TrainLast}
		r.Messages.Nodes = ttc.Chain([]chat.Message{
			{Role: "user", Form: chat.Text, Text: r.Prompt.Text},
			{Role: "assistant", Form: chat.Text, Text: r.Chosen.Text},
		}, ttc.Assumed).Nodes
	}
	return r
}

// byHand makes a session out of what was done by hand with the clients that NAT uses, in other versions: the same
// steps, worded differently. Its files are the ones it uploaded.
func byHand(t *testing.T, transcript []exchange, out outcome) (outcome, uploads) {
	t.Helper()
	conf := map[string]any{
		"entity_host":                 "{{ENTITY}}",
		"datastore_host":              "{{DATASTORE}}",
		"namespace":                   "team-a",
		"create_namespace_if_missing": true,
	}
	files := uploads{}
	for i := range transcript {
		x := &transcript[i]
		x.Request.Text = strings.NewReplacer("for run r1", "for run "+runID, "training file", "Training file",
			"validation file", "Validation file").Replace(x.Request.Text)
		switch target := x.Request.Target; {
		case target == "/v1/hf/api/repos/create":
			conf["hf_token"] = strings.TrimSpace(strings.TrimPrefix(x.Request.Headers["authorization"], "Bearer"))
		case strings.Contains(target, "/commit/"):
			content, name := committed(x.Request.Text, transcript[:i])
			files[name] = content
		case target == "/v1/customization/jobs" && x.Request.Method == http.MethodPost:
			var body map[string]any
			if err := json.Unmarshal([]byte(x.Request.Text), &body); err != nil {
				t.Fatal(err)
			}
			conf["customization_config"], conf["hyperparameters"] = body["config"], body["hyperparameters"]
			out.Calls = append(out.Calls, outcomeCall{Call: "submit", OK: x.Response.Status == http.StatusOK})
		}
	}
	out.Config, _ = json.Marshal(conf)
	if len(files) < 2 || conf["hyperparameters"] == nil {
		return out, nil
	}
	return out, files
}

// committed returns the file of a commit, which may have been uploaded earlier.
func committed(text string, before []exchange) (content []byte, name string) {
	for line := range strings.Lines(text) {
		var op struct {
			Value struct {
				Path, OID string
				Content   []byte
			}
		}
		if json.Unmarshal([]byte(line), &op) != nil || op.Value.Path == "" {
			continue
		}
		content, name = op.Value.Content, op.Value.Path
		for _, put := range before {
			if op.Value.OID != "" && put.Request.Method == http.MethodPut &&
				strings.Contains(put.Request.Target, op.Value.OID) {
				content = []byte(put.Request.Text)
			}
		}
	}
	return content, name
}

// script is a transcript as it should have gone.
type script struct {
	exchanges []exchange
	// NAT gave up here although all was well, or continued although something was wrong: what we do next is not in the
	// transcript.
	open bool
	lost bool // NAT sent the job again, not knowing whether the first was created
}

// edit turns what NAT did into what it should have done.
func edit(in []exchange, out outcome, files uploads) (sc script) {
	conf := configOf(out)
	sc.open = !call(out, "submit")
	for i, x := range in {
		post := x.Request.Method == http.MethodPost
		// A conflict is not retried, nor is a job whose answer was lost.
		if post && x.Request.Headers["x-stainless-retry-count"] > "0" {
			before := in[i-1].Response
			job := strings.HasSuffix(x.Request.Target, "/jobs")
			sure := before.Status == http.StatusTooManyRequests || before.Status == http.StatusRequestTimeout
			if before.Status == http.StatusConflict || job && !sure {
				sc.lost = sc.lost || job
				continue
			}
		}
		// An empty token means no header is sent.
		if strings.TrimSpace(x.Request.Headers["authorization"]) == "Bearer" {
			delete(x.Request.Headers, "authorization")
		}
		// Xet is not offered: a client that uses it without asking should have asked for LFS.
		x.Request.Text = strings.Replace(x.Request.Text, `["basic","multipart","xet"]`, `["basic","multipart"]`, 1)
		if strings.Contains(x.Request.Target, "/xet-write-token/") {
			sc.exchanges, sc.open = append(sc.exchanges, overLFS(x, in[i-1], conf, files)...), true
			return sc
		}
		// The LFS action's header is sent, as git-lfs does it.
		if x.Request.Method == http.MethodPut &&
			strings.Contains(in[i-1].Response.Text+string(in[i-1].Response.JSON), "lfs-action-token") {
			x.Request.Headers["authorization"] = "Bearer lfs-action-token"
		}
		// sft trains on demonstrations, and takes no dpo settings.
		if conf.Hyperparameters.TrainingType == "sft" {
			x.Request.Text = demonstrating(x, files)
		}
		// The deployment is polled by its name.
		if x.Request.Method == http.MethodGet &&
			strings.HasPrefix(x.Request.Target, "/v1/deployment/model-deployments") {
			x = byName(x, conf, out)
		}
		sc.exchanges = append(sc.exchanges, x)
		// Anything refused at the start is not tried further; a data set that can't be registered is not trained on;
		// whatever exists of a deployment already is checked first.
		bad := x.Response.Dropped || x.Response.Status >= 400 && x.Response.Status != http.StatusConflict
		last := i+1 == len(in) || in[i+1].Request.Headers["x-stainless-retry-count"] <= "0" ||
			x.Response.Status == http.StatusConflict
		switch namespace := strings.HasSuffix(x.Request.Target, "/namespaces"); {
		case !post || !last:
		case namespace && (x.Response.Dropped || x.Response.Status == http.StatusUnauthorized),
			x.Request.Target == "/v1/datasets" && bad,
			strings.HasPrefix(x.Request.Target, "/v1/deployment/") && (bad || x.Response.Status == http.StatusConflict):
			sc.open = true
			return sc
		}
	}
	if n := len(sc.exchanges); n > 0 && sc.exchanges[n-1].Response.Status/100 != 2 {
		sc.open = false // we stop where NAT stopped
	}
	return sc
}

// overLFS returns the requests that replace one to Xet: they upload the file that was announced before.
func overLFS(xet, announced exchange, conf *Config, files uploads) []exchange {
	var asked struct {
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
	}
	_ = json.Unmarshal([]byte(announced.Request.Text), &asked) // an error leaves a path that no upload has
	path := asked.Files[0].Path
	content := files[path]
	sum := sha256.Sum256(content)
	oid, repo := hex.EncodeToString(sum[:]), conf.Namespace+"/"+conf.DatasetName
	request := func(method, target, contentType, text, answer string) exchange {
		x := xet
		x.Request.Method, x.Request.Target, x.Request.Text = method, target, text
		x.Request.Headers = map[string]string{
			"content-type":  contentType,
			"authorization": announced.Request.Headers["authorization"],
		}
		if method == http.MethodPut {
			x.Request.Headers = nil
		}
		x.Response.Status, x.Response.Text, x.Response.JSON = http.StatusOK, answer, nil
		return x
	}
	object := fmt.Sprintf(`{"oid": %q, "size": %d}`, oid, len(content))
	head := `{"key": "header", "value": {"summary": "Training file for run ` + runID + `", "description": ""}}` + "\n"
	return []exchange{
		request(http.MethodPost, "/v1/hf/datasets/"+repo+".git/info/lfs/objects/batch", lfsType,
			`{"operation": "upload", "transfers": ["basic", "multipart"], "objects": [`+object+`], "hash_algo": "sha256", "ref": {"name": "main"}}`,
			`{"objects": [{"oid": "`+oid+`", "actions": {"upload": {"href": "{{DATASTORE}}/up/`+oid+`"}}}]}`),
		request(http.MethodPut, "/up/"+oid, "", string(content), ""),
		request(http.MethodPost, "/v1/hf/api/datasets/"+repo+"/commit/main", ndjson,
			head+fmt.Sprintf(`{"key": "lfsFile", "value": {"path": %q, "algo": "sha256", "oid": %q, "size": %d}}`, path, oid, len(content))+"\n", `{"commitUrl": "", "commitOid": "1"}`),
	}
}

// demonstrating replaces the preferences in a request with demonstrations.
func demonstrating(x exchange, files uploads) string {
	text := x.Request.Text
	switch {
	case x.Request.Target == "/v1/datasets":
		return strings.Replace(text, "NAT DPO training", "NAT SFT training", 1)
	case strings.HasSuffix(x.Request.Target, "/jobs"):
		var body map[string]any
		_ = json.Unmarshal([]byte(text), &body)
		delete(body["hyperparameters"].(map[string]any), "dpo")
		b, _ := json.Marshal(body)
		return string(b)
	}
	for path, content := range files {
		switch {
		case !strings.Contains(text, path):
		case strings.Contains(x.Request.Target, "/preupload/"):
			return fmt.Sprintf(`{"files": [{"path": %q, "sample": %q, "size": %d}]}`, path, base64.StdEncoding.EncodeToString(content[:min(512, len(content))]), len(content))
		case strings.Contains(x.Request.Target, "/commit/"):
			return strings.SplitAfter(text, "\n")[0] + fmt.Sprintf(`{"key": "file", "value": {"content": %q, "path": %q, "encoding": "base64"}}`, base64.StdEncoding.EncodeToString(content), path)
		}
	}
	return text
}

func byName(x exchange, conf *Config, out outcome) exchange {
	n := "nat-deployment-run"
	if conf.Deployment.Name != nil {
		n = *conf.Deployment.Name
	}
	x.Request.Target = "/v1/deployment/model-deployments/" + conf.Namespace + "/" + n
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	body := x.Response.JSON
	if body == nil {
		body = json.RawMessage(x.Response.Text)
	}
	if json.Unmarshal(body, &list) != nil || x.Response.Status != http.StatusOK {
		return x // an error stays as it is
	}
	x.Response.Status, x.Response.JSON, x.Response.Text = http.StatusNotFound, nil, `{"detail": "not found"}`
	for _, d := range list.Data {
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(d, &named) == nil && natural(named.Name) == natural(n) {
			x.Response.Status, x.Response.JSON, x.Response.Text = http.StatusOK, d, string(d)
		}
	}
	return x
}

func configOf(out outcome) *Config {
	c := new(Config)
	doc, _ := yamldoc.Parse("adapter_config", out.Config)
	if doc == nil {
		return c
	}
	spec := schema.MustOf(c)
	_ = spec.Decode(doc, doc.Root, c, schema.Options{}) // "type" is an unknown key here
	return c
}

// key is the key of the replayed submission; anything containing it is changed back to NAT's names before comparing.
const key = runID + "-0badcafe"

const runID = "run_20260102_030405_ab12cd34"

// player answers requests from a script and remembers the first one that is not in it.
type player struct {
	mu sync.Mutex
	script
	files          uploads
	sft            bool
	next           int
	bad            string
	ended          bool
	statuses, seen int
	server         map[string]*httptest.Server
}

func newPlayer(t *testing.T, s script) *player {
	p := &player{script: s, server: map[string]*httptest.Server{}}
	for _, service := range []string{"entity", "datastore"} {
		s := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, service) }),
		)
		t.Cleanup(s.Close)
		p.server[service] = s
	}
	return p
}

func (p *player) adapter(t *testing.T, out outcome) *Adapter {
	t.Helper()
	conf := configOf(out)
	p.sft = conf.Hyperparameters.TrainingType == "sft"
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

// natural restores NAT's names.
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
	if err != nil || p.bad != "" || p.next >= len(p.exchanges) {
		if p.bad == "" && !p.open {
			p.bad = "a request beyond the script: " + r.Method + " " + r.RequestURI
		}
		http.Error(w, "off the script", http.StatusTeapot)
		return
	}
	x := p.exchanges[p.next]
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
	text = strings.NewReplacer("{{ENTITY}}", p.server["entity"].URL, "{{DATASTORE}}", p.server["datastore"].URL).
		Replace(text)
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

// compare describes how a request differs from the recorded one: method, target, token, content type, decoded body.
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
	want := shape{
		x.Service,
		x.Request.Method,
		natural(x.Request.Target),
		x.Request.Headers["authorization"],
		x.Request.Headers["content-type"],
		nil,
	}
	if x.Request.Elided { // only its length and hash were recorded
		got.Body, want.Body = digest([]byte(natural(pythonic(got.ContentType, body)))),
			fmt.Sprint(x.Request.Len, " ", x.Request.SHA256)
	} else {
		got.Body, want.Body = decodeBody(got.ContentType, natural(string(body))),
			decodeBody(want.ContentType, natural(x.Request.Text))
	}
	return cmp.Diff(want, got)
}

func digest(b []byte) string { return fmt.Sprintf("%d %x", len(b), sha256.Sum256(b)) }

// pythonic writes a commit as NAT's client does: the same spacing and order of keys.
func pythonic(contentType string, body []byte) string {
	if !strings.Contains(contentType, "x-ndjson") {
		return string(body)
	}
	var out strings.Builder
	for line := range strings.Lines(string(body)) {
		var op struct {
			Key   string
			Value struct{ Summary, Content, Path string }
		}
		_ = json.Unmarshal([]byte(line), &op) // anything unreadable differs
		if op.Key == "header" {
			fmt.Fprintf(&out, `{"key": "header", "value": {"summary": %q, "description": ""}}`+"\n", op.Value.Summary)
		} else {
			fmt.Fprintf(&out, `{"key": "file", "value": {"content": %q, "path": %q, "encoding": "base64"}}`+"\n", op.Value.Content, op.Value.Path)
		}
	}
	return out.String()
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

// play makes the calls that NAT made.
func (p *player) play(t *testing.T, a *Adapter, out outcome) {
	ctx := context.Background()
	err := a.Check(ctx)
	var ref trainers.JobRef
	if err == nil {
		ref, err = a.Submit(ctx, p.data(t), key)
	}
	if p.lost && trainers.Unsettled(err) { // we look first for what NAT sends again (package jobs)
		p.ended = true
		return
	}
	if ok := call(out, "submit"); ok != (err == nil) && !p.open {
		t.Fatalf("submit: %v; NAT's was ok: %v\n%s", err, ok, p.bad)
	}
	if err != nil {
		t.Logf("error: %v", err)
		p.ended = true
		return
	}
	for p.left() > 0 && p.bad == "" {
		next := p.exchanges[p.next].Request
		switch {
		case strings.HasSuffix(next.Target, "/status"):
			st, err := a.Status(ctx, ref)
			if err != nil {
				t.Logf("status: %v", err)
				continue
			}
			p.sameStatus(t, out, st)
		case next.Target == "/v1/deployment/configs":
			if ref, _, err = a.Deploy(ctx, ref); err != nil && !p.open {
				t.Fatalf("deploy: %v", err)
			}
		case strings.HasPrefix(next.Target, "/v1/deployment/model-deployments"):
			if _, err := a.StatusOfDeployment(ctx, ref); err != nil {
				t.Fatalf("deployment: %v", err)
			}
		default: // a second submission, which belongs to another run
			p.ended = true
			return
		}
	}
}

// sameStatus compares a status with what NAT made of the same answer, wherever the session shows both.
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
	return len(p.exchanges) - p.next
}

func (p *player) finish(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad != "" {
		t.Fatal(p.bad)
	}
	if p.next < len(p.exchanges) && !p.ended {
		t.Fatalf("%d of %d requests played; next: %s %s", p.next, len(p.exchanges), p.exchanges[p.next].Request.Method,
			p.exchanges[p.next].Request.Target)
	}
	t.Logf("%d requests played", p.next)
}

// data writes a run folder with files made from the rows that NAT was given.
func (p *player) data(t *testing.T) trainers.DataSet {
	t.Helper()
	dir := t.TempDir()
	kind := "preference"
	if p.sft {
		kind = "demonstration"
	}
	d := trainers.DataSet{RunID: runID, RunDir: dir, Formats: map[string]trainers.Format{}}
	if err := os.MkdirAll(filepath.Join(dir, "dataset", "customizer"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := trainers.Format{Dir: "dataset/customizer"}
	for remote, content := range p.files {
		file := trainers.File{Path: f.Dir + "/" + path.Base(remote), Kind: kind, Split: trainers.Train}
		if strings.HasPrefix(remote, trainers.Validation) {
			file.Split = trainers.Validation
		}
		f.Files = append(f.Files, file)
		if err := os.WriteFile(d.Path(file.Path), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.Formats["customizer"] = f
	return d
}
