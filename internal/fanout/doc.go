// Package fanout works on items side by side and hands on the results in the order of the items.
package fanout
