package httpclient

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/durable"
)

// CheckRoots refuses files of certificates, as named by the environment, that can't be read to their end. The standard
// library reads them whole with the first connection, and waits even for a pipe without a writer or a device.
func CheckRoots(getenv func(string) string) error {
	if path := getenv("SSL_CERT_FILE"); path != "" {
		if err := checkRoot(path); err != nil {
			return fmt.Errorf("SSL_CERT_FILE: %w", err)
		}
	}
	for _, dir := range filepath.SplitList(getenv("SSL_CERT_DIR")) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // the library does without
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // as above
		}
		for _, file := range files {
			path := filepath.Join(dir, file.Name())
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				continue
			}
			if err := checkRoot(path); err != nil {
				return fmt.Errorf("SSL_CERT_DIR: %w", err)
			}
		}
	}
	return nil
}

func checkRoot(path string) error {
	_, err := durable.ReadFile(path, maxPEM)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // as above
	}
	return err
}
