package subject

// Which of the things that a process is given are secrets, and texts without them.

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

// shortestSecret is the least length of a value that is masked, in bytes: shorter ones are parts of words, and guessed
// as fast as they are read.
const shortestSecret = 6

// masked stands in the place of a secret in what a process writes, maskedText in a file: a YAML value can't begin with
// an asterisk.
const (
	masked     = "*****"
	maskedText = "MASKED"
)

var (
	secretName = regexp.MustCompile(
		"(?i)pass(word|wd|phrase)?|secret|token|credential|api_?key|private_?key|access_?key|jaas")
	// secretPair is a name and its value, in any format that has one behind the other: YAML, JSON, properties, the
	// options of an address.
	secretPair = regexp.MustCompile(
		`(?i)((?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:api|private|access)[._-]?key)[\w.-]*["']?[ \t]*[=:][ \t]*)` +
			`("[^"\n]*"|'[^'\n]*'|[^\s,;&"'})]+)`)
	// secretInAddress is the password of an address, whatever its scheme is and what is before that
	// (jdbc:postgresql://); it may have a slash in it, or an @.
	secretInAddress = regexp.MustCompile(`(://[^\s/:@"'<>]*:)([^\s/"'<>]+|[^@\s"'<>]+)@`)
	// secretInHeader is what authorizes a request, in a header or where one is said.
	secretInHeader = regexp.MustCompile(
		`(?i)(\bbearer[ \t]+|\bauthorization["']?[ \t]*[=:][ \t]*["']?(?:(?:bearer|basic|digest|token|apikey)[ \t]+)?)` +
			`([\w.~+/=-]{6,})`)
)

// secrets returns what must not be seen of what the process is given, longest first.
func (l Launch) secrets() [][]byte {
	given := append(os.Environ(), l.Env...)
	for i, word := range l.Command[:max(len(l.Command)-1, 0)] { // --password VALUE
		if strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && !strings.HasPrefix(l.Command[i+1], "-") {
			given = append(given, word+"="+l.Command[i+1])
		}
	}
	return secretsIn(given, append(slices.Sorted(maps.Values(l.Files)), l.Command...)...)
}

// secretsIn returns the values of the variables (NAME=value) whose names say that they are secrets, and the passwords
// that variables and texts hold in addresses and behind such names, longest first.
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
			if value := strings.Trim(found[2], `"'`); strings.Trim(value, "0123456789") != "" { // a limit of tokens is no token
				add(value)
			}
		}
	}
	slices.SortFunc(out, func(a, b []byte) int { return cmp.Or(len(b)-len(a), bytes.Compare(a, b)) })
	return slices.CompactFunc(out, bytes.Equal)
}

// isTemplate reports whether the value is only what stands for another.
func isTemplate(value string) bool {
	return strings.HasPrefix(value, "{{") || strings.HasPrefix(value, "${")
}

// Redact returns the text of a file that says how the process is started or what is done to it, without the secrets
// that it is given and without what has the form of one.
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
				return found // no value, but what begins one in YAML
			}
			rest := found[len(parts[1])+len(value):]
			return slices.Concat(parts[1], []byte(maskedText), rest)
		})
	}
	return text
}
