// Package utils replaces the package of that name in gitleaks' generator: each rule is written down with its examples.
package utils

import (
	"encoding/json"
	"os"

	"github.com/zricethezav/gitleaks/v8/config"
)

// Rule is a line of the file that the variable RULES names.
type Rule struct {
	ID, Regex string
	Entropy   float64
	Group     int
	Keywords  []string
	Examples  []string
}

// Validate writes a rule down.
func Validate(rule config.Rule, examples, _ []string) *config.Rule {
	if rule.Regex == nil {
		return &rule
	}
	line, err := json.Marshal(Rule{
		rule.RuleID, rule.Regex.String(), rule.Entropy, rule.SecretGroup, rule.Keywords, examples,
	})
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(os.Getenv("RULES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		panic(err)
	}
	return &rule
}

// ValidateWithPaths leaves out rules for certain files: a conversation has none.
func ValidateWithPaths(rule config.Rule, _, _ map[string]string) *config.Rule { return &rule }
