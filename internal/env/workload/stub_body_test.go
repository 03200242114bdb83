package workload

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// compressed returns a text in each encoding.
func compressed(t testing.TB, text string) map[string]string {
	t.Helper()
	packed := map[string]string{"": text, "br": text, "identity": text}
	pack := func(name string, open func(io.Writer) (io.WriteCloser, error)) {
		var out bytes.Buffer
		w, err := open(&out)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		packed[name] = out.String()
	}
	pack("gzip", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	pack("GZIP ", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	pack("deflate", func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil })
	pack(" deflate", func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 6) })
	pack("zstd", func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
	return packed
}

func TestCallsAreDecompressed(t *testing.T) {
	place := Calls{In: InBody, At: at(t, "$.order.id")}
	for _, calls := range []Calls{{}, place} {
		b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 2)}, history.IDUUID, calls)
		for encoding, body := range compressed(t, `{"order":{"id":"`+b.ids.Token(1)+`","pad":"`+strings.Repeat("0",
			200)+`"}}`) {
			if packed := encoding != "" && encoding != "br" && encoding != "identity"; packed ==
				strings.Contains(body, b.ids.Token(1)) {
				t.Fatalf("%q: the id can be read in what is compressed, or cannot in what is not", encoding)
			}
			if status, _, _ := b.call("POST", "/pay", body, "Content-Encoding", encoding); status != 200 {
				t.Errorf("%q is answered %d", encoding, status)
			}
		}
	}
}

// What can't be decompressed, or is too long then, is searched as it was sent, and takes no memory.
func TestBodiesThatCannotBeDecompressed(t *testing.T) {
	inflater := &kafkaio.Inflater{Limit: 1 << 10}
	for encoding, body := range compressed(t, strings.Repeat("x", 1<<20)) {
		if encoding == "" || encoding == "br" || encoding == "identity" {
			continue
		}
		for name, sent := range map[string]string{"a bomb": body, "cut off": body[:len(body)/2], "garbage": "garbage"} {
			r := &http.Request{Header: http.Header{"Content-Encoding": {encoding}}}
			if got := newCall(r, []byte(sent), inflater); string(got.body) != sent {
				t.Errorf("%s, %q: searched in %d bytes", name, encoding, len(got.body))
			}
		}
	}
}

func TestFormsCarryTheID(t *testing.T) {
	var several bytes.Buffer
	parts := multipart.NewWriter(&several)
	ids := history.NewIDsAs("run", history.IDUUID, 10)
	id, other := ids.Token(1), ids.Token(0)
	parts.WriteField("ref", other)
	parts.WriteField("order_id", id)
	file, _ := parts.CreateFormFile("scan", "scan.pdf")
	file.Write([]byte{0xff, 0, 1})
	parts.Close()
	form := url.Values{"ref": {other}, "order_id": {id}, "lines[0].id": {"7"}, "tag": {"a", "b"}}
	encoded := base64.StdEncoding.EncodeToString([]byte("order " + id + "?>>"))
	const urlencoded = "application/x-www-form-urlencoded"
	for name, one := range map[string]struct {
		at, kind, body string
		want           int32
	}{
		"a field":               {"$.order_id", urlencoded + "; charset=UTF-8", form.Encode(), 1},
		"another field":         {"$.ref", urlencoded, form.Encode(), 0},
		"a field with dots":     {"$['lines[0].id']", urlencoded, form.Encode(), history.None},
		"given several times":   {"$.id[1]", urlencoded, "id=7&id=" + id, 1},
		"no such field":         {"$.order", urlencoded, form.Encode(), history.None},
		"anywhere":              {"", urlencoded, "x=1&order=" + id, 1},
		"base64, anywhere":      {"", urlencoded, url.Values{"o": {encoded}}.Encode(), 1},
		"base64 in a field":     {"$.o", urlencoded, url.Values{"o": {encoded}}.Encode(), 1},
		"a part":                {"$.order_id", parts.FormDataContentType(), several.String(), 1},
		"a part, cut off":       {"$.ref", parts.FormDataContentType(), several.String()[:200], history.None},
		"parts, no boundary":    {"$.order_id", "multipart/form-data", several.String(), history.None},
		"JSON as a form":        {"$.order_id", urlencoded, `{"order_id":"` + id + `"}`, history.None},
		"a form without a type": {"$.order_id", "text/plain", form.Encode(), history.None},
	} {
		calls := Calls{In: InBody}
		if one.at != "" {
			calls.At = at(t, one.at)
		}
		b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 2)}, history.IDUUID, calls)
		b.call("POST", "/pay", one.body, "Content-Type", one.kind)
		if got := b.sink.of(history.KindAttemptStart)[0].Record; got != one.want {
			t.Errorf("%s: record %d, want %d", name, got, one.want)
		}
	}
}

// FuzzCall feeds bodies with any headers to what reads them.
func FuzzCall(f *testing.F) {
	ids := history.NewIDs("run")
	calls := Calls{At: at(f, "$.order.id")}
	for encoding, body := range compressed(f, "a=b&order="+ids.Token(1)) {
		f.Add(encoding, "application/x-www-form-urlencoded", []byte(body))
	}
	f.Add("", "multipart/form-data; boundary=x",
		[]byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--"))
	f.Fuzz(func(t *testing.T, encoding, kind string, body []byte) {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"},
			Header: http.Header{"Content-Encoding": {encoding}, "Content-Type": {kind}}}
		one := newCall(r, body, &kafkaio.Inflater{Limit: 1 << 16})
		if len(one.body) > max(1<<16, len(body)) {
			t.Errorf("%d bytes after decompression", len(one.body))
		}
		calls.find(one, ids)
		(&Calls{}).find(one, ids)
		(&Calls{}).several(one, ids, 0)
	})
}
