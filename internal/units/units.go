// Package units defines the quantities in scenario and subject files: durations, rates, shares and sizes. Each parses
// the text that a person writes, formats it again, and provides the JSON Schema of its written form. The package
// knows nothing of the use of the quantities.
package units

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration written as Go writes it: "250ms", "1m30s". Never negative.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d in the form that time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "250ms". It rejects negative durations and numbers without a unit.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write a number and a unit, such as 250ms, 5s or 1m30s", text)
	}
	if v < 0 {
		return fmt.Errorf("%q is negative: a duration here is 0s or more", text)
	}
	*d = Duration(v)
	return nil
}

// SchemaText returns the JSON Schema of the written form.
func (Duration) SchemaText() string {
	return `{
		"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$", "format": "dlqbench-duration",
		"description": "a duration such as 250ms, 5s or 1m30s", "examples": ["250ms", "5s"]
	}`
}

// Rate is a number of records per second, written "2000/s"; "120/m" and "1/h" are read too.
type Rate float64

// PerSecond returns the rate in records per second.
func (r Rate) PerSecond() float64 { return float64(r) }

func (r Rate) String() string { return strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s" }

// MarshalText writes the rate per second.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads "N/s", "N/m" or "N/h" with N ≥ 0.
func (r *Rate) UnmarshalText(text []byte) error {
	number, unit, found := strings.Cut(string(text), "/")
	per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	v, err := strconv.ParseFloat(number, 64)
	if !found || per == 0 || err != nil || !(v >= 0 && v <= 1e9) { // false for NaN
		return fmt.Errorf("%q is not a rate: write records per second, such as 2000/s", text)
	}
	*r = Rate(v / per)
	return nil
}

// SchemaText returns the JSON Schema of the written form.
func (Rate) SchemaText() string {
	return `{
		"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?/(s|m|h)$", "format": "dlqbench-rate",
		"description": "a rate such as 2000/s or 120/m", "examples": ["2000/s"]
	}`
}

// Percent is a share from 0 to 1, written "2%" or "0.5%".
type Percent float64

// Share returns the share, from 0 to 1.
func (p Percent) Share() float64 { return float64(p) }

func (p Percent) String() string {
	return strconv.FormatFloat(math.Round(float64(p)*1e12)/1e10, 'f', -1, 64) + "%"
}

// MarshalText writes the share as a percentage.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads "0%" to "100%".
func (p *Percent) UnmarshalText(text []byte) error {
	number, found := strings.CutSuffix(string(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	if !found || err != nil || !(v >= 0 && v <= 100) { // false for NaN
		return fmt.Errorf("%q is no percentage: write 0%% to 100%%, such as 2%%", text)
	}
	*p = Percent(v / 100)
	return nil
}

// SchemaText returns the JSON Schema of the written form.
func (Percent) SchemaText() string {
	return `{
		"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?%$", "format": "dlqbench-percent",
		"description": "a percentage from 0% to 100%", "examples": ["2%"]
	}`
}

// Size is a number of bytes, written "512B", "64KiB" or "1MiB"; a bare number is bytes.
type Size int64

// Bytes returns the size in bytes.
func (s Size) Bytes() int64 { return int64(s) }

func (s Size) String() string {
	switch {
	case s >= 1<<20 && s%(1<<20) == 0:
		return strconv.FormatInt(int64(s>>20), 10) + "MiB"
	case s >= 1<<10 && s%(1<<10) == 0:
		return strconv.FormatInt(int64(s>>10), 10) + "KiB"
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes the size with the largest unit that divides it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads "512B", "64KiB", "1MiB".
func (s *Size) UnmarshalText(text []byte) error {
	for _, unit := range []struct {
		suffix string
		factor int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"B", 1}, {"", 1}} {
		number, found := strings.CutSuffix(string(text), unit.suffix)
		if !found {
			continue
		}
		v, err := strconv.ParseInt(number, 10, 32)
		if err == nil && v >= 0 {
			*s = Size(v * unit.factor)
			return nil
		}
	}
	return fmt.Errorf("%q is no size: write bytes with a unit, such as 512B, 64KiB or 1MiB", text)
}

// UnmarshalJSON reads a string with a unit or a bare number of bytes.
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return s.UnmarshalText([]byte(text))
}

// SchemaText returns the JSON Schema of the written forms.
func (Size) SchemaText() string {
	return `{
		"oneOf": [
			{"type": "string", "pattern": "^[0-9]+(B|KiB|MiB)?$", "format": "dlqbench-size"},
			{"type": "integer", "minimum": 0}
		],
		"format": "dlqbench-size", "description": "a size such as 512B, 64KiB or 1MiB", "examples": ["512B"]
	}`
}
