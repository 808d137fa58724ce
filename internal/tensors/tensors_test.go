package tensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/pythontest"
)

func sample() ([]Tensor, map[string]string) {
	return []Tensor{
		Of("input_ids", []int64{1, 2, 3, -1, math.MaxInt64, 0}, 2, 3),
		Of("weight", []float32{0.5, float32(math.Inf(-1))}, 2),
		Of("loss", []float64{math.Pi}, 1),
		Of("rows", []int32{7, -7}, 2),
		Of("mask", []uint8{1, 0, 255}, 3),
		half("half", Float16, []uint16{float16Bits(1.5), float16Bits(-2)}, 1, 2),
		half("brain", BFloat16, []uint16{bfloat16Bits(3)}, 1),
		Of("empty", []int64{}, 0, 5),
		Of("scalar \"é\u2028\"", []float32{42}),
	}, map[string]string{"format": "pt", "b": "2<3", "a": "1"}
}

func write(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	tensors, metadata := sample()
	data := write(t, tensors, metadata)
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Metadata["b"] != "2<3" || len(f.Metadata) != 3 || len(f.Tensors) != len(tensors) {
		t.Fatalf("got %+v", f.Header)
	}
	if f.data%8 != 0 {
		t.Errorf("data begins at %d", f.data)
	}
	for _, want := range tensors {
		got, err := f.Read(want.Name)
		if err != nil || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
			!bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: %+v, %v", want.Name, got, err)
		}
		if info, _ := f.Lookup(want.Name); info.Start%int64(want.DType.Size()) != 0 {
			t.Errorf("%s begins at %d", want.Name, info.Start)
		}
	}
	ids, err := f.Read("input_ids")
	if err != nil {
		t.Fatal(err)
	}
	if items, err := Items[int64](ids); err != nil || items[4] != math.MaxInt64 {
		t.Errorf("%v, %v", items, err)
	}
	if _, err := Items[float32](ids); err == nil {
		t.Error("I64 read as float32")
	}
	if _, err := f.Read("nothing"); err == nil {
		t.Error("read a tensor that doesn't exist")
	}
	half, _ := f.Read("half")
	if got, err := Floats(half); err != nil || !slices.Equal(got, []float64{1.5, -2}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSameBytes checks that the file doesn't depend on the order in which tensors are given.
func TestSameBytes(t *testing.T) {
	tensors, metadata := sample()
	want := write(t, tensors, metadata)
	slices.Reverse(tensors)
	if !bytes.Equal(want, write(t, tensors, metadata)) {
		t.Error("another order gave other bytes")
	}
	small := write(t, []Tensor{Of("b", []uint8{9}, 1), Of("a", []int64{1}, 1)}, nil)
	header := `{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	expect := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))),
		header+"\x01\x00\x00\x00\x00\x00\x00\x00\x09"...)
	if !bytes.Equal(small, expect) {
		t.Errorf("got %q\nwant %q", small, expect)
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tensors := range map[string][]Tensor{
		"twice":    {Of("a", []uint8{1}, 1), Of("a", []uint8{1}, 1)},
		"metadata": {Of("__metadata__", []uint8{1}, 1)},
		"type":     {{Name: "a", DType: "F8", Shape: []int{1}, Data: []byte{1}}},
		"shape":    {{Name: "a", DType: Uint8, Shape: []int{2}, Data: []byte{1}}},
		"negative": {{Name: "a", DType: Uint8, Shape: []int{-1, -1}, Data: []byte{1}}},
		"overflow": {{Name: "a", DType: Int64, Shape: []int{1 << 32, 1 << 32}, Data: nil}},
		"name":     {Of("\xff", []uint8{1}, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Write(&bytes.Buffer{}, tensors, nil); err == nil {
				t.Errorf("%s: written", name)
			}
		})
	}
}

func file(header string, data int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, data)...)
}

func TestOpenRefuses(t *testing.T) {
	ok := `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`
	if _, err := Open(bytes.NewReader(file(ok, 4)), int64(len(ok)+12)); err != nil {
		t.Fatal(err)
	}
	cases := map[string][]byte{
		"empty":           {},
		"short":           {1, 2, 3},
		"header too long": binary.LittleEndian.AppendUint64(nil, 1<<62),
		"header past end": binary.LittleEndian.AppendUint64(nil, 1000),
		"not JSON":        file("hello", 0),
		"array":           file("[]", 0),
		"data too long":   file(ok, 5),
		"data too short":  file(ok, 3),
		"gap":             file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 4),
		"overlap":         file(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 4),
		"wrong size":      file(`{"a":{"dtype":"I64","shape":[4],"data_offsets":[0,4]}}`, 4),
		"negative":        file(`{"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,-4]}}`, 0),
		"overflow":        file(`{"a":{"dtype":"I64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
		"no shape":        file(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1),
		"type":            file(`{"a":{"dtype":"X","shape":[1],"data_offsets":[0,1]}}`, 1),
		"twice":           file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
		"trailing":        file(ok+"x", 4),
		"metadata":        file(`{"__metadata__":{"a":1}}`, 0),
		"three offsets":   file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, 1),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(bytes.NewReader(data), int64(len(data))); err == nil {
				t.Errorf("%s: opened", name)
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	tensors, metadata := sample()
	f.Add(write(f, tensors, metadata))
	f.Add(file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4))
	f.Add(file(`{}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		tensors, err := file.ReadAll()
		if err != nil {
			t.Fatalf("accepted, then: %v", err)
		}
		for _, tensor := range tensors {
			if _, err := Floats(tensor); err != nil {
				t.Fatal(err)
			}
		}
		again := write(t, tensors, file.Metadata)
		second, err := Open(bytes.NewReader(again), int64(len(again)))
		if err != nil {
			t.Fatal(err)
		}
		for _, tensor := range tensors {
			if got, err := second.Read(tensor.Name); err != nil || !bytes.Equal(got.Data, tensor.Data) {
				t.Fatalf("%q changed", tensor.Name)
			}
		}
	})
}

// TestHalves checks that every half is its own nearest value, and that rounding is to nearest even.
func TestHalves(t *testing.T) {
	for i := range 1 << 16 {
		bits := uint16(i)
		if v := Float16Value(bits); v == v && float16Bits(v) != bits {
			t.Fatalf("half %#04x is %v is %#04x", bits, v, float16Bits(v))
		}
		if v := BFloat16Value(bits); v == v && bfloat16Bits(v) != bits {
			t.Fatalf("bfloat16 %#04x is %v is %#04x", bits, v, bfloat16Bits(v))
		}
	}
	nan := float32(math.NaN())
	if v := Float16Value(float16Bits(nan)); v == v {
		t.Error("NaN is lost")
	}
	if v := BFloat16Value(bfloat16Bits(nan)); v == v {
		t.Error("NaN is lost")
	}
	property.Check(t, func(r *rapid.T) {
		v := rapid.Float32Range(-70000, 70000).Draw(r, "v")
		bits := float16Bits(v)
		near := math.Abs(float64(Float16Value(bits)) - float64(v))
		for _, other := range []uint16{bits - 1, bits + 1} {
			o := float64(Float16Value(other))
			if math.IsNaN(o) || math.IsInf(o, 0) || math.Signbit(o) != math.Signbit(float64(v)) ||
				math.Abs(float64(v)) >= 65520 {
				continue
			}
			if d := math.Abs(o - float64(v)); d < near || d == near && bits&1 == 1 {
				r.Fatalf("%v became %v, %v is nearer", v, Float16Value(bits), o)
			}
		}
	})
}

func TestParquet(t *testing.T) {
	type row struct {
		InputIDs []int64 `parquet:"input_ids,list"`
		Labels   []int64 `parquet:"labels,list"`
		Mask     []uint8 `parquet:"completion_mask,list"`
		Weight   float32 `parquet:"weight"`
		Name     string  `parquet:"name"`
	}
	rows := []row{
		{[]int64{1, 2, 3}, []int64{-100, 2, 3}, []uint8{0, 1, 1}, 1, "é"},
		{[]int64{}, []int64{}, []uint8{}, 0.5, ""},
		{[]int64{1 << 40}, []int64{-100}, []uint8{255}, 0, "x"},
	}
	var files [2]bytes.Buffer
	for i := range files {
		w, err := NewParquetWriter(&files[i], Column{"input_ids", Int64List}, Column{"labels", Int64List}, Column{
			"completion_mask",
			Uint8List,
		},
			Column{"weight", Float32Cell}, Column{
				"name",
				TextCell,
			})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := w.Append(r.InputIDs, r.Labels, r.Mask, r.Weight, r.Name); err != nil {
				t.Fatal(err)
			}
		}
		if w.Append(1) == nil || w.Append("", "", "", "", "") == nil {
			t.Error("a row of the wrong type was accepted")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Error("the same rows gave different bytes")
	}
	got, err := parquet.Read[row](bytes.NewReader(files[0].Bytes()), int64(files[0].Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		a, _ := json.Marshal(rows[i])
		b, _ := json.Marshal(got[i])
		if string(a) != string(b) {
			t.Errorf("row %d: got %s, want %s", i, b, a)
		}
	}
}

// TestPythonReads checks that the reference implementation reads what we write, and vice versa.
func TestPythonReads(t *testing.T) {
	py := pythontest.Need(t, "python", "import safetensors.numpy", "its reader was not compared")
	tensors, metadata := sample()
	script := ` # threads off: pyarrow's pool sometimes aborts when the interpreter ends
import sys, json, base64
from safetensors import deserialize
from safetensors.numpy import load, save
data = sys.stdin.buffer.read()
seen = {name: [d["dtype"], list(d["shape"]), base64.b64encode(bytes(d["data"])).decode()] for name, d in deserialize(data)}
numpy = load(data)
seen["again"] = base64.b64encode(save({k: v for k, v in numpy.items()}, {"format": "np"})).decode()
print(json.dumps(seen))
`
	// Numpy has none.
	plain := slices.DeleteFunc(slices.Clone(tensors), func(t Tensor) bool { return t.DType == BFloat16 })
	cmd := exec.Command(py, "-c", script)
	cmd.Stdin = bytes.NewReader(write(t, plain, metadata))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var seen map[string]json.RawMessage
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatal(err)
	}
	var again []byte
	if err := json.Unmarshal(seen["again"], &again); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(again), int64(len(again)))
	if err != nil {
		t.Fatalf("what Python wrote: %v", err)
	}
	for _, want := range plain {
		expect, _ := json.Marshal([]any{want.DType, append([]int{}, want.Shape...), want.Data})
		var compact bytes.Buffer
		if json.Compact(&compact, seen[want.Name]) != nil || compact.String() != string(expect) {
			t.Errorf("Python read %q as %s, want %s", want.Name, &compact, expect)
		}
		got, err := f.Read(want.Name)
		if err != nil || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
			!bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s came back as %+v, %v", want.Name, got, err)
		}
	}
}

