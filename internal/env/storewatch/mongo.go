package storewatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
)

// collection is a MongoDB collection, read only. It has no triggers, so it is read repeatedly. Documents of
// dlqbench's own store record every change in their field transitions, in the same update as the change itself. So
// the only missed changes are those of documents removed since, and renewals of locks.
type collection struct {
	messages *mongo.Collection
	layout   Layout
	// rows are those of the last look. told is the version of each up to which every change was reported.
	rows map[string]*row
	told map[string]*row
}

// transition is a change as recorded in a document of dlqbench's own store.
type transition struct {
	Version     int64      `bson:"version"`
	From        string     `bson:"from"`
	HeldFrom    string     `bson:"heldFrom"`
	To          string     `bson:"to"`
	HeldTo      string     `bson:"heldTo"`
	At          time.Time  `bson:"at"`
	Worker      string     `bson:"worker"`
	Retried     bool       `bson:"retried"`
	Strategy    string     `bson:"strategy"`
	NextRetryAt *time.Time `bson:"nextRetryAt"`
	LeaseUntil  *time.Time `bson:"leaseUntil"`
}

// defaultDatabase is used if the address names none, as in the store itself.
const defaultDatabase = "dlq"

// connectMongo opens mongodb://…; the layout's table is the collection.
func connectMongo(address string, layout Layout) (*collection, func() error, error) {
	if err := layout.check(field); err != nil {
		return nil, nil, err
	}
	parsed, err := connstring.ParseAndValidate(address)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of MongoDB: %w", err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(address))
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to MongoDB: %w", err)
	}
	name := cmp.Or(parsed.Database, defaultDatabase)
	end := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		defer cancel()
		return client.Disconnect(ctx)
	}
	return &collection{messages: client.Database(name).Collection(layout.Table), layout: layout, rows: map[string]*row{},
		told: map[string]*row{}}, end, nil
}

// field matches names, possibly with dots, that can be used in a query without quoting.
var field = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// clock returns the server's time, from its answer to a liveness query.
func (c *collection) clock(ctx context.Context) (time.Time, error) {
	var answer struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := c.messages.Database().RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer)
	return answer.LocalTime.UTC(), err
}

// changes returns the changes since the last call, in the order in which each entry changed.
func (c *collection) changes(ctx context.Context) ([]change, error) {
	light := c.layout
	light.Columns.Payload, light.Columns.EventID = "", "" // details looks them up once
	found := map[string]*row{}
	var all []change
	err := c.each(ctx, bson.D{}, light.Columns, func(now *row, document bson.Raw) error {
		found[now.id] = now
		if !c.layout.Audited {
			return nil
		}
		kept, err := transitionsOf(document)
		all = append(all, c.untold(now, kept)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.layout.Audited {
		all = append(all, gone(c.rows, found)...)
	} else {
		all = compare(c.rows, found)
	}
	c.rows = found
	for i := range all {
		c.told[all[i].now.id] = all[i].now
	}
	return all, nil
}

func transitionsOf(document bson.Raw) ([]transition, error) {
	var kept struct {
		Transitions []transition `bson:"transitions"`
	}
	err := bson.Unmarshal(document, &kept)
	slices.SortFunc(kept.Transitions, func(a, b transition) int { return int(a.Version - b.Version) })
	return kept.Transitions, err
}

// untold returns the changes that were not reported yet. A transition says what it changed; everything else is as
// before.
func (c *collection) untold(now *row, kept []transition) (all []change) {
	before, first := c.told[now.id], int64(0)
	if before != nil {
		first = before.version
	} else {
		before = &row{id: now.id, strategy: now.strategy, retries: now.retries - counted(kept)}
	}
	for _, one := range kept {
		if one.Version <= first {
			continue
		}
		after := *before
		after.status, after.held, after.lockedBy, after.version = one.To, one.HeldTo, one.Worker, one.Version
		after.next, after.lease = timeOf(one.NextRetryAt), timeOf(one.LeaseUntil)
		if one.Strategy != "" {
			after.strategy = one.Strategy
		}
		if one.Retried {
			after.retries++
		}
		after.resolution = now.resolution
		all = append(all, change{at: one.At.UTC(), oldStatus: one.From, oldHeld: one.HeldFrom, now: &after})
		before = &after
	}
	return all
}

// counted returns the number of retries that the transitions counted.
func counted(kept []transition) (retries int64) {
	for _, one := range kept {
		if one.Retried {
			retries++
		}
	}
	return retries
}

func timeOf(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// table calls see for each existing entry.
func (c *collection) table(ctx context.Context, see func(*row)) error {
	return c.each(ctx, bson.D{}, c.layout.Columns, func(now *row, _ bson.Raw) error { see(now); return nil })
}

// details returns the entry in its present state, nil if it does not exist.
func (c *collection) details(ctx context.Context, id string) (found *row, err error) {
	filters := []any{id}
	if object, err := bson.ObjectIDFromHex(id); err == nil {
		filters = append(filters, object)
	}
	filter := bson.D{{Key: c.layout.Columns.ID, Value: bson.D{{Key: "$in", Value: filters}}}}
	return found, c.each(ctx, filter, c.layout.Columns, func(now *row, _ bson.Raw) error { found = now; return nil })
}

// each calls see for each document that matches the filter, with those fields.
func (c *collection) each(ctx context.Context, filter bson.D, columns Columns,
	see func(*row, bson.Raw) error) (err error) {
	fields := columns.list()
	wanted := bson.D{}
	for _, name := range fields {
		if name != "" && !slices.ContainsFunc(wanted, func(e bson.E) bool { return e.Key == name }) {
			wanted = append(wanted, bson.E{Key: name, Value: 1})
		}
	}
	if c.layout.Audited {
		wanted = append(wanted, bson.E{Key: "transitions", Value: 1})
	}
	cursor, err := c.messages.Find(ctx, filter, options.Find().SetProjection(wanted))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cursor.Close(ctx)) }()
	for cursor.Next(ctx) {
		values := make([]any, len(fields))
		for i, name := range fields {
			if name != "" {
				values[i] = valueOf(cursor.Current, name)
			}
		}
		if err := see(scanned(values), cursor.Current); err != nil {
			return err
		}
	}
	return cursor.Err()
}

// valueOf returns a field's value in the types that databases use: nil, a text, bytes, a number or a time. An object
// that contains a record is returned as its JSON, in which the record's id can be found.
func valueOf(document bson.Raw, name string) any {
	value, err := document.LookupErr(strings.Split(name, ".")...)
	if err != nil {
		return nil
	}
	switch value.Type {
	case bson.TypeNull, bson.TypeUndefined:
		return nil
	case bson.TypeString:
		return value.StringValue()
	case bson.TypeInt32:
		return int64(value.Int32())
	case bson.TypeInt64:
		return value.Int64()
	case bson.TypeDouble:
		return value.Double()
	case bson.TypeDateTime:
		return value.Time().UTC()
	case bson.TypeObjectID:
		return value.ObjectID().Hex()
	case bson.TypeBinary:
		_, data := value.Binary()
		return data
	}
	return value.String()
}
