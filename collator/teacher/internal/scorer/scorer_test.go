package scorer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// mode turns this test program into a scoring program, and says what is wrong with it.
const mode = "NATGO_TEST_SCORER"

func TestMain(m *testing.M) {
	if what, ok := os.LookupEnv(mode); ok {
		child(what)
		return
	}
	goleak.VerifyTestMain(m)
}

const columns = 8

// child writes the position into every logit.
func child(what string) {
	memory := os.NewFile(3, "memory")
	in := bufio.NewReader(os.Stdin)
	fmt.Fprintln(os.Stderr, "loading")
	for n := 0; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q struct {
			Hello     string
			Memory    int64
			Probes    []string
			ID        int64
			Sequences []Sequence
		}
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		if q.Hello != "" {
			hello := map[string]any{"vocab": columns, "dtype": "float32", "model": "m", "probes": [][]int32{{1, 2}}}
			switch what {
			case "exits":
				os.Exit(1)
			case "sleeps":
				time.Sleep(time.Hour)
			case "huge":
				hello["vocab"] = 1 << 25
			case "wide":
				hello["vocab"] = 1 << 20
			case "int8":
				hello["dtype"] = "int8"
			case "silent":
				delete(hello, "probes")
			case "other":
				hello["probes"] = [][]int32{{1, 3}}
			case "few":
				hello["probes"] = [][]int32{}
			}
			json.NewEncoder(os.Stdout).Encode(hello)
			continue
		}
		rows := 0
		for _, s := range q.Sequences {
			for _, p := range s.Positions {
				var row []byte
				for range columns {
					row = binary.NativeEndian.AppendUint32(row, math.Float32bits(float32(p)))
				}
				if _, err := memory.WriteAt(row, int64(rows*len(row))); err != nil {
					panic(err)
				}
				rows++
			}
		}
		switch what {
		case "dies":
			os.Exit(7)
		case "dies once":
			if _, err := os.Stat(os.Getenv("NATGO_TEST_LOG")); err != nil {
				os.WriteFile(os.Getenv("NATGO_TEST_LOG"), nil, 0o644)
				os.Exit(7)
			}
		case "rows":
			rows--
		case "id":
			q.ID++
		case "prose":
			fmt.Println("no JSON")
			continue
		case "flood":
			os.Stdout.Write(append(bytes.Repeat([]byte("x"), maxAnswer+10), '\n'))
			continue
		case "unasked":
			fmt.Printf(`{"id":%d,"rows":%d}`+"\n", q.ID, rows)
		case "shrinks":
			if err := memory.Truncate(0); err != nil {
				fmt.Printf(`{"id":%d,"error":%q}`+"\n", q.ID, err.Error())
				continue
			}
		}
		fmt.Printf(`{"id":%d,"rows":%d}`+"\n", q.ID, rows)
	}
}

func start(t *testing.T, what string, change func(*Options)) *Scorer {
	t.Helper()
	t.Setenv(mode, what)
	o := Options{Command: []string{os.Args[0]}, Memory: 64 << 10, Probes: []Probe{{"a", []int32{1, 2}}}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

var two = []Sequence{{IDs: []int32{1, 2, 3}, Positions: []int32{2, 0}}, {IDs: []int32{4, 5}, Positions: []int32{1}}}

func TestScore(t *testing.T) {
	s := start(t, "", nil)
	for range 3 {
		data, err := s.Score(t.Context(), two)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != 3*columns*4 {
			t.Fatalf("%d bytes", len(data))
		}
		for row, want := range []float32{2, 0, 1} {
			if got := math.Float32frombits(binary.NativeEndian.Uint32(data[row*columns*4:])); got != want {
				t.Errorf("row %d is %g, want %g", row, got, want)
			}
		}
	}
	if s.Starts() != 1 || s.Requests() != 3 {
		t.Errorf("%d starts, %d requests", s.Starts(), s.Requests())
	}
}

// TestRefused checks that programs that will never work are distinguished from those that may be asked again, and are
// not started twice.
func TestRefused(t *testing.T) {
	for what, want := range map[string]string{
		"huge": "33554432 tokens", "wide": "shared memory", "int8": `"int8"`, "silent": "vocabulary: assume", "other": "a different vocabulary", "few": "0 of 1",
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t, what, nil)
			_, err := s.Score(t.Context(), two)
			var again *Failed
			if err == nil || errors.As(err, &again) || !strings.Contains(err.Error(), want) || s.Starts() != 1 {
				t.Errorf("%s: %v after %d starts", what, err, s.Starts())
			}
		})
	}
	if s := start(t, "silent", func(o *Options) { o.Assume = true }); true {
		if _, err := s.Score(t.Context(), two); err != nil {
			t.Error(err)
		}
	}
	s := start(t, "", func(o *Options) { o.Command = []string{"/no/such/program"} })
	if _, err := s.Score(t.Context(), two); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Error(err)
	}
	s = start(t, "", nil)
	if _, err := s.Score(t.Context(), []Sequence{{IDs: []int32{columns}, Positions: []int32{0}}}); err == nil ||
		!strings.Contains(err.Error(), "contain id 8") {
		t.Error(err)
	}
}

