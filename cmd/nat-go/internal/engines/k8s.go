package engines

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Kubernetes holds the settings for a run as Kubernetes Jobs.
type Kubernetes struct {
	Needs
	Image   string
	Claim   string // persistent volume claim with the plan, the inputs and the shards' files
	Mount   string // folder where the volume is mounted; empty means Run.Dir
	Secret  string // secret whose keys become environment variables in the containers; empty means none
	User    string // user that the containers run as, UID or UID:GID; empty means the image's user
	AtOnce  int    // maximum number of pods running at once; 0 means no limit
	Retries int    // additional attempts per shard and per merge
}

var user = lazy.Regexp(`^\d{1,10}(:\d{1,10})?$`)

// Files returns submit.sh and a Job for each step.
func (k Kubernetes) Files(r Run) ([]File, error) {
	err := k.check()
	switch {
	case err != nil:
		return nil, err
	case k.Image == "":
		return nil, exit.Usagef("missing --image: specify the image that contains nat-go")
	case k.Claim == "":
		return nil, exit.Usagef("missing --claim: specify the persistent volume claim with the plan and its inputs. Pods on " +
			"several nodes write to it (ReadWriteMany)")
	case k.AtOnce < 0 || k.Retries < 0:
		return nil, exit.Usagef("--at-once and --retries must not be negative")
	}
	if k.User != "" && !user().MatchString(k.User) {
		return nil, exit.Usagef("--user %q: write UID or UID:GID", k.User)
	}
	return r.scripts("k8s-submit.sh", "k8s-job.yaml", ".yaml", k.variables)
}

func (k Kubernetes) variables(r Run) *pyvalue.Dict {
	uid, gid, _ := strings.Cut(k.User, ":")
	secret := k.Secret
	if secret != "" {
		secret = quoteJSON(secret)
	}
	return r.variables(k.Needs, quoteJSON, values{
		"name": pyvalue.Str(objectName(r.ID)), "image": pyvalue.Str(quoteJSON(k.Image)),
		"claim": pyvalue.Str(quoteJSON(k.Claim)), "mount": pyvalue.Str(quoteJSON(cmp.Or(k.Mount, r.Dir))),
		"secret": pyvalue.Str(secret), "uid": pyvalue.Str(uid), "gid": pyvalue.Str(gid),
		"parallelism": pyvalue.Int(int64(cmp.Or(k.AtOnce, r.Shards))), "retries": pyvalue.Int(int64(k.Retries)),
	})
}

// maxName is the maximum length of a run's name in object names. It leaves room for the stage and the index in a pod's
// host name, which is limited to 63 characters.
const maxName = 40

var notInNames = lazy.Regexp(`[^a-z0-9]+`)

// objectName converts a run's id to a valid Kubernetes object name. If that changes the id, a hash of the id is
// appended, so that different runs have different names.
func objectName(id string) string {
	name := strings.Trim(notInNames().ReplaceAllString(strings.ToLower(id), "-"), "-")
	if name == id && len(name) <= maxName {
		return name
	}
	sum := strconv.FormatUint(xxh3.HashString(id)&0xffffffff, 36)
	return strings.Trim(name[:min(len(name), maxName-len(sum)-1)], "-") + "-" + sum
}
