package kit

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// checks lists the checks in the order in which they run.
var checks = []check{
	{"handshake", "starts, prints one handshake line, serves on its socket", checkHandshake},
	{"describe", "gives its name and version, and each builder's name, version, stability, doc and kinds", checkDescribe},
	{"describe-again", "gives the same description in another process", checkDescribeAgain},
	{"schema", "has a usable JSON Schema for each builder's config", checkSchema},
	{"unknown-builder", "answers NOT_FOUND for a builder it does not have", checkUnknownBuilder},
	{"bad-config", "reports what is wrong with an invalid config", checkBadConfig},
	{"validate", "accepts the config, with the same answer both times", checkValidate},
	{"builds", "builds the sample groups without failing", checkBuilds},
	{"kinds", "emits only the kinds of record it declared", notDropped(ledger.BadRecord, "declare")},
	{"references", "refers only to items that the group contains", notDropped(builders.BadReference, "")},
	{"drops", "gives each drop a reason and a unit", checkDrops},
	{"pure", "gives the same results for the same groups twice", checkPure},
	{"order", "gives the same results for a group regardless of the groups before it", checkOrder},
	{"processes", "gives the same results in two processes as in one", checkProcesses},
	{"sessions", "serves several sessions at once", checkSessions},
	{"empty-group", "accepts an empty example", survives(emptyGroup, anything)},
	{"huge-group", "accepts a group of many frames, and a single text of several MiB", survives(hugeGroup, anything)},
	{"unicode", "accepts lone surrogates, NUL and other unusual text, and returns it unchanged", survives(unicodeGroup, keepsTexts)},
	{"many-groups", "answers two thousand groups in order", checkManyGroups},
	{"slow-consumer", "sends no more frames than it has credit for", checkSlowConsumer},
	{"malformed", "refuses a malformed stream, and survives it", checkMalformed},
	{"cancellation", "survives a cancelled stream", checkCancellation},
	{"version-skew", "works with a host one minor version ahead", checkVersionSkew},
	{"drain", "drains when asked and opens no session after that", checkDrain},
	{"shutdown", "exits when go-plugin asks it to", checkShutdown},
	{"sigterm", "exits on SIGTERM", checkSigterm},
	{"parent-death", "exits when its host has ended", checkParentDeath},
	{"by-hand", "identifies itself and exits when started by hand", checkByHand},
	{"stdout", "prints nothing to standard output besides the handshake", noise(silentStdout)},
	{"stderr", "does not flood standard error", noise(moderateStderr)},
}
