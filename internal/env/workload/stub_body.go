package workload

// The bodies of requests over HTTP: decompressed, and forms as JSON.

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// call is a request with its whole body, as the client meant it: decompressed.
type call struct {
	*http.Request
	body []byte
	raw  []byte // as it was sent
}

// newCall returns the call of a request with this body. A body that cannot be decompressed, or is longer than maxBody
// then, stays as it is.
func newCall(r *http.Request, body []byte, inflater *kafkaio.Inflater) *call {
	one := &call{r, body, body}
	encoding := r.Header.Get("Content-Encoding")
	if encoding == "" {
		return one
	}
	var plain []byte
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "gzip", "x-gzip":
		plain, err = inflater.Inflate(body, kafkaio.CodecGzip)
	case "zstd":
		plain, err = inflater.Inflate(body, kafkaio.CodecZstd)
	case "deflate":
		plain, err = undeflate(body, inflater.Limit)
	default:
		return one
	}
	if err == nil {
		one.body = plain
	}
	return one
}

// undeflate decompresses what HTTP calls deflate: the format of zlib (RFC 9110, 8.4.1.2), which some clients leave out.
func undeflate(data []byte, limit int) ([]byte, error) {
	var from io.Reader = flate.NewReader(bytes.NewReader(data))
	if wrapped, err := zlib.NewReader(bytes.NewReader(data)); err == nil {
		from = wrapped
	}
	plain, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	if len(plain) > limit {
		return nil, kafkaio.ErrTooLong
	}
	return plain, err
}

// form returns a form as a JSON object: each field is a text, or a list of texts if it is given several times. It
// returns nil for a body that is not a form.
func (c *call) form() []byte {
	kind, parameters, _ := mime.ParseMediaType(c.Header.Get("Content-Type"))
	var fields map[string][]string
	switch kind {
	case "application/x-www-form-urlencoded":
		fields, _ = url.ParseQuery(string(c.body)) // what can be read
	case "multipart/form-data":
		fields = parts(multipart.NewReader(bytes.NewReader(c.body), parameters["boundary"]))
	default:
		return nil
	}
	object := make(map[string]any, len(fields))
	for name, values := range fields {
		if object[name] = values; len(values) == 1 {
			object[name] = values[0]
		}
	}
	text, _ := json.Marshal(object) // texts never fail
	return text
}

// maxParts bounds the parts of a multipart form that are read.
const maxParts = 1000

// parts returns the parts of a multipart form by their names, up to the first that cannot be read.
func parts(from *multipart.Reader) map[string][]string {
	fields := map[string][]string{}
	for range maxParts {
		part, err := from.NextPart()
		if err != nil {
			break
		}
		text, err := io.ReadAll(part)
		if err != nil {
			break
		}
		fields[part.FormName()] = append(fields[part.FormName()], string(text))
	}
	return fields
}
