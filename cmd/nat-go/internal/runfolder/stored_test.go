package runfolder

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFetchRefusesOtherSizes checks that a file of another size than in the manifest is refused, even if the manifest
// has no checksum of it.
func TestFetchRefusesOtherSizes(t *testing.T) {
	const manifest = `{"status":"completed","files":[{"path":"dataset/trl/sft.jsonl","bytes":9}]}`
	files := map[string]string{"manifest.json": manifest, "dataset/trl/sft.jsonl": "{}\n"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[strings.TrimPrefix(r.URL.Path, "/run/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Unix(1e9, 0), strings.NewReader(text))
	}))
	defer server.Close()
	dir := t.TempDir()
	if err := Stored(server.URL+"/run").Fetch(t.Context(), Folder(dir)); err == nil {
		t.Error("no error")
	}
	path := filepath.Join(dir, "dataset/trl/sft.jsonl")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", path, err)
	}
}
