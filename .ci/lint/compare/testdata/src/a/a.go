package a

import "reflect"

func same(a, b any) bool { return reflect.DeepEqual(a, b) }
