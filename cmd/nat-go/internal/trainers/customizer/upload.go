package customizer

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// hubTries is the number of times that the hub's own client attempts a repeatable upload step.
const hubTries = 6

// step returns the request for a repeatable upload step.
func step(op, method, path string, body httpclient.Body) httpclient.Request {
	return httpclient.Request{
		Op: op, Method: method, Path: path, Accept: "*/*", Body: body, Tries: hubTries, Harmless: true,
	}
}

// sampleBytes is the number of bytes at the beginning of a file that the store uses to decide how to receive it.
const sampleBytes = 512

// file is a file to upload.
type file struct {
	local  string // path on disk
	remote string // path in the repository
	commit string // commit message
	size   int64
}

// files lists a data set's files for the training type, with the names that NAT gives them and the service expects. The
// files contain preferences for dpo and demonstrations for sft. (NAT uploads preferences even for sft.)
func (a *Adapter) files(data trainers.DataSet) ([]file, error) {
	train, validation, err := a.rowFiles(data)
	if err != nil {
		return nil, err
	}
	list := []file{
		{data.Path(train), "training/training_file.jsonl", "Training file for run " + data.RunID, 0},
		{data.Path(validation), "validation/validation_file.jsonl", "Validation file for run " + data.RunID, 0},
	}
	if validation == "" {
		list = list[:1]
	}
	for i := range list {
		info, err := os.Stat(list[i].local)
		if err != nil {
			return nil, trainers.LocalError(submitting(data), "the run folder is not complete: start a new run", err)
		}
		list[i].size = info.Size()
	}
	return list, nil
}

// submitting returns the name of the operation Submit for use in errors.
func submitting(data trainers.DataSet) string { return "submit run " + data.RunID }

// rowFiles finds the files with the kind of record that the training type uses. A run may lack a validation file.
func (a *Adapter) rowFiles(data trainers.DataSet) (train, validation string, err error) {
	op := submitting(data)
	f, ok := data.Formats["customizer"]
	if !ok || len(f.Files) == 0 {
		return "", "", trainers.Errorf(httpclient.Local, op, "add customizer to dataset.formats",
			"the run has no rows in the customizer format")
	}
	kind, other, fix := builders.KindPreference, builders.KindDemonstration,
		"set training_type: sft, or build preferences"
	if a.conf.Hyperparameters.TrainingType == "sft" {
		kind, other, fix = other, kind, "set training_type: dpo, or build demonstrations"
	}
	train, validation = f.File(kind.String(), trainers.Train), f.File(kind.String(), trainers.Validation)
	left := f.File(other.String(), trainers.Train)
	switch {
	case train == "" && left != "":
		return "", "", trainers.Errorf(httpclient.Refused, op, fix, "training_type is %s, but the rows are %ss",
			a.conf.Hyperparameters.TrainingType, other)
	case train == "":
		return "", "", trainers.Errorf(httpclient.Refused, op, "build more records, or lower dataset.split.validation",
			"no %s on the training side of the split", kind)
	case left != "":
		a.env.Log.Warn().Str("file", left).
			Msgf("training_type is %s: the %ss of this run are not sent", a.conf.Hyperparameters.TrainingType, other)
	}
	return train, validation, nil
}

// upload puts a file into the data set's repository.
func (a *Adapter) upload(ctx context.Context, dataset string, f file) error {
	repo := url.PathEscape(a.conf.Namespace) + "/" + url.PathEscape(dataset)
	lfs, err := a.preupload(ctx, repo, f)
	if err != nil {
		return err
	}
	var body httpclient.Body
	if lfs {
		oid, err := a.uploadLFS(ctx, repo, f)
		if err != nil {
			return err
		}
		object := map[string]any{"path": f.remote, "algo": "sha256", "oid": oid, "size": f.size}
		body = httpclient.Bytes{ContentType: ndjson, Data: append(commitHeader(f), commitLine("lfsFile", object)...)}
	} else {
		body = &inline{
			file: f, progress: a.progress(f), head: append(commitHeader(f), `{"key":"file","value":{"content":"`...),
			tail: `","path":` + string(trainers.JSON(f.remote).Data) + `,"encoding":"base64"}}` + "\n",
		}
	}
	_, err = a.hub.Do(ctx, httpclient.Request{
		Op: "commit " + f.remote, Method: http.MethodPost,
		Path: "/v1/hf/api/datasets/" + repo + "/commit/main", Accept: "*/*", Body: body,
	})
	return err
}

