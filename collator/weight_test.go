//go:build tokenizers

package collator

import (
	"math"
	"slices"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/tensors"
)

// TestOneObjective checks that with the same choice of what weighs one, real agent runs weigh the same on every
// template, whether it makes one row per rollout or per turn: every trained token weighs one, every site, or every
// record.
func TestOneObjective(t *testing.T) {
	templates := []string{
		"qwen3", "qwen3_5_think", "qwen3_vl", "gptoss", "glm4moe", "nemotron_3_nano", "qwen2_5", "qwen3_instruct_2507",
		"lfm2_2_5", "deepseekv3",
	}
	examples, tools := airline(t)[:3], airlineTools(t)
	hinted, sites := airlineSites(t, 1)
	var demonstrations []Item
	for _, ex := range examples {
		demonstrations = append(demonstrations, demonstrationOf(ex, tools))
	}
	single, perTurn := 0, 0
	for _, name := range templates {
		t.Run(name, func(t *testing.T) {
			source := oracletest.Template(t, name+".jinja")
			cfg := Config{
				Tokenizer:    familyTokenizer(t, source),
				Template:     source,
				TemplateVars: airlineVars(),
				MaxLength:    1 << 16,
				BatchTokens:  1 << 20,
			}
			for _, unit := range []Weight{ByToken, BySite, ByRollout} {
				cfg.Weight = unit
				sft := collate(t, cfg, one(slices.Clone(demonstrations)))
				sdpo := collate(t, cfg, one(slices.Clone(hinted)))
				trained, sum := 0, 0.0
				for _, r := range sft.rows {
					n := r.Sides[0].Active()
					trained += n
					sum += float64(r.Weight) * float64(n)
				}
				pairs, pairSum, kept := 0, 0.0, 0
				for i := range sdpo.lines {
					weights, err := tensors.Items[float32](tensorsOf(t, sdpo, i)["pair_weight"])
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range weights {
						pairs++
						pairSum += float64(w)
					}
				}
				for _, r := range sdpo.rows {
					kept += len(r.Meta.Sites)
				}
				records := len(demonstrations) - count(recordsDropped(sft))
				want := map[Weight][2]float64{
					ByToken:   {float64(trained), float64(pairs)},
					BySite:    {float64(records), float64(kept)},
					ByRollout: {float64(records), 1},
				}[unit]
				if math.Abs(sum-want[0]) > 1e-3 || math.Abs(pairSum-want[1]) > 1e-3 {
					t.Errorf("unit %d: demonstrations weigh %g, pairs %g; want %v", unit, sum, pairSum, want)
				}
				// It can't express a call after another's result.
				if name != "deepseekv3" && (kept != sites || records != len(demonstrations)) {
					t.Errorf("%d of %d sites, %d of %d records", kept, sites, records, len(demonstrations))
				}
				if len(sft.rows) > records {
					perTurn++
				} else {
					single++
				}
			}
		})
	}
	if single == 0 || perTurn == 0 {
		t.Errorf("%d runs with a row a rollout, %d with a row per turn: the templates don't differ", single, perTurn)
	}
}

// recordsDropped returns an item for each record that makes no row.
func recordsDropped(c *collated) (out []bool) {
	for _, d := range c.drops {
		if d.Unit == "record" {
			out = append(out, true)
		}
	}
	return out
}
