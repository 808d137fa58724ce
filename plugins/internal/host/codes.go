package host

import "github.com/nat-go/nat-go/ttc/ledger"

// What became of a builder's process.
const (
	PoisonGroup ledger.Reason = "poison_group"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(PoisonGroup, "build", "The builder's process crashed or hung on this group, and again when given the group alone.", "See the process's last lines in the log; report it to the plugin's author."),
	}
}
