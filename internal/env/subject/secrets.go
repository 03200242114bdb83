package subject

// Recognises which of a process's inputs are secrets, and removes them from texts.

import (
	"bytes"
	"cmp"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// shortestSecret is the minimum length of a value that is masked, in bytes. Shorter values are parts of words, and
// are guessed as fast as they are read.
const shortestSecret = 6

// masked replaces a secret in a process's output, maskedText in a file: a YAML value cannot begin with an asterisk.
const (
	masked     = "*****"
	maskedText = "MASKED"
)

var (
	secretName = regexp.MustCompile(
		"(?i)pass(word|wd|phrase)?|secret|token|credential|api_?key|private_?key|access_?key|jaas")
	// secretPair matches a name and its value, in any format in which the value follows the name: YAML, JSON,
	// properties, the options of a URL.
	secretPair = regexp.MustCompile(
		`(?i)((?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:api|private|access)[._-]?key)[\w.-]*["']?[ \t]*[=:][ \t]*)` +
			`("[^"\n]*"|'[^'\n]*'|[^\s,;&"'})]+)`)
	// secretInAddress matches the password in a URL, whatever its scheme is and whatever precedes that
	// (jdbc:postgresql://). The password may contain a slash or an @.
	secretInAddress = regexp.MustCompile(`(://[^\s/:@"'<>]*:)([^\s/"'<>]+|[^@\s"'<>]+)@`)
	// secretInHeader matches the credentials that authorise a request, in a header or where one is quoted.
	secretInHeader = regexp.MustCompile(
		`(?i)(\bbearer[ \t]+|\bauthorization["']?[ \t]*[=:][ \t]*["']?(?:(?:bearer|basic|digest|token|apikey)[ \t]+)?)` +
			`([\w.~+/=-]{6,})`)
)

// secrets returns the secrets among the process's inputs, longest first.
func (l Launch) secrets() [][]byte {
	given := append(os.Environ(), l.Env...)
	for i, word := range l.Command[:max(len(l.Command)-1, 0)] { // --password VALUE
		if strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && !strings.HasPrefix(l.Command[i+1], "-") {
			given = append(given, word+"="+l.Command[i+1])
		}
	}
	return secretsIn(given, append(slices.Sorted(maps.Values(l.Files)), l.Command...)...)
}

// secretsIn returns, longest first, the values of variables (NAME=value) whose names indicate a secret, and the
// passwords in variables and texts: in URLs and after such names.
func secretsIn(environment []string, texts ...string) [][]byte {
	var out [][]byte
	add := func(value string) {
		if len(value) >= shortestSecret && !isTemplate(value) {
			out = append(out, []byte(value))
		}
	}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if secretName.MatchString(name) {
			add(value)
		}
		texts = append(texts, value)
	}
	for _, text := range texts {
		for _, found := range secretInAddress.FindAllStringSubmatch(text, -1) {
			add(found[2])
			if plain, err := url.PathUnescape(found[2]); err == nil {
				add(plain)
			}
		}
		for _, found := range secretInHeader.FindAllStringSubmatch(text, -1) {
			add(found[2])
		}
		for _, found := range secretPair.FindAllStringSubmatch(text, -1) {
			if value := strings.Trim(found[2], `"'`); strings.Trim(value, "0123456789") != "" { // a token limit is not a token
				add(value)
			}
		}
	}
	slices.SortFunc(out, func(a, b []byte) int { return cmp.Or(len(b)-len(a), bytes.Compare(a, b)) })
	return slices.CompactFunc(out, bytes.Equal)
}

// isTemplate reports whether the value is only a placeholder for another.
func isTemplate(value string) bool {
	return strings.HasPrefix(value, "{{") || strings.HasPrefix(value, "${")
}

// Redact returns the text of a file that describes the process's start or faults, without the secrets given to the
// process and without anything that has the form of a secret.
func Redact(text []byte, given Launch) []byte {
	for _, secret := range given.secrets() {
		text = bytes.ReplaceAll(text, secret, []byte(maskedText))
	}
	for _, form := range []*regexp.Regexp{secretInAddress, secretInHeader, secretPair} {
		text = form.ReplaceAllFunc(text, func(found []byte) []byte {
			parts := form.FindSubmatch(found)
			value := parts[2]
			if isTemplate(strings.Trim(string(value), `"'`)) ||
				len(value) > 0 && strings.ContainsRune("|>{[&!", rune(value[0])) {
				return found // not a value, but the beginning of one in YAML
			}
			rest := found[len(parts[1])+len(value):]
			return slices.Concat(parts[1], []byte(maskedText), rest)
		})
	}
	return text
}
