package units

import (
	"encoding/json"
	"math"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type quantity interface {
	UnmarshalText([]byte) error
	MarshalText() ([]byte, error)
}

func TestWrittenQuantities(t *testing.T) {
	for _, one := range []struct {
		text string
		into quantity
		want any
	}{
		{"250ms", new(Duration), Duration(250 * time.Millisecond)}, {"1m30s", new(Duration), Duration(90 * time.Second)},
		{"0", new(Duration), Duration(0)},
		{"2000/s", new(Rate), Rate(2000)}, {"120/m", new(Rate), Rate(2)}, {"3600/h", new(Rate), Rate(1)},
		{"0.5/s", new(Rate), Rate(0.5)},
		{"2%", new(Percent), Percent(0.02)}, {"0%", new(Percent), Percent(0)}, {"100%", new(Percent), Percent(1)},
		{"12.5%", new(Percent), Percent(0.125)},
		{"512B", new(Size), Size(512)}, {"64KiB", new(Size), Size(64 << 10)}, {"1MiB", new(Size), Size(1 << 20)},
		{"77", new(Size), Size(77)},
	} {
		if err := one.into.UnmarshalText([]byte(one.text)); err != nil {
			t.Errorf("%s: %v", one.text, err)
			continue
		}
		var have any
		switch v := one.into.(type) {
		case *Duration:
			have = *v
		case *Rate:
			have = *v
		case *Percent:
			have = *v
		case *Size:
			have = *v
		}
		if have != one.want {
			t.Errorf("%s is read as %v, want %v", one.text, have, one.want)
		}
	}
}

func TestMalformedQuantitiesAreRefused(t *testing.T) {
	for _, one := range []struct {
		into  quantity
		texts []string
	}{
		{new(Duration), []string{"", "5", "5x", "-1s", "1s ", "99999999999h", "s"}},
		{new(Rate), []string{"", "5", "5/x", "-5/s", "/s", "5/", "1e300/s", "x/s", "5 /s", "NaN/s"}},
		{new(Percent), []string{"", "5", "-1%", "100.1%", "%", "x%", "5 %", "NaN%"}},
		{new(Size), []string{"", "B", "-1B", "5KB", "1.5KiB", "5 B", "1GiB", "99999999999B"}},
	} {
		for _, text := range one.texts {
			if err := one.into.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("%q was read as %v", text, one.into)
			}
		}
	}
}

// TestQuantitiesComeBack checks that a formatted quantity is parsed to the same value, and that the JSON Schema
// allows it.
func TestQuantitiesComeBack(t *testing.T) {
	durationPattern, sizePattern := pattern(t, Duration(0).SchemaText()), pattern(t, Size(0).SchemaText())
	ratePattern, percentPattern := pattern(t, Rate(0).SchemaText()), pattern(t, Percent(0).SchemaText())
	rapid.Check(t, func(t *rapid.T) {
		duration := Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "duration"))
		size := Size(rapid.Int64Range(0, math.MaxInt32).Draw(t, "size"))
		rate := Rate(rapid.Float64Range(0, 1e6).Draw(t, "rate"))
		percent := Percent(rapid.Float64Range(0, 1).Draw(t, "percent"))
		var (
			duration2 Duration
			size2     Size
			rate2     Rate
			percent2  Percent
		)
		back(t, duration, &duration2, durationPattern)
		back(t, size, &size2, sizePattern)
		back(t, rate, &rate2, ratePattern)
		back(t, percent, &percent2, percentPattern)
		if duration2 != duration || size2 != size || rate2 != rate || math.Abs(float64(percent2-percent)) > 1e-12 {
			t.Fatalf("%v %v %v %v came back as %v %v %v %v", duration, size, rate, percent, duration2, size2, rate2, percent2)
		}
	})
}

// pattern returns the pattern in a schema, or in the first of its alternatives.
func pattern(t *testing.T, schema string) string {
	t.Helper()
	var decoded struct {
		Pattern string
		OneOf   []struct{ Pattern string }
	}
	if err := json.Unmarshal([]byte(schema), &decoded); err != nil {
		t.Fatal(err)
	}
	if len(decoded.OneOf) > 0 {
		return decoded.OneOf[0].Pattern
	}
	return decoded.Pattern
}

func back(t *rapid.T, from any, into quantity, pattern string) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if plain := string(text[1 : len(text)-1]); !regexp.MustCompile(pattern).MatchString(plain) {
		t.Fatalf("the JSON Schema does not allow %s", plain)
	}
}

// TestPatternsAllowNothingElse checks that text allowed by the JSON Schema's pattern is parsed, or rejected only for
// its range.
func TestPatternsAllowNothingElse(t *testing.T) {
	for _, one := range []struct {
		into   quantity
		schema string
	}{{new(Duration), Duration(0).SchemaText()}, {new(Rate), Rate(0).SchemaText()},
		{new(Percent), Percent(0).SchemaText()}, {new(Size), Size(0).SchemaText()}} {
		allowed := pattern(t, one.schema)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(allowed).Filter(func(text string) bool {
				return len(text) < 8
			}).Draw(t, "text")
			err := one.into.UnmarshalText([]byte(text))
			if _, isPercent := one.into.(*Percent); err != nil && !isPercent {
				t.Fatalf("%q is allowed but not read: %v", text, err)
			}
		})
	}
}

func TestSizeInJSON(t *testing.T) {
	for text, want := range map[string]Size{`"1KiB"`: 1024, `77`: 77, `"77"`: 77} {
		var size Size
		if err := json.Unmarshal([]byte(text), &size); err != nil || size != want {
			t.Errorf("%s: %v, %v", text, size, err)
		}
	}
	for _, text := range []string{`-1`, `1.5`, `true`, `{}`, `"1KB"`} {
		var size Size
		if err := json.Unmarshal([]byte(text), &size); err == nil {
			t.Errorf("%s was read as %v", text, size)
		}
	}
}
