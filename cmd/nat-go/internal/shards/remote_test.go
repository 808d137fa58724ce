package shards

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// TestFetchedManifestsAreFreed checks that the manifests that are read while files are fetched don't stay in memory
// beside those that the merge reads.
func TestFetchedManifestsAreFreed(t *testing.T) {
	stored := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeFile(w, r, filepath.Join(stored, filepath.FromSlash(r.URL.Path)))
	}))
	t.Cleanup(server.Close)
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(key, value)
	}
	folder := Folder(filepath.Join(stored, "bucket", "plan")).Shard(Build, 0)
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteDone(folder, &Done{Plan: "s", Stage: Build}); err != nil {
		t.Fatal(err)
	}
	p := Folder("s3://bucket/plan").CopiedTo(Folder(t.TempDir()))
	p.Plan = &Plan{Sum: "s", Shards: make([]Shard, 1)}
	if err := p.FetchBuilt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !runfolder.Has(donePath(p.Dir.Shard(Build, 0))) || len(p.done) > 0 {
		t.Errorf("fetched: %v", p.done)
	}
}
