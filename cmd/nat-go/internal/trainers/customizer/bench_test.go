package customizer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// BenchmarkUpload uploads 64 MiB each way; B/op shows that the file is streamed.
func BenchmarkUpload(b *testing.B) {
	const size = 64 << 20
	for _, mode := range []string{"regular", "lfs"} {
		b.Run(mode, func(b *testing.B) {
			var url string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.Contains(r.URL.Path, "/preupload/"):
					fmt.Fprintf(w, `{"files":[{"path":"training/training_file.jsonl","uploadMode":%q}]}`, mode)
				case strings.HasSuffix(r.URL.Path, "/batch"):
					var in struct{ Objects []struct{ OID string } }
					_ = json.NewDecoder(r.Body).Decode(&in) // our own request
					fmt.Fprintf(w, `{"objects":[{"oid":%q,"actions":{"upload":{"href":%q}}}]}`, in.Objects[0].OID, url+"/put")
				default:
					_, _ = io.Copy(io.Discard, r.Body)
				}
			}))
			defer s.Close()
			url = s.URL
			dir := b.TempDir()
			path := filepath.Join(dir, "train.jsonl")
			if err := os.WriteFile(path, []byte(strings.Repeat(preferenceRow+"\n", size/(len(preferenceRow)+1))),
				0o644); err != nil {
				b.Fatal(err)
			}
			conf := new(Config)
			schema.Defaults(conf)
			conf.EntityHost, conf.DatastoreHost, conf.Namespace, conf.RequestTimeout = url, url, "n", time.Minute
			a, err := New(conf, trainers.Env{})
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := a.upload(b.Context(), "d", file{
					local:  path,
					remote: "training/training_file.jsonl",
					commit: "c",
					size:   fileSize(b, path),
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func fileSize(b *testing.B, path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
