package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// noise returns a check of the plugin's output while it builds the sample groups.
func noise(judge func(*countingWriter) error) func(context.Context, *kit) error {
	return func(ctx context.Context, k *kit) error {
		log := &countingWriter{}
		if err := k.logged(ctx, log, func(s *subject) error {
			_, err := s.build(ctx, s.samples())
			return err
		}); err != nil {
			return err
		}
		return judge(log)
	}
}

type countingWriter struct {
	mu     sync.Mutex
	stdout []string
	flood  bool
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte(`"stream":"stdout"`)) && len(w.stdout) < 3 {
		w.stdout = append(w.stdout, strings.TrimSpace(string(b)))
	}
	w.flood = w.flood || bytes.Contains(b, []byte("prints too much"))
	return len(b), nil
}

func silentStdout(log *countingWriter) error {
	if len(log.stdout) > 0 {
		return fmt.Errorf("unexpected text on standard output:\n%s", strings.Join(log.stdout, "\n"))
	}
	return nil
}

func moderateStderr(log *countingWriter) error {
	if log.flood {
		return errors.New("more than 500 lines a second on standard error while it builds a dozen small groups")
	}
	return nil
}
