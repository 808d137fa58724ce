package objects

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/internal/secret"
)

// service is the interface to one kind of storage. Each call is a single attempt; callers retry.
type service interface {
	stat(ctx context.Context, at place) (Info, error)
	// get opens n bytes of an object starting at an offset; the object must be in the given state.
	get(ctx context.Context, at place, from, n int64, is Info) (io.ReadCloser, error)
	// put writes a whole object. If onlyNew is set, an existing object is an error.
	put(ctx context.Context, at place, data []byte, onlyNew bool) error
	// begin starts a multipart upload, which takes effect only when it is completed.
	begin(ctx context.Context, at place) (upload, error)
	remove(ctx context.Context, at place) error
}

// upload is an object being written in parts, numbered from 1.
type upload interface {
	part(ctx context.Context, number int, data []byte) error
	complete(ctx context.Context) error
	abort(ctx context.Context) error
}

// Info identifies an object's state.
type Info struct {
	Size    int64
	ModTime time.Time // zero means unknown
	ETag    string    // identifies the object's content; empty if unknown
}

// same reports whether two Infos describe the same state of an object.
func (i Info) same(other Info) bool {
	return i.Size == other.Size && i.ETag == other.ETag && (i.ETag != "" || i.ModTime.Equal(other.ModTime))
}

// Storage gives access to all the object storage that a process can reach, with its credentials. It is safe for
// concurrent use.
type Storage struct {
	getenv  func(string) string
	pause   time.Duration
	silence time.Duration
	hidden  *secret.Values
	http    *http.Transport

	mu       sync.Mutex
	services map[string]service
	honours  map[string]error // results of CanCreate by bucket; nil if the bucket honours If-None-Match
}

// New returns the storage to which an environment gives access. It doesn't send any requests.
func New(getenv func(string) string) *Storage {
	s := &Storage{
		getenv: getenv, pause: firstPause, silence: stallTimeout, hidden: secret.NewValues(Secrets(getenv)...),
		services: map[string]service{}, honours: map[string]error{},
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		s.hidden.AddAddress(getenv(name))
	}
	s.http = httpclient.Transport(10*time.Second, 8)
	s.http.DisableCompression = true // objects are transferred uncompressed
	return s
}

// secretNames lists the environment variables whose values are never shown.
var secretNames = []string{
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
	"GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY", "HF_ACCESS_KEY_ID", "HF_SECRET_ACCESS_KEY", "HF_TOKEN",
}

// Secrets returns the values in an environment that must not be shown.
func Secrets(getenv func(string) string) (values []string) {
	for _, name := range secretNames {
		if v := getenv(name); v != "" {
			values = append(values, v)
		}
	}
	return values
}

// OfProcess returns the storage for the process's environment.
var OfProcess = sync.OnceValue(func() *Storage { return New(os.Getenv) })

// Close closes idle connections.
func (s *Storage) Close() { s.http.CloseIdleConnections() }

// find returns the service that a path names, which it opens on first use, and the object's location in it.
func (s *Storage) find(path string) (service, place, error) {
	at, err := parse(path)
	if err != nil {
		return nil, at, err
	}
	kind := at.scheme
	switch {
	case kind == schemeHTTP || kind == schemeHTTPS:
		return s.web(at), at, nil
	case kind == schemeHF && at.bucket == hubDatasets:
		at, err = s.hub(at)
		return s.web(at), at, err
	case kind == schemeHF:
		// The hub's S3 API addresses files as https://s3.hf.co/OWNER/NAME/FILE, so the owner takes the place of the
		// bucket.
		owner, key, _ := strings.Cut(at.key, "/")
		at = place{scheme: at.scheme, bucket: owner, key: key}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.services[kind]; known != nil {
		return known, at, nil
	}
	client, err := s.s3(kind)
	if err != nil {
		return nil, at, &Error{Path: path, What: clean(err.Error(), s.hidden), final: true}
	}
	s.services[kind] = client
	return client, at, nil
}

// Stat returns the state of an object.
func (s *Storage) Stat(ctx context.Context, path string) (info Info, err error) {
	to, at, err := s.find(path)
	if err != nil {
		return info, err
	}
	err = s.try(ctx, path, "look up the object", func(ctx context.Context) error {
		info, err = to.stat(ctx, at)
		return err
	})
	if err == nil && (len(info.ETag) > maxETag || s.hidden.Redact(info.ETag) != info.ETag) {
		return Info{}, refuse(path, "the ETag, which would be stored, is too long or contains a credential",
			"Copy the object to a disk first, and don't send credentials to a server that repeats them")
	}
	return info, err
}

// maxETag is the maximum length of an ETag, which is stored with the results made from the object.
const maxETag = 1 << 10
