// Package compose writes JSON objects and lists, member by member.
package compose
