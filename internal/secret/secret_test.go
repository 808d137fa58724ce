package secret

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

func TestTextIsNeverPrinted(t *testing.T) {
	const clear = "hunter2-hunter2"
	s := New(clear)
	asJSON, err := json.Marshal(struct{ S Text }{s})
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		fmt.Sprint(s), fmt.Sprintf("%s %v %+v %#v %q %x %d", s, s, s, s, s, s, s),
		fmt.Sprintf("%+v", struct{ S Text }{s}),
		fmt.Sprintf("%#v", []Text{s}), string(asJSON), string(asYAML),
	} {
		if strings.Contains(out, "hunter2") || !strings.Contains(out, "[secret]") {
			t.Errorf("printed as %q", out)
		}
	}
	if s.Reveal() != clear || s.IsZero() || !New("").IsZero() || New("").String() != "" {
		t.Error("a secret does not reveal the text that it was made from")
	}
}

const multiline = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nQsecondlineofthekey0123456789abcd\n-----END KEY-----\n"

var values = []string{`p"a\ss wörd/+&<'=%`, "hf_abcdefghijklmnopqrstuvwxyz0123", multiline, "tok-1", "a/b c+d"}

// TestRedactsEscapedForms checks that a value is removed however it was written.
func TestRedactsEscapedForms(t *testing.T) {
	v := NewValues(values...)
	for _, s := range values {
		t.Run(s, func(t *testing.T) {
			quoted, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range []string{
				s, string(quoted), fmt.Sprintf("%q", s), fmt.Sprintf("%+q", s), url.QueryEscape(s), url.PathEscape(s),
				strings.ToLower(url.QueryEscape("%")) + url.QueryEscape(s),
				base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
				fmt.Sprintf("%x", s),
				"'" + strings.ReplaceAll(s, "'", "''") + "'",
			} {
				out := v.Redact("before " + form + " after")
				if strings.Contains(out, form) || !strings.HasPrefix(out, "before ") ||
					!strings.HasSuffix(out, " after") {
					t.Errorf("%q became %q", form, out)
				}
			}
		})
	}
	if out := v.Redact(base64.StdEncoding.EncodeToString([]byte("user:" + values[1]))); strings.Contains(out,
		base64.StdEncoding.EncodeToString([]byte(values[1]))[4:20]) || !strings.Contains(out, Mask) {
		t.Errorf("within base64: %q", out)
	}
	if out := v.Redact("line QsecondlineofthekeyX and Qsecondlineofthekey0123456789abcd alone"); strings.Contains(out, "0123456789") {
		t.Errorf("one line of a value: %q", out)
	}
}

// TestRedactCut checks that the remains of a value that was cut off with its text are removed, too.
func TestRedactCut(t *testing.T) {
	const s = "hf_abcdefghijklmnopqrstuvwxyz0123"
	v := NewValues(s)
	const least = 4 // bytes that must not remain
	for n := least; n < len(s); n++ {
		for _, text := range []string{s[n:] + " and more", "some and " + s[:n], s[n:] + " in between " + s[:n]} {
			out := v.RedactCut(text, true, true)
			if n <= len(s)-least && strings.Contains(out, s[max(n, len(s)-least):]) ||
				strings.Contains(out, s[:min(n, least)]) {
				t.Errorf("%q became %q", text, out)
			}
		}
	}
	if out := v.RedactCut(s[3:20], true, true); out != Mask {
		t.Errorf("the middle of a value became %q", out)
	}
	for _, plain := range []string{"an ordinary text", "", "hf_"} {
		if out := v.RedactCut(plain, true, true); out != plain {
			t.Errorf("%q became %q", plain, out)
		}
	}
}

// TestWriterMasksAcrossPieces checks that the output is the same, and contains no value, no matter how the text is
// split into pieces.
func TestWriterMasksAcrossPieces(t *testing.T) {
	v := NewValues(append(values, "abab-abab", "abab-ab", "bab-cd")...)
	text := "x abab-abab-ab abab-cd y " + strings.Join(values, " and ") + " and " + values[1][:10] + " end"
	want := v.Redact(text)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var out bytes.Buffer
		w := v.Writer(&out)
		for rest := text; rest != ""; {
			n := min(len(rest), 1+random.IntN(9))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("wrote\n%q, want\n%q", out.String(), want)
		}
	}
	var out bytes.Buffer
	w := v.Writer(&out)
	_, _ = w.Write([]byte("a line\n"))
	if out.String() != "a line\n" {
		t.Errorf("%q waits for what comes", "a line\n")
	}
	_, _ = w.Write([]byte("hf_abcdef"))
	if err := w.Flush(); err != nil || strings.Contains(out.String(), "abcdef") {
		t.Errorf("flushed %q, %v", out.String(), err)
	}
}

