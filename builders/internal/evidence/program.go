package evidence

import (
	"slices"
	"strings"
)

const osError = `(?:\S+ is a directory\b.*|[Nn]o such (?:file|directory|device|process|user|host|column|table|container|image|option|` +
	`command|remote|branch|ref)\b.*|command not found\b.*|not found|Unknown command\b.*|(?:device|file|host|user|module|key) not found\b.*|[Nn]o matching .*|[Pp]ermission denied.*|Is a directory.*|` +
	`[Nn]ot a directory.*|File exists.*|` +
	`[Oo]peration not permitted.*|[Rr]ead-only file system.*|Directory not empty.*|Device or resource busy.*|` +
	`[Cc]onnection (?:refused|reset|timed out|closed).*|No space left on device.*|Invalid argument.*|` +
	`Bad file descriptor.*|Exec format error.*|` +
	`Argument list too long.*|Text file busy.*|Broken pipe.*|unbound variable.*|syntax error\b.*|` +
	`unexpected (?:EOF|end of file|token|EOF while|argument)\b.*|unterminated .*|(?:illegal|invalid|unknown|` +
	`unrecognized|ambiguous|unsupported) (?:option|argument|command|flag|number|regular|key|field|character|` +
	`operand|line).*|` +
	`missing (?:operand|argument|file operand|\S+ near end).*|(?:option|` +
	`the option) .{1,80}(?:requires an argument|is unknown|is ambiguous).*|[Cc]an(?:not|'t|not) .*|` +
	`[Uu]nable to .*|[Cc]ould not .*|[Ff]ailed to .*|fatal: .*|error: .*|ERROR: .*|Error: .*|` +
	`fatal error: .*|error \(.*|` +
	`Unmatched .*|End-of-central-directory.*|[Nn]ot (?:a|in) .{1,40}(?:format|archive|repository|gzip|zipfile|` +
	`command)\b.*|No rule to make target.*|No targets.*|\[Errno \d+\].*|undefined (?:reference|variable|` +
	`symbol|function|name)\b.*|undefined: .*|.*: undeclared\b.*|` +
	`no match(?:es)? (?:for|found).*|arguments must be .*|No module named .*|write error.*|read error.*|` +
	`Input/output error.*|Cannot open.*|Child returned status [1-9].*|\(\d+\) - No such process|` +
	`[Tt]imed out.*|[Aa]borted?.*|[Kk]illed.*|Segmentation fault.*|Bus error.*|Unknown error.*|` +
	`Name or service not known.*|Temporary failure in name resolution.*|invalid .*|expected .*|Is not .*|` +
	`doesn't exist.*|does not exist.*|file not found.*|cannot open.*)`

