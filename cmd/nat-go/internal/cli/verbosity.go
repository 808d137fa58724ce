package cli

import (
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
)

func asJSON(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool("json")
	return on
}

func isQuiet(cmd *cobra.Command) bool {
	quiet, _ := cmd.Flags().GetBool("quiet")
	return quiet
}

// logLevel returns the level of a command's log.
func logLevel(cmd *cobra.Command) zerolog.Level {
	if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
		return zerolog.DebugLevel
	}
	if isQuiet(cmd) {
		return zerolog.ErrorLevel
	}
	return zerolog.WarnLevel
}

// findingsPrinter returns a function that prints findings to standard error. With --quiet, it prints only errors.
func findingsPrinter(cmd *cobra.Command) func([]finding.Finding) {
	stderr, quiet := cmd.ErrOrStderr(), isQuiet(cmd)
	return func(fs []finding.Finding) {
		if quiet {
			var errors []finding.Finding
			for _, f := range fs {
				if f.Severity == finding.Error {
					errors = append(errors, f)
				}
			}
			fs = errors
		}
		_ = finding.Text(stderr, fs, colored(stderr))
	}
}
