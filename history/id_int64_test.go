package history

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// manyRecords is the most that a scenario may have.
const manyRecords = 20_000_000

func TestNumbersAreIDsThatJSONKeeps(t *testing.T) {
	ids := NewIDsAs("run", IDInt64, manyRecords)
	seen, first := map[string]bool{}, map[byte]int{}
	for seq := range int32(50_000) {
		token := ids.Token(seq)
		var double float64
		if err := json.Unmarshal([]byte(token), &double); err != nil || len(token) != ids.Len() || seen[token] {
			t.Fatalf("record %d has the id %q: %v", seq, token, err)
		}
		if text := strconv.FormatFloat(double, 'f', 0, 64); text != token || double > 1<<53-1 {
			t.Fatalf("the double of %s is %s", token, text)
		}
		if got, ok := ids.Find([]byte(token)); !ok || got != seq {
			t.Fatalf("%s was found as %d, %v; want %d", token, got, ok, seq)
		}
		seen[token] = true
		first[token[0]]++
	}
	for digit := byte('1'); digit <= '5'; digit++ {
		if len(first) != 5 || first[digit] < 4_000 {
			t.Fatalf("the ids do not look drawn: their first digits are %v", first)
		}
	}
}

// Each way of writing is that of a library: see the comments.
func TestNumberIsFoundHoweverItIsWritten(t *testing.T) {
	ids, other := NewIDsAs("run-a", IDInt64, manyRecords), NewIDsAs("run-b", IDInt64, manyRecords)
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Int32Range(0, manyRecords-1).Draw(t, "seq")
		text := rapid.StringMatching(`[a-zA-Z":,{}+/ éß]{0,40}`)
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		token := ids.Token(seq)
		number := must.Get(strconv.ParseUint(token, 10, 64))(t)
		double := float64(number)
		encoded := must.Get(json.Marshal(map[string]any{"id": double, "n": 1}))(t)
		for how, written := range map[string]string{
			"digits":           token,
			"Python's float":   token + ".0",                                       // repr, json.dumps; serde_json
			"Go's %v":          fmt.Sprint(double),                                 // and PHP's json_encode
			"Java's double":    strings.Replace(fmt.Sprint(double), "e+", "E", 1),  // Double.toString, Jackson
			".NET's double":    strings.ToUpper(fmt.Sprint(double)),                // ToString("R")
			"Java's long":      string(binary.BigEndian.AppendUint64(nil, number)), // LongSerializer
			"Go's encoding":    string(encoded),                                    // and JavaScript's
			"text in base64":   base64.StdEncoding.EncodeToString([]byte(`{"id":` + token + `}`)),
			"base64 of URLs":   base64.RawURLEncoding.EncodeToString([]byte(`x{"id":"` + token + `"}`)),
			"double in base64": base64.StdEncoding.EncodeToString([]byte(`{"ref":` + fmt.Sprint(double) + `}`)),
			"a decoded query":  strings.Replace(fmt.Sprint(double), "+", " ", 1),
			"digits in base64": base64.StdEncoding.EncodeToString([]byte(token)),
			"int64":            string(ids.AppendAs(nil, seq, IDVarint)), // Protobuf
			"long":             string(ids.AppendAs(nil, seq, IDZigzag)), // Avro, Protobuf's sint64
			"fixed64":          string(ids.AppendAs(nil, seq, IDFixed)),
			"double":           string(ids.AppendAs(nil, seq, IDDouble)),
			"long in base64":   base64.StdEncoding.EncodeToString(ids.AppendAs([]byte("xÿ"), seq, IDZigzag)),
		} {
			if strings.Contains(how, "base64") && number%10_000 == 0 {
				continue
			}
			data := before + written + after
			if strings.Contains(how, "in base64") || strings.Contains(how, "of URLs") {
				data = before + "\n" + written + "\n" + after // letters would be part of it
			}
			if got, ok := ids.Find([]byte(data)); !ok || got != seq {
				t.Fatalf("%s: found %d, %v; want %d in %q", how, got, ok, seq, data)
			}
			if got, ok := other.Find([]byte(data)); ok {
				t.Fatalf("%s: another run's ids found %d in %q", how, got, data)
			}
			whole := base64.StdEncoding.EncodeToString([]byte(before + "." + token + "," + after))
			if got, ok := ids.Find([]byte(whole)); !ok || got != seq {
				t.Fatalf("found %d, %v; want %d in %q", got, ok, seq, whole)
			}
		}
	})
}