var (
	// program: [line N:] [file:] the system's message
	unixLine = lazy(`^(?:-?(?:ba|z|da|k|c)?sh|[./\w][\w./+-]{0,80}(?:\.exe)?(?: \([\w ]+\))?|` +
		`/\S+)(?:\[\d+\])?: +(?:(?:line )?\d+: )?(?:[^:]{1,200}: ){0,3}` + osError + `$`)
	// compilers' file:line:column: error:
	compiler = lazy(`^(?:<\w+>:\d+:\d+: .*|\S+ ?: (?:fatal )?error [A-Z]+\d+: .*|\S+\.(?:c|cc|cpp|cxx|h|hpp|m|go|rs|java|kt|scala|` +
		`swift|zig|cs|f90|proto|hs|ml|ts|tsx|` +
		`js)[:(]\d+(?:[:,]\d+)?\)?:? (?:fatal )?(?:error|undefined|cannot|syntax error|imported and not used|` +
		`declared and not used|expected|missing|invalid)\b.*|` +
		`(?:\./)?\S+\.go:\d+:\d+: \S.*|\S+:\d+(?::\d+)?: (?:fatal )?(?:(?:error|Error): |syntax error\b).*|(?:collect2|ld|clang|cc1|rustc|javac|gcc|g\+\+|` +
		`\S*/ld): (?:fatal )?(?:error: )?.*|\S*\.(?:c|o|cc|cpp):.*undefined reference to .*|` +
		`error: could not compile .*|error(?:\[E\d+\])?: .*|error: aborting due to .*|` +
		`\d+ errors?(?: generated\.)?$|compilation terminated\.$|For more information about this error, try .*)$`)
	build = lazy(`^(?:Code: \d+\. .*|\s*! \[(?:remote )?rejected\] .*|Error in [^:]{1,60}: \S.*|\S+ exited with (?:status|exit)(?: code)? [1-9]\d*\.?|[Cc]ommand terminated by signal \d+.*|Out of memory: .*|HRESULT: 0x[89][0-9A-Fa-f]{7}.*|` +
		`error [A-Z]{2,5}\d{3,5}: .*|e: \S+\.kts?: .*|Module build failed .*|\S+: exception error: .*|error connecting to .*|` +
		`[\w./-]+: \S.{0,80} fatal: .*|[\w./-]+: (?:\S+:\d+: )?.*\bAssertion .* failed\.?|(?:ERROR: )?In procedure \S+: .*|\s*\(file ".*" line \d+\)$|\S+\s+: ok=\d+ .*(?:unreachable|failed)=[1-9].*|[Ee]rror (?:\w+ing|while|when|` +
		`during) [^:]{1,120}: \S.*|` +
		`Execution of \S+ aborted.*|\S*[Mm]akefile:\d+: \*\*\* .*|[\d\s:%.kMG-]*curl: \(\d+\) .*|` +
		`(?:stat|lstat|open|read|write|mkdir|remove|exec|fork/exec|chdir|rename|unlink|listen tcp|lookup) \S[^:]*: ` +
		`(?:no such|permission|file exists|is a directory|not a directory|connection|address|operation|invalid|` +
		`executable file|too many|input/output|i/o) .*|[a-z][\w-]{1,20} error: \S.*|CMake Error\b.*|` +
		`[0-9A-Fa-f]{8,}:error:[0-9A-F]{8}:.*|[Ee]rror \d{1,5} ?: \S.*|` +
		`\S{1,200}:(?:cannot|can't|could not|unable to|no such) \S.*|` +
		`\s*\S{1,200} - (?:No such file or directory|Permission denied|Not a directory|Is a directory|` +
		`[Nn]o (?:response|answer|reply))\b.*|\S*(?:\.sh|\bbash|\bdash|\bsh|\bzsh|\bksh): (?:line )?\d+: \S.*|` +
		`.{1,200} (?:failed|refused): (?:[Cc]onnection|[Nn]o |[Pp]ermission|[Nn]etwork|[Hh]ost|[Oo]peration).*|` +
		`\d+ out of \d+ hunks? (?:FAILED|ignored).*|Hunk #\d+ FAILED .*|` +
		`\S+: patch does not apply|g?make(?:\[\d+\])?: \*\*\* .*|npm (?:ERR!|error) .*|exit status [1-9]\d*|` +
		`Segmentation fault.*|Killed$|Aborted(?: \(core dumped\))?$|Bus error.*|Terminated$|fatal: .*|` +
		`\S+: fatal: .*|error: .*|ERROR: .*|FATAL: .*|E: .*|\[ERROR\] Failed to .*|Error from server .*|` +
		`(?:docker: )?Error response from daemon: .*|error TS\d+: .*|FAILURE: Build failed.*|BUILD FAILED.*|` +
		`.*\(core dumped\)$|Parse error.* near .*|Error: .*|curl: \(\d+\) .*|psql: error: .*|ssh: .*|` +
		`rsync error: .*|gpg: .*failed.*|\*\*\* No rule .*|Could not resolve host: .*|zsh: .*|` +
		`(?:ba)?sh: .*: (?:not found|command not found)|` +
		`'[^']+' is not recognized as an internal or external command,.*|` +
		`.* : The term '.*' is not recognized as .*|Can't locate \S+ in @INC .*|` +
		`BEGIN failed--compilation aborted .*|perl: .*|Caused by:$|!\s+==> Fatal error.*|` +
		`(?:\[INFO\] )?BUILD FAIL(?:URE|ED).*|\S+: \d+ (?:compile )?errors?$|pq: .*|no crontab for \S+|` +
		`CMake Error .*|-- Configuring incomplete.*|! LaTeX Error.*|.*\(HTTP [45]\d\d\)$|.* ERROR [45]\d\d: .*|` +
		`Failed to \w+ \S+\.(?:service|socket|timer): .*|Unit \S+ could not be found\.|Could not connect to .*|` +
		`No tests found, exiting with code \d|Oops! Something went wrong.*|.* at \S+ line \d+\.|ERR_\w+.*|` +
		`error Command .*|Permission denied \(publickey.*|sudo: .*|Conversion failed!|Execution halted|` +
		`\*\* \(\w+(?:\.\w+)*\) .*|\S+\.rb:\d+:in .*\(\w+\)|Command failed(?: with exit code \d+)?: .*|` +
		`.*returned non-zero exit status [1-9]\d*\.?|[Cc]onnection to \S+ .*(?:refused|timed out|closed).*|` +
		`No files matching .*|unable to access .*|ERROR \d+ \(\w+\).*|lua: .*|PHP (?:Fatal|Parse) error: .*|` +
		`ERROR: LoadError: .*|The connection to the server \S+ was refused.*)$`)
	gitLine = lazy(`^git: '[^']+' is not a git command\.`)
	// What a program adds to its complaint.
	more = lazy(`^(?:\s|This error |` +
		`Candidate |Missing |Reason: |Details?: |Location: |Failed validating |On instance|` +
		`Specify |No |Perhaps |Maybe |Was |Were |Got: |Expected: |- (?:method|waiting|navigating)|` +
		`Parameters?: |(?:File|file): |Install |Alternatively|Please |Command "|Possible reasons|Either |Make sure|` +
		`Ensure |Consider |[╰└]|[Uu]sage:|hint: |try |Try |See |see |For more|for more|DETAIL|HINT|LINE \d|` +
		`CONTEXT|\^|` +
		`note: |= |\||-->|Did you mean|The most similar|Please make sure|and the repository exists|To see |Run |` +
		`A complete log|Options:|\[SQL|\(Background|Is the server running|\d+ \||curl: |` +
		`tar: |npm (?:ERR!|error)|error: |fatal: |Aborting|Error: |optional arguments|positional arguments|` +
		`compilation terminated|Stack trace:|stack traceback:|Stacktrace:|Call log:|#\d|At line:|\+ |` +
		`operable program|info |Type X|\[ERROR\]|thrown in|in expression|Check |If you |Use |\* |Available |` +
		`Valid |Commands:|Example|.*\(core dumped\)|exit status|collect2|warning: |make: |[A-Z][\w-]+:$|` +
		`Caused by:|# |\.\.\.)`)
	usage = lazy(`^(?:[Uu]sage|USAGE|Syntax|SYNTAX|Synopsis)(?: information)?:?\s`)
	// What a program says about its arguments, below its usage.
	rejects = lazy(`^(?:[\w./-]+(?: [\w-]+)?: )?(?:[Ee]rror\b.*|[Ii]nvalid \w.*|[Uu]n(?:known|recognized|` +
		`expected) \w.*|` +
		`[Mm]issing \w.*|[Nn]o such \w.*|(?:the following )?arguments? .*|option .*requires .*)$`)
)

