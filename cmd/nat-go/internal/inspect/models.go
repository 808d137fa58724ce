package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
)

// file is the name of the file that marks a tokenizer's folder.
const file = "tokenizer.json"

// cachedTokenizer returns the folder of a model's tokenizer in Hugging Face's cache, or "" if it isn't there. model is
// "owner/name".
func cachedTokenizer(model string) string {
	return lastFolder(filepath.Join(cache(), dataset.Literal(folder(model)), "snapshots", "*", file))
}

// maxNear is the maximum number of tokenizers that near lists.
const maxNear = 5

// near lists folders with a tokenizer. It searches the given folders, the folders one level below them, and the named
// models' folders in Hugging Face's cache. A model named without its owner matches any owner.
func near(folders, names []string) (found []string) {
	add := func(dir string) {
		if dir != "" && len(found) < maxNear && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	for _, dir := range folders {
		for _, pattern := range []string{file, filepath.Join("*", file)} {
			for _, path := range matches(filepath.Join(dataset.Literal(dir), pattern)) {
				add(filepath.Dir(path))
			}
		}
	}
	for _, name := range names {
		if strings.Contains(name, "/") {
			add(cachedTokenizer(name))
			continue
		}
		add(lastFolder(filepath.Join(cache(), "models--*--"+dataset.Literal(name), "snapshots", "*", file)))
	}
	return found
}

// folder returns a model's folder in the cache.
func folder(model string) string { return "models--" + strings.ReplaceAll(model, "/", "--") }

func cache() string {
	home := os.Getenv("HF_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		home = filepath.Join(user, ".cache", "huggingface")
	}
	return filepath.Join(dataset.Literal(home), "hub")
}

// lastFolder returns the folder of the match that sorts last, or "" if nothing matches.
func lastFolder(pattern string) string {
	found := matches(pattern)
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

func matches(pattern string) []string {
	found, _ := filepath.Glob(pattern) // the only possible error, a malformed pattern, counts as no match
	return found
}
