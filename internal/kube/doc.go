// Package kube uses a Kubernetes cluster by the user's kubectl, which has their contexts, their logins and their
// proxies: calls and their errors, rights, files in a ConfigMap, and what keeps pods from running.
package kube