// program reads the last words of a program.
func (t *text) program() Finding {
	last := t.last()
	switch reports, unable := reported(t.all); {
	case unable != "" && reports:
		return failed("program_message", unable)
	case reports:
		return Finding{}
	}
	if strings.Contains(last, "(ignored)") {
		return Finding{}
	}
	if figure().MatchString(last) {
		return Finding{}
	}
	if diagnostic(last) || unixLine().MatchString(strings.TrimSpace(last)) {
		return failed("program_message", last)
	}
	// The complaint, followed by what the program adds.
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
		if diagnostic(l) {
			return failed("program_message", l)
		}
		if !more().MatchString(l) && !sameVoice(l, last) {
			break
		}
	}
	if t.buildEnds() {
		return failed("program_message", last)
	}
	if diagnostic(t.head[0]) && len(t.head) > 1 && slices.ContainsFunc(t.head[1:min(len(t.head), 4)], isUsage) {
		return failed("program_message", t.head[0]) // usage may take any number of lines
	}
	if f := t.compiled(); f.Rule != "" {
		return f
	}
	if usage().MatchString(t.head[0]) {
		for _, l := range t.tail[max(0, len(t.tail)-12):] {
			if rejects().MatchString(l) {
				return failed("program_message", l)
			}
		}
	}
	if t.short && diagnostic(t.head[0]) {
		for _, l := range t.head[1:] {
			if !more().MatchString(l) && !diagnostic(l) && !sameVoice(l, t.head[0]) && !namedError().MatchString(l) {
				return nearMiss("program_message", t.head[0], "the program continued after it")
			}
		}
		return failed("program_message", t.head[0])
	}
	return Finding{}
}

// diagnostic reports whether a line is the kind that a program ends with when it could not do its work.
func diagnostic(l string) bool {
	return unixLine().MatchString(l) || build().MatchString(l) || compiler().MatchString(l) || gitLine().MatchString(l)
}

// compiled reads a compiler's report, which names the position first and then shows the lines.
func (t *text) compiled() Finding {
	for i, l := range t.head {
		if i < 12 && compiler().MatchString(l) && !strings.Contains(l, ": warning: ") && !strings.HasPrefix(l,
			"error: ") {
			ends := t.tail[max(0, len(t.tail)-4):]
			for _, e := range ends {
				if more().MatchString(e) || compiler().MatchString(e) {
					return failed("program_message", l)
				}
			}
		}
	}
	return Finding{}
}

// isUsage reports whether a line is part of a program's usage message.
func isUsage(l string) bool {
	l = strings.TrimSpace(l)
	if i := strings.Index(l, ": "); i > 0 && !strings.Contains(l[:i], " ") && usage().MatchString(l[i+2:]) {
		return true // in the program's own name
	}
	return usage().MatchString(l + " ")
}

