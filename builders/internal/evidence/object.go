package evidence

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// member returns a member of an object, or nil.
func member(o json.Raw, key string) json.Raw {
	v, _ := o.Get(key)
	return v
}

// Set returns the words of all lists.
func Set(lists ...[]string) map[string]bool {
	m := map[string]bool{}
	for _, l := range lists {
		for _, k := range l {
			m[k] = true
		}
	}
	return m
}

// Scalars returns the values within a value, at any depth, that are neither objects nor arrays.
func Scalars(v json.Raw) iter.Seq[json.Raw] {
	return func(yield func(json.Raw) bool) { scalars(v, yield) }
}

func scalars(v json.Raw, yield func(json.Raw) bool) bool {
	if k := v.Kind(); k != json.Object && k != json.Array {
		return yield(v)
	}
	for _, e := range v.Members() {
		if !scalars(e, yield) {
			return false
		}
	}
	for e := range v.Elements() {
		if !scalars(e, yield) {
			return false
		}
	}
	return true
}

// Names of object members, in lower case without underscores. A failed call's object has only these members. An object
// with any other members is a record of something, such as a payment, a job or a log line.
var (
	exitKeys  = strings.Fields("exitcode returncode exitstatus rc")
	errorKeys = strings.Fields(`error errors exception traceback err errormessage errormessages errmsg errordescription
		fault faultstring faultcode failure errordetail errordetails errortype errorcode errcode validationerrors
		errormsg errorsummary functionerror errortext exceptiontype`)
	whyKeys = strings.Fields(`why reasons message msg detail details reason title description moreinfo hint suggestion
		help explanation cause`)
	toldKeys   = slices.Concat(errorKeys, whyKeys)
	statusKeys = strings.Fields("status statuscode httpstatus httpstatuscode code cod returncode")
	boolKeys   = strings.Fields("success ok succeeded successful issuccess")
	frameKeys  = strings.Fields(`type requestid traceid correlationid fbtraceid param data result results response
		instance path timestamp documentationurl docurl codename category object kind apiversion metadata extensions
		locations source context meta links stack retryable retryafter field fields output content value time helpurl
		errorid domain severity subcode errno syscall tooluseid toolcallid toolname tool role callid text stacktrace
		resulttype`)
	envelope = Set(errorKeys, whyKeys, statusKeys, boolKeys, frameKeys)
	errorKey = Set(errorKeys)
	// Participles and similar words that describe a state rather than the purpose of a call.
	stateKey = Set(strings.Fields(`enabled required blocked locked expired deprecated verified connected failed closed
		allowed muted archived suspended truncated cached shared timedout interrupted killed passed matched detected
		answered attended compromised damaged duplicated edited featured flagged infected interested married needed
		occupied outdated paginated pinned recommended refurbished related sorted starred used need seed feed speed red`))
	// Names that services use for the members of an envelope, mapped to the names used here.
	alias = map[string]string{
		"responsecode": "code", "rescode": "code", "retcode": "code", "resultcode": "code", "stat": "status",
		"responsemessage": "message", "responsemsg": "message", "responsetext": "message", "resmsg": "message",
		"returnmsg": "message", "returnmessage": "message", "retmsg": "message", "resultmsg": "message",
		"resultmessage": "message", "payload": "data", "responsedata": "data", "statusmsg": "statusmessage",
		"codetext": "statustext", "nonfielderrors": "errors",
		"erro": "error", "erreur": "error", "fehler": "error", "errore": "error", "エラー": "error", "错误": "error",
		"sucesso": "success", "exito": "success", "éxito": "success", "succes": "success", "succès": "success",
		"erfolg": "success", "erfolgreich": "success", "成功": "success", "mensagem": "message", "mensaje": "message",
		"meldung": "message", "nachricht": "message", "消息": "message", "メッセージ": "message", "statut": "status",
	}
	processKey = Set(exitKeys, strings.Fields(`stdout stderr output command cmd duration durationms durationseconds
		timedout cwd signal success exceptioninfo interrupted isimage error truncated pid log walltime walltimeseconds
		workdir executiontime exception status message sandbox killed elapsed`))
	// The members of a response that is only a message, and of GraphQL's response.
	messageKey = Set(whyKeys, statusKeys, strings.Fields("type requestid documentationurl"))
	// Other members in which a tool comments on what it did. In a record, they are members like any other.
	remarkKey = Set(strings.Fields(`info note notes feedback say comment remark reply answer notice warning observation
		text output result`))
	graphKey = Set(strings.Fields("data errors extensions"))
	flagKey  = Set(strings.Fields(`iserror content structuredcontent meta type tooluseid toolcallid callid name error
		message output text result`))
	// Members that mark an object as a record, which describes something that exists independently of the call.
	recordKey = Set(exitKeys, strings.Fields(`id sid uuid state level logger ts startedat finishedat createdat updatedat
		checkedat started finished duration attempts attempt job jobid orderid runid build buildid taskid paymentid
		order user host service device event count total lasterror line file valid healthy online url stages items rows
		processed warnings amount failurecode name version queue worker retries`))
)

