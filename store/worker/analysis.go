package worker

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/dlqbench/dlqbench/store"
)

// Class is the kind of error that caused a dead letter.
type Class string

// These are the classes of "Dead Letter Queue" (management schema): Transient, of which RateLimited and Outage have
// strategies of their own, and Permanent. Unknown is added.
const (
	// Transient errors are network timeouts, unavailability, database connections, HTTP 5xx.
	Transient Class = "transient"
	// RateLimited means too many requests, or an exhausted quota.
	RateLimited Class = "rate_limited"
	// Outage means that the downstream, or the system itself, is unavailable.
	Outage Class = "outage"
	// Permanent errors are validation, authorization, not found, business rules, malformed data.
	Permanent Class = "permanent"
	// Unknown means that no other class was recognised.
	Unknown Class = "unknown"
)

// Strategy returns the strategy for errors of the class, by "Dead Letter Queue Lifecycle". Errors that are unknown or
// will not go away by themselves wait for a person.
func (c Class) Strategy() store.Strategy {
	switch c {
	case Transient:
		return store.Immediate
	case RateLimited:
		return store.Scheduled
	case Outage:
		return store.Conditional
	case Permanent, Unknown:
	}
	return store.ByHand
}

// Analyse classifies an error by its type, else its code, else its message. The first of the three that is recognised
// decides, because the earlier ones are more deliberate. Words are recognised in any spelling: "TIMEOUT_ERROR",
// "TimeoutException" and "timeout error" are the same.
func Analyse(failure store.Failure) Class {
	for _, text := range []string{failure.Type, failure.Code, failure.Message} {
		if class := classify(words(text)); class != Unknown {
			return class
		}
	}
	return Unknown
}

// maxAnalysed is the maximum length of the analysed text in bytes, because messages may contain whole stack traces.
const maxAnalysed = 8 << 10

// words returns the text in lower case, with its words separated by single spaces and a space at either end. A capital
// letter inside a word begins a new word.
func words(text string) string {
	text = text[:min(len(text), maxAnalysed)]
	out := make([]rune, 0, len(text)+8)
	out = append(out, ' ')
	var before rune
	for _, char := range text {
		switch {
		case !unicode.IsLetter(char) && !unicode.IsDigit(char):
			if out[len(out)-1] != ' ' {
				out = append(out, ' ')
			}
		case unicode.IsUpper(char) && unicode.IsLower(before), unicode.IsDigit(char) && unicode.IsLetter(before):
			out = append(out, ' ', unicode.ToLower(char))
		default:
			out = append(out, unicode.ToLower(char))
		}
		before = char
	}
	if out[len(out)-1] != ' ' {
		out = append(out, ' ')
	}
	return string(out)
}

// classify returns the first class with a phrase in the text. Specific classes come before general ones: "connection
// pool exhausted" is an outage although a connection error is transient, and "429 too many requests" is not just a
// client error.
func classify(text string) Class {
	for _, rule := range [...]struct {
		class   Class
		phrases []string
	}{
		{RateLimited, []string{" rate limit", " ratelimit", " too many requests ", " quota ", " throttl",
			" resource exhausted "}},
		{Outage, []string{" circuit ", " circuitbreaker ", " breaker open ", " outage ", " out of memory ", " outofmemory",
			" maintenance ", " pool exhausted ", " too many connections ",
			" no connections available ", " downstream down ", " disk full ", " no space left ", " system error "}},
		{Permanent, []string{" validation ", " invalid ", " unauthorized ", " unauthorised ", " authorization ",
			" authentication ", " forbidden ", " permission ", " access denied ",
			" not found ", " notfound ", " does not exist ", " no such ", " business ", " rule violation ", " malformed ",
			" deserialization ", " serialization ", " parse ", " parsing ",
			" syntax ", " schema ", " illegal argument ", " bad request ", " unprocessable ", " conflict "}},
		{Transient, []string{" timeout ", " timeouts ", " timed out ", " time out ", " deadline exceeded ",
			" no answer in time ", " unavailable ", " unavailability ", " overloaded ", " network ",
			" connection ", " connect ", " econnrefused ", " econnreset ", " etimedout ", " ehostunreach ", " broken pipe ",
			" reset by peer ", " unexpected eof ", " bad gateway ",
			" gateway ", " internal server error ", " try again ", " temporary ", " temporarily ", " transient ", " aborted ",
			" deadlock "}},
	} {
		for _, phrase := range rule.phrases {
			if strings.Contains(text, phrase) {
				return rule.class
			}
		}
	}
	return classifyStatus(text)
}

// classifyStatus looks for an HTTP status: a text that consists of it, or a number after a word that announces one.
func classifyStatus(text string) Class {
	fields := strings.Fields(text)
	for i, field := range fields {
		status, err := strconv.Atoi(field)
		if err != nil || status < 400 || status > 599 || i > 0 && !announces(fields[i-1]) || i == 0 && len(fields) > 1 {
			continue
		}
		switch {
		case status == 429:
			return RateLimited
		case status == 408, status >= 500:
			return Transient
		}
		return Permanent
	}
	return Unknown
}

func announces(word string) bool {
	switch word {
	case "http", "status", "code", "answered", "returned", "response", "error", "e":
		return true
	}
	return false
}
