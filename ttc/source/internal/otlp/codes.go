package otlp

import "github.com/nat-go/nat-go/ttc/ledger"

// NoContent is the reason for a call whose messages are missing from the export.
const NoContent ledger.Reason = "content_not_recorded"
