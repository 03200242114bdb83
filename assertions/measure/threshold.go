package measure

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// threshold is a checked and compiled expression.
type threshold struct {
	program     *vm.Program
	nodes       []*ast.BinaryNode // the comparisons
	comparisons []comparison
	// paths holds the measurements that it names.
	paths [][]string
	// sizes holds the nodes that represent bytes, literals the places of such numbers.
	sizes    map[ast.Node]bool
	literals map[int]bool
}

// comparison is one comparison in a threshold, with its sides compiled separately.
type comparison struct {
	left                  string
	leftValue, rightValue *vm.Program
	// size: the comparison is of bytes.
	size bool
}

// CompileThreshold checks an expression such as "latency.success.p99 < 500ms and share.duplicates <= 2%". It returns an
// error with the column in the expression for unknown names, for types that cannot be compared (a duration needs a
// unit), and for expressions that are not a condition on a measurement. The names, by group:
//
//	latency.FIGURE[.phase].{p50,p90,p99,p999,max,count}, FIGURE being
//	        {send,first_attempt,success,service,dead_letter,backoff_error,commit_delay,replay,slip}
//	throughput.{offered,sent,processed}   records per second over the phases steady and fault
//	lag.{max,end}                         records not yet covered by an accepted commit
//	recovery.drain                        from heal until everything was finished and committed
//	recovery.{detect,catch_up,steady}     of the slowest fault for which that can be told; see Recovery
//	count.{planned,sent,acknowledged,late,succeeded,logical,dead_lettered,unfinished,held,forfeited,attempts,
//	        duplicates,replayed}
//	share.{duplicates,dead_lettered,succeeded}   of the acknowledged records
//	subject.rss.{max,growth}              memory of the instance with most, a size such as 200MB or 64MiB; see
//	                                      InstanceUsage
//	subject.cpu.{mean,max}                processors that the busiest instance used over the phases steady and fault
//	subject.attempts_per_second.max       the most attempts of one record within one second
//
// A phase is setup, warm_up, steady, fault, heal, drain, replay or audit.
func CompileThreshold(expression string) error {
	_, err := compile(expression)
	return err
}

func compile(expression string) (*threshold, error) {
	source := translate(strings.Map(oneLine, expression))
	fail := func(place int, format string, args ...any) error {
		return fmt.Errorf("threshold %q, column %d: %s", expression, source.origin(place), fmt.Sprintf(format, args...))
	}
	if at := strings.IndexAny(expression, "\"'`"); at >= 0 {
		return nil, fmt.Errorf("threshold %q, column %d: texts have no place in a threshold", expression,
			len([]rune(expression[:at]))+1)
	}
	if place, unit := source.unknownUnit(); unit != "" {
		return nil, fail(place, "there is no unit %s: a duration is written like 500ms or 2m, a size like 64MiB or 200MB",
			unit)
	}
	tree, err := parser.Parse(source.text)
	if err != nil {
		return nil, explain(err, fail)
	}
	t := &threshold{sizes: map[ast.Node]bool{}, literals: source.sizes}
	// The names come first, because the compiler's own error shows Go types.
	if err := t.inspect(tree.Node, fail); err != nil {
		return nil, err
	}
	if t.program, err = expr.Compile(source.text, options(expr.AsBool())...); err != nil {
		return nil, explain(err, fail)
	}
	if len(t.paths) == 0 {
		return nil, fail(0, "it names no measurement; write a condition such as latency.success.p99 < 500ms")
	}
	for _, node := range t.nodes {
		if err := t.compileSides(node); err != nil {
			return nil, explain(err, fail)
		}
	}
	return t, nil
}

// compileSides compiles the sides of a comparison separately, to show their values.
func (t *threshold) compileSides(node *ast.BinaryNode) (err error) {
	c := comparison{left: node.Left.String(), size: t.sizes[node.Left]}
	if c.leftValue, err = expr.Compile(c.left, options()...); err != nil {
		return err
	}
	if c.rightValue, err = expr.Compile(node.Right.String(), options()...); err != nil {
		return err
	}
	t.comparisons = append(t.comparisons, c)
	return nil
}

