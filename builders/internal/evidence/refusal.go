package evidence

import (
	"strings"
)

var (
	nothing = lazy(`(?i)^(?:sorry, )?(?:no (?:\w+ ){0,3}?(?:results?|matches|match|items|records|rows|documents|` +
		`entries|files|hits|errors?|issues|problems|changes|data|\w+s)\b|nothing |0 |none\b|found (?:0|no)\b|` +
		`empty\b|there (?:are|were) no )`)
	done = lazy(`(?i)^(?:success|ok\b|okay|done|booked|created|updated|deleted|removed|saved|sent|` +
		`transferred|reserved|completed|finished|the file .* has been|voucher redeemed|applied|added|yes\b)`)
	told = lazy(`(?i)^(?:job|build|pipeline|run|deployment|task|backup|shipment|parcel|step|stage|test|tests|` +
		`service|sensor|node|pod|worker|cron|import|order|invoice|charge|status|state|result|last|latest|` +
		`previous|device)\b[^.]{0,60}\b(?:failed|failure|error|denied|rejected)\b|` +
		`^[a-z]+ #?[\w-]*\d[\w-]*: (?:\w+ )?(?:failed|rejected|denied|declined|cancel\w+|expired)\b`)
	refused = lazy(`(?i)^(?:sorry\b|(?:i |we |you )?(?:cannot|can't|can not|could not|couldn't|unable to|` +
		`failed to|are not allowed|aren't allowed|may not|must not|must |do not have|don't have|have no)\b|` +
		`(?:wrong|incorrect|refusing|aborting|blocked|disallowed|rejected|denied|invalid|unknown|unsupported|` +
		`missing|illegal|unauthorized|unauthorised|unrecognized|unexpected|malformed|duplicate|forbidden|` +
		`not (?:allowed|authorized|authorised|permitted|found|available|enough|supported|possible)|` +
		`access (?:denied|is denied|forbidden)|permission denied|insufficient|no such|too (?:many|few|long|` +
		`short|large|small|late|early)|bad request|operation not|request (?:rejected|refused|denied|failed|` +
		`timed out)|timed out|timeout\b|quota|rate limit|bad (?:\w+ ){0,2}(?:specified|given|supplied|type|value|format|` +
		`name|number|header|argument|option|address|descriptor|syntax|token|character|escape|file|data|input))\b|` +
		`\S+(?: \S+)? malformed$|` +
		`(?:\S+ ){0,5}(?:failed|refused|rejected|denied|aborted|not possible|impossible|invalid|` +
		`unavailable)(?:[.:!]|$| \(| (?:because|due to|since)\b)|get failed:|delete failed:)`)
	said = lazy(`(?i)\b(?:cannot be|can't be|can not be|could not be|couldn't be|can only be|must be|` +
		`must not be|must have|must contain|must (?:provide|specify|give|supply|pass)|should be (?:provided|given|specified|supplied)|is required|are required|is missing|are missing|already (?:taken|` +
		`booked|exists?|been|in use|reserved|redeemed|used|registered|closed|cancelled|canceled|shipped|paid|` +
		`sold|assigned)|` +
		`(?:is|are|was|were) (?:not|no longer) (?:in|available|allowed|valid|permitted|possible|authori[sz]ed|` +
		`supported|a valid|found|eligible|enough|registered|part|open|known|recogni[sz]ed|defined|accessible|` +
		`active)|isn't (?:available|allowed|valid|supported)|has expired|have expired|has already|have already|` +
		`(?:does|do|did)(?: not|n't) \w+|(?:has|have) not been|(?:was|were)(?: not|n't) \w+|(?:syntax|parse|` +
		`connect|connection|network|authentication|validation|certificate|protocol|login|lookup|upload|download|` +
		`constraint) (?:error|failure|failed)|wrong kind of|requires .{0,30}(?:privileges?|permissions?|access|` +
		`roles?|approval|log ?in|authentication|authorization|subscription|verification)|didn't match|` +
		`did not match|doesn't match|does not (?:match|add up|allow|have|support|belong|contain|accept)|` +
		`not (?:enough|found|allowed|permitted|available|authori[sz]ed|supported|exist)\b|exceeds|exceeded|` +
		`out of (?:stock|range)|sold out|insufficient|is (?:full|closed|locked|disabled|invalid|unavailable|` +
		`expired|denied|taken|out of|too \w+)|` +
		`(?:do|does) not have (?:permission|access)|would exceed|no longer (?:available|possible|valid|exists|` +
		`supported)|permission denied|access denied|unauthori[sz]ed|only possible|overdrawn|only \w+ (?:can|` +
		`may) \w+|please (?:provide|specify|enter|supply|choose another|try again)|has to be|have to be|` +
		`needs to be|conflicts with|overlaps with|not a valid|limit reached|is (?:frozen|blocked|suspended|` +
		`inactive|expired)|deadline (?:has|for|was)|is below the minimum|is above the maximum|` +
		`is less than the minimum|is greater than the maximum)\b`)
	byID = lazy(`(?i)^no (?:\w+ ){1,3}(?:with|for|named|called|by)\b.{0,40}\S*[\d"'#]|` +
		`^no (?:\w+ ){1,3}with .{0,60} (?:exists?|found)\b`)
)

