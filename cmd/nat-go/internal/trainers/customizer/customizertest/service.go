package customizertest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Request is a request that the service received.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                []byte
}

// Line returns "METHOD path".
func (r Request) Line() string { return r.Method + " " + r.Path }

// Service is the in-memory service. Set its fields before the first request.
type Service struct {
	URL string

	Token        string   // token that the Hugging Face interface requires; empty means none
	LFSOver      int      // size in bytes above which files use LFS; 0 means that no file uses LFS
	ChunkSize    int      // size in bytes of LFS parts; 0 means a single part
	NoVerify     bool     // whether LFS responses omit the verify action
	Stored       bool     // whether the LFS objects already exist
	OutputModel  string   // jobs' output model, with "@<id>" appended; empty means that jobs don't name one
	LateModel    string   // output model in later responses about a job, but not when it is created
	States       []string // the job's status, one per request; the last one is repeated
	Progress     *float64 // percentage_done of every status; nil means null
	Deployment   []string // a deployment's status, one per request; the last one is repeated
	PageSize     int      // page size for the list of jobs; 0 means 100
	DeployConfig string   // config served by an existing deployment of the same name

	// Fault may respond to a request in place of the service. It returns true if it did.
	Fault func(w http.ResponseWriter, r *http.Request, body []byte) bool

	mu          *sync.Mutex
	requests    []Request
	files       map[string][]byte // file contents, by repository and path
	objects     map[string][]byte
	parts       map[string][][]byte
	Jobs        []map[string]any
	polls       int
	deployPolls int
	deployments map[string]string
	cancelled   bool
	server      *httptest.Server
}

// Start starts the service on the loopback interface; it ends with the test.
func Start(t testing.TB, s *Service) *Service {
	t.Helper()
	s.mu, s.files, s.objects, s.parts, s.deployments = new(sync.Mutex), map[string][]byte{}, map[string][]byte{},
		map[string][][]byte{}, map[string]string{}
	if s.States == nil {
		s.States = []string{"created", "running", "completed"}
	}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.server.URL
	t.Cleanup(s.server.Close)
	return s
}

// Requests returns the requests so far.
func (s *Service) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Count returns the number of requests with a given "METHOD path".
func (s *Service) Count(line string) (n int) {
	for _, r := range s.Requests() {
		if r.Line() == line {
			n++
		}
	}
	return n
}

// File returns the content of a file in a repository ("ns/name"), or nil.
func (s *Service) File(repo, path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[repo+"/"+path]
}

// JobCount returns the number of jobs created.
func (s *Service) JobCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Jobs)
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Clone(), body})
	s.mu.Unlock()
	if err != nil {
		return
	}
	if s.Fault != nil && s.Fault(w, r, body) {
		return
	}
	s.Answer(w, r, body)
}

// Answer answers a request as the service does. A Fault may call it with its own ResponseWriter, to corrupt the
// response.
func (s *Service) Answer(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, answer := s.answer(r, body, w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer) // the client may have disconnected
	}
}

type object = map[string]any

func (s *Service) answer(r *http.Request, body []byte, h http.Header) (int, any) {
	p := r.URL.Path
	switch {
	case strings.HasPrefix(p, "/v1/hf/") || strings.HasPrefix(p, "/lfs/"):
		return s.hub(r, p, body, h)
	case r.Method == http.MethodPost && p == "/v1/datastore/namespaces":
		return 201, object{"namespace": "x"}
	case r.Method == http.MethodPost && (p == "/v1/namespaces" || p == "/v1/datasets" || p == "/v1/deployment/configs"):
		return 200, decode(body)
	case strings.HasPrefix(p, "/v1/customization/jobs"):
		return s.job(r, strings.TrimPrefix(p, "/v1/customization/jobs"), body)
	case strings.HasPrefix(p, "/v1/deployment/model-deployments"):
		return s.deployment(r, strings.TrimPrefix(p, "/v1/deployment/model-deployments"), body)
	}
	return 404, object{"detail": "Not Found"}
}

func decode(body []byte) object {
	var v object
	_ = json.Unmarshal(body, &v) // unreadable input counts as empty, and the service responds accordingly
	return v
}

