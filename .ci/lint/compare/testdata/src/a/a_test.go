package a

import "reflect"

var _ = reflect.DeepEqual(1, 2) // want `use cmp.Diff`