func (a *Adapter) progress(f file) func(int64) {
	return func(done int64) {
		a.env.Report(trainers.Progress{What: "upload " + f.remote, Done: done, Total: f.size, Unit: "byte"})
	}
}

// preupload asks the store whether to send the file over LFS or in the commit.
func (a *Adapter) preupload(ctx context.Context, repo string, f file) (lfs bool, err error) {
	h, err := durable.Open(f.local)
	if err != nil {
		return false, trainers.LocalError("read "+f.local, "", err)
	}
	sample, err := io.ReadAll(io.LimitReader(h, sampleBytes))
	h.Close()
	if err != nil {
		return false, trainers.LocalError("read "+f.local, "", err)
	}
	op := "announce " + f.remote
	var answer struct {
		Files []struct {
			Path   string `json:"path"`
			Mode   string `json:"uploadMode"`
			Ignore bool   `json:"shouldIgnore"`
		} `json:"files"`
	}
	if err := a.hub.DoJSON(ctx, step(op, http.MethodPost, "/v1/hf/api/datasets/"+repo+"/preupload/main",
		trainers.JSON(map[string]any{"files": []any{map[string]any{
			"path": f.remote, "sample": base64.StdEncoding.EncodeToString(sample), "size": f.size,
		}}})), &answer); err != nil {
		return false, err
	}
	for _, x := range answer.Files {
		switch {
		case x.Path != f.remote:
		case x.Ignore:
			return false, trainers.Errorf(httpclient.Refused, op, "look for a .gitignore in the repository",
				"the store would ignore this file")
		case x.Mode == "lfs":
			return f.size > 0, nil
		case x.Mode == "regular":
			return false, nil
		default:
			return false, trainers.Errorf(httpclient.Refused, op, "",
				"store wants upload mode %q, which is neither regular nor lfs", a.hub.Scrub(x.Mode))
		}
	}
	return false, trainers.Errorf(httpclient.Refused, op, "", "missing file in the store's response")
}

// action is a request that the LFS server expects from the client.
type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// uploadLFS uploads a file over LFS and returns its object id.
func (a *Adapter) uploadLFS(ctx context.Context, repo string, f file) (string, error) {
	oid, err := durable.Sum(f.local)
	if err != nil {
		return "", trainers.LocalError("read "+f.local, "", err)
	}
	object := map[string]any{"oid": oid, "size": f.size}
	body := trainers.JSON(map[string]any{
		"operation": "upload", "transfers": []string{"basic", "multipart"}, "objects": []any{object},
		"hash_algo": "sha256", "ref": map[string]string{"name": "main"},
	})
	body.ContentType = lfsType
	negotiation := step("negotiate the upload of "+f.remote, http.MethodPost,
		"/v1/hf/datasets/"+repo+".git/info/lfs/objects/batch", body)
	negotiation.Accept = lfsType
	var answer struct {
		Transfer string `json:"transfer"`
		Objects  []struct {
			OID     string             `json:"oid"`
			Actions map[string]*action `json:"actions"`
			Error   *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		} `json:"objects"`
	}
	if err := a.hub.DoJSON(ctx, negotiation, &answer); err != nil {
		return "", err
	}
	for _, o := range answer.Objects {
		if o.OID != oid {
			continue
		}
		if o.Error != nil {
			return "", trainers.Errorf(httpclient.Refused, "upload "+f.remote, "",
				"store rejected the object: %d %s", o.Error.Code, a.hub.Scrub(o.Error.Message))
		}
		if o.Actions["upload"] == nil { // the store already has the file
			return oid, nil
		}
		return oid, a.transfer(ctx, f, oid, *o.Actions["upload"], o.Actions["verify"])
	}
	return "", trainers.Errorf(httpclient.Refused, "upload "+f.remote, "", "missing object in the store's response")
}

const lfsType = "application/vnd.git-lfs+json"

// transfer uploads the file's content and, if the store requires verification, asks the store to verify it.
func (a *Adapter) transfer(ctx context.Context, f file, oid string, up action, verify *action) error {
	var err error
	if _, multipart := up.Header["chunk_size"]; multipart {
		err = a.putParts(ctx, f, oid, up)
	} else {
		put := step("upload "+f.remote, http.MethodPut, up.Href,
			httpclient.File{Path: f.local, Length: f.size, Progress: a.progress(f)})
		put.Header, put.Anonymous = headers(up.Header), true
		_, err = a.hub.Do(ctx, put)
	}
	if err != nil || verify == nil {
		return err
	}
	check := step("verify "+f.remote, http.MethodPost, verify.Href,
		trainers.JSON(map[string]any{"oid": oid, "size": f.size}))
	check.Header, check.Anonymous = headers(verify.Header), a.foreign(verify.Href)
	_, err = a.hub.Do(ctx, check)
	return err
}