// TestPythonReadsParquet checks that pyarrow, which Hugging Face datasets uses for reading, sees lists of the right
// types.
func TestPythonReadsParquet(t *testing.T) {
	py := pythontest.Need(t, "python", "import pyarrow.parquet", "its reader was not compared")
	var b bytes.Buffer
	w, err := NewParquetWriter(&b, Column{"labels", Int64List}, Column{"input_ids", Int64List}, Column{
		"completion_mask",
		Uint8List,
	}, Column{"weight", Float32Cell}, Column{"name", TextCell})
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range [][]int64{{5, 6}, {}, {7}} {
		if err := w.Append(ids, ids, make([]uint8, len(ids)), float32(0.5), "é"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	script := ` # threads off: pyarrow's pool sometimes aborts when the interpreter ends
import sys, json, io, pyarrow.parquet as pq
table = pq.read_table(io.BytesIO(sys.stdin.buffer.read()), use_threads=False)
print(json.dumps([{f.name: str(f.type) for f in table.schema}, table.to_pylist()], sort_keys=True))
`
	cmd := exec.Command(py, "-c", script)
	cmd.Stdin = &b
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	row := func(ids, mask string) string {
		return `{"completion_mask": ` + mask + `, "input_ids": ` + ids + `, "labels": ` + ids + `, "name": "\u00e9", "weight": 0.5}`
	}
	want := `[{"completion_mask": "list<element: uint8 not null>", "input_ids": "list<element: int64 not null>", "labels": "list<element: int64 not null>", "name": "string", "weight": "float"}, [` +
		row("[5, 6]", "[0, 0]") + ", " + row("[]", "[]") + ", " + row("[7]", "[0]") + "]]\n"
	if string(out) != want {
		t.Errorf("got  %swant %s", out, want)
	}
}

func BenchmarkWrite(b *testing.B) {
	tensors := []Tensor{Of("input_ids", make([]int64, 1<<20), 256, 4096), Of("labels", make([]int64, 1<<20), 256, 4096)}
	b.SetBytes(16 << 20)
	for b.Loop() {
		var buf bytes.Buffer
		buf.Grow(17 << 20)
		if err := Write(&buf, tensors, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOpenFile checks that a file that can't be read is named in the error.
func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.safetensors")
	if err := os.WriteFile(path, write(t, []Tensor{Of("x", []int64{7}, 1)}, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := f.ReadAll(); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none"), os.DevNull} {
		if _, err := OpenFile(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestSparseFileIsNotRead checks that a file that claims a huge size, while taking no room on disk, doesn't make us
// allocate memory on its word.
func TestSparseFileIsNotRead(t *testing.T) {
	const size = int64(1) << 40
	header := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, size, size)
	path := filepath.Join(t.TempDir(), "sparse.safetensors")
	text := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(text))+size); err != nil {
		t.Skipf("SKIPPED: no sparse files here: %v", err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read("a"); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("one tensor: %v", err)
	}
	if _, err := f.ReadAll(); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("all tensors: %v", err)
	}
}
