package source

import (
	"reflect"
	"testing"
)

// TestStatsAdd: each count is added.
func TestStatsAdd(t *testing.T) {
	var sum, one Stats
	counts := func(s *Stats, each func(name string, n reflect.Value)) {
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Int64 {
				each(v.Type().Field(i).Name, f)
			}
		}
	}
	counts(&one, func(_ string, n reflect.Value) { n.SetInt(2) })
	sum.Add(&one)
	sum.Add(&one)
	counts(&sum, func(name string, n reflect.Value) {
		if n.Int() != 4 {
			t.Errorf("%s is %d, want 4", name, n.Int())
		}
	})
}
