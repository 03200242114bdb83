// Package must ends a test at once if a step that it builds on fails. What a test is about is checked in the test.
package must

// Test is what ends: a test, a benchmark, or a check of generated values.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if there is an error.
func Do(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the result of a call. The function that it returns takes the test, which ends if the call failed:
// data := must.Get(os.ReadFile(path))(t).
func Get[T any](result T, err error) func(Test) T {
	return func(t Test) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}