// planted has twenty kinds of secrets as they appear in lines; the text between the bars is the secret.
var planted = []string{
	"train --token |VALUE9876|", "train --token=|hunter2x9|", "run --api-key '|Zx81Spectrum|' now", `cmd: ["--hf-token", "|abc123def|"]`,
	"env HF_TOKEN=|plain| python train.py", "OPENAI_KEY=|plainwords| run", "AWS_SECRET_ACCESS_KEY=|wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY|",
	`curl -H "Authorization: Bearer |abcdefgh|"`, "Authorization: Basic |dXNlcjpwYXNz|", "proxy-authorization: token |s3cr3tvalue|",
	"using |hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567| here", "key |sk-proj-abcdEFGH1234567890| is bad",
	"|ghp_16C7e42F292c6912E7710c838347Ae178B4a|",
	"|github_pat_11ABCDEFG0abcdefghijkl_mnopq|", "aws |AKIAIOSFODNN7EXAMPLE|", "|eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P|",
	"clone https://|ghosttoken|@github.com/x/y", "postgres://user:|pa55word|@db/x", "http://me:|pw|@127.0.0.1:1",
	"GET /x?access_token=|abc123def456|&y=1",
	`"password": "|Tr0ub4dor&3|"`, "api_key: |0123456789abcdef0123|", "x-api-key: |abcdef123456|", "slack |xoxb-123456789012-abcdefGHIJ|", "glpat |glpat-abcdefGHIJ1234567890|",
	"nvapi-|| |nvapi-Abcdefghijklmnop0123456789|",
	"-----BEGIN RSA PRIVATE KEY-----\n|MIIEpAIBAAKCAQEA|\n-----END RSA PRIVATE KEY-----",
}

func TestShape(t *testing.T) {
	for _, line := range planted {
		t.Run(line, func(t *testing.T) {
			line = strings.ReplaceAll(line, "||", "")
			before, rest, _ := strings.Cut(line, "|")
			hidden, after, _ := strings.Cut(rest, "|")
			text := before + hidden + after
			out := Shape(text)
			if strings.Contains(out, hidden) && !strings.Contains(before+after, hidden) ||
				!strings.Contains(out, Mask) {
				t.Errorf("%q became %q", text, out)
			}
			if !Setting(text) {
				t.Errorf("as a setting, %q holds no secret", text)
			}
			if again := Shape(out); again != out {
				t.Errorf("%q, masked once more, is %q", out, again)
			}
		})
	}
	for _, text := range []string{
		"train --token ${HF_TOKEN}", "--token $HF_TOKEN", "HF_TOKEN=${HF_TOKEN} run", "https://${USER}@host/",
		"Authorization: Bearer ${TOKEN}",
		"MAX_TOKEN=512", "--pad-token '<|pad|>'", "--max-token 512", "PRIMARY_KEY=id", "EOS_TOKEN=<|im_end|>",
		"--tokenizer meta/llama-3.2-1b",
	} {
		if Find(text) != nil || Setting(text) {
			t.Errorf("%q: %q", text, Shape(text))
		}
	}
	if !Setting("HF_TOKEN=x train") || Find("HF_TOKEN=x train") != nil {
		t.Error("a variable's value of one letter is a secret in a setting, and only there")
	}
	if !Setting("train --token plain") || !Setting("--password=plain") {
		t.Error("a flag's plain value is not a secret")
	}
}

func TestNamed(t *testing.T) {
	for _, key := range []string{
		"token", "hf_token", "HF_TOKEN", "OPENAI_KEY", "openai_key", "api-key", "apiKey", "password", "DB_PASS",
		"client_secret", "credentials", "AWS_ACCESS_KEY_ID", "GITHUB_PAT",
		"wandb_api_key", "private_key", "WANDB_KEY",
	} {
		if !Named(key) {
			t.Errorf("%s names no secret", key)
		}
	}
	for _, key := range []string{
		"id_key", "question_key", "generated_answer_key", "max_tokens", "eos_token", "pad_token", "tokenizer", "KEYS",
		"PRIMARY_KEY", "monkey", "path",
	} {
		if Named(key) {
			t.Errorf("%s names a secret", key)
		}
	}
	for _, word := range []string{"--token", "-token", "--hf-token", "--api_key", "--password"} {
		if !Flag(word) {
			t.Errorf("%s takes no secret", word)
		}
	}
	for _, word := range []string{"--tokenizer", "--max-token", "--pad-token", "token", "--key", "--token=x"} {
		if Flag(word) {
			t.Errorf("%s takes a secret", word)
		}
	}
}

