package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ReadAll reads a whole object of at most the given size.
func (s *Storage) ReadAll(ctx context.Context, path string, maxBytes int64) ([]byte, error) {
	f, err := s.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size > maxBytes {
		return nil, refuse(path, fmt.Sprintf("the object is larger than %d bytes", maxBytes),
			"Check that it is the right object")
	}
	return io.ReadAll(f)
}

// partSize is the size of a part: ten thousand parts, the maximum, add up to 625 GiB.
const partSize = maxPut

// maxParts is the maximum number of parts of an object.
const maxParts = 10_000

// Write writes an object, in parts if it is large. The object appears only when complete, and replaces an existing one.
func (s *Storage) Write(ctx context.Context, path string, in io.Reader, size int64) error {
	return s.write(ctx, path, in, size, partSize)
}

func (s *Storage) write(ctx context.Context, path string, in io.Reader, size, part int64) error {
	to, at, err := s.find(path)
	if err != nil {
		return err
	}
	if size > maxParts*part {
		return &Error{Path: path, What: fmt.Sprintf("%d bytes exceed the maximum size of an object", size), final: true}
	}
	data := make([]byte, min(size, part))
	read := func(n int64) error {
		if _, err := io.ReadFull(in, data[:n]); err != nil {
			return fmt.Errorf("cannot read the data to write to %s: %w", path, err)
		}
		return nil
	}
	if size <= part {
		if err := read(size); err != nil {
			return err
		}
		return s.try(ctx, path, "write the object", func(ctx context.Context) error {
			return to.put(ctx, at, data, false)
		})
	}
	var up upload
	err = s.try(ctx, path, "begin a multipart upload", func(ctx context.Context) error {
		up, err = to.begin(ctx, at)
		return err
	})
	if err != nil {
		return err
	}
	for number, left := 1, size; left > 0; number++ {
		n := min(left, part)
		if err = read(n); err == nil {
			err = s.try(ctx, path, fmt.Sprintf("write part %d of the object", number), func(ctx context.Context) error {
				return up.part(ctx, number, data[:n])
			})
		}
		if err != nil {
			_ = s.once(context.WithoutCancel(ctx), up.abort) // if this fails, the storage's own rules remove the parts
			return err
		}
		left -= n
	}
	return s.complete(ctx, path, up, size)
}

// complete ends an upload. If the response to a successful attempt is lost, a retry, which the client library may
// make by itself, fails because the upload is then unknown. The object's state then shows whether it was replaced.
func (s *Storage) complete(ctx context.Context, path string, up upload, size int64) error {
	before, err := s.Stat(ctx, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = s.try(ctx, path, "complete the multipart upload", up.complete)
	if errors.Is(err, fs.ErrNotExist) {
		if now, serr := s.Stat(ctx, path); serr == nil && now.Size == size && !before.same(now) {
			return nil
		}
	}
	return err
}

// Create writes an object that doesn't exist yet, such as the manifest that names the objects written before it. An
// existing object with the same content is not an error, because an earlier attempt or another process may have
// written it. Create rejects storage in which two concurrent writers could both succeed.
func (s *Storage) Create(ctx context.Context, path string, data []byte) error {
	to, at, err := s.find(path)
	if err != nil {
		return err
	}
	if len(data) > maxPut {
		return &Error{Path: path, What: "the object is too large for a single request", final: true}
	}
	if err := s.CanCreate(ctx, path); err != nil {
		return err
	}
	err = s.try(ctx, path, "write the object", func(ctx context.Context) error { return to.put(ctx, at, data, true) })
	if !errors.Is(err, errChanged) {
		return err
	}
	there, err := s.ReadAll(ctx, path, maxPut)
	if err == nil && !bytes.Equal(there, data) {
		err = &Error{Path: path, What: "the object already exists", Err: fs.ErrExist, final: true}
	}
	return err
}

// CanCreate tests, once per bucket, whether the storage refuses to write an existing object with If-None-Match, which
// Create relies on.
func (s *Storage) CanCreate(ctx context.Context, path string) error {
	to, at, err := s.find(path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known, tried := s.honours[at.scheme+at.bucket]
	s.mu.Unlock()
	if tried {
		return known
	}
	probe := at
	probe.key += ".nat-go-probe-" + rand.Text()
	put := func(onlyNew bool) error {
		return s.try(ctx, path, "write a temporary object next to this one", func(ctx context.Context) error {
			return to.put(ctx, probe, []byte("nat-go\n"), onlyNew)
		})
	}
	if err := put(false); err != nil {
		return err
	}
	err = put(true)
	rerr := s.try(ctx, path, "remove the temporary object next to this one", func(ctx context.Context) error {
		return to.remove(ctx, probe)
	})
	var e *Error
	switch {
	case errors.Is(err, errChanged):
		err = rerr
	case err == nil || errors.As(err, &e) && e.final && ctx.Err() == nil && !errors.Is(err, fs.ErrPermission):
		err = refuse(path, "the storage doesn't honour If-None-Match: two writers could overwrite each other unnoticed",
			"Use storage that does, such as AWS S3, Cloudflare R2 or MinIO, or a shared disk")
	default:
		return err // the next attempt may get a different response
	}
	s.mu.Lock()
	s.honours[at.scheme+at.bucket] = err
	s.mu.Unlock()
	return err
}
