package kube

// This file has the rights of the person or the service account that runs a command.

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Right is a rule of a Role.
type Right struct {
	Group, Resource string
	Verbs           []string
}

// Role grants rights.
func Role(name string, rights []Right) Object {
	var rules []any
	for _, one := range rights {
		rules = append(rules, Object{"apiGroups": []any{one.Group}, "resources": []any{one.Resource}, "verbs": one.Verbs})
	}
	return Object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": Object{"name": name},
		"rules": rules}
}

// Allowed checks the rights of the user before anything runs, and names all that are missing.
func (k Kubectl) Allowed(ctx context.Context, rights []Right) error {
	var missing []string
	for _, right := range rights {
		resource, sub, _ := strings.Cut(right.Resource, "/")
		if right.Group != "" {
			resource += "." + right.Group
		}
		for _, verb := range right.Verbs {
			question := []string{"auth", "can-i", verb, resource}
			if sub != "" { // after a slash, kubectl expects the name of an object
				question = append(question, "--subresource="+sub)
			}
			answer, err := k.Run(ctx, nil, question...)
			switch {
			case err == nil && strings.HasPrefix(string(answer), "yes"):
			case err == nil || denied(err):
				missing = append(missing, verb+" "+right.Resource)
			case Away(err):
				return fmt.Errorf("the API server can't be reached: %w: check that `kubectl get pods` answers", err)
			default:
				return fmt.Errorf("asking what the user may do: %w", err)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the user may not %s in this namespace: --dry-run prints the Role that an administrator can grant",
			strings.Join(missing, ", "))
	}
	return nil
}

// noNamespace matches what the API server says of a namespace that is not there.
var noNamespace = regexp.MustCompile(`\(NotFound\): .*namespaces "([^"]+)" not found`)

// RefusedCreation says why objects could not be created.
func RefusedCreation(what string, err error) error {
	failed, _ := errors.AsType[Failure](err)
	switch missing := noNamespace.FindStringSubmatch(failed.Text); {
	case missing != nil:
		return fmt.Errorf("creating %s: there is no namespace %s: correct --namespace, or kubectl create namespace %[2]s "+
			"makes it", what, missing[1])
	case Said(err, "exceeded quota"):
		return fmt.Errorf("creating %s: the namespace's quota is used up: %w", what, err)
	case Forbidden(err):
		return fmt.Errorf("creating %s: the user may not: %w; --dry-run prints the Role that it needs", what, err)
	}
	return fmt.Errorf("creating %s: %w", what, err)
}
