package objects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // S3 compares what came with it; it guards against damage, not against people
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a service that speaks S3's protocol.
type s3 struct{ client *minio.Core }

// s3 opens a service without sending a request.
func (s *Storage) s3(kind string) (service, error) {
	endpoint, prefix := "https://s3.amazonaws.com", "AWS"
	region := cmp.Or(s.getenv("AWS_REGION"), s.getenv("AWS_DEFAULT_REGION"))
	switch kind {
	case schemeGS:
		endpoint, region, prefix = "https://storage.googleapis.com", "auto", "GS"
	case schemeHF:
		endpoint, region, prefix = "https://s3.hf.co", "us-east-1", "HF"
	}
	own := cmp.Or(s.getenv(prefix+"_ENDPOINT_URL_S3"), s.getenv(prefix+"_ENDPOINT_URL"))
	endpoint = cmp.Or(own, endpoint)
	s.hidden.AddAddress(endpoint)
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("invalid %s_ENDPOINT_URL: expected an address of the form https://HOST[:PORT]", prefix)
	}
	if own != "" && region == "" {
		region = "us-east-1"
	}
	opt := &minio.Options{
		Creds: s.credentials(prefix, own != ""), Secure: u.Scheme == "https", Transport: answers{s.http},
		Region: region, MaxRetries: 2, BucketLookup: minio.BucketLookupAuto,
	}
	if kind != schemeS3 || own != "" {
		opt.BucketLookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(u.Host, opt)
	if err != nil {
		return nil, err
	}
	core.SetAppInfo("nat-go", "1")
	return &s3{client: core}, nil
}

// answers limits the size of a service's responses that aren't object data, because the client library has no limit
// for some of them.
type answers struct{ http.RoundTripper }

