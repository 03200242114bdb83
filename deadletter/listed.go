package deadletter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Listed returns a selection, for Config.Select, of the dead letters whose record has one of the values of list in
// the given header. list has one value per line. If the record has no such header, because the dialect does not keep
// it or the service that dead-lettered it dropped it, Listed searches the record's whole value. Blank lines and
// spaces around values are ignored. A list without any value is an error, because it would select nothing.
func Listed(list io.Reader, header string, dialect Opener) (func(letter *kgo.Record) bool, error) {
	values, lengths := map[string]bool{}, map[int]bool{}
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if value := strings.TrimSpace(lines.Text()); value != "" {
			values[value], lengths[len(value)] = true, true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the list of dead letters: %w", err)
	}
	if len(values) == 0 {
		return nil, errors.New("reading the list of dead letters: it is empty")
	}
	return func(letter *kgo.Record) bool {
		record := dialect.Prepare(letter)
		named := false
		for _, one := range record.Headers {
			if one.Key == header && values[string(one.Value)] {
				return true
			}
			named = named || one.Key == header
		}
		return !named && holds(record.Value, values, lengths)
	}, nil
}

// holds reports whether one of the values, which have these lengths, is in the text.
func holds(text []byte, values map[string]bool, lengths map[int]bool) bool {
	for length := range lengths {
		for i := 0; i+length <= len(text); i++ {
			if values[string(text[i:i+length])] {
				return true
			}
		}
	}
	return false
}
