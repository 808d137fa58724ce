package pyvalue

import (
	"fmt"
	"math"
	"math/big"
	"unsafe"
)

// Dict is a Python dict, ordered by first insertion. Setting a key that is equal to an existing one (1.0 after 1) keeps
// the existing key and its position.
type Dict struct {
	keys, values []Value
	index        map[hashKey]int // nil while the dict is small
	Tag          any             // see Tag
}

// smallDict is the maximum size of a dict that is searched linearly; message objects are smaller.
const smallDict = 8

// hashKey is equal for keys that Python considers the same: 1, 1.0 and True.
type hashKey struct {
	kind Kind
	n    uint64
	s    string
}

// NewDict returns a dict with capacity for n keys.
func NewDict(n int) *Dict {
	room := make([]Value, 2*n) // keys and values share a block, because finding a key is followed by reading its value
	return &Dict{keys: room[:0:n], values: room[n : n : 2*n]}
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// At returns the i-th key and its value.
func (d *Dict) At(i int) (key, value Value) { return d.keys[i], d.values[i] }

// Keys returns the keys in order. They must not be changed.
func (d *Dict) Keys() []Value { return d.keys }

// Values returns the values in order. They must not be changed.
func (d *Dict) Values() []Value { return d.values }

// GetStr returns the value for a string key.
func (d *Dict) GetStr(key string) (Value, bool) {
	if v := d.Ref(key); v != nil {
		return *v, true
	}
	return None, false
}

// Ref returns a pointer to the value for a string key, or nil. Its target must not be changed, and is valid until the
// dict changes.
func (d *Dict) Ref(key string) *Value {
	if d.index != nil {
		if i, ok := d.index[hashKey{kind: KindStr, s: key}]; ok {
			return &d.values[i]
		}
		return nil
	}
	p, n, alike := unsafe.Pointer(unsafe.StringData(key)), uint64(len(key)), false
	for i := range d.keys { // keys are usually interned, so compare pointers first
		k := &d.keys[i]
		if k.n != n || k.kind != KindStr {
			continue
		}
		if k.p == p {
			return &d.values[i]
		}
		alike = true
	}
	if !alike {
		return nil
	}
	for i := range d.keys {
		if d.keys[i].IsText(key) {
			return &d.values[i]
		}
	}
	return nil
}

// Get returns the value of a key. Like Python, it fails if the key can't be hashed.
func (d *Dict) Get(key Value) (Value, bool, error) {
	if key.kind == KindStr {
		v, ok := d.GetStr(key.text())
		return v, ok, nil
	}
	i, _, err := d.find(key)
	if err != nil || i < 0 {
		return None, false, err
	}
	return d.values[i], true, nil
}

// SetStr sets a string key's value.
func (d *Dict) SetStr(key string, v Value) { _ = d.Set(Str(key), v) }

// Set sets the value of a key. Like Python, it fails if the key can't be hashed.
func (d *Dict) Set(key, v Value) error {
	i, h, err := d.find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.values[i] = v
		return nil
	}
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
	switch {
	case d.index != nil:
		d.index[h] = len(d.keys) - 1
	case len(d.keys) > smallDict:
		d.index = make(map[hashKey]int, 2*len(d.keys))
		for i, k := range d.keys {
			h, _ := hash(k)
			d.index[h] = i
		}
	}
	return nil
}

func (d *Dict) find(key Value) (int, hashKey, error) {
	h, err := hash(key)
	if err != nil {
		return -1, h, err
	}
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i, h, nil
		}
		return -1, h, nil
	}
	for i, k := range d.keys {
		if k.kind == KindStr && h.kind == KindStr {
			if k.text() == h.s {
				return i, h, nil
			}
		} else if other, _ := hash(k); other == h {
			return i, h, nil
		}
	}
	return -1, h, nil
}

func hash(v Value) (hashKey, error) {
	n := 0
	return hashAt(v, 0, &n)
}

// maxKey is the maximum number of values, at all depths, in a tuple used as a key.
const maxKey = 1 << 16

func hashAt(v Value, depth int, n *int) (hashKey, error) {
	if *n++; depth > MaxDepth || *n > maxKey {
		return hashKey{}, errTooDeep()
	}
	switch v.kind {
	case KindStr:
		return hashKey{kind: KindStr, s: v.text()}, nil
	case KindNone:
		return hashKey{}, nil
	case KindBool, KindInt:
		if v.isBig() {
			return hashKey{kind: KindInt, s: v.Big().String()}, nil
		}
		return hashKey{kind: KindInt, n: v.n}, nil
	case KindFloat:
		return hashFloat(v.Float64()), nil
	case KindTuple:
		return hashTuple(v, depth, n)
	case KindObject:
		if h, ok := v.Object().(interface{ Hash() string }); ok {
			return hashKey{kind: KindObject, s: h.Hash()}, nil
		}
		if u, ok := v.Object().(interface{ Unhashable() bool }); !ok || !u.Unhashable() {
			return hashKey{kind: KindObject, s: fmt.Sprintf("%p", v.Object())}, nil // compared by identity
		}
	}
	return hashKey{}, Errorf("TypeError", "unhashable type: '%s'", v.TypeName())
}

func hashFloat(f float64) hashKey {
	if f != math.Trunc(f) || math.IsInf(f, 0) || f != f {
		return hashKey{kind: KindFloat, n: math.Float64bits(f)}
	}
	if f >= -(1<<63) && f < 1<<63 {
		return hashKey{kind: KindInt, n: uint64(int64(f))}
	}
	i, _ := big.NewFloat(f).Int(nil)
	return hashKey{kind: KindInt, s: i.String()}
}

func hashTuple(v Value, depth int, n *int) (hashKey, error) {
	var b []byte
	for _, e := range v.Items() {
		h, err := hashAt(e, depth+1, n)
		if err != nil {
			return h, err
		}
		b = fmt.Appendf(b, "%d:%d:%d:%s", h.kind, h.n, len(h.s), h.s)
	}
	return hashKey{kind: KindTuple, s: string(b)}, nil
}

// Contains reports whether the dict has the key.
func (d *Dict) Contains(key Value) (bool, error) {
	_, ok, err := d.Get(key)
	return ok, err
}