// maxAnswer is the maximum size of a response other than an object's data.
const maxAnswer = 1 << 20

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err == nil && (r.Header.Get("Range") == "" || resp.StatusCode >= http.StatusMultipleChoices) {
		resp.Body = &limited{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, err
}

var errAnswer = fmt.Errorf("answer is larger than %d bytes", maxAnswer)

// limited is a body that returns an error when it exceeds its limit.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errAnswer
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// credentials returns credentials from the environment: its variables, AWS's credentials file, and the credentials
// given to a machine or pod in AWS. If there are none, requests are not signed, as for public buckets.
func (s *Storage) credentials(prefix string, own bool) *credentials.Credentials {
	id, key := s.getenv(prefix+"_ACCESS_KEY_ID"), s.getenv(prefix+"_SECRET_ACCESS_KEY")
	var from []credentials.Provider
	add := func(p credentials.Provider) { from = append(from, &hiding{Provider: p, storage: s}) }
	switch {
	case id != "" && key != "":
		value := credentials.Value{AccessKeyID: id, SecretAccessKey: key, SignerType: credentials.SignatureV4}
		if prefix == "AWS" {
			value.SessionToken = s.getenv("AWS_SESSION_TOKEN")
		}
		add(&credentials.Static{Value: value})
	case prefix == "AWS":
		add(&credentials.FileAWSCredentials{
			Filename: s.getenv("AWS_SHARED_CREDENTIALS_FILE"), Profile: s.getenv("AWS_PROFILE"),
		})
		given := s.getenv("AWS_WEB_IDENTITY_TOKEN_FILE") + s.getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") +
			s.getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
		if given != "" || !own && !strings.EqualFold(s.getenv("AWS_EC2_METADATA_DISABLED"), "true") {
			add(&credentials.IAM{Client: s.credentialClient()})
		}
	}
	return credentials.NewChainCredentials(from)
}

// credentialTimeout is the time limit for a server that provides credentials. The library waits for it even if the
// request that needs the credentials was cancelled, and all other requests wait, too.
const credentialTimeout = 5 * time.Second

// credentialClient is the client for servers that provide credentials. It doesn't follow redirects, because its
// requests contain secrets.
func (s *Storage) credentialClient() *http.Client {
	return &http.Client{
		Transport: answers{s.http}, Timeout: min(s.silence, credentialTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// hiding is a provider that adds its credentials, whenever they are requested, to the values that are never shown.
type hiding struct {
	credentials.Provider
	storage *Storage
}

func (h *hiding) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	v, err := h.Provider.RetrieveWithCredContext(cc)
	h.storage.hidden.Add(v.AccessKeyID, v.SecretAccessKey, v.SessionToken)
	return v, err
}

func infoOf(o minio.ObjectInfo) Info {
	return Info{Size: o.Size, ModTime: o.LastModified.UTC(), ETag: strings.Trim(o.ETag, `"`)}
}

func (c *s3) stat(ctx context.Context, at place) (Info, error) {
	o, err := c.client.StatObject(ctx, at.bucket, at.key, minio.StatObjectOptions{})
	return infoOf(o), err
}

func (c *s3) get(ctx context.Context, at place, from, n int64, is Info) (io.ReadCloser, error) {
	var opt minio.GetObjectOptions
	err := opt.SetRange(from, from+n-1)
	if err == nil && is.ETag != "" {
		err = opt.SetMatchETag(is.ETag)
	}
	if err != nil {
		return nil, err
	}
	body, o, header, err := c.client.GetObject(ctx, at.bucket, at.key, opt)
	if err != nil {
		return nil, err
	}
	return checked(body, header, from, n, infoOf(o), is)
}

// checked returns a response's body. It returns an error if the body isn't the requested range, or if the object's
// state has changed.
func checked(body io.ReadCloser, header http.Header, from, n int64, now, is Info) (io.ReadCloser, error) {
	err := checkRange(header, from, n, &now)
	if err == nil && !now.same(is) {
		err = &statusError{status: http.StatusPreconditionFailed}
	}
	if err != nil {
		body.Close()
		return nil, err
	}
	return body, nil
}

// checkRange rejects a response for a different range from the one requested, and reads the object's size from it.
func checkRange(header http.Header, from, n int64, now *Info) error {
	var first, last, size int64
	text := header.Get("Content-Range")
	if _, err := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &size); err != nil {
		length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
		if err == nil && length == n && from == 0 {
			now.Size = n // the whole object was requested
			return nil
		}
		return errNoRanges
	}
	now.Size = size
	if first != from || last != from+n-1 {
		return fmt.Errorf("requested bytes %d to %d, got %d to %d", from, from+n-1, first, last)
	}
	return nil
}

var errNoRanges = errors.New("server cannot serve a part of an object (no Content-Range): copy it to a disk first")

// maxPut is the largest size that is written in a single request.
const maxPut = 64 << 20

func (c *s3) put(ctx context.Context, at place, data []byte, onlyNew bool) error {
	var opt minio.PutObjectOptions
	if onlyNew {
		opt.SetMatchETagExcept("*")
	}
	md5sum, sum := sums(data)
	_, err := c.client.PutObject(ctx, at.bucket, at.key, body(ctx, data), int64(len(data)), md5sum, sum, opt)
	return err
}

func sums(data []byte) (md5sum, sha string) {
	m, s := md5.Sum(data), sha256.Sum256(data) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(m[:]), hex.EncodeToString(s[:])
}

// body returns a reader for the data being sent, which notifies the request's watch of progress.
func body(ctx context.Context, data []byte) io.Reader {
	if w, ok := ctx.Value(watchKey{}).(*watch); ok {
		return moving{ReadSeeker: bytes.NewReader(data), w: w}
	}
	return bytes.NewReader(data)
}

func (c *s3) begin(ctx context.Context, at place) (upload, error) {
	id, err := c.client.NewMultipartUpload(ctx, at.bucket, at.key, minio.PutObjectOptions{})
	return &multipart{client: c.client, at: at, id: id}, err
}

func (c *s3) remove(ctx context.Context, at place) error {
	return c.client.RemoveObject(ctx, at.bucket, at.key, minio.RemoveObjectOptions{})
}

type multipart struct {
	client *minio.Core
	at     place
	id     string
	parts  []minio.CompletePart
}

func (m *multipart) part(ctx context.Context, number int, data []byte) error {
	md5sum, sum := sums(data)
	p, err := m.client.PutObjectPart(ctx, m.at.bucket, m.at.key, m.id, number, body(ctx, data), int64(len(data)),
		minio.PutObjectPartOptions{Md5Base64: md5sum, Sha256Hex: sum})
	if err == nil {
		m.parts = append(m.parts, minio.CompletePart{PartNumber: number, ETag: p.ETag})
	}
	return err
}

func (m *multipart) complete(ctx context.Context) error {
	_, err := m.client.CompleteMultipartUpload(ctx, m.at.bucket, m.at.key, m.id, m.parts, minio.PutObjectOptions{})
	return err
}

func (m *multipart) abort(ctx context.Context) error {
	return m.client.AbortMultipartUpload(ctx, m.at.bucket, m.at.key, m.id)
}