func oneLine(r rune) rune {
	if r == '\n' || r == '\r' || r == '\t' {
		return ' '
	}
	return r
}

func options(more ...expr.Option) []expr.Option {
	return append(more, expr.Env(environment{}), expr.DisableAllBuiltins(), expr.EnableBuiltin("duration"))
}

// explain rewords errors of the expression language that use Go's terms.
func explain(err error, fail func(int, string, ...any) error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return fail(0, "%v: write a condition such as latency.success.p99 < 500ms", err)
	}
	message := at.Message
	if strings.Contains(message, "time.Duration") {
		message = strings.ReplaceAll(message, "time.Duration", "duration") +
			": a duration is compared with one that has a unit, such as 500ms"
	}
	return fail(at.Column, "%s", message)
}

// inspect collects the names and comparisons of the threshold, and rejects constructs that a condition on measurements
// does not need.
func (t *threshold) inspect(node ast.Node, fail func(int, string, ...any) error) error {
	place := node.Location().From
	switch n := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		t.sizes[node] = t.literals[place]
		return nil
	case *ast.BuiltinNode:
		if n.Name == "duration" {
			return nil // made by translate: the user's text has no quotes
		}
		return fail(place, "there are no functions in thresholds")
	case *ast.UnaryNode:
		err := t.inspect(n.Node, fail)
		t.sizes[node] = t.sizes[n.Node]
		return err
	case *ast.BinaryNode:
		return t.inspectBinary(n, fail)
	case *ast.MemberNode, *ast.IdentifierNode:
		return t.inspectName(node, fail)
	case *ast.CallNode:
		return fail(place, "there are no functions in thresholds")
	}
	return fail(place, "a threshold is made of comparisons of measurements and numbers, joined by and, or, not")
}

func (t *threshold) inspectBinary(n *ast.BinaryNode, fail func(int, string, ...any) error) error {
	switch n.Operator {
	case "and", "&&", "or", "||", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "%":
	default:
		return fail(n.Location().From, "there is no operator %s in thresholds", n.Operator)
	}
	switch n.Operator {
	case "<", "<=", ">", ">=", "==", "!=":
		t.nodes = append(t.nodes, n)
	}
	if err := t.inspect(n.Left, fail); err != nil {
		return err
	}
	if err := t.inspect(n.Right, fail); err != nil {
		return err
	}
	return t.inspectSizes(n, fail)
}

// inspectSizes determines whether an operation yields bytes, and rejects comparing or adding bytes with other values.
func (t *threshold) inspectSizes(n *ast.BinaryNode, fail func(int, string, ...any) error) error {
	left, right := t.sizes[n.Left], t.sizes[n.Right]
	switch n.Operator {
	case "and", "&&", "or", "||":
		return nil
	case "*":
		t.sizes[n] = left || right
		return nil
	case "/":
		t.sizes[n] = left && !right
		return nil
	case "+", "-", "%":
		t.sizes[n] = left
	}
	if left != right {
		return fail(n.Location().From, "a size is compared with one that has a unit, such as 64MiB, and with nothing else")
	}
	return nil
}

func (t *threshold) inspectName(node ast.Node, fail func(int, string, ...any) error) error {
	path, places, err := namedPath(node, fail)
	if err != nil {
		return err
	}
	unit, err := unitOf(path, places, fail)
	t.paths, t.sizes[node] = append(t.paths, path), unit == "size"
	return err
}

// namedPath returns the names that lead to a measurement, such as [latency success p99], and their places.
func namedPath(node ast.Node, fail func(int, string, ...any) error) (path []string, places []int, err error) {
	for {
		places = append(places, node.Location().From)
		if root, ok := node.(*ast.IdentifierNode); ok {
			path = append(path, root.Value)
			break
		}
		member, ok := node.(*ast.MemberNode)
		if !ok {
			return nil, nil, fail(node.Location().From, "a measurement is named like latency.success.p99")
		}
		name, ok := member.Property.(*ast.StringNode)
		if !ok || member.Optional {
			return nil, nil, fail(node.Location().From, "a measurement is named like latency.success.p99")
		}
		path = append(path, name.Value)
		node = member.Node
	}
	slices.Reverse(path)
	slices.Reverse(places)
	return path, places, nil
}