// undone matches a statement that the request was not carried out, or that the one thing asked for doesn't exist.
var undone = lazy(`(?i)^(?:nothing (?:was|is|has been) (?:changed|done|saved|sent|deleted|updated|created|` +
	`booked)\b|` +
	`no \w+ (?:named|called|with (?:the )?(?:id|name|number|key)) \S+|(?:\S+ ){1,4}not (?:applied|saved|sent|` +
	`created|` +
	`updated|executed|performed|completed|processed|accepted|delivered|accessible)\b|bad \w+: \S)`)

// core strips from a short refusal what is added to its sentence: the place, a hint. Any other text is returned
// unchanged.
func (t *text) core() *text {
	if len(t.head) < 2 || len(t.head) > 8 || !t.short {
		return t
	}
	for _, l := range t.head[1:] {
		if !more().MatchString(l) || strings.HasPrefix(l, "No ") {
			return t
		}
	}
	return textOf(t.head[0])
}

// generalRule matches the start of a sentence about what holds in general.
var generalRule = lazy(`(?i)^[\w ]{0,30}\b(?:policy|policies|rules?|terms|conditions|guidelines?|faq|note|` +
	`summary|translation|` +
	`answer|transcript|title|description)\s?:`)

// camel matches a name like BadZipFile in front of its message.
var camel = lazy(`^(?:[\w.]+\.)?[A-Z][a-z]+(?:[A-Z][a-z]+)+: (\S.*)$`)

// main returns the main clause of a sentence; what follows gives the reason.
func main(s string) string {
	for _, w := range []string{" because ", " since ", " after ", "; "} {
		if i := strings.Index(s, w); i > 12 {
			s = s[:i]
		}
	}
	return s
}

// code matches a line of source code.
var code = lazy(`^(?:throw |raise |return |if |with |fmt\.|console\.|print\(|[\w.]+ :?= |:raises |` +
	`\w+\(.*\)\s*[{;]?$)|[;{]$`)

// refusal reads a sentence or two that refuse something.
func (t *text) refusal() Finding {
	if core := t.core(); core != t {
		return core.refusal()
	}
	l := t.head[0]
	if !t.one() || t.paragraphs() > 0 || strings.Count(t.all, ". ") >= 2 || figure().MatchString(l) ||
		generalRule().MatchString(l) && !refused().MatchString(l) || logLine().MatchString(l) ||
		grepLine().MatchString(l) || strings.ContainsAny(l[:1], "{<|#>/*-0123456789") && !signedOff().MatchString(l) ||
		code().MatchString(l) ||
		l[0] == '[' && !strings.HasPrefix(l, "[Errno") && !signedOff().MatchString(l) {
		return Finding{}
	}
	first := sentence(t.head[0])
	switch {
	case raw().MatchString(t.head[0]), phrase().MatchString(first):
		return failed("refusal", first)
	case signedOff().MatchString(l):
		return failed("refusal", first)
	case len(strings.Fields(first)) < 2:
		return Finding{}
	case seen().MatchString(first), rules(l):
		return nearMiss("refusal", first, "it tells what was seen, or what holds in general")
	case byID().MatchString(first), undone().MatchString(first), t.stands(first) != "":
		return failed("refusal", first)
	case sought().MatchString(first), nothing().MatchString(first), done().MatchString(first), strings.HasSuffix(first,
		"?"),
		strings.Contains(first, "|"):
		return Finding{}
	case told().MatchString(first):
		if said().MatchString(first) && !strings.Contains(strings.ToLower(first), "failed") {
			return failed("refusal", first)
		}
		quote := shortFirstLine(first)
		return Finding{Rule: "refusal", Quote: quote, Why: "it tells of the state of something", Supported: true}
	case state().MatchString(main(first)) && !report(t.all), refused().MatchString(first),
		said().MatchString(main(first)), says().MatchString(main(first)):
		return failed("refusal", first)
	}
	if m := camel().FindStringSubmatch(first); m != nil && textOf(m[1]).refusal().Failed {
		return failed("refusal", first)
	}
	return Finding{}
}

