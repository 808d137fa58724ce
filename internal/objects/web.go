package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
)

// web is a file server. at.bucket is the server's host, and at.key is the file's path on the server.
type web struct {
	s     *Storage
	token string // sent only to the server's host
}

func (s *Storage) web(at place) service {
	if at.scheme == schemeHF {
		return &web{s: s, token: s.getenv("HF_TOKEN")}
	}
	return &web{s: s}
}

// hub returns the location from which the hub serves a data set's file, hf://datasets/OWNER/NAME[@REVISION]/FILE.
func (s *Storage) hub(at place) (place, error) {
	parts := strings.SplitN(at.key, "/", 3)
	name, revision, _ := strings.Cut(parts[1], "@")
	revision = cmp.Or(revision, "main")
	base := cmp.Or(s.getenv("HF_ENDPOINT"), "https://huggingface.co")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil {
		return at, &Error{Path: "hf://" + at.bucket + "/" + at.key, What: "HF_ENDPOINT is not a valid URL", final: true}
	}
	of := place{scheme: u.Scheme, bucket: u.Host, key: "x"}
	if err := of.check(base); err != nil {
		return at, err
	}
	revision = strings.ReplaceAll(revision, "%2F", "/") // the hub's own client escapes a slash in a branch this way
	file := strings.Join(lists.Map(strings.Split(parts[2], "/"), url.PathEscape), "/")
	key := strings.TrimPrefix(u.Path+"/", "/") +
		"datasets/" + parts[0] + "/" + name + "/resolve/" + url.PathEscape(revision) + "/" + file
	return place{scheme: schemeHF, bucket: u.Scheme + "://" + u.Host, key: key}, nil
}

func (c *web) address(at place) string {
	if at.scheme == schemeHF {
		return at.bucket + "/" + at.key
	}
	return at.scheme + "://" + at.bucket + "/" + at.key
}

// maxHops is the maximum number of redirects that are followed.
const maxHops = 5

// redirectError is the error for a redirect that isn't followed. A retry would get the same one.
type redirectError string

func (e redirectError) Error() string { return string(e) }

// ask requests a range. It sends the token only to the named host.
func (c *web) ask(ctx context.Context, at place, from, last int64, is Info) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(at), http.NoBody)
	if err != nil {
		return nil, errors.New("invalid address")
	}
	req.Header.Set("User-Agent", "nat-go")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, last))
	if is.ETag != "" && !strings.HasPrefix(is.ETag, "W/") {
		req.Header.Set("If-Match", is.ETag)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	client := &http.Client{Transport: c.s.http, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case len(via) > maxHops:
			return redirectError(fmt.Sprintf("more than %d redirects", maxHops))
		case to.URL.Scheme != schemeHTTPS && (first.Scheme == schemeHTTPS || to.URL.Scheme != "http"):
			return redirectError("redirected from " + first.Scheme + " to " + to.URL.Scheme)
		case slices.ContainsFunc(via, func(was *http.Request) bool { return was.URL.String() == to.URL.String() }):
			return redirectError("redirected in a loop")
		}
		to.Header.Del("Referer")
		if to.URL.Host != first.Host {
			to.Header.Del("Authorization")
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return resp, nil
	}
	resp.Body.Close()
	return nil, &statusError{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
}

func infoOfAnswer(h http.Header) (info Info) {
	info.ETag = h.Get("ETag")
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		info.ModTime = t.UTC()
	}
	return info
}

// stat requests the first byte, because many servers answer HEAD differently from GET.
func (c *web) stat(ctx context.Context, at place) (Info, error) {
	resp, err := c.ask(ctx, at, 0, 0, Info{})
	if err != nil {
		return Info{}, err
	}
	defer resp.Body.Close()
	info := infoOfAnswer(resp.Header)
	_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
	if resp.StatusCode == http.StatusOK {
		total = resp.Header.Get("Content-Length")
	}
	if info.Size, err = strconv.ParseInt(total, 10, 64); err != nil || info.Size < 0 {
		return info, errors.New("unknown size of the file on the server: copy it to a disk first")
	}
	return info, nil
}

func (c *web) get(ctx context.Context, at place, from, n int64, is Info) (io.ReadCloser, error) {
	resp, err := c.ask(ctx, at, from, from+n-1, is) //nolint:bodyclose // checked or the caller closes it
	if err != nil {
		return nil, err
	}
	return checked(resp.Body, resp.Header, from, n, infoOfAnswer(resp.Header), is)
}

var errReadOnly = errors.New("cannot write to read-only storage: write to s3://BUCKET/KEY or a folder")

func (c *web) put(context.Context, place, []byte, bool) error { return errReadOnly }
func (c *web) begin(context.Context, place) (upload, error)   { return nil, errReadOnly }
func (c *web) remove(context.Context, place) error            { return errReadOnly }
