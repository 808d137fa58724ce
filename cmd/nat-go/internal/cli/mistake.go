package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/builders/finding"
)

// natFlags maps each flag of NAT's `finetune` that nat-go lacks to the reason it is missing.
var natFlags = map[string]string{
	"result_json_path":       "it extracts an answer from a workflow's result, but preference pairs are built from the recorded steps",
	"validation_dataset":     "NAT's preference training doesn't run validation; dataset.split takes the validation set from the pairs",
	"validation_interval":    "NAT's preference training doesn't run validation; dataset.split takes the validation set from the pairs",
	"validation_config_file": "NAT's preference training doesn't run validation; dataset.split takes the validation set from the pairs",
}

// mistake returns the message for an invalid command line. It rewords messages from cobra and pflag that are meant for
// programmers.
func mistake(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return unknownFlag(cmd, unknown.GetSpecifiedName())
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return fmt.Sprintf("--%s %s: expected %s; the flag means: %s",
			f.Name, invalid.GetValue(), valueName(f), f.Usage)
	case strings.Contains(err.Error(), "arg(s)"):
		return fmt.Sprintf("%v; usage: %s", err, cmd.UseLine())
	}
	return err.Error()
}

func unknownFlag(cmd *cobra.Command, name string) string {
	text := "unknown flag: --" + name
	if why := natFlags[strings.ReplaceAll(name, "-", "_")]; why != "" {
		return text + ", which is NAT's: " + why
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	near := finding.Nearest(name, known)
	for _, k := range known {
		if near == "" && len(name) > 2 && strings.HasPrefix(k, name) { // --config for --config-file
			near = k
		}
	}
	if near != "" {
		return text + "; did you mean --" + near + "?"
	}
	return text + "; `" + cmd.CommandPath() + " --help` lists the flags"
}

func valueName(f *pflag.Flag) string {
	switch t := f.Value.Type(); t {
	case "int", "int64", "uint64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "float64":
		return "a number"
	case "duration":
		return "a duration such as 90s or 2m"
	default:
		return "a " + t
	}
}
