package deadletter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Listed returns a selection, for Config.Select, of the letters that carry in the header one of the values in list, which holds one a line;
// blank lines and space around values don't count. A list without any value is an error: it would select nothing.
func Listed(list io.Reader, header string) (func(letter *kgo.Record) bool, error) {
	values := map[string]bool{}
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if value := strings.TrimSpace(lines.Text()); value != "" {
			values[value] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the list of letters: %w", err)
	}
	if len(values) == 0 {
		return nil, errors.New("reading the list of letters: it is empty")
	}
	return func(letter *kgo.Record) bool {
		for _, one := range letter.Headers {
			if one.Key == header && values[string(one.Value)] {
				return true
			}
		}
		return false
	}, nil
}
