package a

import (
	"errors"
	"fmt"
	"reflect"
)

var _ = reflect.DeepEqual(1, 2) // want `use cmp.Diff`

var (
	values  = []int{1, 2}
	err     = errors.New("no")
	_       = fmt.Sprint(values) != "[1 2]" // want `compare the values`
	_       = "[1 2]" == fmt.Sprint(values) // want `compare the values`
	_       = fmt.Sprint(err, 1) == "no 1"  // want `compare the values`
	message = fmt.Sprint(err) == "no"       // allowed: an error's message
	_       = fmt.Sprintf("%d", 1) == "1"   // allowed: a text that the test formats itself
)