// TestGivenUp checks that a program that keeps failing is restarted only a few times, and that its output is reported.
func TestGivenUp(t *testing.T) {
	for what, want := range map[string]string{
		"exits": "ended without an answer", "dies": "ended without an answer", "rows": "3 requested rows",
		"id": "answered request", "prose": "unreadable answer",
		"flood": "more than", "sleeps": "did not answer",
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t, what, func(o *Options) {
				if what == "sleeps" {
					o.StartTimeout = 100 * time.Millisecond
				}
			})
			var err error
			var again *Failed
			for range 2 * maxFailures {
				if _, err = s.Score(t.Context(), two); !errors.As(err, &again) {
					break
				}
			}
			if err == nil || errors.As(err, &again) || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "gave up") ||
				s.Starts() != maxFailures {
				t.Errorf("%v after %d starts", err, s.Starts())
			}
			if what != "sleeps" && !strings.Contains(err.Error(), "loading") {
				t.Errorf("the error lacks the program's output: %v", err)
			}
		})
	}
}

// TestGoesOn checks that a failure affects only one request.
func TestGoesOn(t *testing.T) {
	t.Setenv("NATGO_TEST_LOG", t.TempDir()+"/died")
	s := start(t, "dies once", nil)
	var again *Failed
	if _, err := s.Score(t.Context(), two); !errors.As(err, &again) {
		t.Fatal(err)
	}
	if _, err := s.Score(t.Context(), two); err != nil || s.Starts() != 2 {
		t.Errorf("%v after %d starts", err, s.Starts())
	}
}

// TestUnasked checks that a line that answers no request is noticed at the next request.
func TestUnasked(t *testing.T) {
	s := start(t, "unasked", nil)
	if _, err := s.Score(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	var again *Failed
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := s.Score(t.Context(), two)
		if errors.As(err, &again) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("never found")
		}
	}
}

// TestShrinks checks that a program can't shrink the shared memory while it is being read.
func TestShrinks(t *testing.T) {
	s := start(t, "shrinks", nil)
	_, err := s.Score(t.Context(), two)
	if err == nil {
		t.Error("the memory was shrunk, and nobody noticed")
	}
}

// TestLimits checks that a request that doesn't fit is refused.
func TestLimits(t *testing.T) {
	s := start(t, "", nil)
	if _, err := s.Model(t.Context()); err != nil {
		t.Fatal(err)
	}
	most := 64 << 10 / (4 * columns)
	for _, c := range []struct {
		rows, tokens int
		fits         bool
	}{{most, 10, true}, {most + 1, 10, false}, {2, 1 << 20, true}, {3, maxTokens + 1, false}} {
		if s.Fits(c.rows, c.tokens) != c.fits {
			t.Errorf("%+v", c)
		}
	}
	many := Sequence{IDs: []int32{1}, Positions: make([]int32, most+1)}
	if _, err := s.Score(t.Context(), []Sequence{many}); err == nil || s.Requests() != 0 {
		t.Error(err)
	}
	if _, err := s.Score(t.Context(), []Sequence{{IDs: []int32{1}, Positions: []int32{1}}}); err == nil {
		t.Error("a position beyond the end was asked for")
	}
	for _, o := range []Options{{}, {Command: []string{""}}, {Command: []string{"x"}, Memory: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
