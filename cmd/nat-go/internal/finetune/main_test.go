package finetune

import (
	"os"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// TestMain lets a run start this test binary to serve the built-in builders, just as nat-go starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == builtin.ServeCommand {
		sdk.ServeArgs(builtin.Plugin("test"), os.Args[2:])
	}
	os.Exit(m.Run())
}
