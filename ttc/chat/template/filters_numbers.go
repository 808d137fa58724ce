package template

import (
	"math"
	"math/big"
	"strconv"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func absFilter(_ *state, v val, a *args) val {
	a.bind("abs", 0)
	defined(v)
	switch {
	case !v.IsNumber():
		throw("TypeError", "bad operand type for abs(): '%s'", v.TypeName())
	case v.Kind() == pyvalue.KindFloat:
		return pyvalue.Float(math.Abs(v.Float64()))
	}
	return pyvalue.BigInt(new(big.Int).Abs(v.Big()))
}

func fileSizeFilter(_ *state, v val, a *args) val {
	base, prefixes := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if or(a.bind("filesizeformat", 0, "binary")[0], pyvalue.False).Truth() {
		base, prefixes = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	n, ok := toFloat(v)
	switch {
	case !ok:
		throw("ValueError", "could not convert to float: %s", reprOf(v))
	case n == 1:
		return pyvalue.Str("1 Byte")
	case n < base:
		return pyvalue.Str(strconv.FormatFloat(math.Trunc(n), 'f', 0, 64) + " Bytes")
	}
	unit := base
	for i, prefix := range prefixes {
		unit *= base
		if n < unit || i == len(prefixes)-1 {
			return pyvalue.Str(strconv.FormatFloat(base*n/unit, 'f', 1, 64) + " " + prefix)
		}
	}
	return missing
}

func roundFilter(st *state, v val, a *args) val {
	p := a.bind("round", 0, "precision", "method")
	method := or(p[1], pyvalue.Str("common")).Text()
	digits := or(p[0], pyvalue.Int(0))
	if method != "common" && method != "ceil" && method != "floor" {
		throw("FilterArgumentError", "method must be common, ceil or floor")
	}
	defined(v)
	if !v.IsNumber() {
		throw("TypeError", "type %s doesn't define __round__ method", v.TypeName())
	}
	if digits.IsNone() && method == "common" { // then the result is an integer, not a float
		if v.Kind() != pyvalue.KindFloat {
			return st.roundInt(v, 0)
		}
		return wholeNumber(math.RoundToEven(v.Float64()))
	}
	n := index(digits, "")
	if method != "common" {
		return st.roundTowards(v, n, method)
	}
	if v.Kind() != pyvalue.KindFloat {
		return st.roundInt(v, n)
	}
	f := v.Float64()
	if math.IsNaN(f) || math.IsInf(f, 0) || n > 400 {
		return v
	}
	if n < -400 {
		return pyvalue.Float(math.Copysign(0, f))
	}
	return pyvalue.Float(st.roundFloat(f, n))
}

// wholeNumber is int(f).
func wholeNumber(f float64) val {
	switch {
	case math.IsNaN(f):
		throw("ValueError", "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		throw("OverflowError", "cannot convert float infinity to integer")
	}
	i, _ := big.NewFloat(f).Int(nil)
	return pyvalue.BigInt(i)
}

// roundFloat rounds the exact value of f half to even at n decimal digits, as CPython does.
func (st *state) roundFloat(f float64, n int) float64 {
	st.left -= 50
	if n >= 0 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', n, 64), 64)
		return r
	}
	exact, _ := new(big.Float).SetFloat64(math.Trunc(f)).Int(nil)
	// Truncating first can't change which side of a half the value is on, except at the half itself.
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-n)), nil)
	twice := new(big.Rat).SetFloat64(f)
	twice.Quo(twice, new(big.Rat).SetInt(unit))
	q := new(big.Int).Quo(exact, unit)
	rest := new(big.Rat).Sub(twice, new(big.Rat).SetInt(q))
	half := big.NewRat(1, 2)
	up := rest.Cmp(half) > 0 || rest.Cmp(half) == 0 && q.Bit(0) == 1
	minus := new(big.Rat).Neg(half)
	down := rest.Cmp(minus) < 0 || rest.Cmp(minus) == 0 && q.Bit(0) == 1
	if up {
		q.Add(q, big.NewInt(1))
	} else if down {
		q.Sub(q, big.NewInt(1))
	}
	r, _ := new(big.Float).SetInt(q.Mul(q, unit)).Float64()
	return math.Copysign(r, f)
}

func (st *state) roundInt(v val, n int) val {
	if n >= 0 {
		return pyvalue.BigInt(v.Big())
	}
	if -n > maxIntBits/3 {
		return pyvalue.Int(0)
	}
	st.multiplies(-4*n, -4*n)
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-n)), nil)
	q, m := new(big.Int).DivMod(v.Big(), unit, new(big.Int)) // m >= 0
	switch c := new(big.Int).Lsh(m, 1).Cmp(unit); {
	case c > 0, c == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(1))
	}
	return pyvalue.BigInt(q.Mul(q, unit))
}

func (st *state) roundTowards(v val, n int, method string) val {
	scale := st.numeric("**", pyvalue.Int(10), pyvalue.Int(int64(n)))
	scaled := st.numeric("*", v, scale)
	var whole val
	if scaled.Kind() == pyvalue.KindFloat {
		f := math.Floor(scaled.Float64())
		if method == "ceil" {
			f = math.Ceil(scaled.Float64())
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			throw("ValueError", "cannot convert float to integer")
		}
		i, _ := big.NewFloat(f).Int(nil)
		whole = pyvalue.BigInt(i)
	} else {
		whole = scaled
	}
	return st.numeric("/", whole, scale)
}
