package view

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Export selects the part of a run that a file contains.
type Export struct {
	Where string // a filter in the language of dataset.where
	Limit int    // maximum number of records, starting with the first match; 0 means all
	// maximum size of the data, compressed and base64-encoded, excluding the lists of records and token rows
	Bytes int64
}

// ExportBytes is the default of Export.Bytes. A browser opens a file of this size quickly.
const ExportBytes = 64 << 20

// Exported describes the content of an exported file.
type Exported struct {
	Records int   `json:"records"`
	Fit     int   `json:"fit"` // number of records that match Where
	Of      int   `json:"of"`  // number of records in the run
	Drops   int64 `json:"drops"`
	OfDrops int64 `json:"of_drops"`
	Full    bool  `json:"full"`  // whether records were omitted because they don't fit into Bytes
	Bytes   int64 `json:"bytes"` // value of Export.Bytes
}

// String describes the file's content in words.
func (e *Exported) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "This file holds %d of %s", e.Records, ledger.Quantity(int64(e.Of), "record"))
	switch {
	case e.Fit == 1 && e.Of > 1:
		b.WriteString(", of which 1 matches the file's filter")
	case e.Fit < e.Of:
		fmt.Fprintf(&b, ", of which %d match the file's filter", e.Fit)
	}
	if e.OfDrops > 0 {
		fmt.Fprintf(&b, ", and %d of %s in the list of drops", e.Drops, ledger.Quantity(e.OfDrops, "line"))
	}
	b.WriteString(". The overview counts the whole run.")
	if e.Full {
		fmt.Fprintf(&b, " More records would have made the file larger than %d MiB.", e.Bytes>>20)
	}
	if e.Records < e.Of {
		b.WriteString(" nat-go view RUN --export FILE --where EXPRESSION --limit N exports other records.")
	}
	return b.String()
}

// maxExportedDrops is the maximum number of drops listed in an exported file.
const maxExportedDrops = 5000

// listLines is the maximum number of lines of a list in one compressed member.
const listLines = 500

// index locates the data of an exported page.
type index struct {
	Name    map[string]any   `json:"name"`
	Members [][2]int64       `json:"members"` // offset and length in the base64 text
	Lists   map[string][]int `json:"lists"`   // numbers of the members that contain a list, in order
	Answers map[string]int   `json:"answers"` // number of the member that contains the response to a request
}

// Export writes the page with its data to a single file, which works without nat-go and without a network.
func (r *Run) Export(ctx context.Context, w io.Writer, o Export) (*Exported, error) {
	found, f, err := r.find(o.Where, "")
	if err != nil {
		return nil, err
	}
	if len(f.texts.Clauses) > 0 {
		fit := []uint32{}
		_, err := r.search(ctx, found, f, func(n uint32) bool {
			fit = append(fit, n)
			return true
		})
		if err != nil {
			return nil, err
		}
		found = fit
	}
	head, foot, err := exportedPage()
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, head+`<script type="application/octet-stream" id="data">`); err != nil {
		return nil, err
	}
	x := &exporter{
		ctx: ctx, routes: r.routes(), w: w,
		index: index{Lists: map[string][]int{}, Answers: map[string]int{}},
		held:  Exported{Fit: len(found), Of: len(r.table.Entries), Bytes: o.Bytes},
	}
	if err := x.all(r, found, o.Limit); err != nil {
		return nil, err
	}
	x.index.Name = map[string]any{"run": r.name(), "compared": r.other != nil, "exported": x.held.String()}
	text, err := json.Marshal(x.index) // escapes characters that HTML would parse as markup
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(w, "</script>\n<script type=\"application/json\" id=\"index\">%s</script>\n%s", text, foot)
	return &x.held, err
}

// exporter calls the endpoints in place of the page. It stores each response in a separate compressed member, which
// the page decompresses on demand.
type exporter struct {
	ctx     context.Context
	routes  map[string]func(*http.Request) (answer, error)
	w       io.Writer
	index   index
	written int64 // number of base64 bytes written
	held    Exported
}

