package objects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/durable"
)

// maxKeyFile is the size of the largest file with credentials or a token.
const maxKeyFile = 1 << 20

// keyFile is a file with credentials, and what names it.
type keyFile struct{ name, path string }

// keyFiles returns the files that the client library reads credentials for AWS from.
func (s *Storage) keyFiles() (files []keyFile) {
	for _, name := range []string{
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	} {
		if path := s.getenv(name); path != "" {
			files = append(files, keyFile{name, path})
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return files
	}
	for _, name := range []string{"credentials", "config"} {
		files = append(files, keyFile{"~/.aws/" + name, filepath.Join(home, ".aws", name)})
	}
	cached, _ := filepath.Glob(filepath.Join(home, ".aws", "sso", "cache", "*.json")) // the pattern is sound
	for _, path := range cached {
		files = append(files, keyFile{"~/.aws/sso/cache", path})
	}
	return files
}

// checkKeyFiles refuses files with credentials that can't be read to their end. The library opens them by name, and
// waits even for a pipe without a writer or a device.
func (s *Storage) checkKeyFiles() error {
	for _, k := range s.keyFiles() {
		_, err := durable.ReadFile(k.path, maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // the library says so, or does without
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}