func (s *Service) hub(r *http.Request, p string, body []byte, h http.Header) (int, any) {
	if s.Token != "" && strings.HasPrefix(p, "/v1/hf/") && r.Header.Get("Authorization") != "Bearer "+s.Token {
		return 401, object{"error": "Invalid username or password."}
	}
	switch {
	case p == "/v1/hf/api/repos/create":
		v := decode(body)
		return 201, object{"url": fmt.Sprintf("datasets/%v/%v", v["organization"], v["name"])}
	case strings.Contains(p, "/preupload/"):
		var in struct {
			Files []struct {
				Path string `json:"path"`
				Size int    `json:"size"`
			} `json:"files"`
		}
		if err := json.Unmarshal(body, &in); err != nil || len(in.Files) != 1 {
			return 422, object{"detail": "files"}
		}
		mode := "regular"
		if s.LFSOver > 0 && in.Files[0].Size > s.LFSOver {
			mode = "lfs"
		}
		return 200, object{"files": []any{object{"path": in.Files[0].Path, "uploadMode": mode, "shouldIgnore": false}}}
	case strings.HasSuffix(p, "/info/lfs/objects/batch"):
		return s.batch(body)
	case strings.HasPrefix(p, "/lfs/"):
		return s.lfs(r, strings.TrimPrefix(p, "/lfs/"), body, h)
	case strings.Contains(p, "/commit/"):
		repo, _, _ := strings.Cut(strings.TrimPrefix(p, "/v1/hf/api/datasets/"), "/commit/")
		return s.commit(repo, body)
	}
	return 404, object{"error": "Not Found"}
}

func (s *Service) batch(body []byte) (int, any) {
	var in struct {
		Objects []struct {
			OID  string `json:"oid"`
			Size int    `json:"size"`
		} `json:"objects"`
	}
	if err := json.Unmarshal(body, &in); err != nil || len(in.Objects) != 1 {
		return 422, object{"detail": "objects"}
	}
	o := in.Objects[0]
	out := object{"oid": o.OID, "size": o.Size, "authenticated": true}
	if s.Stored {
		s.objects[o.OID] = make([]byte, o.Size)
		return 200, object{"objects": []any{out}}
	}
	header := object{"Authorization": "Bearer lfs-action-token"}
	href := s.URL + "/lfs/" + o.OID
	if s.ChunkSize > 0 {
		header = object{"chunk_size": fmt.Sprint(s.ChunkSize)}
		n := (o.Size + s.ChunkSize - 1) / s.ChunkSize
		s.parts[o.OID] = make([][]byte, n)
		for i := range n {
			header[fmt.Sprintf("%05d", i+1)] = fmt.Sprintf("%s/part?n=%d&signature=s", href, i)
		}
	}
	actions := object{"upload": object{"href": href, "header": header}}
	if !s.NoVerify {
		actions["verify"] = object{"href": s.URL + "/lfs/verify"}
	}
	out["actions"] = actions
	return 200, object{"objects": []any{out}}
}

