package where

import "github.com/nat-go/nat-go/ttc/ledger"

// NotMet is the reason for dropping an example or a record that doesn't match a filter.
const NotMet ledger.Reason = "where_not_met"

// codeWhere is the code of a finding about a filter.
const codeWhere = "NG1216"