// Whatever characters of base64 stand around it, the digits of an id that was encoded apart are found.
func TestNumberInBase64IsFoundInsideAPath(t *testing.T) {
	ids := NewIDsAs("run", IDInt64, manyRecords)
	for seq := range int32(2_000) {
		encoded := base64.RawURLEncoding.EncodeToString(ids.Append(nil, seq))
		for _, path := range []string{"/payments/" + encoded + "/lines", "/p/" + encoded, "/0/" + encoded + "/0", encoded} {
			if got, ok := ids.Find([]byte(path)); !ok || got != seq {
				t.Fatalf("found %d, %v; want %d in %s", got, ok, seq, path)
			}
		}
	}
}

func TestOtherNumbersAreNotTakenForIDs(t *testing.T) {
	const records = 100_000
	ids := NewIDsAs("run", IDInt64, records)
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Int32Range(0, records-1).Draw(t, "seq")
		token := ids.Token(seq)
		number := must.Get(strconv.ParseInt(token, 10, 64))(t)
		at := rapid.IntRange(0, numberLen-1).Draw(t, "at")
		digit := strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "digit"))
		for how, text := range map[string]string{
			"cut at its end": token[:numberLen-1], "cut at its start": token[1:], "cut to seconds": token[:10],
			"longer":        token + digit,
			"longer before": digit + token, "twice": token + token, "doubled": strconv.FormatInt(2*number, 10),
			"the next": strconv.FormatInt(number+1, 10), "the one before": strconv.FormatInt(number-1, 10),
			"as float32": strconv.FormatFloat(float64(float32(number)), 'f', 0, 64),
			"in nanos":   strconv.FormatInt(number*1000, 10), "another exponent": fmt.Sprint(float64(number) * 10),
			"longer exponent": fmt.Sprint(float64(number)) + "0", "longer mantissa": digit + fmt.Sprint(float64(number)),
			"cut mantissa": token[:1] + "." + token[1:14] + "e15",
			"a free one":   strconv.FormatInt(rapid.Int64Range(0, 1<<54).Draw(t, "free"), 10),
			"changed":      token[:at] + digit + token[at+1:],
		} {
			if text == token {
				continue
			}
			if how == "cut mantissa" && token[14:] == "00" || how == "as float32" &&
				float64(float32(number)) == float64(number) {
				continue
			}
			for _, data := range []string{text, `{"id":` + text + `}`,
				base64.StdEncoding.EncodeToString([]byte(`{"id":` + text + `}`))} {
				if got, ok := ids.Find([]byte(data)); ok {
					t.Fatalf("%s: %s was taken for the id of record %d, as was put into %s", how, text, got, data)
				}
			}
		}
	})
}

// The 35 bits that tell an id of 100,000 records from a number can't be tested by drawing some. So the run has as many
// records as there can be: of the 2^52 numbers, 2^31 are ids, one in 2^21. Of those drawn here, the expected number is
// found, and none in a run of ordinary size.
func TestNumbersAreIDsWithTheProbabilityOfTheComment(t *testing.T) {
	most, usual := newNumberIDs(7, 1<<31), newNumberIDs(7, 100_000)
	random, found := rand.New(rand.NewPCG(1, 2)), 0
	const drawn, expected = 1 << 25, 16
	for range drawn {
		number := firstNumber + random.Uint64N(1<<numberBits)
		if _, ok := most.unpack(number); ok {
			found++
		}
		if seq, ok := usual.unpack(number); ok {
			t.Fatalf("%d was taken for the id of record %d", number, seq)
		}
	}
	if found < expected-12 || found > expected+12 { // three standard deviations
		t.Errorf("%d of %d numbers are ids, %d are expected", found, drawn, expected)
	}
}

