package pyvalue_test

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// A JSON value as Python prints it, dumps it and compares it.
func Example() {
	v, err := pyvalue.Parse([]byte(`{"name": "it's", "score": 1e16, "ok": true, "none": null}`))
	if err != nil {
		panic(err)
	}
	repr, err := pyvalue.Repr(v)
	fmt.Println(repr, err)
	dumped, err := pyvalue.Dumps(v)
	fmt.Println(dumped, err)
	fmt.Println(pyvalue.Equal(pyvalue.Int(1), pyvalue.Float(1)))
	_, err = pyvalue.Ordered("<", pyvalue.Int(1), pyvalue.Str("a"))
	fmt.Println(err)
	// Output:
	// {'name': "it's", 'score': 1e+16, 'ok': True, 'none': None} <nil>
	// {"name": "it's", "score": 1e+16, "ok": true, "none": null} <nil>
	// true <nil>
	// TypeError: '<' not supported between instances of 'int' and 'str'
}