// TestShapeLeavesOrdinaryLines checks that ten thousand lines from this repository - code, prose, configurations, data
// - stay unchanged.
func TestShapeLeavesOrdinaryLines(t *testing.T) {
	lines, hits := 0, 0
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "../.." {
			return filepath.SkipDir // caches: not part of this repository
		}
		if d.IsDir() || lines >= 200_000 {
			return nil
		}
		switch filepath.Ext(path) {
		case ".md", ".go", ".yml", ".yaml", ".jinja", ".py":
		default:
			return nil
		}
		// They contain made-up secrets.
		if strings.Contains(path, "secret") || strings.Contains(path, "test") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); lines++ {
			if out := Shape(s.Text()); out != s.Text() {
				hits++
				t.Errorf("%s: %q became %q", path, s.Text(), out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 10_000 {
		t.Errorf("only %d lines were looked at", lines)
	}
	t.Logf("%d lines, %d false hits", lines, hits)
}

func TestShortValuesNeedTwoDigits(t *testing.T) {
	for v, want := range map[string]bool{"ab12": true, "abc1": false, "abcdefg1": true, "abcdefgh": false} {
		t.Run(v, func(t *testing.T) {
			if got := random(v, 4); got != want {
				t.Errorf("random(%q) = %v, want %v", v, got, want)
			}
		})
	}
}

func TestPlainValuesAreNotSecrets(t *testing.T) {
	for v, want := range map[string]bool{
		"true": true, "None": true, "~": true, "512": true, "0.5": true, "1234567": true,
		"12345678": false, "abc": false,
	} {
		t.Run(v, func(t *testing.T) {
			if got := Plain(v); got != want {
				t.Errorf("Plain(%q) = %v, want %v", v, got, want)
			}
		})
	}
	for _, v := range []string{"Password", "token", "true"} {
		if !ordinary("api_key: ", v) {
			t.Errorf("%q was taken for a secret", v)
		}
	}
}

// TestPlaceholdersAreShown checks that three or more crosses, dots or stars are taken for a secret that was hidden
// before, and left as they are.
func TestPlaceholdersAreShown(t *testing.T) {
	for v, hidden := range map[string]bool{"xx": true, "xxx": false, "...": false, "***": false} {
		text := "https://user:" + v + "@host/"
		if out := Shape(text); (out != text) != hidden {
			t.Errorf("%q: %q", text, out)
		}
	}
}

// TestTokens checks that each row of the table of tokens can be read and used: numbers are numbers, a pattern compiles,
// and hints are long enough to be found.
func TestTokens(t *testing.T) {
	for line := range strings.Lines(tokenText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(c) != 7 || c[4] != "named" && c[4] != "-" {
			t.Fatalf("%q has %d columns", line, len(c))
		}
		_, bits := strconv.ParseFloat(c[1], 64)
		_, run := strconv.Atoi(c[2])
		_, before := strconv.Atoi(c[3])
		_, pattern := regexp.Compile(c[6])
		if err := errors.Join(bits, run, before, pattern); err != nil {
			t.Errorf("%s: %v", c[0], err)
		}
		for hint := range strings.SplitSeq(c[5], "|") {
			if len(hint) < 3 || hint != strings.ToLower(hint) {
				t.Errorf("%s: unusable hint %q", c[0], hint)
			}
		}
	}
}

// TestHintsInARow: a long word full of what secrets begin with takes a time that grows with its length.
func TestHintsInARow(t *testing.T) {
	took := func(size int) time.Duration {
		var before, after syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		if found := Find(strings.Repeat("key=", size/4)); err != nil || len(found) > 1 {
			t.Fatal(found, err)
		}
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
			t.Fatal(err)
		}
		return time.Duration(after.Utime.Nano() - before.Utime.Nano())
	}
	took(1 << 10) // compiles the patterns
	short := took(8 << 10)
	if long := took(128 << 10); long > 32*short {
		t.Errorf("%v for sixteen times the text, after %v", long, short)
	}
}
