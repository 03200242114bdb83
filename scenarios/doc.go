// Package scenarios owns what a user writes: the scenario schema and the subject schema, strict decoding with every
// problem reported at its line and column, defaults, the JSON Schema, and the library of shipped scenarios. It says
// what shall happen; it starts nothing.
package scenarios