// Each bit of a number, and each of the run's tag, decides about half of the bits that are checked. So numbers that
// resemble an id are as unlikely to be one as any other.
func TestEachBitOfANumberChangesAllThatIsChecked(t *testing.T) {
	const samples = 2000
	random := rand.New(rand.NewPCG(3, 4))
	for flipped := range numberBits + 64 {
		var changed [numberBits]int
		for range samples {
			tag, number := random.Uint64(), random.Uint64N(1<<numberBits)
			ids, other, near := newNumberIDs(tag, 0), newNumberIDs(tag, 0), number
			if flipped < numberBits {
				near ^= 1 << flipped
			} else {
				other = newNumberIDs(tag^1<<(flipped-numberBits), 0)
			}
			if back := ids.permuted(ids.restored(number)); back != number {
				t.Fatalf("%d is restored as %d", number, back)
			}
			difference := ids.restored(number) ^ other.restored(near)
			for bit := range changed {
				changed[bit] += int(difference >> bit & 1)
			}
		}
		for bit, times := range changed {
			if times < samples*2/5 || times > samples*3/5 { // nine standard deviations
				t.Errorf("bit %d changes bit %d in %d of %d cases", flipped, bit, times, samples)
			}
		}
	}
}

func TestIDsOfOtherRunsAreNotFound(t *testing.T) {
	const records = 100_000
	ids := NewIDsAs("run", IDInt64, records)
	for _, run := range []string{"run-2", "Run", "", "nur"} {
		other := NewIDsAs(run, IDInt64, records)
		for seq := range int32(records) {
			if got, ok := ids.Find(other.Append(nil, seq)); ok {
				t.Fatalf("%s of run %q was found as %d", other.Token(seq), run, got)
			}
		}
	}
}

func TestRecordsThatTheRunDoesNotHaveAreNotFound(t *testing.T) {
	ids := NewIDsAs("run", IDInt64, 10)
	for seq, want := range map[int32]bool{0: true, 9: true, 10: false, 1<<31 - 1: false} {
		if _, ok := ids.Find(ids.Append(nil, seq)); ok != want {
			t.Errorf("record %d: found %v, want %v", seq, ok, want)
		}
	}
	header := Header{RunID: "run", IDForm: IDInt64, Records: 10}
	if got, ok := header.IDs().Find(ids.Append(nil, 3)); !ok || got != 3 {
		t.Errorf("a header's ids found %d, %v", got, ok)
	}
}

// What has no id takes time in proportion to its length, whatever it is made of.
func BenchmarkFindNumber(b *testing.B) {
	ids := NewIDsAs("run", IDInt64, 100_000)
	for name, unit := range map[string]string{
		"digits": "7", "exponents": "1.234567890123456e15", "zeros": "\x00", "base64": "MTIz",
		"split base64": "MTIzMTIzMTIz.",
		"numbers":      "1772356364000000,", "letters": "lorem ipsum ",
	} {
		data := []byte(strings.Repeat(unit, (64<<10)/len(unit)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				ids.Find(data)
			}
		})
	}
}

func BenchmarkAppendID(b *testing.B) {
	for _, form := range []IDForm{IDText, IDUUID, IDInt64} {
		ids := NewIDsAs("run", form, 100_000)
		var dst []byte
		b.Run(string(form), func(b *testing.B) {
			for i := int32(0); b.Loop(); i++ {
				dst = ids.Append(dst[:0], i&0xffff)
			}
		})
	}
}