// foreign reports whether a URL supplied by the store is on another host, to which the token must not be sent.
func (a *Adapter) foreign(href string) bool {
	u, err := url.Parse(href)
	base, _ := url.Parse(a.conf.DatastoreHost)
	return err != nil || base == nil || u.Scheme != base.Scheme || u.Host != base.Host
}

// headers returns the headers that the store requires. The adapter sends these headers, as git-lfs does. The hub's
// client doesn't, so it works only with stores that don't require them.
func headers(h map[string]string) http.Header {
	out := http.Header{}
	for k, v := range h {
		out.Set(k, v)
	}
	return out
}

// maxParts limits the number of requests that a store can cause.
const maxParts = 10000

// putParts uploads a file in parts of "chunk_size" bytes. The store's headers "00001", "00002" and so on contain the
// parts' URLs.
func (a *Adapter) putParts(ctx context.Context, f file, oid string, up action) error {
	op := "upload " + f.remote
	chunk, err := strconv.ParseInt(up.Header["chunk_size"], 10, 64)
	if err != nil || chunk <= 0 || (f.size+chunk-1)/chunk > maxParts {
		return trainers.Errorf(httpclient.Refused, op, "", "invalid part size %q from the store",
			a.hub.Scrub(up.Header["chunk_size"]))
	}
	hrefs := map[int64]string{}
	for k, v := range up.Header {
		if n, err := strconv.ParseInt(k, 10, 64); err == nil {
			hrefs[n] = v
		}
	}
	var parts []part
	report := a.progress(f)
	for n := int64(1); (n-1)*chunk < f.size; n++ {
		href, ok := hrefs[n]
		if !ok {
			return trainers.Errorf(httpclient.Refused, op, "", "missing upload URL for part %d", n)
		}
		offset := (n - 1) * chunk
		put := step(fmt.Sprintf("%s, part %d", op, n), http.MethodPut, href, httpclient.File{
			Path: f.local, Offset: offset, Length: min(chunk, f.size-offset),
			Progress: func(done int64) { report(offset + done) },
		})
		put.Anonymous = true
		reply, err := a.hub.Do(ctx, put)
		if err != nil {
			return err
		}
		etag := reply.Header.Get("ETag")
		if etag == "" {
			return trainers.Errorf(httpclient.Refused, op, "", "missing ETag for part %d", n)
		}
		parts = append(parts, part{n, etag})
	}
	body := trainers.JSON(map[string]any{"oid": oid, "parts": parts})
	body.ContentType = lfsType
	_, err = a.hub.Do(ctx, httpclient.Request{
		Op: op + ", joining the parts", Method: http.MethodPost, Path: up.Href, Accept: lfsType, Anonymous: true,
		Body: body,
	})
	return err
}

// part identifies a part of a file that the store has received.
type part struct {
	Number int64  `json:"partNumber"`
	ETag   string `json:"etag"`
}

const ndjson = "application/x-ndjson"

// commitLine returns a line of a commit.
func commitLine(key string, value any) []byte {
	return append(trainers.JSON(map[string]any{"key": key, "value": value}).Data, '\n')
}

func commitHeader(f file) []byte {
	return commitLine("header", map[string]string{"summary": f.commit, "description": ""})
}

// inline is the body of a commit that contains a base64-encoded file. The file is streamed.
type inline struct {
	file     file
	head     []byte
	tail     string
	progress func(int64)
}

// Type returns the content type.
func (c *inline) Type() string { return ndjson }

// Size returns the number of bytes.
func (c *inline) Size() int64 {
	return int64(len(c.head)) + int64(base64.StdEncoding.EncodedLen(int(c.file.size))) + int64(len(c.tail))
}

// Open returns a reader for the commit.
func (c *inline) Open() (io.ReadCloser, error) {
	content, err := httpclient.File{Path: c.file.local, Length: c.file.size, Progress: c.progress}.Open()
	if err != nil {
		return nil, err
	}
	encoded, out := io.Pipe()
	go func() {
		enc := base64.NewEncoder(base64.StdEncoding, out)
		_, err := io.Copy(enc, content)
		out.CloseWithError(errors.Join(err, enc.Close(), content.Close())) // a nil error means EOF
	}()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(c.head), encoded, strings.NewReader(c.tail)), encoded}, nil
}
