package otlp

import "github.com/nat-go/nat-go/ttc/ledger"

// noContent is the reason for a call whose messages are missing from the export.
const noContent ledger.Reason = "content_not_recorded"