// fold normalises the spelling of a key, so that errorMessage, error_message and Error-Message are the same.
func fold(key string) string {
	key = strings.Trim(key, "_")
	return strings.ToLower(joiner.Replace(key))
}

var joiner = strings.NewReplacer("_", "", "-", "")

// object is a JSON object with its members indexed by folded key.
type object struct {
	keys  []string // folded keys, in order
	names []string // keys as written, in the same order
	by    map[string]json.Raw
}

// maxMembers is the largest number of members that an object may have to be examined. Error objects have only a
// handful.
const maxMembers = 64

func read(o json.Raw) (r object, ok bool) {
	r.by = map[string]json.Raw{}
	for k, v := range o.Members() {
		if len(r.keys) == maxMembers {
			return r, false
		}
		name, _ := k.Text()
		key := fold(name)
		if other, ok := alias[key]; ok && r.by[other] == nil {
			key = other
		}
		r.keys, r.names = append(r.keys, key), append(r.names, name)
		r.by[key] = v
	}
	return r, true
}

func (o *object) only(allowed map[string]bool) bool {
	return !slices.ContainsFunc(o.keys, func(k string) bool { return !allowed[k] })
}

// text returns the first of the given members that holds non-blank text.
func (o *object) text(keys ...string) string {
	for _, k := range keys {
		if s, ok := o.by[k].Text(); ok && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

func (o *object) isTrue(key string) bool {
	b, ok := o.by[key].Bool()
	return ok && b
}

func (o *object) isFalse(key string) bool {
	b, ok := o.by[key].Bool()
	if n, isNumber := o.by[key].Int64(); isNumber && key == "ok" {
		return n == 0
	}
	s := strings.ToLower(o.text(key))
	return ok && !b || s == "false" || s == "no"
}

func (c Call) object(raw json.Raw, depth int) Verdict {
	o, ok := read(raw)
	if !ok || depth > maxDepth || len(o.keys) == 0 {
		return Verdict{}
	}
	for _, try := range []func(*object, int) (Verdict, bool){
		c.process, c.flagged, c.rpc, c.response, c.wrapper, c.errorObject,
	} {
		if f, done := try(&o, depth); done {
			return f
		}
	}
	return Verdict{}
}

// process reads an object that consists of a process's exit code and output.
func (c Call) process(o *object, depth int) (Verdict, bool) {
	if meta := o.by["metadata"]; meta.Kind() == json.Object && len(o.keys) == 2 && o.by["output"] != nil {
		n, ok := member(meta, "exit_code").Int64()
		if !ok {
			return Verdict{}, false
		}
		return c.exitedObject(n, o), true
	}
	out, has := o.by["stdout"] != nil || o.by["stderr"] != nil || o.by["output"] != nil || o.by["log"] != nil, false
	if !out || slices.ContainsFunc(o.keys, func(k string) bool { return !processKey[k] && Truthy(o.by[k]) }) {
		return Verdict{}, false
	}
	code := int64(0)
	for _, k := range exitKeys {
		if n, ok := o.by[k].Int64(); ok {
			code, has = n, true
		}
	}
	switch {
	case o.isTrue("timedout") || o.isTrue("interrupted") || o.isTrue("killed"):
		return failed("time_limit", "timed out"), true
	case has:
		return c.exitedObject(code, o), true
	case o.by["stderr"] == nil && o.by["stdout"] == nil:
		return Verdict{}, false
	case o.isTrue("success"):
		return Verdict{}, true
	}
	if s := o.text("error", "exception"); s != "" {
		return failed("error_object", s), true
	}
	if s := o.text("stderr"); s != "" {
		if f := c.read(s, depth+1); f.Rule != "" {
			return f, true
		}
	}
	return c.read(o.text("stdout"), depth+1), true
}

func (c Call) exitedObject(code int64, o *object) Verdict {
	if code == 0 {
		return Verdict{}
	}
	body := o.text("stdout", "output") + "\n" + o.text("stderr")
	if why := c.isAnswer(int(code), body); why != "" {
		return nearMiss("exit_code", "the exit code", why)
	}
	quote := o.text("stderr", "output", "stdout")
	if quote != "" {
		quote = lastLines(quote, 1)[0]
	}
	return failed("exit_code", quote)
}

// flagged judges a result by the flag that protocols define for it. In an object with other members, the flag belongs
// to the item being reported.
func (c Call) flagged(o *object, _ int) (Verdict, bool) {
	kind := o.text("type")
	if (kind == "error-text" || kind == "error-json") && o.by["value"] != nil && len(o.keys) == 2 {
		return failed("result_flag", kind), true
	}
	flag := o.by["iserror"]
	if flag == nil {
		return Verdict{}, false
	}
	if yes, ok := flag.Bool(); ok && o.only(flagKey) && len(o.keys) > 1 {
		if !yes {
			return Verdict{}, true // the result says the call succeeded
		}
		return failed("result_flag", o.words()), true
	}
	return nearMiss("result_flag", "isError", "the object has other members: it is a record"), true
}

// words returns text to quote: the error message in an object, or else the names of its members.
func (o *object) words() string {
	for _, k := range toldKeys {
		switch v := o.by[k]; v.Kind() {
		case json.String:
			if s, _ := v.Text(); strings.TrimSpace(s) != "" {
				return s
			}
		case json.Object:
			if in, ok := read(v); ok {
				if s := in.text("message", "msg", "reason", "description", "type", "code"); s != "" {
					return s
				}
			}
		case json.Array:
			for e := range v.Elements() {
				s, _ := e.Text()
				if in, ok := read(e); ok && e.Kind() == json.Object {
					s = in.text("message", "msg", "detail", "title", "type")
				}
				if strings.TrimSpace(s) != "" {
					return s
				}
			}
		}
	}
	return strings.Join(o.names[:min(len(o.names), 8)], ", ")
}

// rpc reads JSON-RPC and GraphQL responses.
func (c Call) rpc(o *object, _ int) (Verdict, bool) {
	if o.by["jsonrpc"] != nil {
		if o.by["error"].Kind() == json.Object && o.by["result"] == nil {
			return failed("rpc_error", o.words()), true
		}
		return Verdict{}, true
	}
	if o.by["data"] == nil || o.by["errors"] == nil || !o.only(graphKey) ||
		!Truthy(o.by["errors"]) {
		return Verdict{}, false
	}
	if !anyTruthy(o.by["data"]) {
		return failed("rpc_error", o.words()), true
	}
	return nearMiss("rpc_error", o.words(), "the response also has data"), true
}

func anyTruthy(data json.Raw) bool {
	if data.Kind() != json.Object {
		return Truthy(data)
	}
	for _, v := range data.Members() {
		if Truthy(v) {
			return true
		}
	}
	return false
}

var responseKey = Set(statusKeys, strings.Fields(`statustext reason reasonphrase headers body content text json data ok
	elapsed elapsedms method responseheaders contenttype url finalurl success message
	bytes size result durationms`))

// response reads an HTTP response: its status and body.
func (c Call) response(o *object, _ int) (Verdict, bool) {
	if !o.only(responseKey) || o.by["headers"] == nil && o.by["body"] == nil && o.by["statustext"] == nil &&
		o.by["reasonphrase"] == nil && !(o.by["text"] != nil && o.by["statuscode"] != nil) {
		return Verdict{}, false
	}
	for _, k := range statusKeys {
		if n, ok := o.by[k].Int64(); ok && n >= 400 && n <= 599 {
			return failed("status_object", "HTTP "+strings.TrimSpace(string(o.by[k])+" "+o.text("statustext",
				"reasonphrase", "reason"))), true
		} else if ok && n >= 100 && n < 400 {
			return Verdict{}, true
		}
	}
	return Verdict{}, false
}

var (
	wrapped = Set(strings.Fields(`result output content text response observation toolresult functionresponse
		toolresponse value returnvalue`))
	around = Set(strings.Fields(`type tool toolname name role toolcallid tooluseid callid function functionname time
		took duration elapsed requestid traceid`))
)

// wrapper looks inside an object that holds only the result and perhaps labels for it, such as the tool's name.
func (c Call) wrapper(o *object, depth int) (Verdict, bool) {
	inner := ""
	if only := o.keys[0]; len(o.keys) == 1 && o.by[only].Kind() == json.Object &&
		(only == "responsestatus" || matches(o.names[0], "responseType")) {
		return c.value(o.by[only], depth+1), true
	}
	for _, k := range o.keys {
		switch {
		case inner == "" && (wrapped[k] || (k == "meta" || k == "status") && o.by[k].Kind() == json.Object):
			inner = k
		case around[k] || !Truthy(o.by[k]):
		default:
			return Verdict{}, false
		}
	}
	if inner == "" {
		return Verdict{}, false
	}
	return c.value(o.by[inner], depth+1), true
}

// array reads a list of the text parts of one result, or the first element of a list of errors.
func (c Call) array(v json.Raw, depth int) Verdict {
	var text strings.Builder
	n := 0
	for e := range v.Elements() {
		if n++; n > 16 || e.Kind() != json.Object {
			return Verdict{}
		}
		o, ok := read(e)
		if !ok {
			return Verdict{}
		}
		if kind := o.text("type"); kind == "text" && o.by["text"] != nil && len(o.keys) <= 3 {
			text.WriteString(o.text("text"))
			continue
		}
		if said := o.text("message", "msg"); said != "" && len(o.keys) <= 6 && (o.text("errorcode") != "" ||
			o.text("code", "type") != "" && (o.by["path"].Kind() == json.Array || o.by["loc"].Kind() == json.Array)) {
			return failed("error_object", said)
		}
		return Verdict{}
	}
	return c.read(text.String(), depth+1)
}

var badStatus = Set(strings.Fields(`error err fail failed failure rejected denied refused invalid not_found notfound
	unauthorized forbidden exception`))

// decided lists the statuses of requests that were turned down.
var decided = Set(strings.Fields("rejected denied refused"))

// errorObject reads objects that are errors or that report a failure.
func (c Call) errorObject(o *object, depth int) (Verdict, bool) {
	if o.rejectsFields() {
		return failed("error_object", o.names[0]), true
	}
	rule, certain := c.evidence(o)
	if rule == "" {
		return c.only(o, depth)
	}
	quote := o.words()
	switch {
	case o.isFalse("valid") || o.isFalse("isvalid"):
		return nearMiss(rule, quote, "the object is a validator's verdict on something"), true
	case slices.ContainsFunc(boolKeys, o.isTrue):
		return nearMiss(rule, quote, "the object reports success"), true
	case !certain && o.answered():
		return nearMiss(rule, quote, "the object also has a result"), true
	}
	foreign := c.foreign(o)
	if decided[strings.ToLower(o.text("status"))] && o.by["id"] != nil {
		foreign = append(foreign, "id") // the id identifies the requested item
	}
	records := slices.ContainsFunc(foreign, func(k string) bool { return recordKey[k] })
	switch {
	case len(foreign) == 0, certain && len(foreign) <= 3 && !records,
		errorKey[o.keys[0]] && len(foreign) <= 2 && (!records || refuses(quote)):
		return failed(rule, quote), true
	}
	f := nearMiss(rule, quote, "the object has other members ("+strings.Join(foreign[:min(len(foreign), 3)],
		", ")+"): it is a record")
	f.Supported = certain
	return f, true
}

// answered reports whether the object holds a result: data other than a refused request's status, or a result that is
// not text.
func (o *object) answered() bool {
	n, ok := member(o.by["data"], "status").Int64()
	return Truthy(o.by["data"]) && !(ok && n >= 400 && n <= 599) ||
		Truthy(o.by["result"]) && o.by["result"].Kind() != json.String
}

// acted reports whether a member's name is the participle of an action, such as "created" or "sent".
func acted(key string) bool {
	return strings.HasSuffix(key, "ed") && !stateKey[key] || key == "sent" || key == "done" || key == "made"
}

// isCode reports whether a member is an error code. Without a message, an error code doesn't indicate an error.
func isCode(key string) bool { return key == "errorcode" || key == "errcode" }

// refuses reports whether text is a refusal.
func refuses(s string) bool { return textOf(s).refusal().Failed }

// failureKeys are members that give the reason when another member says that something failed. In a record they are
// members like any other.
var failureKeys = []string{"failurereason", "failuremessage", "errorreason", "statusmessage", "statusreason"}

// evidence returns the rule for the member that indicates a failure. certain means that the member is about this call,
// not about the item that was queried.
func (c Call) evidence(o *object) (rule string, certain bool) {
	explained := slices.ContainsFunc(toldKeys, func(k string) bool {
		return Truthy(o.by[k]) && !isCode(k)
	})
	no := slices.ContainsFunc(boolKeys, o.isFalse) || o.isFalse("status")
	if no && (explained || o.reasoned()) || c.leftUndone(o, explained) {
		return "status_object", true
	}
	for _, k := range statusKeys {
		n, ok := o.by[k].Int64()
		if s, isText := o.by[k].Text(); isText {
			if written, err := strconv.ParseInt(s, 10, 32); err == nil {
				n, ok = written, true
			} else if matches(s, "numberedCode") {
				n, ok = -1, true
			}
		}
		if ok && n >= 400 && n <= 599 && explained {
			// RFC 9457: a problem has a title or details, plus any other members.
			return "status_object", o.text("detail", "title") != "" && k != "code"
		}
		if ok && n != 0 && (n < 100 || n > 399) && o.refusesData() {
			return "status_object", true
		}
	}
	if rule, certain = o.named(explained); rule != "" {
		return rule, certain
	}
	return o.shaped()
}

// reasoned reports whether an object without a member for errors or reasons still gives the reason why its flag is
// false.
func (o *object) reasoned() bool {
	return o.text(failureKeys...) != "" || len(o.keys) == 1 || Truthy(o.by["errorcode"]) ||
		slices.ContainsFunc(o.keys, func(k string) bool {
			return strings.Contains(o.text(k), " ") && (remarkKey[k] || refuses(o.text(k)))
		})
}

// leftUndone reports whether a member says that the action didn't take place, and another says why. If the object has a
// title or description, as records do, only a reason or an error counts as an explanation. A remark counts if it reads
// like a failure.
func (c Call) leftUndone(o *object, explained bool) bool {
	if !slices.ContainsFunc(o.keys, func(k string) bool { return acted(k) && o.isFalse(k) }) {
		return false
	}
	return explained && (o.text("title", "description") == "" || o.text("reason", "error") != "") ||
		slices.ContainsFunc(o.keys, func(k string) bool {
			return k != "text" && (remarkKey[k] || len(o.keys) == 2) && c.words(strings.TrimSpace(o.text(k))).Failed
		})
}

// named returns the rule for a member that is named like an error or holds an error status.
func (o *object) named(explained bool) (rule string, certain bool) {
	for _, k := range errorKeys {
		v := o.by[k]
		if Truthy(v) && v.Kind() != json.Number && !listed(v) && (explained || v.Kind() != json.Bool && !isCode(k)) {
			return "error_object", Truthy(o.by["errorcode"]) && o.text("errormessage") != ""
		}
	}
	for _, k := range []string{"status", "result", "outcome", "state"} {
		s := strings.ToLower(o.text(k))
		if badStatus[s] && (explained || s == "error" && (Truthy(o.by["content"]) || Truthy(o.by["text"])) ||
			s == "fail" && o.by["data"] != nil) {
			return "status_object", s == "fail" && o.by["data"] != nil
		}
	}
	switch {
	case explained && slices.ContainsFunc([]string{"failed", "error", "iserror", "haserror"}, o.isTrue):
		return "status_object", false
	case slices.ContainsFunc(o.keys, func(k string) bool { return ownError(k) && o.text(k) != "" }):
		return "error_object", false
	case o.text("name") != "" && o.text("message") != "" && matches(o.text("stack"), "thrown"):
		return "error_object", true
	}
	return "", false
}

// shaped returns the rule for an object whose members together form an error.
func (o *object) shaped() (rule string, certain bool) {
	if len(o.keys) == 1 {
		for e := range o.by["detail"].Elements() { // FastAPI
			if in, _ := read(e); in.by["loc"] != nil && in.text("msg") != "" {
				return "error_object", true
			}
			break
		}
	}
	kind, code, message := o.text("type"), o.text("code"), o.text("message")
	found, ok := o.by["found"].Bool()
	switch {
	case len(o.keys) == 1 && o.by["failure"].Kind() == json.Object,
		message != "" && (strings.HasSuffix(kind, "Exception") || strings.HasSuffix(kind, "Error")),
		o.text("type", "object", "kind", "resulttype") == "error" && o.text("message", "text") != "",
		code != "" && message != "" && (matches(code, "badCode") ||
			matches(code, "numberedCode") && !matches(message, "done") && !o.hasMore("code", "message")):
		return "error_object", false
	case o.text("resourcetype") == "OperationOutcome" && matches(string(o.by["issue"]), "severe"), // FHIR
		matches(string(o.by["status"]), "failedState"),
		matches(string(o.by["data"]), "userErrors"), // GraphQL
		o.issues(),
		len(o.keys) == 1 && matches(string(o.by["outputs"]), "errorOutput"): // a notebook's cell
		return "error_object", true
	case ok && !found && o.by["index"] != nil:
		return "status_object", true
	}
	return "", false
}

// rejectsFields reports whether each member is a form's field with a list of its faults, as Django and Rails write it.
func (o *object) rejectsFields() bool {
	for _, k := range o.keys {
		faults := 0
		for e := range o.by[k].Elements() {
			if s, _ := e.Text(); !matches(s, "fieldFault") {
				return false
			}
			faults++
		}
		if faults == 0 {
			return false
		}
	}
	return true
}

// issues reports whether the object is an error of PayPal's, with a name in upper case and a list of issues.
func (o *object) issues() bool {
	return matches(o.text("name"), "upperName") && matches(string(o.by["details"]), "issueOf")
}

// ownError reports whether a member is named after the source or kind of the call's own error, as in tool_error and
// parse_error. A name such as last_error belongs to a record.
func ownError(key string) bool {
	return (strings.HasSuffix(key, "error") || strings.HasSuffix(key, "exception")) && !errorKey[key] &&
		!strings.HasPrefix(key, "last") && !strings.HasPrefix(key, "on") && !strings.HasPrefix(key, "previous")
}

// refusesData reports whether an object has an empty data or result member and a message that reports neither success
// nor an empty result.
func (o *object) refusesData() bool {
	said, none := o.text("message", "msg"), false
	for _, k := range []string{"data", "result"} {
		none = none || o.by[k] != nil && !Truthy(o.by[k])
	}
	return none && said != "" && !matches(said, "done") && !matches(said, "nothing")
}

// hasMore reports whether an object has non-empty members other than the known ones.
func (o *object) hasMore(known ...string) bool {
	return slices.ContainsFunc(o.keys, func(k string) bool { return Truthy(o.by[k]) && !slices.Contains(known, k) })
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// listed reports whether a value is a list of names or of objects with a line number. Such a list describes errors in
// something else, not the call's own failure.
func listed(v json.Raw) bool {
	if v.Kind() != json.Array {
		return false
	}
	for e := range v.Elements() {
		if s, ok := e.Text(); ok && len(strings.Fields(s)) < 3 {
			return true
		}
		if in, ok := read(e); ok && e.Kind() == json.Object && in.by["line"] != nil {
			return true
		}
	}
	return false
}

// foreign returns the members that neither describe an error nor repeat the call's arguments. An object with such
// members is a record.
func (c Call) foreign(o *object) []string {
	var out []string
	empty := slices.ContainsFunc(o.keys, func(k string) bool { return wrapped[k] && !Truthy(o.by[k]) })
	for i, k := range o.keys {
		if envelope[k] || empty && around[k] || acted(k) && o.isFalse(k) ||
			k == "state" && badStatus[strings.ToLower(o.text(k))] || ownError(k) || !anyTruthy(o.by[k]) ||
			c.echo(o.names[i], o.by[k]) || k == "failed" ||
			k == "name" && (o.by["stack"] != nil || o.issues()) {
			continue
		}
		out = append(out, k)
	}
	if len(out) == 0 && o.by["stdout"] != nil {
		return []string{"stdout"}
	}
	return out
}

// echo reports whether a member repeats an argument of the call.
func (c Call) echo(name string, v json.Raw) bool {
	given, ok := c.Arguments.Get(name)
	if ok {
		return string(given) == string(v)
	}
	s, isText := v.Text()
	if !isText || len(s) < 3 {
		return false
	}
	for _, a := range c.Arguments.Members() {
		if a.Is(s) {
			return true
		}
	}
	return false
}

// maxMessage is the size of the largest message of an object whose wording is judged.
const maxMessage = 600

// only is the rule for an object that consists of a message and perhaps a code or one null member. Unless the code
// indicates success, the wording decides.
func (c Call) only(o *object, depth int) (Verdict, bool) {
	asked := ""
	for _, k := range o.keys {
		switch {
		case messageKey[k]:
		case o.by[k].Kind() != json.Null || errorKey[k] || asked != "":
			return Verdict{}, true
		default:
			asked = k
		}
	}
	if slices.ContainsFunc(statusKeys, func(k string) bool {
		n, ok := o.by[k].Int64()
		s, _ := o.by[k].Text()
		return ok && (n == 0 || n >= 200 && n < 400) || s == "ok" || s == "success" || s == "OK" ||
			strings.HasPrefix(s, "2") && digits(s)
	}) {
		return Verdict{}, true
	}
	if asked != "" {
		return c.absent(asked, o.text("message", "msg", "detail"), depth), true
	}
	for _, k := range []string{"message", "msg", "detail", "description", "title"} {
		if s := o.text(k); s != "" && len(s) < maxMessage {
			if f := c.read(s, depth+1); f.Failed || k != "description" {
				return f, true
			}
		}
	}
	return Verdict{}, true
}

// absent reads the message of an object whose only other member, the requested item, is null. A null member that the
// message doesn't name is an empty field of a record, such as a comment without a reply.
func (c Call) absent(member, message string, depth int) Verdict {
	if len(message) >= maxMessage || matches(message, "none") && !matches(message, "byID") {
		return Verdict{}
	}
	f := c.read(message, depth+1)
	if f.Failed && (f.by == "form" || len(member) > 2 && holdsWord(strings.ToLower(message), member)) {
		return f
	}
	return Verdict{}
}

// Truthy reports whether a value is present and not null, false, 0, blank or empty.
func Truthy(v json.Raw) bool {
	switch v.Kind() {
	case json.Invalid, json.Null:
		return false
	case json.Bool:
		b, _ := v.Bool()
		return b
	case json.Number:
		f, ok := v.Float64()
		return !ok || f != 0
	case json.String:
		s, _ := v.Text()
		return strings.TrimSpace(s) != ""
	}
	for range v.Members() {
		return true
	}
	for range v.Elements() {
		return true
	}
	return false
}
