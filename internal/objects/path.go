package objects

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// The schemes of paths: one for each kind of storage.
const (
	schemeS3    = "s3"
	schemeGS    = "gs"
	schemeHF    = "hf"
	schemeHTTPS = "https"
	schemeHTTP  = "http"
)

// Is reports whether a path names an object rather than a file.
func Is(p string) bool {
	scheme, _, ok := strings.Cut(p, "://")
	switch strings.ToLower(scheme) {
	case schemeS3, schemeGS, schemeHF, schemeHTTPS, schemeHTTP:
		return ok
	}
	return false
}

// Join returns the path of an object below a folder.
func Join(dir string, names ...string) string {
	return strings.TrimRight(dir, "/") + "/" + path.Join(names...)
}

// place is an object's location: the service, the bucket or host in it, and the key.
type place struct {
	scheme string
	bucket string // S3's bucket; a web server's host; the hub's "datasets" or "buckets"
	key    string // never empty
}

// Check returns an error for an invalid object path.
func Check(p string) error {
	_, err := parse(p)
	return err
}

// parse splits a path. Its errors don't repeat the rejected text if that may be a credential.
func parse(p string) (place, error) {
	scheme, rest, _ := strings.Cut(p, "://")
	at := place{scheme: strings.ToLower(scheme)}
	authority, _, _ := strings.Cut(rest, "/")
	web := at.scheme == schemeHTTPS || at.scheme == schemeHTTP
	if strings.Contains(authority, "@") || !web && strings.Contains(authority, ":") {
		return at, refuse(scheme+"://...", "the path contains credentials, which would be stored with it",
			"Remove them: credentials are taken from the environment")
	}
	if bare, _, ok := strings.Cut(p, "?"); ok && web {
		return at, refuse(bare, "the query (?...) may be a signature, which would be stored with the path",
			"Specify the address without a query, or the object itself (s3://...) with credentials in the environment")
	}
	if strings.ContainsAny(rest, "*?[") {
		return at, refuse(p, "a listing of object storage may be incomplete, so patterns are not supported",
			"Name each object")
	}
	if strings.HasSuffix(rest, "/") || !strings.Contains(rest, "/") {
		return at, refuse(p, "the path names no object: a listing of object storage may be incomplete, so folders and "+
			"buckets are not supported", "Name each object")
	}
	at.bucket, at.key, _ = strings.Cut(rest, "/")
	if at.bucket == "" || at.key != strings.TrimPrefix(path.Clean("/"+at.key), "/") {
		return at, refuse(p, "invalid path: expected "+scheme+"://BUCKET/KEY", "Check the path for //, . and ..")
	}
	return at, at.check(p)
}

// check rejects paths that the scheme doesn't allow.
func (at *place) check(p string) error {
	switch at.scheme {
	case schemeHTTP:
		host, _, err := net.SplitHostPort(at.bucket)
		if err != nil {
			host = at.bucket
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return refuse(p, "data sent over http can be changed in transit", "Use https://")
		}
	case schemeHF:
		parts := strings.Count(at.key, "/") + 1
		if at.bucket != hubDatasets && at.bucket != hubBuckets || parts < 3 {
			return refuse(p, "only data sets and buckets of the hub are read",
				"Write hf://datasets/OWNER/NAME/FILE or hf://buckets/OWNER/NAME/FILE")
		}
	}
	if at.scheme == schemeHTTP || at.scheme == schemeHTTPS {
		if u, err := url.Parse(p); err != nil || u.Fragment != "" {
			return refuse(fmt.Sprintf("%s://%s/...", at.scheme, at.bucket),
				"invalid URL: it is malformed or has a fragment (#...)", "Check the URL")
		}
	}
	return nil
}

// The hub's kinds of repository, as they appear in a path after hf://.
const (
	hubDatasets = "datasets"
	hubBuckets  = "buckets"
)

func refuse(p, what, help string) error { return &Error{Path: p, What: what, Help: help, final: true} }
