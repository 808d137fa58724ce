package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// footer returns a file that has nothing but a footer.
func footer(parts ...[]byte) []byte {
	text := slices.Concat(parts...)
	file := append([]byte("PAR1"), text...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(text))), "PAR1"...)
}

// elements begins a list of structures in the next field.
func elements(n uint64) []byte { return binary.AppendUvarint([]byte{0x19, 0xFC}, n) }

// TestForgedFooter checks that a list, a text and a nesting that are larger than the file are refused before memory is
// allocated for them: the process can't recover from running out of memory or stack.
func TestForgedFooter(t *testing.T) {
	version := []byte{0x15, 2}
	group := []byte{0x35, 2, 0x18, 1, 'a', 0x15, 2, 0}
	root := []byte{0x19, 0x1C, 0x48, 1, 'a', 0}
	rows := []byte{0x16, 2}
	chunk := []byte{0x26, 0, 0}
	for name, c := range map[string]struct {
		file  []byte
		large bool
	}{
		"schema":      {footer(version, elements(1<<31-1), []byte{0}), true},
		"long schema": {footer(version, elements(maxSchema+1), bytes.Repeat(group, maxSchema+1), []byte{0}), true},
		"deep schema": {footer(version, elements(maxSchema), bytes.Repeat(group, maxSchema), rows, []byte{0}), false},
		"row groups":  {footer(version, root, rows, elements(1<<31-1), []byte{0}), true},
		"chunks":      {footer(version, root, rows, elements(1), elements(maxChunks), chunk), true},
		"pairs": {
			footer(version, root, rows, []byte{0x29, 0xFC}, binary.AppendUvarint(nil, maxElements+1)),
			true,
		},
		"name":         {footer(version, []byte{0x19, 0x1C, 0x48}, binary.AppendUvarint(nil, 1<<31-1)), true},
		"unknown":      {footer(bytes.Repeat([]byte{0xFC}, 1<<20)), true},
		"unknown list": {footer(version, bytes.Repeat([]byte{0xF9, 0x1C}, 1<<20)), true},
		"a map":        {footer([]byte{0xFB, 0xFF, 0xFF, 0xFF, 0xFF, 7, 0xCC}), true},
		"empty lists":  {footer(version, []byte{0xF9, 0xF9}, binary.AppendUvarint(nil, maxElements+1)), true},
		"cut off":      {footer(version[:1]), false},
		"encrypted":    {append(footer(version, []byte{0})[:9], "PARE"...), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(c.file)
			var large *LimitError
			if err == nil || errors.As(err, &large) != c.large {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestForgedHeader does the same for the header of a page.
func TestForgedHeader(t *testing.T) {
	whole := written(t, parquet.Group{"a": parquet.String()}, map[string]any{"a": "x"})
	at := bytes.Index(whole, []byte("PAR1")) + 4
	for name, forged := range map[string][]byte{
		"statistics": {0x5C, 0x4C, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 7},
		"list":       {0xF9, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 7},
		"deep":       bytes.Repeat([]byte{0xFC}, maxDepth+2),
	} {
		t.Run(name, func(t *testing.T) {
			file := bytes.Clone(whole)
			copy(file[at:], forged)
			_, err := readAll(file)
			if err == nil || !strings.Contains(err.Error(), "metadata") {
				t.Errorf("%v", err)
			}
		})
	}
}
