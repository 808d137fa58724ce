//go:build !linux

package spool

import "os"

func release(*os.File, int64, int64) {}

func nameless(string) *os.File { return nil }