func (s *Service) lfs(r *http.Request, p string, body []byte, h http.Header) (int, any) {
	oid, part, isPart := strings.Cut(p, "/")
	switch {
	case p == "verify":
		v := decode(body)
		if _, ok := s.objects[fmt.Sprint(v["oid"])]; !ok {
			return 404, object{"message": "no such object"}
		}
		return 200, nil
	case isPart && part == "part":
		var n int
		if _, err := fmt.Sscan(r.URL.Query().Get("n"), &n); err != nil || n < 0 || n >= len(s.parts[oid]) {
			return 400, object{"message": "no such part"}
		}
		s.parts[oid][n] = body
		h.Set("ETag", fmt.Sprintf(`"etag-%d"`, n+1))
		return 200, nil
	case r.Method == http.MethodPost: // a request to join the parts
		body = bytes.Join(s.parts[oid], nil)
	case r.Header.Get("Authorization") != "Bearer lfs-action-token":
		return 401, object{"message": "the action's header is missing"}
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != oid {
		return 422, object{"message": "the content doesn't match the object id"}
	}
	s.objects[oid] = body
	return 200, nil
}

func (s *Service) commit(repo string, body []byte) (int, any) {
	for line := range bytes.Lines(body) {
		var op struct {
			Key   string `json:"key"`
			Value struct {
				Content string `json:"content"`
				Path    string `json:"path"`
				OID     string `json:"oid"`
			} `json:"value"`
		}
		if err := json.Unmarshal(line, &op); err != nil {
			return 422, object{"detail": err.Error()}
		}
		switch op.Key {
		case "file":
			data, err := base64.StdEncoding.DecodeString(op.Value.Content)
			if err != nil {
				return 422, object{"detail": err.Error()}
			}
			s.files[repo+"/"+op.Value.Path] = data
		case "lfsFile":
			data, ok := s.objects[op.Value.OID]
			if !ok {
				return 422, object{"detail": "no such object"}
			}
			s.files[repo+"/"+op.Value.Path] = data
		}
	}
	return 200, object{"commitUrl": "", "commitOid": strings.Repeat("0", 40)}
}

func (s *Service) job(r *http.Request, rest string, body []byte) (int, any) {
	switch {
	case r.Method == http.MethodPost && rest == "":
		v := decode(body)
		id := fmt.Sprintf("cust-%022d", len(s.Jobs)+1)
		d, _ := v["dataset"].(map[string]any)
		j := object{
			"id": id, "config": v["config"], "dataset": fmt.Sprintf("%v/%v", d["namespace"], d["name"]),
			"custom_fields": v["custom_fields"],
			"status":        "created", "warnings": nil, "namespace": "default", "output_model": nil,
		}
		if s.OutputModel != "" {
			j["output_model"] = s.OutputModel + "@" + id
		}
		s.Jobs = append(s.Jobs, j)
		return 200, j
	case rest == "":
		return 200, s.page(r.URL.Query().Get("page"))
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	for _, j := range s.Jobs {
		if j["id"] != id {
			continue
		}
		switch action {
		case "cancel":
			s.cancelled = true
			return 200, j
		case "status":
			return 200, s.status()
		}
		if s.LateModel != "" {
			j["output_model"] = s.LateModel
		}
		return 200, j
	}
	return 404, object{"detail": "Job " + id + " not found"}
}

// page returns one page of the jobs, newest first.
func (s *Service) page(number string) object {
	size, n := s.PageSize, 1
	size = cmp.Or(size, 100)
	_, _ = fmt.Sscan(number, &n) // n stays 1 without a page number
	data := []any{}
	for i := len(s.Jobs) - 1 - (n-1)*size; i >= 0 && len(data) < size; i-- {
		data = append(data, s.Jobs[i])
	}
	return object{"object": "list", "data": data, "pagination": object{
		"page": n, "page_size": size, "current_page_size": len(data),
		"total_pages": (len(s.Jobs) + size - 1) / size, "total_results": len(s.Jobs),
	}}
}

func (s *Service) status() object {
	state := s.States[min(s.polls, len(s.States)-1)]
	s.polls++
	if s.cancelled && state != "completed" {
		state = "cancelled"
	}
	return object{
		"status": state, "created_at": "2026-01-02T03:04:05.678901", "updated_at": "2026-01-02T03:04:05.678901",
		"percentage_done": s.Progress, "epochs_completed": nil, "train_loss": nil, "metrics": nil, "status_logs": nil,
	}
}

func (s *Service) deployment(r *http.Request, rest string, body []byte) (int, any) {
	if r.Method == http.MethodPost {
		v := decode(body)
		name := fmt.Sprint(v["name"])
		if s.DeployConfig != "" {
			s.deployments[name] = s.DeployConfig
		}
		if _, exists := s.deployments[name]; exists {
			return 409, object{"detail": "exists"}
		}
		s.deployments[name] = fmt.Sprint(v["config"])
		return 200, v
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	conf, ok := s.deployments[name]
	if !ok {
		return 404, object{"detail": "not found"}
	}
	if r.Method == http.MethodDelete {
		delete(s.deployments, name)
		return 200, object{"message": "deleted"}
	}
	state := "ready"
	if len(s.Deployment) > 0 {
		state = s.Deployment[min(s.deployPolls, len(s.Deployment)-1)]
		s.deployPolls++
	}
	return 200, object{
		"name": name, "config": conf, "url": "",
		"status_details": object{"status": state, "description": "d\n"},
	}
}
