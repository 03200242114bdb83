package deadletter

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// headers is a dialect that keeps key and value and describes the failure in headers, each of which holds one part of
// it.
type headers struct {
	// fields are the headers, in the order in which they are written.
	fields []headerField
	// bare: the record's own headers are dropped. before: they stand behind the dialect's headers.
	bare, before bool
	// timeless: the dead letter keeps the timestamp of its record, so it does not say when the record failed.
	timeless bool
	// stage is written if the stage of a failure is unknown.
	stage string
	// attemptBits is the size of the largest number of attempts, 31 bits if it is 0.
	attemptBits int
}

// headerField is a header, the part of the failure that it holds, and the form in which it does.
type headerField struct {
	header string
	part   part
	form   form
}

// part is a part of a Failure.
type part int

const (
	partTopic part = iota
	partPartition
	partOffset
	partAttempts
	partTime
	partReason
	partClass
	partStack
	partCause
	partCauseReason
	partService
	partInstance
	partStage
	partHandler
	partGroup
	partEventID
)

// form is how a header holds its part of the failure, and whether every dead letter has it.
type form int

const (
	// formName and formText are texts in UTF-8 that every dead letter has. A name is never empty.
	formName form = iota
	formText
	// formNumber is a number in decimal that every dead letter has.
	formNumber
	// formLenient is a number or a time that every dead letter has. A number may also be 4 or 8 bytes, big-endian; a
	// time is RFC 3339 or a number of milliseconds since 1970.
	formLenient
	// formExtra is a text that need not be readable. formKnown is one that is left out if it is empty.
	formExtra
	formKnown
	// formForeign is a header of the record itself.
	formForeign
)

// mandatory reports whether every dead letter has the field.
func (f *headerField) mandatory() bool { return f.form < formExtra }

// text returns the text of a failure that a part stands for.
func (p part) text(f *Failure) *string {
	switch p {
	case partTopic:
		return &f.Topic
	case partReason:
		return &f.Reason
	case partClass:
		return &f.Class
	case partStack:
		return &f.Stack
	case partCause:
		return &f.Cause
	case partCauseReason:
		return &f.CauseReason
	case partService:
		return &f.Service
	case partInstance:
		return &f.Instance
	case partStage:
		return &f.Stage
	case partHandler:
		return &f.Handler
	case partGroup:
		return &f.Group
	}
	return &f.EventID
}

// Traits implements Dialect.
func (d headers) Traits() Traits {
	traits := Traits{Headers: !d.bare, Before: d.before}
	parts := 0
	for i := range d.fields {
		if field := &d.fields[i]; field.mandatory() {
			traits.Fields = append(traits.Fields, field.header)
			parts |= 1 << field.part
		}
	}
	traits.Partition, traits.Offset = parts&(1<<partPartition) != 0, parts&(1<<partOffset) != 0
	traits.Attempts = parts&(1<<partAttempts) != 0
	return traits
}

// Seal implements Sealer.
func (d headers) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	failure.Stage = cmp.Or(failure.Stage, d.stage)
	size := 0
	for i := range d.fields {
		size += 20 // for a number
		if p := d.fields[i].part; p == partTopic || p > partTime {
			size += len(*p.text(&failure))
		}
	}
	e := envelope{headers: make([]kgo.RecordHeader, 0, len(record.Headers)+len(d.fields)), text: make([]byte, 0, size)}
	if !d.bare && !d.before {
		e.headers = append(e.headers, sealed(record, d)...)
	}
	for i := range d.fields {
		d.write(&e, &d.fields[i], &failure)
	}
	if d.before {
		e.headers = append(e.headers, sealed(record, d)...)
	}
	at := failure.Time
	if d.timeless {
		at = failure.SourceTime
	}
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: at}
}

func (d headers) write(e *envelope, field *headerField, failure *Failure) {
	switch field.part {
	case partPartition:
		e.decimal(field.header, int64(failure.Partition))
	case partOffset:
		e.decimal(field.header, failure.Offset)
	case partAttempts:
		e.decimal(field.header, min(int64(failure.Attempts), 1<<d.bits()-1))
	case partTime:
		e.string(field.header, failure.Time.UTC().Format(time.RFC3339Nano))
	case partCauseReason:
		if failure.Cause != "" { // it may have a cause without a reason
			e.string(field.header, failure.CauseReason)
		}
	default:
		if text := *field.part.text(failure); field.form != formForeign && (field.form != formKnown || text != "") {
			e.string(field.header, text)
		}
	}
}

func (d headers) bits() int {
	if d.attemptBits == 0 {
		return 31
	}
	return d.attemptBits
}

// Open implements Opener. Of several headers with one name the last counts, as in every Kafka client; or the first, if
// the dialect writes before the record's headers.
func (d headers) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	if d.timeless {
		failure = timelessFailure(letter)
	}
	for i := range letter.Headers {
		if d.before {
			i = len(letter.Headers) - 1 - i
		}
		header := &letter.Headers[i]
		for number := range d.fields {
			if d.fields[number].header == header.Key {
				d.read(&found, number, header.Value, &failure)
				break
			}
		}
	}
	var missing []string
	for number := range d.fields {
		if field := &d.fields[number]; field.mandatory() && found&(1<<number) == 0 {
			missing = append(missing, field.header)
		}
	}
	return failure, missing
}

// read decodes the value of the field with the number.
func (d headers) read(found *fields, number int, value []byte, failure *Failure) {
	field := &d.fields[number]
	decode := func(least int64, bits int) int64 {
		if field.form == formLenient {
			return found.anyNumber(number, value, bits)
		}
		return found.decimal(number, value, least, bits)
	}
	switch field.part {
	case partPartition:
		failure.Partition = int32(decode(0, 31))
	case partOffset:
		failure.Offset = decode(0, 63)
	case partAttempts:
		failure.Attempts = int32(max(decode(1, d.bits()), 0)) // 0 if it could not be decoded
	case partTime:
		failure.Time = found.time(number, value)
	default:
		text := field.part.text(failure)
		switch field.form {
		case formName:
			*text = found.name(number, value)
		case formText:
			*text = found.text(number, value)
		default:
			*text = validText(value)
		}
	}
}

// Prepare implements Opener.
func (d headers) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(d, letter) }

// IsFailureHeader implements Opener.
func (d headers) IsFailureHeader(name string) bool {
	return slices.ContainsFunc(d.fields, func(f headerField) bool { return f.header == name && f.form != formForeign })
}
