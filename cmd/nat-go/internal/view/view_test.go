package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	ttcjson "github.com/nat-go/nat-go/ttc/json"
)

// hostile is text that a page must show but never act on.
const hostile = "</script><img src=x onerror=alert(1)> \u202e \x00 \xff"

// testRun returns a run's folder with n pairs, one per group; every tenth prompt is hostile.
func testRun(t testing.TB, n int) runfolder.Folder {
	t.Helper()
	folder := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(folder.Records())
	if err != nil {
		t.Fatal(err)
	}
	b := recordlog.NewBuilder([]string{"moves", "hints"})
	for i := range n {
		prompt := fmt.Sprintf("what is %d?", i)
		if i%10 == 9 {
			prompt = hostile
		}
		b.Begin(&ttc.Group{Key: fmt.Sprint(i), Examples: []*ttc.Example{{
			ID: fmt.Sprint("example", i), Task: fmt.Sprint("task", i%3),
			Candidates: []ttc.Candidate{
				{Prompt: ttc.Prompt{Text: prompt}, Output: fmt.Sprint("the good answer ", i)},
				{Prompt: ttc.Prompt{Text: prompt}, Output: fmt.Sprint("the bad answer ", i)},
			},
		}}})
		ref := func(p builders.Part, c int) builders.Content {
			return builders.Content{Ref: builders.Ref{Part: p, Candidate: c}}
		}
		if err := b.Record(i%2, &builders.Preference{
			Prompt: ref(builders.CandidatePrompt, 0), Chosen: ref(builders.CandidateOutput, 0),
			Rejected: ref(builders.CandidateOutput, 1), ChosenScore: float64(i), RejectedScore: 0,
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.Append(b.Group()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(nil, true); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

func open(t testing.TB, folder runfolder.Folder) *Run {
	t.Helper()
	r, err := OpenRun(
		folder,
		"",
		func(int64) {},
		func() (*tokenizer.Tokenizer, error) { return nil, errors.New("none") },
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// serve returns a server for a run, and its handler behind the checks that every request passes.
func serve(t testing.TB, r *Run) (s *Server, handler http.Handler) {
	t.Helper()
	s, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.listener.Close() })
	return s, s.handler(r)
}

func (s *Server) request(method, path, body string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = s.listener.Addr().String()
	req.Header.Set(tokenHeader, s.token)
	return req
}

func get(t testing.TB, s *Server, h http.Handler, path string, into any) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, s.request("GET", path, ""))
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
	}
	return w.Code
}

func TestCachedTableIsTheSame(t *testing.T) {
	log := testRun(t, 100).Records()
	made, err := readTable(log, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.table")
	if err := durable.Save(path, made.write); err != nil {
		t.Fatal(err)
	}
	commit, err := recordlog.ReadCommit(log)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := loadTable(path, &commit)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, kept, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 5, len(tableMagic) + 3, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadTable(path, &commit); err == nil {
			t.Errorf("a table cut at byte %d of %d was accepted", n, len(whole))
		}
	}
	whole[len(whole)/2] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadTable(path, &commit); err == nil {
		t.Error("a table with a flipped bit was accepted")
	}
}

// TestForgedTable: a table in the cache whose sum is right, but which describes something impossible, is rebuilt.
func TestForgedTable(t *testing.T) {
	log := testRun(t, 100).Records()
	commit, err := recordlog.ReadCommit(log)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.table")
	for name, forge := range map[string]func(*table){
		"a builder without a name":    func(t *table) { t.Entries[3].Builder = 9 },
		"a kind that there isn't":     func(t *table) { t.Entries[3].Kind = 200 },
		"a fidelity that there isn't": func(t *table) { t.Entries[3].Fidelity = 4 },
		"fewer records":               func(t *table) { t.Entries = t.Entries[1:] },
		"no groups":                   func(t *table) { t.First, t.Offset = nil, nil },
		"groups out of order":         func(t *table) { t.First[1], t.First[2] = t.First[2], t.First[1]-1 },
		"groups after the end":        func(t *table) { t.First[len(t.First)-1] = 1 << 30 },
		"offsets after the end":       func(t *table) { t.Offset[len(t.Offset)-1] = commit.Bytes + 1 },
		"an offset before the start":  func(t *table) { t.Offset[0] = -1 },
		"a first record that is not":  func(t *table) { t.First[0] = 1 },
		"a long name":                 func(t *table) { t.Builders[0] = strings.Repeat("x", maxHead) },
	} {
		t.Run(name, func(t *testing.T) {
			made, err := readTable(log, func(int64) {})
			if err != nil {
				t.Fatal(err)
			}
			forge(made)
			if err := durable.Save(path, made.write); err != nil {
				t.Fatal(err)
			}
			if _, err := loadTable(path, &commit); err == nil {
				t.Error("it was accepted")
			}
		})
	}
	head, err := json.Marshal(tableHead{Magic: tableMagic, Records: commit.Records, Groups: commit.Groups})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(head, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil { // makes the file sparse
		t.Fatal(err)
	}
	if _, err := loadTable(path, &commit); err == nil {
		t.Error("a sparse file was accepted")
	}
}

// TestForgedSum: the hash of a log is used as a file name, whatever the run says it is.
func TestForgedSum(t *testing.T) {
	for _, sum := range []string{"", "../../x", "00", strings.Repeat("g", 32), strings.Repeat("0", 31) + "/"} {
		if isSum(sum) {
			t.Errorf("%q was accepted as a hash", sum)
		}
	}
	if !isSum(strings.Repeat("0f", 16)) {
		t.Error("a hash was refused")
	}
}

// keyOf returns how a record is named in marks.
func keyOf(t *testing.T, r *Run, ordinal uint64) string {
	t.Helper()
	content, err := r.content(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	return marks.Key(content)
}

func TestFilter(t *testing.T) {
	r := open(t, testRun(t, 30))
	if err := r.marks.Put(marks.Mark{Record: keyOf(t, r, 4), Mark: marks.Reject}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query, order string
		want         []uint32
	}{
		{"margin > 27", "", []uint32{28, 29}},
		{"margin > 27", "-score", []uint32{29, 28}},
		{`margin <= 1 and builder == "hints"`, "", []uint32{1}},
		{`id == "example7"`, "", []uint32{7}},
		{`task in ["task1"] and margin < 5`, "", []uint32{1, 4}},
		{`mark == "reject"`, "", []uint32{4}},
		{`kind == "rollout"`, "", []uint32{}},
		{`reason == "" and "train" in split and margin == 3`, "", []uint32{3}},
	} {
		t.Run(c.query+c.order, func(t *testing.T) {
			got, _, err := r.find(c.query, c.order)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"margin > x", `builder == "nobody"`, `kind == "car"`, `"both" in split`, `fidelity == "high"`, `task contains "1"`} {
		if _, _, err := r.find(bad, ""); statusOf(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestRowsAndRecords(t *testing.T) {
	r := open(t, testRun(t, 30))
	s, h := serve(t, r)
	var a rowsAnswer
	if hits := searched(t, s, h, "text+contains+%22good+answer+12%22"); len(hits) != 2 || hits[0].Row.Record != 13 {
		t.Errorf("%+v", hits)
	}
	if code := get(t, s, h, "/api/rows?offset=28&limit=50", &a); code != 200 || a.Total != 30 || len(a.Rows) != 2 {
		t.Errorf("%d %+v", code, a)
	}
	for record, want := range map[int]int{1: 43, 10: 33 + utf8.RuneCountInString(hostile)} {
		if get(t, s, h, fmt.Sprint("/api/rows?limit=1&offset=", record-1), &a); a.Rows[0].Length != uint32(want) {
			t.Errorf("record %d has %d characters, want %d", record, a.Rows[0].Length, want)
		}
	}
	var rec recordAnswer
	if code := get(t, s, h, "/api/record?n=10", &rec); code != 200 {
		t.Fatal(code)
	}
	var v struct{ Prompt, Chosen, Rejected string }
	if err := json.Unmarshal(rec.View, &v); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.Prompt, "</script>") || v.Chosen != "the good answer 9" ||
		v.Rejected != "the bad answer 9" {
		t.Errorf("%+v", v)
	}
	if len(rec.Diff.Chosen) != 3 || rec.Diff.Chosen[1] != (show.Piece{Text: "good", Differs: true}) {
		t.Errorf("%+v", rec.Diff)
	}
	for path, want := range map[string]int{
		"/api/record?n=0":                               400,
		"/api/record?n=31":                              404,
		"/api/record?n=18446744073709551615":            404,
		"/api/record?n=x":                               400,
		"/api/rows?offset=-1":                           400,
		"/api/rows?sort=age":                            400,
		"/api/tokens?ref=sft/train/00000.safetensors:1": 404,
		"/api/record?n=1&from=x":                        400,
		"/api/site":                                     404,
		"/api/overview":                                 200,
		"/api/drops":                                    200,
		"/api/batches":                                  200,
	} {
		t.Run(path, func(t *testing.T) {
			if code := get(t, s, h, path, nil); code != want {
				t.Errorf("%s: got %d, want %d", path, code, want)
			}
		})
	}
}

func TestMarks(t *testing.T) {
	folder := testRun(t, 3)
	r := open(t, folder)
	s, h := serve(t, r)
	post := func(body string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, s.request("POST", "/api/mark", body))
		return w.Code
	}
	key := keyOf(t, r, 1)
	if code := post(`{"record":"` + key + `","mark":"approve","note":"good"}`); code != 200 {
		t.Fatal(code)
	}
	again := open(t, folder)
	content, err := again.content(1)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := again.marks.Get(content); !ok ||
		m != (marks.Mark{Record: key, Mark: marks.Approve, Note: "good"}) {
		t.Errorf("%+v", m)
	}
	if code := post(`{"record":"` + key + `","mark":""}`); code != 200 || runfolder.Has(marks.Of(folder)) {
		t.Errorf("%d: the last mark was taken back, and the file is still there", code)
	}
	for _, bad := range []string{
		``, `{}`, `{"record":"x","mark":"approve"}`, `{"record":"` + key + `","mark":"maybe"}`,
		`{"record":"` + key + `","mark":"","else":1}`,
		`{"record":"` + key + `","mark":"","note":"` + strings.Repeat("x", maxBody) + `"}`,
	} {
		if code := post(bad); code != http.StatusBadRequest {
			t.Errorf("%.60s: %d", bad, code)
		}
	}
}

// TestIdleMarks: marks on no record of a run are listed, and stay in their file when others are set.
func TestIdleMarks(t *testing.T) {
	folder := testRun(t, 3)
	r := open(t, folder)
	s, h := serve(t, r)
	var want []marks.Mark
	for i := range maxIdle + 5 {
		idle := marks.Mark{Record: fmt.Sprintf("%032x", i+1), Mark: marks.Reject, Note: fmt.Sprint(i)}
		if err := r.marks.Put(idle); err != nil {
			t.Fatal(err)
		}
		want = append(want, idle)
	}
	if err := r.marks.Put(marks.Mark{Record: keyOf(t, r, 1), Mark: marks.Approve}); err != nil {
		t.Fatal(err)
	}
	var o overview
	get(t, s, h, "/api/overview", &o)
	if diff := cmp.Diff(want[:maxIdle], o.Idle); diff != "" || o.IdleMarks != len(want) {
		t.Errorf("%d marks: %s", o.IdleMarks, diff)
	}
	if diff := cmp.Diff(facet{{"approve", 1}}, o.Facets["mark"]); diff != "" {
		t.Error(diff)
	}
	if kept := open(t, folder).marks.All(); len(kept) != len(want)+1 {
		t.Errorf("%d marks are in the file", len(kept))
	}
}

func port(r *http.Request) string { return r.Host[strings.LastIndex(r.Host, ":"):] }

// TestGuard: only our own page gets an answer, whatever else is open in the browser.
func TestGuard(t *testing.T) {
	s, h := serve(t, open(t, testRun(t, 1)))
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"our page", func(*http.Request) {}, 200},
		{"our page with its origin", func(r *http.Request) { r.Header.Set("Origin", "http://"+r.Host) }, 200},
		{"by another name of this machine", func(r *http.Request) { r.Host = "localhost" + port(r) }, 200},
		{"DNS rebinding", func(r *http.Request) { r.Host = "evil.example" }, 421},
		{"rebinding with our port", func(r *http.Request) { r.Host = "evil.example" + port(r) }, 421},
		{"another origin", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		{"a sandboxed frame", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"our name over TLS", func(r *http.Request) { r.Header.Set("Origin", "https://"+r.Host) }, 403},
		{"without the token", func(r *http.Request) { r.Header.Del(tokenHeader) }, 403},
		{"with another token", func(r *http.Request) { r.Header.Set(tokenHeader, strings.Repeat("0", 32)) }, 403},
		{"the token in the link alone", func(r *http.Request) {
			r.Header.Del(tokenHeader)
			r.URL.RawQuery = "token=" + s.token
		}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range []string{"/api/overview", "/api/record?n=1"} {
				req := s.request("GET", path, "")
				c.change(req)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != c.want {
					t.Errorf("%s: got %d, want %d", path, w.Code, c.want)
				}
				if head := w.Header(); head.Get("X-Frame-Options") != "DENY" ||
					head.Get("Content-Security-Policy") != policy {
					t.Errorf("%s: %v", path, head)
				}
			}
		})
	}
	// A form on another page can post, but can neither set the header nor hide its origin.
	form := s.request("POST", "/api/mark", `{"record":"00000000000000000000000000000000","mark":"approve"}`)
	form.Header.Del(tokenHeader)
	form.Header.Set("Content-Type", "text/plain")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, form)
	if w.Code != http.StatusForbidden {
		t.Errorf("a form: %d", w.Code)
	}
}

// TestStrangersKeepNobodyOut: 200 connections without the token, idle or in the middle of a request, don't slow down
// who has it, even with few descriptors: the page, its files and every endpoint are there within a second.
func TestStrangersKeepNobodyOut(t *testing.T) {
	s, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	run := open(t, testRun(t, 1))
	go func() { done <- s.Serve(ctx, run) }()
	pages := everyPage(t, run)
	addr := s.listener.Addr().String()
	var strangers []net.Conn
	for i := range 200 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		request := "GET /icon.svg HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
		if i%2 == 0 {
			request = request[:20]
		}
		_, _ = c.Write([]byte(request))
		strangers = append(strangers, c)
		if i%20 == 0 {
			for _, page := range pages {
				if took := visit(t, s, page); took > time.Second {
					t.Errorf("after %d strangers %s took %v", i+1, page, took)
				}
			}
		}
	}
	gone := 0
	for end := time.Now().Add(10 * time.Second); gone < len(strangers)-maxStrangers && time.Now().Before(end); {
		gone = 0
		for _, c := range strangers { // the last may wait to be accepted
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			if _, err := io.Copy(io.Discard, c); err == nil || errors.Is(err, syscall.ECONNRESET) {
				gone++
			}
		}
	}
	if gone < len(strangers)-maxStrangers {
		t.Errorf("%d of %d strangers had to leave", gone, len(strangers))
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// everyPage lists what a browser asks for, as "METHOD path".
func everyPage(t *testing.T, r *Run) (pages []string) {
	queries := map[string]string{
		"/api/search": "?q=what", "/api/record": "?n=1", "/api/row": "?batches=0&row=0",
		"/api/tokens": "?batches=0&row=0", "/api/written": "?n=1",
	}
	for pattern := range r.routes() {
		_, path, _ := strings.Cut(pattern, " ")
		pages = append(pages, pattern+queries[path])
	}
	err := fs.WalkDir(files, "page", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			pages = append(pages, "GET "+strings.TrimSuffix(strings.TrimPrefix(path, "page"), "index.html"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// visit asks for a page with the token, and returns how long it took. What this run doesn't have, such as batches, is
// refused just as quickly.
func visit(t *testing.T, s *Server, page string) time.Duration {
	began := time.Now()
	method, path, _ := strings.Cut(page, " ")
	req, err := http.NewRequest(method, "http://"+s.listener.Addr().String()+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(tokenHeader, s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("%s: %v", page, err)
	}
	if resp.StatusCode == http.StatusForbidden || resp.StatusCode >= http.StatusInternalServerError {
		t.Errorf("%s: %s", page, resp.Status)
	}
	return time.Since(began)
}

func TestOnlyThisMachineIsListenedTo(t *testing.T) {
	if _, err := Listen("0.0.0.0:0", false); err == nil || !strings.Contains(err.Error(), "--public") {
		t.Errorf("%v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	r := open(t, testRun(t, 300))
	s, h := serve(t, r)
	var a rowsAnswer
	get(t, s, h, fmt.Sprint("/api/rows?limit=", math.MaxInt32), &a)
	if len(a.Rows) != maxRows {
		t.Errorf("%d rows", len(a.Rows))
	}
}

// TestRowsAlone: rows without a run are shown just as they are in their file.
func TestRowsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trl")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const n = 600 // more than are read at a time
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(
			&text,
			`{"prompt": [{"role": "user", "content": "question %d"}], `+
				`"chosen": [{"role": "assistant", "content": "good %d"}], `+
				`"rejected": [{"role": "assistant", "content": "bad %d"}]}`+"\n",
			i,
			i,
			i,
		)
	}
	for _, name := range []string{"train.jsonl", "validation.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place, err := dataset.Find(dir, dataset.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRows(dir, place)
	if err != nil {
		t.Fatal(err)
	}
	s, h := serve(t, r)
	for _, i := range []uint64{0, n - 1, 3, n, 255, 256, 2*n - 1, n + 7} {
		p, err := r.record(i)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint("good ", i%n)
		if got := p.Chosen.Nodes[0].Message.Text; got != want || p.Decision.Validates() != (i >= n) {
			t.Errorf("row %d: got %q, want %q; %v", i, got, want, p.Decision)
		}
	}
	if hits := searched(t, s, h, "%22validation%22+in+split+and+text+contains+%22question+77%22"); len(hits) != 2 || hits[0].Row.Record != n+78 {
		t.Errorf("%+v", hits)
	}
	var o overview
	if code := get(t, s, h, "/api/overview", &o); code != 200 || o.State != "rows" || o.Records != 2*n ||
		len(o.Formats) != 2 || len(o.Facets["fidelity"])+len(o.Facets["task"]) != 0 {
		t.Errorf("%d %+v", code, o)
	}
	var a rowsAnswer
	if get(t, s, h, "/api/rows?q=id+%3D%3D+%22trl/train.jsonl:8%22", &a); a.Total != 1 || a.Rows[0].Record != 8 {
		t.Errorf("want the eighth row, found %+v", a)
	}
	var rec recordAnswer
	get(t, s, h, "/api/record?n=8", &rec)
	var v struct {
		Title string
		Facts []string
	}
	if err := json.Unmarshal(rec.View, &v); err != nil || v.Title != "trl/train.jsonl:8, preference" ||
		len(v.Facts) > 0 {
		t.Errorf("%v; a row shows more than its file holds: %+v", err, v)
	}
	for path, want := range map[string]int{
		"/api/record?n=1": 200, "/api/drops": 200, "/api/batches?record=1": 200, "/api/tokens?ref=1": 404,
	} {
		t.Run(path, func(t *testing.T) {
			if code := get(t, s, h, path, nil); code != want {
				t.Errorf("%s: %d", path, code)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	first, second := open(t, testRun(t, 20)), open(t, testRun(t, 30))
	s, h := serve(t, first)
	if code := get(t, s, h, "/api/compare", nil); code != http.StatusNotFound {
		t.Errorf("without another run: %d", code)
	}
	first.Compare(second)
	var c changes
	if code := get(t, s, h, "/api/compare", &c); code != 200 || c.Same != 20 || c.Appeared != 10 || c.Vanished != 0 {
		t.Errorf("%d %+v", code, c)
	}
	if len(c.List) != 10 || c.List[0].What != "appeared" || c.List[0].First != nil || c.List[0].Second.Record != 21 {
		t.Errorf("%+v", c.List)
	}
	second, first = first, second
	second.other, second.against = nil, nil
	first.Compare(second)
	s, h = serve(t, first)
	c = changes{}
	get(t, s, h, "/api/compare?what=vanished&offset=8", &c)
	if c.Total != 10 || len(c.List) != 2 || c.List[0].First.Record != 29 {
		t.Errorf("%+v", c)
	}
}

// TestCompareRuns: records of two runs are matched by their content, and what is left by example, builder and kind.
func TestCompareRuns(t *testing.T) {
	record := func(builder uint8, example, content uint64) entry {
		return entry{Builder: builder, Example: example, Content: content}
	}
	first := &Run{table: &table{Builders: []string{"a", "b"}, Entries: []entry{
		record(0, 1, 10), record(0, 1, 11), record(0, 1, 11), record(1, 2, 12), record(1, 3, 13), record(0, 4, 14),
		record(0, 1, 15),
	}}}
	second := &Run{table: &table{Builders: []string{"b", "a"}, Entries: []entry{
		record(1, 4, 14), record(1, 1, 20), record(0, 2, 21), record(1, 1, 11), record(1, 3, 22), record(1, 9, 23),
		record(1, 1, 24), record(1, 1, 25),
	}}}
	got := compareRuns(first, second)
	want := &compared{
		same: 2, other: [len(kinds)][]pair{
			changed:  {{0, 1}, {2, 6}, {3, 2}, {6, 7}},
			vanished: {{4, absent}},
			appeared: {{absent, 4}, {absent, 5}},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(compared{})); diff != "" {
		t.Error(diff)
	}
}

// TestSecondRun: a record of the run that another is compared with is shown when the request asks for that run.
func TestSecondRun(t *testing.T) {
	first, second := open(t, testRun(t, 3)), open(t, testRun(t, 9))
	s, h := serve(t, first)
	if code := get(t, s, h, "/api/record?n=8&run=2", nil); code != http.StatusBadRequest {
		t.Errorf("without another run: %d", code)
	}
	first.Compare(second)
	s, h = serve(t, first)
	var rec recordAnswer
	if code := get(t, s, h, "/api/record?n=8&run=2", &rec); code != 200 || rec.Row.Example != "example7" {
		t.Errorf("%d %+v", code, rec.Row)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, s.request("POST", "/api/mark?run=2", `{"record":"`+keyOf(t, second, 7)+`","mark":"reject"}`))
	if w.Code != 200 || runfolder.Has(marks.Of(first.Folder)) || !runfolder.Has(marks.Of(second.Folder)) {
		t.Errorf("%d: the mark is not beside the second run", w.Code)
	}
	for _, path := range []string{"/api/record?n=8", "/api/record?n=1&run=3"} {
		if code := get(t, s, h, path, nil); code < 400 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestLargeRecordsComeInWindows: a browser never gets more than a window of a record, whatever the record contains.
func TestLargeRecordsComeInWindows(t *testing.T) {
	folder := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(folder.Records())
	if err != nil {
		t.Fatal(err)
	}
	messages := make([]chat.Message, 1000)
	for i := range messages {
		messages[i] = chat.Message{Role: "user", Form: chat.Text, Text: fmt.Sprint("message ", i)}
	}
	messages[500].Text = strings.Repeat("long ", 2<<20) // 10 MiB
	part := strings.Repeat("x", 1<<20)
	messages[501] = chat.Message{Role: "user", Form: chat.Parts, Parts: []chat.Part{
		{Type: "text", Text: part, Raw: ttcjson.Raw(`{"type":"text","text":"` + part + `"}`)},
	}}
	graph := ttc.Chain(messages, ttc.Yes)
	for i := 1; i < len(graph.Nodes); i++ {
		graph.Nodes[i].Parent = i - 1
	}
	b := recordlog.NewBuilder([]string{"b"})
	b.Begin(&ttc.Group{Key: "k", Examples: []*ttc.Example{{ID: "e", Graph: graph}}})
	walk := builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: len(messages) - 1}}
	if err := b.Record(0, &builders.Demonstration{Messages: walk, Weight: 1}); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(b.Group()); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(nil, true); err != nil {
		t.Fatal(err)
	}
	s, h := serve(t, open(t, folder))
	for _, c := range []struct {
		from  string
		first int
		n     int
	}{{"", 0, maxWindow}, {"&from=400", 400, maxWindow}, {"&from=990", 990, 10}, {"&from=5000", 1000, 0}} {
		t.Run(c.from, func(t *testing.T) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, s.request("GET", "/api/record?n=1"+c.from, ""))
			var a recordAnswer
			var v struct{ Messages []struct{ Role string } }
			if err := errors.Join(json.Unmarshal(rec.Body.Bytes(), &a), json.Unmarshal(a.View, &v)); err != nil {
				t.Fatal(err)
			}
			if a.From != c.first || a.Messages != 1000 || len(v.Messages) != c.n || len(a.Sampled) != c.n {
				t.Errorf("%s: from %d, %d of %d messages, %d marked",
					c.from, a.From, len(v.Messages), a.Messages, len(a.Sampled))
			}
			if rec.Body.Len() > 4*maxText {
				t.Errorf("%s: an answer of %d bytes", c.from, rec.Body.Len())
			}
		})
	}
}

// TestBranches: for a conversation, the others of the same example that take a different course are listed, with the
// message where they part.
func TestBranches(t *testing.T) {
	folder := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(folder.Records())
	if err != nil {
		t.Fatal(err)
	}
	var messages []chat.Message
	for _, text := range []string{"q", "a", "b", "c"} {
		messages = append(messages, chat.Message{Role: "assistant", Form: chat.Text, Text: text})
	}
	graph := ttc.Chain(messages, ttc.Yes)
	graph.Nodes[2].Parent, graph.Nodes[3].Parent = 0, 1 // q a, q b, q a c
	b := recordlog.NewBuilder([]string{"x"})
	b.Begin(&ttc.Group{Key: "k", Examples: []*ttc.Example{{ID: "e", Graph: graph}}})
	for _, last := range []int{1, 2, 3, 1} {
		walk := builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: last}}
		err = errors.Join(err, b.Record(0, &builders.Demonstration{Messages: walk, Weight: 1}))
	}
	if err := errors.Join(err, w.Append(b.Group()), w.Commit(nil, true), w.Close()); err != nil {
		t.Fatal(err)
	}
	s, h := serve(t, open(t, folder))
	var a recordAnswer
	get(t, s, h, "/api/record?n=1", &a)
	want := []branch{
		{Record: 2, Builder: "x", Parts: 1, Messages: 2, Sampled: 1},
		{Record: 3, Builder: "x", Parts: 2, Messages: 3, Sampled: 1},
	}
	if diff := cmp.Diff(want, a.Branches); diff != "" {
		t.Error(diff)
	}
	for n, want := range map[int][2]uint64{1: {0, 2}, 2: {1, 3}, 3: {2, 4}, 4: {3, 0}} {
		a = recordAnswer{}
		if get(t, s, h, fmt.Sprint("/api/record?n=", n), &a); [2]uint64{a.Prev, a.Next} != want {
			t.Errorf("the branches of record %d are %d and %d, want %v", n, a.Prev, a.Next, want)
		}
	}
}

// TestPublicAddress: other machines reach it by its address or the machine's name, and by no other name.
func TestPublicAddress(t *testing.T) {
	s, err := Listen("127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.listener.Close()
	if s.known("192.0.2.7:" + s.port) {
		t.Error("a server of the loopback interface answers to another address")
	}
	s.public = true // like one that listens on all addresses
	for host, want := range map[string]bool{
		"192.0.2.7:" + s.port: true, "[2001:db8::1]:" + s.port: true, "localhost:" + s.port: true,
		"192.0.2.7": false, "192.0.2.7:1": false, "evil.example:" + s.port: false, "": false, ":" + s.port: false,
	} {
		t.Run(host, func(t *testing.T) {
			if s.known(host) != want {
				t.Errorf("%q: %v", host, !want)
			}
		})
	}
}

func TestDamagedLogIsReported(t *testing.T) {
	folder := testRun(t, 5)
	r := open(t, folder)
	path := filepath.Join(folder.Records(), recordlog.LogName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-20] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, h := serve(t, r)
	var a map[string]any
	code := get(t, s, h, "/api/record?n=5", &a)
	if code != 500 || !strings.Contains(fmt.Sprint(a["error"]), "damaged") {
		t.Errorf("%d %v", code, a)
	}
	if code := get(t, s, h, "/api/record?n=1", nil); code != 200 {
		t.Errorf("a record before the damage: %d", code)
	}
	if err := os.Truncate(path, int64(len(text)/2)); err != nil {
		t.Fatal(err)
	}
	if code := get(t, s, h, "/api/record?n=4", &a); code != 500 {
		t.Errorf("%d %v", code, a)
	}
}

// TestRunInProgress: for a run that has not ended, the page shows what there is so far and how far each stage has got.
func TestRunInProgress(t *testing.T) {
	folder := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder.Begun(), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	states := func(o *overview) string {
		var list []string
		for _, s := range o.Stages {
			list = append(list, s.Name+" "+s.State)
		}
		return strings.Join(list, ", ")
	}
	s, h := serve(t, open(t, folder))
	var o overview
	if code := get(t, s, h, "/api/overview", &o); code != 200 || o.State != "interrupted" || o.Records != 0 ||
		states(&o) != "read and build begun, curate waiting, write waiting" {
		t.Errorf("%d %+v", code, o)
	}
	for path, want := range map[string]int{"/api/rows": 200, "/api/record?n=1": 404, "/api/tokens?ref=1": 404} {
		t.Run(path, func(t *testing.T) {
			if code := get(t, s, h, path, nil); code != want {
				t.Errorf("%s: %d", path, code)
			}
		})
	}
	more := testRun(t, 5)
	if err := os.MkdirAll(more.Format("trl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(more.Decisions(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, folder)
	r.Folder = more // as if it had got this far meanwhile
	s, h = serve(t, r)
	o = overview{}
	if get(t, s, h, "/api/overview", &o); states(&o) != "read and build done, curate done, write trl begun" ||
		!strings.HasPrefix(o.Stages[0].Count, "5 records") {
		t.Errorf("%s %+v", states(&o), o.Stages)
	}
}
