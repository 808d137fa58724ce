package evidence

import "strings"

// Refusals that say what stands in the way of the call, rather than that it can't be done.
var (
	// lacks matches what says that the one thing asked for isn't there, or that something the call needs isn't.
	lacks = lazy(`(?i)^there (?:is|are|was|were) no \w+(?: \w+){0,2} (?:named|called|(?:with|under|for|by) (?:the |that )?` +
		`(?:ids?|names?|numbers?|keys?|codes?|e-?mails?|uuids?)) \S|` +
		`\bno [\w-]+(?: [\w-]+){0,2} (?:was|were|is) (?:given|provided|specified|selected|supplied|open|present|` +
		`configured|connected|attached|chosen)\b|\bno active [\w -]{1,40}\bsession\b|` +
		`^no (?:replacement|edit|message|e-?mail|order|booking|payment|event|record|entry|transfer|update|file|item)s? ` +
		`(?:was|were|has been|have been) \w+(?:ed|t|de|en)\b|` +
		`\bno [\w-]+ (?:is|was) (?:stored|saved|registered|known|defined) (?:under|as|for|at|with)\b|` +
		`^no (?:route|path|connection|definition|handler|overload|plan|way|(?:[\w-]+ ){0,3}solution)\b.{0,40}` +
		`\b(?:found|for|between|exists)\b|` +
		`\bnothing (?:was|has been) (?:added|changed|done|saved|sent|deleted|updated|created|booked|moved|written|charged)\b`)
	// state matches a state that forbids the call.
	state = lazy(`(?i)\b(?:is|are|lies|lie|falls?) (?:outside|beyond|past)(?: of)? (?:the|your|its|this)\b|` +
		`\b(?:is|are) not \w{4,}(?:able|ible)\b|\balready (?:refunded|submitted|processed|merged|subscribed|voted|rated|` +
		`claimed|archived)\b|\b(?:has|have) just been \w+|\bnot of the same\b|` +
		`\b(?:modified|changed|updated) since (?:it was|you|the last|your)\b|\bnot (?:been )?initiali[sz]ed\b|` +
		`\bmax(?:imum)? (?:number of |amount of )?[\w ]{2,30}(?:\(\d+\) )?(?:was )?reached\b|` +
		`^you (?:are not|aren't) an?\b|\bso (?:you|it) (?:can't|cannot|can not)\b|` +
		`\bhave (?:only )?\d+\b.{0,30}\b(?:asked for|requested|needs?|required?)\b|` +
		`^[a-z]\w*\.[a-z]\w*: .*\b(?:was|were|is|has been) (?:destroyed|closed|detached|disposed|cancell?ed|interrupted|lost)\b|` +
		`^(?:target|page|context|browser|session|kernel|connection|stream)(?:,? (?:or |and )?\w+)* (?:has|have) (?:been |already )?` +
		`(?:closed|crashed|died|ended|exited|disconnected)\b|` +
		`\b(?:is|are) not (?:among|one of) \S|^(?:\S+ ){1,4}(?:(?:was|is|has been) )?(?:blocked|rejected|denied|refused) by\b|` +
		`^(?:kernel|process|worker|server|container|session|interpreter)\b.{0,30}\b(?:died|crashed|went away)\b|` +
		`\btime-?out of \d+ ?\w+ (?:was )?(?:reached|exceeded|expired)\b|` +
		`\bfails (?:the |its )?(?:check\w*|validation|verification|constraint|schema)\b|` +
		`^only .{1,60}\b(?:is|are) (?:allowed|permitted|supported|accepted)\b|` +
		`\bvalue \S+ is out of\b|\b(?:must|have to|has to) be between\b`)
	// signedOff matches a program's or a server's own form of error.
	signedOff = lazy(`^(?:\[[A-Z][A-Z0-9_.]*(?:NOT_|INVALID|ERROR|FAIL|MISSING|UNRESOLVED|AMBIGUOUS|EXCEED|DENIED)[A-Z0-9_.]*\] .*|` +
		`Input should .*\[type=\w+.*|(?:data|body|query|params|input|arguments|instance)[\w./\[\]'"]* should (?:be|have|match|not) .*|` +
		`(?:no|not|invalid|missing|bad|unknown|too)_[a-z_]+|[a-z]+(?:_[a-z]+)*_(?:not_found|denied|required|failed|exceeded|invalid|` +
		`missing|expired)|[a-z][\w-]{1,30}: (?:[Uu]nknown|[Ii]nvalid|[Uu]nsupported|[Uu]nrecogni[sz]ed|[Bb]ad|[Mm]issing|[Nn]o such) ` +
		`[a-z].*|Bad[A-Z]\w+ \(.*\)|[a-z ]*division by zero\b.{0,40}|[45]\d\d[ -][45]\.\d{1,3}\.\d{1,3} .*)$`)
	// firstDo matches a demand for something to be done before the call.
	firstDo = lazy(`(?i)(?:^|[.;!] )(?:please )?(?:call|run|click|open|read|use|initiali[sz]e|start|connect|log ?in|select|create|` +
		`capture) .{0,80}\bbefore (?:running|using|calling|writing|editing|reading|retrying|it|this)\b`)
	// seen matches a description of what is on a screen, which may say that something failed.
	seen = lazy(`(?i)^(?:an? |the )?(?:\w+ )?(?:sign|dialog|screen|page|window|banner|toast|pop-?up|box|label|notice|display)\b` +
		`.{0,40}\b(?:reads?|says?|shows?|shown|displays?|displayed|appears?)\b|` +
		`^(?:the )?(?:customer|user|caller|patient|client|reporter|agent)s? (?:reports?|reported|says?|said|wrote|writes|told|` +
		`mentions?|mentioned|complains?|complained)\b|^(?:and )?(?:then )?(?:it|he|she|they|i) (?:then )?said\b`)
	// sought matches what an agent says that searched and found nothing.
	sought = lazy(`(?i)^(?:i|we) (?:could not|couldn't|can't|cannot|can not|did not|didn't) find an(?:y|ything|yone)\b`)
	// doing matches an error without a colon: what was being done, and on the lines below why it failed.
	doing = lazy(`^(?:Error [a-z]+ing (?:the |an? )?[\w "'./-]{2,60}|(?:[A-Z]\w+ )?Error in (?:model|test|seed|snapshot|macro|query|` +
		`cell|step|task|node) \S.{0,100})$`)
	// onHost matches what Ansible says about a host.
	onHost = lazy(`^\S+ \| (?:UNREACHABLE|FAILED)!? (?:=>|\|)`)
	// cutOff matches the last line of a shell that ended the command.
	cutOff = lazy(`(?i)^[\[(<](?:the )?(?:command|process|tool|execution|shell|script)?:? ?(?:has |was )?` +
		`(?:timed out|killed: |killed after|terminated after|exceeded)\b`)
	// providedFor matches a command that goes on whatever happens.
	providedFor = lazy(`\|\|\s*(?:true|:|exit 0)\s*$`)
	// ruleOf matches a sentence about all things of a kind.
	ruleOf = lazy(`^[A-Z][a-z]+s (?:[a-z]+ )?(?:cannot|can't|can|are|aren't|may|must|will|do|don't)\b`)
	// exitTag matches an exit code in a tag, as some harnesses write it beside the output.
	exitTag = lazy(`^<(?:exit_?code|return_?code|exit_?status)>\s*(-?\d+)\s*</`)
	// wellEnded matches a last line that says that the program did its work.
	wellEnded = lazy(`(?i)^(?:ok|okay|done|success|succeeded|finished|completed|ready)\W*$`)
	// spoken matches a line of a conversation between people.
	spoken = lazy(`^([a-z][\w.-]{1,15}): \S`)
	// fieldLine matches a line of a record with tabs, as command lines print them.
	fieldLine = lazy(`^[a-z][\w-]{1,20}:\t`)
)

// stands returns the words that say what stands in the way of the call; empty: there are none.
func (t *text) stands(first string) string {
	l := t.head[0]
	switch {
	case lacks().MatchString(first), signedOff().MatchString(l), firstDo().MatchString(l):
		return first
	case lacks().MatchString(l):
		return l
	}
	return ""
}

// rules reports whether a text of two sentences or more says what holds for all things of a kind: a policy.
func rules(l string) bool {
	n := 0
	for s := range strings.SplitSeq(l, ". ") {
		if !ruleOf().MatchString(s) {
			return false
		}
		n++
	}
	return n > 1
}

// conversation reports whether a text of at least three lines is said by several people in turn.
func (t *text) conversation() bool {
	times := map[string]int{}
	again := false
	for _, l := range t.head {
		m := spoken().FindStringSubmatch(l)
		if m == nil {
			return false
		}
		times[m[1]]++
		again = again || times[m[1]] > 1
	}
	return again && len(times) > 1 && len(t.head) > 2
}
