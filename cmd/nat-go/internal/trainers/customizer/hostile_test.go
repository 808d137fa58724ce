package customizer

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// before puts a handler in front of the service, which gets whatever the handler passes on.
func before(t *testing.T, s *customizertest.Service, h func(next http.Handler) http.HandlerFunc) {
	t.Helper()
	customizertest.Start(t, s)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	transport := &http.Transport{}
	proxy.Transport = transport
	front := httptest.NewServer(h(proxy))
	t.Cleanup(front.Close)
	t.Cleanup(transport.CloseIdleConnections)
	s.URL = front.URL // in the addresses that the service hands out
}

// TestUploadCutShort: if a connection is reset while the bytes are being sent, it is made again; a proxy that refuses
// the upload without reading it is understood at once.
func TestUploadCutShort(t *testing.T) {
	for _, c := range []struct {
		name  string
		lfs   int
		cut   func(w http.ResponseWriter, r *http.Request)
		code  int
		tries int32
		want  string
	}{
		{"reset after 64 KiB", 1, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 1<<16)
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		}, 0, 2, ""},
		{"413 before the body is read", 1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, "<html><head><title>413 Request Entity Too Large</title></head></html>")
		}, 1, 1, "HTTP 413"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &customizertest.Service{LFSOver: c.lfs}
			var puts atomic.Int32
			before(t, s, func(next http.Handler) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPut && (puts.Add(1) == 1 || c.code != 0) {
						c.cut(w, r)
						return
					}
					next.ServeHTTP(w, r)
				}
			})
			data := dataset(t, rowsOf(8<<20), nil)
			_, err := open(t, config(t, s.URL, ""), trainers.Env{}).Submit(t.Context(), data, "k")
			if got := exit.Code(trainers.Exit(err)); got != c.code ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("exit %d, want %d: %v", got, c.code, err)
			}
			if puts.Load() != c.tries || c.code == 0 && s.JobCount() != 1 {
				t.Errorf("%d tries, %d jobs", puts.Load(), s.JobCount())
			}
		})
	}
}

// TestOddAnswers: no job is lost to fields whose types differ from the service's own, or to text that would control a
// terminal.
func TestOddAnswers(t *testing.T) {
	s := &customizertest.Service{}
	status := ""
	s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/status"):
			_, _ = io.WriteString(w, status)
		case r.URL.Path == "/v1/customization/jobs" && r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"id": "cust-1", "dataset": {"name": 1}, "output_model": ["x"], "warnings": ["be careful"], "custom_fields": {"a": {"b": 1}}, "config": null}`)
		default:
			return false
		}
		return true
	}
	customizertest.Start(t, s)
	a := open(t, config(t, s.URL, ""), trainers.Env{})
	ref, err := a.Submit(t.Context(), small(t), "k")
	if err != nil || ref.ID != "cust-1" {
		t.Fatalf("%+v, %v", ref, err)
	}
	for text, want := range map[string]trainers.State{
		`{"status": "running", "percentage_done": "41 %", "epochs_completed": {}, "metrics": [], "status_logs": "none", "steps_per_epoch": "x"}`: trainers.Running,
		`{"status": "running", "percentage_done": 1e999, "metrics": {"metrics": {"train_loss": [{"value": "NaN"}]}}}`:                            trainers.Running,
		`{"status": "failed", "status_logs": [1, 2]}`:                                                       trainers.Failed,
		`{"status": "completed", "percentage_done": null, "metrics": {"metrics": null}, "unknown": [[[]]]}`: trainers.Completed,
		`{"status": "\u001b[2Jrunning\u009b"}`:                                                              trainers.Running,
	} {
		t.Run(text, func(t *testing.T) {
			status = text
			st, err := a.Status(t.Context(), ref)
			if err != nil || st.State != want || st.Progress != nil ||
				strings.ContainsAny(st.Message+fmt.Sprint(st.Metadata), "\x1b\u009b") {
				t.Errorf("%s: %+v, %v", text, st, err)
			}
		})
	}
	for _, text := range []string{`{"status": 5}`, `[]`, `null`, `{"status": null}`, `{}`} {
		status = text
		if st, err := a.Status(t.Context(), ref); !trainers.Transient(err) {
			t.Errorf("%s: %+v, %v", text, st, err)
		}
	}
}

// TestJobIDThatCannotBeUsed: an id that would control a terminal or lead to another path is not accepted as an id;
// whether there is a job is then unknown.
func TestJobIDThatCannotBeUsed(t *testing.T) {
	for _, id := range []string{`\u001b[2J`, `a b`, `x\ny`} {
		t.Run(id, func(t *testing.T) {
			s := &customizertest.Service{}
			s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.URL.Path != "/v1/customization/jobs" {
					return false
				}
				fmt.Fprintf(w, `{"id": "%s"}`, id)
				return true
			}
			customizertest.Start(t, s)
			if _, err := open(t, config(t, s.URL, ""), trainers.Env{}).
				Submit(t.Context(), small(t), "k"); !trainers.Unsettled(err) {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
}
