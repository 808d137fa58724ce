package teacher

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecordedAnswers checks what is made of the answers of real servers, see testdata/servers: four tokens, of which
// the second is not among the two that the server finds most probable.
func TestRecordedAnswers(t *testing.T) {
	s := newServer(t)
	asked := map[string]any{}
	s.before = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		name := map[string]string{
			"/v1/completions": "vllm", "/get_sequence_logprobs/": "trl", "/generate": "sglang",
		}[r.URL.Path]
		if r.URL.Path == "/tokenize" {
			name = r.Header.Get("Authorization")[len("Bearer "):] + "-tokenize"
		}
		answer, err := os.ReadFile(filepath.Join("testdata", "servers", name+".json"))
		if err != nil {
			http.NotFound(w, r)
			return true
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(answer)
		return true
	}
	ids := []int32{785, 3974, 13876, 38835}
	ask := []any{785.0, 3974.0, 13876.0, 38835.0}
	never := Entry{3974, floor}
	for _, c := range []struct {
		name  string
		asks  map[string]any // of the request
		floor []Entry        // what the server says of the second prediction after the best
	}{
		{"vllm", map[string]any{"prompt": ask, "prompt_logprobs": 2.0, "max_tokens": 1.0}, []Entry{never}},
		{
			"trl",
			map[string]any{"sequences": []any{ask}, "prompt_lengths": []any{1.0}, "top_logprobs": 2.0},
			[]Entry{{3974, -9.5}},
		},
		{
			"sglang",
			map[string]any{"input_ids": ask, "top_logprobs_num": 2.0, "return_logprob": true},
			[]Entry{{3974, -9.5}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			clear(asked)
			client := s.client(t, func(o *Options) {
				o.Protocol, o.TopK, o.APIKey, o.Vocabulary.Size = c.name, 2, c.name, 0
				o.Vocabulary.Probes = []Probe{{Text: "The quick", IDs: ids[:2]}}
			})
			got, err := client.Score(t.Context(), Sequence{IDs: ids})
			if err != nil {
				t.Fatal(err)
			}
			top := [][]Entry{
				{{1849, -1.5}, {2038, -2.75}},
				append([]Entry{{13876, -0.5}}, c.floor...),
				{{38835, -0.125}, {5562, -3.5}},
			}
			if diff := cmp.Diff(top, got.Top[:3]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for i, want := range []float64{-6.25, -0.5, -0.125} {
				if math.Abs(float64(got.Token[i])-want) > 1e-6 {
					t.Errorf("token %d: log-prob %g, want %g", i+1, got.Token[i], want)
				}
			}
			for name, want := range c.asks {
				if diff := cmp.Diff(want, asked[name]); diff != "" {
					t.Errorf("%s (-want +asked):\n%s", name, diff)
				}
			}
			if Tokenizes(c.name) {
				if err := client.Check(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