// unitOf looks the names up in the environment's type, and returns the unit of the value, or "" if it has none.
func unitOf(path []string, places []int, fail func(int, string, ...any) error) (unit string, err error) {
	group := reflect.TypeFor[environment]()
	for i, name := range path {
		if group.Kind() != reflect.Struct {
			return "", fail(places[i], "%s is a value and has no %s", strings.Join(path[:i], "."), name)
		}
		fields := namesIn(group)
		field, known := fields[name]
		if !known {
			return "", fail(places[i], "there is no %s; there is %s", strings.Join(path[:i+1], "."),
				strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		group, unit = field.Type, field.Tag.Get("unit")
	}
	if group.Kind() == reflect.Struct {
		return "", fail(places[len(path)-1], "%s is no value; it has %s", strings.Join(path, "."),
			strings.Join(slices.Sorted(maps.Keys(namesIn(group))), ", "))
	}
	return unit, nil
}

func namesIn(group reflect.Type) map[string]reflect.StructField {
	names := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(group) {
		if name := field.Tag.Get("expr"); name != "" {
			names[name] = field
		}
	}
	return names
}

// Evaluate evaluates thresholds. A threshold that cannot be evaluated, because it does not compile or its measurement
// has no samples, is not met, and Error gives the reason.
func (m *Measurements) Evaluate(expressions []string) []Threshold {
	latencies := m.Latencies()
	env := m.environment(latencies)
	results := make([]Threshold, 0, len(expressions))
	for _, expression := range expressions {
		result := Threshold{Expression: expression}
		if err := m.evaluate(&result, latencies, env); err != nil {
			result.Met, result.Error = false, err.Error()
		}
		results = append(results, result)
	}
	return results
}

func (m *Measurements) evaluate(result *Threshold, latencies map[string]Latency, env environment) error {
	t, err := compile(result.Expression)
	if err != nil {
		return err
	}
	for _, path := range t.paths {
		if why := m.missing(latencies, path); why != "" {
			return fmt.Errorf("%s: %s", strings.Join(path, "."), why)
		}
	}
	if result.Actual, err = t.actual(env); err != nil {
		return err
	}
	met, err := expr.Run(t.program, env)
	if err != nil {
		return fmt.Errorf("evaluating it: %w", err)
	}
	result.Met = met == true
	return nil
}

// actual returns the compared values: the left side of a single comparison, or all of them by name. A side without a
// value (0/0) is an error, because "not (x > 1)" would otherwise count as met.
func (t *threshold) actual(env environment) (string, error) {
	var values []string
	for _, c := range t.comparisons {
		left, err := sideValue(c.leftValue, env, c.size)
		if err != nil {
			return "", err
		}
		if _, err := sideValue(c.rightValue, env, c.size); err != nil {
			return "", err
		}
		if len(t.comparisons) == 1 {
			return left, nil
		}
		values = append(values, c.left+" = "+left)
	}
	return strings.Join(values, ", "), nil
}

func sideValue(program *vm.Program, env environment, size bool) (string, error) {
	value, err := expr.Run(program, env)
	if err != nil {
		return "", fmt.Errorf("evaluating it: %w", err)
	}
	if bytes := reflect.ValueOf(value); size && bytes.CanInt() {
		return roughSize(float64(bytes.Int())), nil
	}
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", errors.New("evaluating it: it divides by zero")
		}
		if size {
			return roughSize(v), nil
		}
		return strconv.FormatFloat(v, 'g', 6, 64), nil
	case time.Duration:
		return v.String(), nil
	}
	return fmt.Sprint(value), nil
}