// buildEnds reports whether a build's last words are that it failed: its verdict, followed by nothing but errors.
func (t *text) buildEnds() bool {
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
		if l == "[INFO] BUILD FAILURE" {
			return true
		}
		if !strings.HasPrefix(l, "[ERROR]") && !strings.HasPrefix(l, "[INFO] ") {
			return false
		}
	}
	return false
}

// speaks returns the program that signs a line, as in "tar: " and "tar (child): ".
func speaks(l string) string {
	i := strings.IndexAny(l, ": ")
	if i <= 0 || l[i] == ' ' && !strings.HasPrefix(l[i:], " (") {
		return ""
	}
	return l[:i] + ":"
}

func sameVoice(a, b string) bool { return speaks(a) != "" && speaks(a) == speaks(b) }

var httpStatus = lazy(`(?:\b[45]\d\d (?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|` +
	`Method Not Allowed|Conflict|Gone|Unprocessable|Too Many Requests|Internal Server Error|Not Implemented|` +
	`Bad Gateway|Service (?:Temporarily )?Unavailable|Gateway Time-?out)\b|` +
	`^.{0,60}\b(?:[Ss]tatus|HTTP|http|[Cc]ode)(?:[ _-]?[Cc]ode)?\s?[=:]\s?[45]\d\d\b|` +
	`^.{0,80}\b(?:responded|returned|answered|replied|failed|[Ee]rror|rejected|` +
	`got)\b.{0,40}[ (][45]\d\d(?:[):,.]|$)|` +
	`(?i:^(?:the )?(?:\w+ )?(?:connection|request|socket|handshake|navigation|upstream|stream|tunnel|browser|page)` +
	`(?: \w+){0,3} (?:timed out|hang up|hung up|refused|reset|closed|aborted|lost|crashed)\b)|` +
	`^socket hang up|(?i:^no (?:healthy|available) (?:upstream|server|backend|node|host))|` +
	`^(?:[a-zA-Z]\w*\.)+[a-zA-Z]\w*: .*(?:Timeout \d+ ?ms exceeded|net::ERR_|[Tt]arget .*closed|violation|` +
	`not (?:visible|attached|enabled|found|a valid)|crashed|detached|ERR_)|^strict mode violation: |` +
	`^Message: .*(?:element|session|alert|window|timeout|script)|Error \d+ connecting to |^\([45]\d\d\)$|` +
	`^<_\w*RpcError of RPC that terminated with:|` +
	`^(?:HTTP(?:/[\d.]+)?(?: [Ee]rror)?:? (?:[Ss]tatus(?: [Cc]ode)?:? )?[45]\d\d\b|` +
	`[45]\d\d (?:page not found|method not allowed)$|[45]\d\d(?::| [—-]) [A-Z][a-z]+(?: [A-Z]?[a-z]+){0,4}$|` +
	`[45]\d\d (?:Client|Server) Error: |[45]\d\d [A-Z][a-z]+(?: [A-Z]?[a-z]+){0,4}(?::|$)|(?:Client|` +
	`Server) error '[45]\d\d |(?:[Ss]tatus(?: [Cc]ode)?|[Rr]esponse(?: [Ss]tatus)?(?: [Cc]ode)?):? [45]\d\d\b)|` +
	`\b(?:failed|error|rejected|responded|returned|answered)\b.{0,120}\b(?:status(?: code)?|HTTP|` +
	`code):? ?\(?[45]\d\d\b|Max retries exceeded with url|rpc error: code = |Failed to fetch |` +
	`[Nn]ame or service not known|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|\bECONN(?:REFUSED|RESET)\b|` +
	`\bENOTFOUND\b|\bETIMEDOUT\b|^\d{3} (?:Unrecognized|Invalid|Syntax|Not found|Bad)\b)`)

// counts matches counts of things checked or seen.
var counts = lazy(`\b\d+ (?:ok|passed|succeeded|errors?|failed|failures?|warnings?)\b`)

// calls matches the log of what was tried, printed below an error.
var calls = lazy(`(?m)^(?:Call log:|Stacktrace:|HTTP response headers:|\s+details = )`)

// http reads a short text that gives the status of a failed request.
func (t *text) http() Finding {
	first := t.head[0]
	if counts().MatchString(first) {
		return Finding{}
	}
	if len(t.all) > 1200 || len(t.head) > 6 && !calls().MatchString(t.all) || !httpStatus().MatchString(bare(first)) ||
		first[0] == '#' || first[0] == '|' || first[0] == '-' || len(t.head) > 1 && t.paragraphs() > 0 ||
		strings.HasPrefix(first, "Title:") {
		return Finding{}
	}
	return failed("http_status", t.head[0])
}
