package kinds

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/atropos"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/exec"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
)

// All lists the adapters by `_type`.
func All() []trainers.Kind {
	return []trainers.Kind{files.Kind(), customizer.Kind(), exec.Kind(), atropos.Kind()}
}

// Lookup finds an adapter by its `_type`.
func Lookup(typ string) (trainers.Kind, bool) {
	for _, k := range All() {
		if k.Type == typ {
			return k, true
		}
	}
	return trainers.Kind{}, false
}
