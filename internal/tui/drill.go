package tui

// This file writes a fault of a drill as its form asks for it.

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// Drill is a drill as one role sees it. It is safe for concurrent use. It refuses a forbidden action with an error
// text for people.
type Drill interface {
	// State returns the currently visible state.
	State() drill.State
	// Catalogue lists the faults that can be injected.
	Catalogue() []drill.Breakable
	// Do executes an action and returns a short message about the result.
	Do(ctx context.Context, action drill.Action) (string, error)
}

// faultForm asks for the parameters of a fault that can be chosen.
func faultForm(fault drill.Breakable) *form {
	var asked []drill.Parameter
	out := &form{title: "Break " + fault.Name}
	for _, parameter := range fault.Parameters {
		if parameter.Fixed {
			continue
		}
		asked = append(asked, parameter)
		line := field{label: parameter.Path, hint: hintOf(parameter), choices: parameter.Choices}
		if parameter.Default != nil {
			line.value = fmt.Sprint(parameter.Default)
		}
		if parameter.Type == drill.TypeFlag {
			line.choices = []string{"true", "false"}
		}
		out.fields = append(out.fields, line)
	}
	out.submit = func(values []string) (*drill.Action, error) {
		spec, err := specOf(fault, asked, values)
		return &drill.Action{Name: drill.ActionBreak, Spec: spec}, err
	}
	return out
}

// hintOf describes the format of a parameter.
func hintOf(parameter drill.Parameter) string {
	hint := map[string]string{
		drill.TypeDuration: "such as 250ms", drill.TypePercent: "such as 20%", drill.TypeSize: "such as 64KiB",
		drill.TypeRate: "such as 50/s", drill.TypeNumber: "a number, at least " + strconv.Itoa(parameter.Min),
	}[parameter.Type]
	switch {
	case parameter.Path == "for":
		hint += "; empty: until it is healed"
	case !parameter.Required:
		hint += "; may stay empty"
	}
	return strings.TrimPrefix(hint, "; ")
}

// specOf returns the fault with the written values of the parameters. An empty value removes the key.
func specOf(fault drill.Breakable, parameters []drill.Parameter, values []string) (map[string]any, error) {
	var spec map[string]any
	text, err := json.Marshal(fault.Spec)
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		return nil, fmt.Errorf("copying the fault %s: %w", fault.Name, err)
	}
	for i, parameter := range parameters {
		var value any
		switch written := strings.TrimSpace(values[i]); {
		case written == "" && parameter.Required:
			return nil, fmt.Errorf("%s needs a value for %s", fault.Name, parameter.Path)
		case written == "":
		case parameter.Type == drill.TypeNumber:
			value, err = strconv.Atoi(written)
		case parameter.Type == drill.TypeFlag:
			value, err = strconv.ParseBool(written)
		default:
			value = written
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not what %s can be", fault.Name, values[i], parameter.Path)
		}
		place(spec, strings.Split(parameter.Path, "."), value)
	}
	return spec, nil
}

// place sets the value at a path. nil removes it.
func place(spec map[string]any, path []string, value any) {
	if len(path) == 1 {
		if spec[path[0]] = value; value == nil {
			delete(spec, path[0])
		}
		return
	}
	within, is := spec[path[0]].(map[string]any)
	if !is {
		within = map[string]any{}
		spec[path[0]] = within
	}
	place(within, path[1:], value)
}
