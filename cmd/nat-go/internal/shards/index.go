package shards

import (
	"fmt"
	"strconv"
	"strings"
)

// indexVariables lists the environment variables that may specify the number of a process's shard. nat-go's own
// variable comes first, followed by the variables that job arrays set.
var indexVariables = []string{
	"NATGO_SHARD", "SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "CLOUD_RUN_TASK_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX",
}

// Index returns the shard number given in the environment, and the variable's name. NATGO_SHARD may also include the
// number of shards, as in 3/7. Index returns an error if a variable is invalid, if two disagree or if none is set.
func Index(getenv func(string) (string, bool), shards int) (index int, variable string, err error) {
	for _, name := range indexVariables {
		text, ok := getenv(name)
		if !ok || text == "" {
			continue
		}
		n, err := parse(name, text, shards)
		if err != nil {
			return 0, "", err
		}
		if variable != "" && n != index {
			return 0, "", fmt.Errorf("%s specifies shard %d but %s specifies shard %d: unset one of them, or specify "+
				"the shard with --index", variable, index, name, n)
		}
		if variable == "" {
			index, variable = n, name
		}
	}
	if variable == "" {
		return 0, "", fmt.Errorf("missing shard number: set --index, or one of the variables %s",
			strings.Join(indexVariables, ", "))
	}
	return index, variable, nil
}

func parse(name, text string, shards int) (int, error) {
	number, total, hasTotal := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || hasTotal && name != indexVariables[0] {
		return 0, fmt.Errorf("invalid shard number %[2]q in %[1]s", name, text)
	}
	if hasTotal && total != strconv.Itoa(shards) {
		return 0, fmt.Errorf("%s is %q, but the plan has %d shards", name, text, shards)
	}
	return n, InPlan(n, shards, name)
}

// InPlan returns an error if n is not a valid shard number. The error names the source of the number, given in from.
func InPlan(n, shards int, from string) error {
	if n >= 0 && n < shards {
		return nil
	}
	return fmt.Errorf("%s specifies shard %d, but the plan's %d shards are numbered from 0 to %d",
		from, n, shards, shards-1)
}
