package objectstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// The servers' credentials. No output may contain the secret.
const (
	ID     = "AKIATESTOFNATGO00000"
	Secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLE1"
)

// Bucket is the name of a bucket that exists on every server.
const Bucket = "traces"

// Server is a server that speaks the S3 protocol.
type Server struct {
	Address string // "127.0.0.1:4567"
}

// Environment returns the variables that direct a process to a server or to a proxy in front of it.
func Environment(address string) map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_ENDPOINT_URL": "http://" + address,
		"AWS_REGION": "us-east-1", "AWS_SESSION_TOKEN": "",
	}
}

// Each runs a test against each available server.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run("versitygw", func(t *testing.T) { test(t, startVersity(t)) })
	t.Run("moto", func(t *testing.T) { test(t, Moto(t)) })
}

// Moto starts moto's server, a Python package. Without it the test is skipped or, if NATGO_REQUIRE names moto, fails.
func Moto(t testing.TB) *Server {
	t.Helper()
	python := pythontest.Need(t, "moto", "import moto.server", "nothing is tested against moto's S3")
	address := free(t)
	host, port, _ := strings.Cut(address, ":")
	return start(t, address, exec.Command(python, "-m", "moto.server", "-H", host, "-p", port))
}

// startVersity starts versitygw, from .ci/versitygw. If it can't be built the test is skipped or, if NATGO_REQUIRE
// names versitygw, fails.
func startVersity(t testing.TB) *Server {
	t.Helper()
	pythontest.Long(t, "nothing is tested against versitygw")
	program, err := versity()
	if err != nil {
		if pythontest.Required("versitygw") {
			t.Fatalf("NATGO_REQUIRE names versitygw: %v", err)
		}
		t.Skipf("SKIPPED: versitygw can't be built, so nothing is tested against it: %v", err)
	}
	address := free(t)
	return start(t, address, exec.Command(program, t.TempDir(), address))
}

// versity builds the server into the user's cache, once per process, and returns its path.
var versity = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output() // a test runs in the module
	if err != nil {
		return "", err
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), ".ci", "versitygw")
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "nat-go", "versitygw")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// free returns an address on which nothing is listening.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a server, waits for it and creates the bucket.
func start(t testing.TB, address string, cmd *exec.Cmd) *Server {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = os.Environ()
	for k, v := range Environment(address) {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	var ended error
	go func() {
		ended = cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		<-gone
	})
	s := &Server{Address: address}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := s.client(t).MakeBucket(context.Background(), Bucket, minio.MakeBucketOptions{Region: "us-east-1"})
		if err == nil {
			return s
		}
		select {
		case <-gone:
			t.Fatalf("%v ended: %v\n%s", cmd.Args, ended, log.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v doesn't answer: %v", cmd.Args, err)
		}
	}
}

func (s *Server) client(t testing.TB) *minio.Client {
	t.Helper()
	c, err := minio.New(s.Address, &minio.Options{
		Creds: credentials.NewStaticV4(ID, Secret, ""), Region: "us-east-1", MaxRetries: 1,
		BucketLookup: minio.BucketLookupPath, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var transport = &http.Transport{DisableKeepAlives: true}

// Put writes an object, bypassing any proxy.
func (s *Server) Put(t testing.TB, key string, data []byte) {
	t.Helper()
	_, err := s.client(t).PutObject(context.Background(), Bucket, key, strings.NewReader(string(data)),
		int64(len(data)), minio.PutObjectOptions{DisableMultipart: true})
	if err != nil {
		t.Fatal(err)
	}
}

// Get reads an object, bypassing any proxy.
func (s *Server) Get(t testing.TB, key string) []byte {
	t.Helper()
	o, err := s.client(t).GetObject(context.Background(), Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	data, err := io.ReadAll(o)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return data
}

// Keys lists the objects below a prefix.
func (s *Server) Keys(t testing.TB, prefix string) (keys []string) {
	t.Helper()
	for o := range s.client(t).ListObjects(context.Background(), Bucket, minio.ListObjectsOptions{
		Prefix: prefix, Recursive: true,
	}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}
