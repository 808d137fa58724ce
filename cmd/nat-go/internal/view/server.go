package view

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

//go:embed page
var files embed.FS

// tokenHeader is required on every request for data. Another site's page can't set it without a preflight request.
const tokenHeader = "X-Nat-Go-Token"

// policy allows the page to load only its own scripts and styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Server serves the page and its endpoints to one user's browser.
type Server struct {
	listener net.Listener
	token    string
	port     string
	names    []string // allowed values of a request's Host
	public   bool     // whether a request's Host may be any IP address
}

// Listen starts listening on an address. public permits an address beyond the loopback interface.
func Listen(addr string, public bool) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	at := l.Addr().(*net.TCPAddr)
	open := !at.IP.IsLoopback()
	if open && !public {
		l.Close()
		return nil, fmt.Errorf(
			"%s is reachable from other machines, which could read the run: --public confirms that this is intended", addr)
	}
	s := &Server{
		listener: l, token: rand.Text(), port: strconv.Itoa(at.Port), public: open,
		names: []string{"localhost", "127.0.0.1", "::1"},
	}
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
		s.names = append(s.names, host)
	}
	if name, err := os.Hostname(); err == nil && open {
		s.names = append(s.names, name)
	}
	return s, nil
}

// URL returns the link that opens the page. It contains the token.
func (s *Server) URL() string {
	at := s.listener.Addr().(*net.TCPAddr)
	host := at.String()
	if at.IP.IsUnspecified() {
		host = net.JoinHostPort(s.names[len(s.names)-1], s.port) // use the machine's name
	}
	return "http://" + host + "/?token=" + s.token
}

// known reports whether a request's Host is one of this server's addresses. A public server accepts any IP address but
// not every name, because another site's page can make its own name resolve to this server (DNS rebinding).
func (s *Server) known(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != s.port {
		return false
	}
	_, notAddress := netip.ParseAddr(name)
	return slices.Contains(s.names, name) || s.public && notAddress == nil
}

// Serve answers requests until the context is done.
func (s *Server) Serve(ctx context.Context, r *Run) error {
	server := httpServer(ctx, s.handler(r))
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.Serve(&door{Listener: s.listener})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// httpServer returns a server that closes idle connections, so that clients with many connections don't block others.
func httpServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, visitorKey{}, c)
		},
		// The server's log messages, such as failures to accept connections, don't help the user, and may be frequent.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// handler serves the page to all requests, and the endpoints to requests with the token, after guard has checked the
// request.
func (s *Server) handler(r *Run) http.Handler {
	mux := http.NewServeMux()
	for pattern, answerTo := range r.routes() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			if subtle.ConstantTimeCompare([]byte(req.Header.Get(tokenHeader)), []byte(s.token)) != 1 {
				http.Error(w, "missing or wrong token: open the link that nat-go view printed", http.StatusForbidden)
				return
			}
			if v, ok := req.Context().Value(visitorKey{}).(*visitor); ok {
				v.door.forget(v)
			}
			a, err := answerTo(req)
			if lines, ok := a.(streamed); ok && err == nil {
				lines.serve(w)
				return
			}
			code, body := encode(a, err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write(body)
		})
	}
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // cannot happen, because the folder is embedded
	}
	mux.Handle("GET /", http.FileServerFS(page))
	return s.guard(mux)
}

// guard rejects requests that don't come from the page, and disables browser features that the page doesn't need.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.known(req.Host) {
			http.Error(w, "this server accepts only requests to its own address", http.StatusMisdirectedRequest)
			return
		}
		if origin := req.Header.Get("Origin"); origin != "" && origin != "http://"+req.Host {
			http.Error(w, "requests from other pages are not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// maxStrangers is the maximum number of open connections that haven't shown the token. A browser opens six
// connections, and the limit on a process's file descriptors may be low.
const maxStrangers = 32

// door accepts connections. If more than maxStrangers of them haven't shown the token, it closes the oldest of those
// connections, so that clients without the token can't lock the user out.
type door struct {
	net.Listener
	mu        sync.Mutex
	strangers []*visitor // the oldest first
}

// visitor is a connection that a door accepted.
type visitor struct {
	net.Conn
	door *door
}

type visitorKey struct{}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{c, d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.strangers = append(d.strangers, v); len(d.strangers) > maxStrangers {
		_ = d.strangers[0].Conn.Close()
		d.strangers = slices.Delete(d.strangers, 0, 1)
	}
	return v, nil
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.door.forget(v)
	return v.Conn.Close()
}

// forget removes a connection from strangers when the connection is closed or has shown the token.
func (d *door) forget(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.strangers, v); i >= 0 {
		d.strangers = slices.Delete(d.strangers, i, i+1)
	}
}
