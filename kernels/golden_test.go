// The oracle files of the conformance suite: loader and input generator, bit for bit as the format document describes.
package kernels

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
)

type Arr struct {
	Off, N int
	T      string
}

// F is a float64 that accepts "NaN", "+Inf", "-Inf".
type F float64

func (f *F) UnmarshalJSON(b []byte) error {
	switch strings.Trim(string(b), `"`) {
	case "NaN":
		*f = F(math.NaN())
	case "+Inf":
		*f = F(math.Inf(1))
	case "-Inf":
		*f = F(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(f))
	}
	return nil
}

type Op struct {
	Op                         string
	Arr                        []string
	Idx, Mod, Rem, Mul, Lo, Hi int
	Bits                       uint32
	V                          float64
}
type Gen struct {
	SeedZ uint64  `json:"seed_z"`
	SeedT uint64  `json:"seed_t"`
	Scale float64 `json:"scale"`
	Noise float64 `json:"noise"`
	Ops   []Op    `json:"ops"`
}
type Input struct {
	Name                                  string
	Rows, V, N                            int
	Dtype                                 string
	RowKind                               []string `json:"row_kind"`
	Z, T, Labels, Weights, Off, Ids, Logp *Arr
	Targets, Up, PC, PR, RC, RR           *Arr
	SampleIdx                             *Arr `json:"sample_idx"`
	Gen                                   *Gen
	CrcZ                                  uint32 `json:"crc_z"`
	CrcT                                  uint32 `json:"crc_t"`
}
type Case struct {
	ID, In                                    string
	Beta, Tau                                 float64
	Clip, Norm, Red, Mode, Kind               string
	C, Denom                                  float64
	K                                         int
	Mean                                      json.RawMessage
	NActive                                   int     `json:"n_active"`
	LabelSmoothing                            float64 `json:"label_smoothing"`
	Weighted                                  bool
	Loss                                      json.RawMessage
	RowLoss                                   *Arr `json:"row_loss"`
	LseZ                                      *Arr `json:"lse_z"`
	LseT                                      *Arr `json:"lse_t"`
	Nclip, Grad, Gsum, Gsamp, Tok, Seq, Count *Arr
	GPc                                       *Arr `json:"g_pc"`
	Margin                                    *Arr
	MeanGPc                                   *Arr `json:"mean_g_pc"`
	RewardC                                   *Arr `json:"reward_c"`
	RewardR                                   *Arr `json:"reward_r"`
}
type Suite struct {
	Suite, Split, Bin, Note string
	Inputs                  []Input
	Cases                   []Case
	buf                     []byte
	byName                  map[string]*Input
}

func Load(dir, name string) (*Suite, error) {
	b, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return nil, err
	}
	s := &Suite{byName: map[string]*Input{}}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, err
	}
	if s.buf, err = os.ReadFile(filepath.Join(dir, s.Bin)); err != nil {
		return nil, err
	}
	for i := range s.Inputs {
		s.byName[s.Inputs[i].Name] = &s.Inputs[i]
	}
	return s, nil
}
func (s *Suite) Input(n string) *Input { return s.byName[n] }
func (s *Suite) F32(a *Arr) []float32 {
	o := make([]float32, a.N)
	for i := range o {
		o[i] = math.Float32frombits(binary.LittleEndian.Uint32(s.buf[a.Off+4*i:]))
	}
	return o
}

func (s *Suite) F64(a *Arr) []float64 {
	o := make([]float64, a.N)
	for i := range o {
		o[i] = math.Float64frombits(binary.LittleEndian.Uint64(s.buf[a.Off+8*i:]))
	}
	return o
}

func (s *Suite) U16(a *Arr) []uint16 {
	o := make([]uint16, a.N)
	for i := range o {
		o[i] = binary.LittleEndian.Uint16(s.buf[a.Off+2*i:])
	}
	return o
}

func (s *Suite) I32(a *Arr) []int32 {
	o := make([]int32, a.N)
	for i := range o {
		o[i] = int32(binary.LittleEndian.Uint32(s.buf[a.Off+4*i:]))
	}
	return o
}

func splitmix(seed, i uint64) uint64 {
	x := seed + (i+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func gauss(seed uint64, i int, m float32) float32 {
	x := splitmix(seed, uint64(i))
	s := int64(x&0xffff) + int64(x>>16&0xffff) + int64(x>>32&0xffff) + int64(x>>48) - 131070
	return float32(float32(s) * m)
}
func mul(scale float64) float32 { return float32(float64(float32(scale)) / 37837.227) }

// Make regenerates one [rows,V] input pair. Every float32() conversion matters: it prevents FMA fusion (arm64).
func (g *Gen) Make(rows, V int) (z, t []float32) {
	n := rows * V
	z, t = make([]float32, n), make([]float32, n)
	mz, mn := mul(g.Scale), mul(g.Noise)
	for i := range z {
		z[i] = gauss(g.SeedZ, i, mz)
		t[i] = float32(z[i] + gauss(g.SeedT, i, mn))
	}
	inf := float32(math.Inf(-1))
	for _, o := range g.Ops {
		for r := 0; r < rows; r++ {
			for _, a := range o.Arr {
				x := z[r*V : r*V+V]
				if a == "t" {
					x = t[r*V : r*V+V]
				}
				v := float32(o.V)
				switch o.Op {
				case "set":
					x[o.Idx] = math.Float32frombits(o.Bits)
				case "mask":
					for j := o.Rem; j < V; j += o.Mod {
						x[j] = inf
					}
				case "keep":
					k := x[o.Idx]
					for j := range x {
						x[j] = inf
					}
					x[o.Idx] = k
				case "fill":
					for j := range x {
						x[j] = v
					}
				case "add":
					for j := range x {
						x[j] = float32(x[j] + v)
					}
				case "zipf":
					for j := range x {
						b := float32(bits.Len(uint(j * o.Mul % V)))
						x[j] = float32(x[j] - float32(b*v))
					}
				case "copy":
					copy(x, z[r*V:r*V+V])
				case "addrange":
					for j := o.Lo; j < o.Hi; j++ {
						x[j] = float32(x[j] + v)
					}
				default:
					panic(o.Op)
				}
			}
		}
	}
	return
}

// BF16 rounds to nearest even (inputs here are never NaN).
func BF16(x []float32) []uint16 {
	o := make([]uint16, len(x))
	for i, v := range x {
		u := math.Float32bits(v)
		o[i] = uint16((uint64(u) + 0x7fff + uint64(u>>16&1)) >> 16)
	}
	return o
}

// F16 rounds to nearest even, with overflow to inf and subnormals preserved.
func F16(x []float32) []uint16 {
	o := make([]uint16, len(x))
	for i, v := range x {
		u := math.Float32bits(v)
		s := uint16(u >> 16 & 0x8000)
		a := u & 0x7fffffff
		switch {
		case a > 0x7f800000:
			o[i] = s | 0x7e00
		case a >= 0x477ff000:
			o[i] = s | 0x7c00
		case a >= 0x38800000:
			o[i] = s | uint16((a-0x38000000+0xfff+(a>>13&1))>>13)
		default: // subnormal: v*2^24 rounded to nearest even
			o[i] = s | uint16(math.RoundToEven(math.Abs(float64(v))*(1<<24)))
		}
	}
	return o
}