func (x *exporter) all(r *Run, found []uint32, limit int) error {
	questions := []question{{"overview", nil}}
	if r.other != nil {
		for _, what := range []string{"", "appeared", "vanished", "moved", "changed"} {
			questions = append(questions, question{"compare", url.Values{"what": {what}}})
		}
	}
	_, err := x.keep(questions, math.MaxInt64)
	if err := errors.Join(err, x.drops(r)); err != nil {
		return err
	}
	rows, refs, marked := []row{}, map[string]bool{}, r.verdicts()
	for _, n := range found {
		if limit > 0 && x.held.Records == limit {
			break
		}
		line, err := r.row(uint64(n), marked)
		if err != nil {
			return err
		}
		if line.Formats, err = r.formatsOf(n); err != nil {
			return err
		}
		tokens, questions, err := x.recordQuestions(r, uint64(n)+1)
		if err != nil {
			return err
		}
		fits, err := x.keep(questions, x.held.Bytes)
		if err != nil {
			return err
		}
		if x.held.Full = !fits; x.held.Full {
			break
		}
		x.held.Records++
		rows = append(rows, line)
		for _, b := range tokens {
			refs[b.Ref] = true
		}
	}
	batches, err := x.batches(url.Values{}, func(b batchRow) bool { return refs[b.Ref] })
	return errors.Join(err, keepList(x, "rows", rows), keepList(x, "batches", batches))
}

// batches returns the token rows for which fits returns true, in index order.
func (x *exporter) batches(with url.Values, fits func(batchRow) bool) (rows []batchRow, err error) {
	for seen, total := 0, 1; seen < total; {
		with.Set("offset", strconv.Itoa(seen))
		a, err := x.ask(question{"batches", with})
		if err != nil {
			return nil, err
		}
		part := a.(batchRows)
		if seen, total = seen+len(part.Rows), part.Total; len(part.Rows) == 0 {
			break
		}
		for _, b := range part.Rows {
			if fits(b) {
				rows = append(rows, b)
			}
		}
	}
	return rows, nil
}

// drops stores the first maxExportedDrops drops.
func (x *exporter) drops(r *Run) error {
	held := []dropped{}
	err := r.eachDrop(func(d *ledger.Drop) {
		if x.held.OfDrops++; len(held) < maxExportedDrops {
			held = append(held, dropped{Drop: *d})
		}
	})
	r.findDropped(held)
	x.held.Drops = int64(len(held))
	return errors.Join(err, keepList(x, "drops", held))
}

// question is a request that the page may send to an endpoint.
type question struct {
	what string
	with url.Values
}

func (q question) String() string {
	if len(q.with) == 0 {
		return q.what
	}
	return q.what + "?" + q.with.Encode()
}

