package mongo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// errNotNative means that no BSON value reproduces a JSON text exactly, or that not every server stores it.
var errNotNative = errors.New("the JSON has no exact BSON")

// native returns the BSON value of a JSON text. It returns errNotNative unless plain gives back the same values and
// every server stores it. That excludes numbers that change, and fields that are duplicate, empty, contain a dot or
// start with $, and arrays in arrays (FerretDB v1).
func native(text json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := nativeValue(decoder, false)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotNative
	}
	return value, nil
}

func nativeValue(decoder *json.Decoder, inArray bool) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, errNotNative
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return nativeObject(decoder)
		}
		if inArray {
			return nil, errNotNative
		}
		return nativeArray(decoder)
	case json.Number:
		return nativeNumber(token)
	default: // string, bool, nil
		return token, nil
	}
}

func nativeObject(decoder *json.Decoder) (any, error) {
	object, seen := bson.D{}, map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, errNotNative
		}
		key, _ := token.(string)
		if key == "" || seen[key] || strings.HasPrefix(key, "$") || strings.Contains(key, ".") {
			return nil, errNotNative
		}
		seen[key] = true
		value, err := nativeValue(decoder, false)
		if err != nil {
			return nil, err
		}
		object = append(object, bson.E{Key: key, Value: value})
	}
	_, err := decoder.Token()
	return object, err
}

func nativeArray(decoder *json.Decoder) (any, error) {
	array := bson.A{}
	for decoder.More() {
		value, err := nativeValue(decoder, true)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := decoder.Token()
	return array, err
}

func nativeNumber(number json.Number) (any, error) {
	if whole, err := number.Int64(); err == nil && strconv.FormatInt(whole, 10) == number.String() {
		return whole, nil
	}
	if fraction, err := number.Float64(); err == nil && strings.Contains(number.String(), ".") &&
		plainNumber(fraction) == number.String() {
		return fraction, nil
	}
	return nil, errNotNative
}

func plainNumber(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }

// plain is the JSON text of a BSON value. A value without a JSON form, which native never makes but people may, becomes
// extended JSON.
func plain(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := writePlain(&out, value); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writePlain(out *bytes.Buffer, value any) error {
	switch value := value.(type) {
	case bson.D:
		return writeList(out, "{}", len(value), func(i int) error {
			if err := writeText(out, value[i].Key); err != nil {
				return err
			}
			out.WriteByte(':')
			return writePlain(out, value[i].Value)
		})
	case bson.A:
		return writeList(out, "[]", len(value), func(i int) error { return writePlain(out, value[i]) })
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return writeExtended(out, value)
		}
		out.WriteString(plainNumber(value))
		return nil
	case nil, bool, int32, int64, string:
		return writeText(out, value)
	default:
		return writeExtended(out, value)
	}
}

// writeExtended writes a value that has no JSON form.
func writeExtended(out *bytes.Buffer, value any) error {
	kept, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: value}}, false, false)
	if err != nil {
		return err
	}
	var object struct {
		V json.RawMessage `json:"v"`
	}
	if err := json.Unmarshal(kept, &object); err != nil {
		return err
	}
	out.Write(object.V)
	return nil
}

func writeList(out *bytes.Buffer, brackets string, length int, item func(i int) error) error {
	out.WriteByte(brackets[0])
	for i := range length {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := item(i); err != nil {
			return err
		}
	}
	out.WriteByte(brackets[1])
	return nil
}

func writeText(out *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the newline that the encoder adds
	return nil
}