// says matches further forms of refusal, by how the sentence is built rather than what it is about.
var says = lazy(`(?i)(?:\bno longer \w+|\b(?:reached|hit|exhausted) (?:the|your|its|their|a) .{0,30}(?:maximum|` +
	`limit|` +
	`quota|cap)\b|\b(?:could not|couldn't|unable to|failed to|not able to)\b|\boverlaps?\b.{0,40}\b(?:existing|` +
	`another|other)|\bis (?:occupied|read-only|discontinued|deactivated|restricted|prohibited|forbidden|` +
	`unreachable|unsupported|unknown|ambiguous|malformed|empty and|offline and)\b|` +
	`^(?:the |your |this )?(?:\S+ ){0,3}(?:has |have |is |was |are )?expired\b|\bhas ended\b|` +
	`^only (?:the |an? )?[\w-]+(?: [\w-]+)? (?:may|can|is allowed|are allowed)\b|` +
	`^only [\w-]+(?: [\w-]+){0,2} (?:is|are) (?:allowed|permitted|supported|accepted)\b|` +
	`\b(?:rejected|denied|refused|declined)\s[-\x{2013}\x{2014}]|\bforbidden\b|` +
	`\b(?:cannot|can't|can not) (?:find|open|read|write|access|connect|resolve|load|parse|locate|create|delete|` +
	`remove|` +
	`execute|display|process|determine|handle|iterate|convert|assign|call)\b|\bis outside (?:the|of|your|its)\b|` +
	`\binvalid (?:value|arguments?|type|format|input|parameters?|id|name|request|token|key|url|path|date|state)\b|` +
	`\bexpected .{1,40}, (?:but )?(?:got|found|received)\b|\b(?:raised|threw) an? (?:exception|error)\b|` +
	`\bfailed (?:with|due to|on)\b|\bno output (?:was )?(?:produced|written|generated)\b|\bis (?:illegal|incorrect|wrong|archived)\b|: (?:invalid|` +
	`unsupported) [^:]{1,40}$|` +
	`^there (?:is|are|was|'s) no (?:such )?[\w-]+(?: [\w-]+){0,2} \S*[\d#"'][\w#"'-]*\W*$|` +
	`^(?:relation|table|column|database|schema|function|index|type|view|collection|constraint|user|role|file|` +
	`bucket|key|queue|topic|branch) "?'?[\w.$-]+"?'? (?:does not exist|already exists|not found|` +
	`is ambiguous)|\bis a required (?:property|field|argument|parameter)\b|out[- ]of[- ]bounds\b|` +
	`^(?:E\d{4,5}|ORA-\d+|[A-Z]{2,5}-\d{3,5}|SQLSTATE\S*):? \S|^\((?:error|err)\) \S|\bunsupported \w+|` +
	`\b(?:badly formed|ill-formed|mismatch\b.*\bline \d|deadlock detected|incomplete input)\b|` +
	`^while (?:parsing|scanning|constructing) a|^'[\w-]+' codec can't|^(?:[\w.]+\(\)|[\w.]+) (?:arg|iterable)\b.*` +
	`\b(?:empty|invalid)|^file (?:contains no|is not an?) |\bviolates\b)`)

// raw matches the bare message of an exception, as returned by tools that catch every exception.
var raw = lazy(`^(?:'[\w.]+' object (?:has no attribute|is not|does not) .*|unsupported operand type.*|` +
	`(?:integer |float )?division by zero|(?:list|string|tuple) index out of range|index out of (?:range|` +
	`bounds).*|` +
	`name '\w+' is not defined|\S+ is not a valid [\w ]+|\w+ is not (?:defined|a function|iterable|a constructor)|` +
	`[\w.]+\(\) (?:missing \d+ required|got an unexpected keyword|takes (?:from )?\d+|got multiple values).*|` +
	`invalid literal for \w+\(\).*|` +
	`Expecting (?:value|property name|',' delimiter|':' delimiter).*|could not convert string to .*|` +
	`Cannot read propert(?:y|ies) .*|Unexpected (?:token|end of|identifier).*|fetch failed|` +
	`time data '.*' does not match format .*|` +
	`local variable '\w+' referenced before .*|maximum recursion depth exceeded.*|No module named .*|` +
	`math domain error|not enough values to unpack.*|too many values to unpack.*|cannot import name .*|` +
	`invalid syntax.*|unexpected EOF.*|` +
	`.{1,120}(?:: | at | in |, |\()line:? \d+,? (?:col(?:umn)?|char):? \d+\W*|` +
	`.{0,80}\b(?:want|wanted|need) .{1,80}, (?:but )?got .*|expected .{1,80}, (?:but )?(?:not|got|found|received) .*|(?:the )?option \S+ not recogni[sz]ed|` +
	`.{1,80}: x not in \w+|conversion from .{1,80} failed .*|.{1,80} truncated|.{1,120} \(\d+ sub-exceptions?\)|` +
	`object of type '\w+' has no .*|` +
	`Object of type \w+ is not JSON serializable|\[Errno \d+\] .*|E[A-Z]{4,}: .*|net::ERR_\w+.*|` +
	`Message: no such element.*|runtime error: .*|strconv\.\w+: .*|json: cannot unmarshal .*|` +
	`open \S+: (?:no such file|permission denied).*|dial tcp .*|context deadline exceeded.*|null pointer.*)$`)

// phrase matches the reason phrase of an HTTP status, alone.
var phrase = lazy(`(?i)^(?:not found|forbidden|unauthori[sz]ed|bad request|internal server error|access denied|` +
	`permission denied|method not allowed|conflict|service unavailable|bad gateway|gateway timeout|` +
	`unauthenticated|not authenticated|timed? ?out|rate limit exceeded|too many requests|unprocessable entity)\W*$`)

// sentence returns the first sentence of a line.
func sentence(l string) string {
	for i := 0; i+1 < len(l); i++ {
		if (l[i] == '.' || l[i] == ';' || l[i] == '!') && l[i+1] == ' ' && i > 8 {
			return l[:i+1]
		}
	}
	return l
}