func (x *exporter) ask(q question) (answer, error) {
	req, err := http.NewRequestWithContext(x.ctx, http.MethodGet, "/api/"+q.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	return x.routes["GET /api/"+q.what](req)
}

// recordQuestions returns a record's token rows and the requests that the page may send about the record. There are
// requests for each window of the record's messages, for its rows as written, and for its token rows.
func (x *exporter) recordQuestions(r *Run, n uint64) (rows []batchRow, questions []question, err error) {
	name := strconv.FormatUint(n, 10)
	p, err := r.record(n - 1)
	if err != nil {
		return nil, nil, err
	}
	for from := 0; from == 0 || from < len(p.Messages.Nodes); from += maxWindow {
		questions = append(questions, question{"record", url.Values{"n": {name}, "from": {strconv.Itoa(from)}}})
	}
	questions = append(questions, question{"written", url.Values{"n": {name}}})
	rows, err = x.batches(url.Values{"record": {name}}, func(batchRow) bool { return true })
	for i := 0; err == nil && i < len(rows); i++ {
		var tokens []question
		tokens, err = x.tokenQuestions(rows[i].Ref)
		questions = append(questions, tokens...)
	}
	return rows, questions, err
}

// tokenQuestions returns the requests that the page may send about a token row. There is a request for each window of
// each side. There are also requests for the row's head, one for each side that can be shown next to the first, or a
// single one if the row has only one side.
func (x *exporter) tokenQuestions(ref string) (questions []question, err error) {
	first := question{"row", url.Values{"ref": {ref}}}
	a, err := x.ask(first)
	if err != nil {
		return nil, err
	}
	questions = append(questions, first)
	sides := a.(headAnswer).Sides
	for side, s := range sides {
		for from := 0; from < s.Length; from += maxTokens {
			questions = append(questions, question{"tokens", url.Values{
				"from": {strconv.Itoa(from)}, "ref": {ref}, "side": {strconv.Itoa(side)},
			}})
		}
	}
	for with := 2; with < len(sides); with++ {
		questions = append(questions, question{"row", url.Values{"ref": {ref}, "with": {strconv.Itoa(with)}}})
	}
	return questions, nil
}

// keep stores the responses to questions, unless they would make the data larger than most bytes.
func (x *exporter) keep(questions []question, most int64) (fits bool, err error) {
	var texts [][]byte
	size := x.written
	for _, q := range questions {
		a, err := x.ask(q)
		if err != nil {
			return false, err
		}
		text, err := pack(a)
		if err != nil {
			return false, err
		}
		size += int64(len(text))
		texts = append(texts, text)
	}
	if size > most {
		return false, nil
	}
	for i, q := range questions {
		if x.index.Answers[q.String()], err = x.write(texts[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// keepList stores a list that the page iterates over.
func keepList[T any](x *exporter, name string, list []T) error {
	x.index.Lists[name] = []int{}
	for part := range slices.Chunk(list, listLines) {
		text, err := pack(part)
		if err != nil {
			return err
		}
		n, err := x.write(text)
		if err != nil {
			return err
		}
		x.index.Lists[name] = append(x.index.Lists[name], n)
	}
	return nil
}

// write writes a member, and returns its number.
func (x *exporter) write(text []byte) (int, error) {
	x.index.Members = append(x.index.Members, [2]int64{x.written, int64(len(text))})
	n, err := x.w.Write(text)
	x.written += int64(n)
	return len(x.index.Members) - 1, err
}

// pack returns a response's JSON, compressed with gzip and encoded in base64.
func pack(a any) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(a), z.Close()); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b.Bytes()), nil
}

// notice is an exported file's first line.
const notice = "<!-- This file contains a run's data, including prompts, answers and anything else in its records, " +
	"after any redaction. Share it only with readers who may see the run. -->\n"

// exportedPage returns the two halves of a single-file page, between which the data is inserted. The page's modules
// import each other through an import map, and read their data from the file instead of from a server.
func exportedPage() (head, foot string, err error) {
	table, style := importMap(), embedded("style.css")
	plotStyle, plot := embedded(uplot+"uPlot.min.css"), embedded(uplot+"uPlot.iife.min.js")
	const start = `import 'nat-go/app.js'`
	policy := fmt.Sprintf("default-src 'none'; script-src %s %s %s data:; style-src %s %s; base-uri 'none'; "+
		"form-action 'none'", hashSource(table), hashSource(start), hashSource(plot), hashSource(style),
		hashSource(plotStyle))
	text := notice + preloads.ReplaceAllLiteralString(embedded("index.html"), "")
	for _, change := range [][2]string{
		{`<meta charset="utf-8">`, `<meta charset="utf-8">` + "\n" +
			`<meta http-equiv="Content-Security-Policy" content="` + policy + `">`},
		{`<link rel="stylesheet" href="style.css">`, "<style>" + style + "</style>"},
		{`<link rel="stylesheet" href="` + uplot + `uPlot.min.css">`, "<style>" + plotStyle + "</style>"},
		{`<script src="` + uplot + `uPlot.iife.min.js" defer></script>`, "<script>" + plot + "</script>"},
		{`<link rel="icon" href="icon.svg">` + "\n", ""},
		{`<script type="module" src="app.js"></script>` + "\n", ""},
	} {
		if strings.Count(text, change[0]) != 1 {
			return "", "", fmt.Errorf("index.html must have %s exactly once", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	head, foot, ok := strings.Cut(text, "</body>")
	if !ok {
		return "", "", errors.New("missing </body> in index.html")
	}
	return head, fmt.Sprintf("<script type=\"importmap\">%s</script>\n<script type=\"module\">%s</script>\n</body>%s",
		table, start, foot), nil
}

// preloads matches the tags that list all of the page's modules, so that a browser doesn't discover them one by one.
var preloads = regexp.MustCompile(`<link rel="modulepreload" href="([^"]*)">\n`)

// importMap returns an import map with the page's modules as data: URLs. The module that reads the file replaces the
// one that queries a server.
func importMap() string {
	imports := map[string]string{}
	names, _ := fs.Glob(files, "page/*.js") // the pattern is valid
	for _, path := range names {
		name := strings.TrimPrefix(path, "page/")
		source := strings.ReplaceAll(embedded(name), "from './", "from 'nat-go/")
		imports["nat-go/"+name] = "data:text/javascript;base64," + base64.StdEncoding.EncodeToString([]byte(source))
	}
	imports["nat-go/data.js"] = imports["nat-go/exported.js"]
	delete(imports, "nat-go/exported.js")
	table, _ := json.Marshal(map[string]any{"imports": imports}) // strings can be encoded
	return string(table)
}

// embedded returns one of the page's files.
func embedded(name string) string {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // cannot happen, because the file is embedded
	}
	return string(text)
}

// uplot is the path of the page's chart library.
const uplot = "vendor/uplot/"

// hashSource returns the source expression with which a policy allows an inline script or style.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
