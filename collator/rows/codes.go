package rows

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a record has no row in a format.
const (
	FormatCannotCarry ledger.Reason = "format_cannot_carry"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(FormatCannotCarry, "write", "The row format has no place for this record; other formats may have it.", "Choose a format that can carry it (`nat-go formats`)."),
	}
}
