package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		in    io.Reader
		whole bool
		want  []string
	}{
		{"nothing", strings.NewReader(""), false, nil},
		{"lines", strings.NewReader("a\n\nbb\n"), false, []string{"a", "", "bb"}},
		{"no newline at the end", strings.NewReader("a\nb"), false, []string{"a", "b"}},
		{
			"no newline at the end of what has to have one",
			strings.NewReader("a\nb"),
			true,
			[]string{"a", "unexpected EOF"},
		},
		{"whole", strings.NewReader("a\nb\n"), true, []string{"a", "b"}},
		{
			"as long as the limit",
			strings.NewReader(strings.Repeat("x", 40) + "\n"),
			false,
			[]string{strings.Repeat("x", 40)},
		},
		{
			"too long", strings.NewReader("a\n" + strings.Repeat("x", 41) + "\nb\n"), false,
			[]string{"a", "the line is longer than 40 bytes", "b"},
		},
		{
			"too long at the end", strings.NewReader(strings.Repeat("x", 100)), false,
			[]string{"the line is longer than 40 bytes"},
		},
		{
			"an error",
			io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)),
			false,
			[]string{"a", "broken"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			read := Read
			if c.whole {
				read = ReadWhole
			}
			for line, err := range read(bufio.NewReaderSize(iotest.OneByteReader(c.in), 16), 40) {
				if err != nil {
					got = append(got, err.Error())
					continue
				}
				got = append(got, string(line))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// endless is a line that never ends.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}

// TestTooLongIsRefusedAtOnce checks that an endless line is refused before it has been read to its end.
func TestTooLongIsRefusedAtOnce(t *testing.T) {
	in := &endless{}
	for _, err := range Read(in, 1<<20) {
		var long *TooLong
		if !errors.As(err, &long) || fmt.Sprint(err) != "the line is longer than 1 MiB" {
			t.Error(err)
		}
		break
	}
	if in.read > 2<<20 {
		t.Errorf("%d bytes were read", in.read)
	}
}
