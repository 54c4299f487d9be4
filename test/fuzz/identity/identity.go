// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity makes the users of an attack who may do little: each in another way. Touch it when there is another way to
// have few rights.
package identity

import (
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/test/program"
)

// Subject is whom the authorizer is asked about. Groups are all that the authenticator gives, with commas in between.
type Subject struct{ User, Groups string }

// Identity is a user of an attack.
type Identity struct {
	Subject
	// TLS is what the user connects with, and Token what every request has that has none.
	TLS   *tls.Config
	Token string
	// Often is how many of the clients are this user's, at least one.
	Often int
}

// The users, of whom some mean something to the oracle.
const (
	// Namespace is that of the worker: nobody attacks it.
	Namespace = "identities"
	// Node is the node of the one user that is a kubelet.
	Node = "node-x"
	// OtherNode is another's.
	OtherNode = "node-y"
	// Impersonator may act as Impersonated, and nothing else.
	Impersonator = "impersonator"
	// Impersonated is that other user.
	Impersonated = "impersonated"
)

// Anonymous is who brings nothing.
var Anonymous = Subject{User: user.Anonymous, Groups: user.AllUnauthenticated}

// Asker sends a request of the administrator, and returns the answer's body. An answer that is no success is an error.
type Asker func(ctx context.Context, method, path, body string) ([]byte, error)

// All makes the users. Grant has to be called before.
func All(ctx context.Context, id *program.Identity, ask Asker) ([]*Identity, error) {
	var all []*Identity
	for _, u := range []struct {
		name   string
		often  int
		groups []string
	}{
		{"landlord", 6, nil}, {"viewer", 1, nil}, {"nobody", 1, nil}, {Impersonator, 1, nil}, {"system:node:" + Node, 2, []string{user.NodesGroup}},
	} {
		c, err := id.As(u.name, u.groups...)
		if err != nil {
			return nil, err
		}
		all = append(all, &Identity{Subject: Authenticated(u.name, u.groups...), TLS: c, Often: u.often})
	}
	data, err := ask(ctx, http.MethodPost, "/api/v1/namespaces/"+Namespace+"/serviceaccounts/worker/token", `{"spec":{"expirationSeconds":36000}}`)
	if err != nil {
		return nil, err
	}
	var token struct {
		Status struct{ Token string }
	}
	if err := json.Unmarshal(data, &token); err != nil {
		return nil, fmt.Errorf("reading the worker's token: %w", err)
	}
	name := serviceaccount.MakeUsername(Namespace, "worker")
	worker := &Identity{Subject: Authenticated(name, serviceaccount.MakeGroupNames(Namespace)...), TLS: id.Nobody(), Token: token.Status.Token, Often: 2}
	return append(all, worker, &Identity{Subject: Anonymous, TLS: id.Nobody()}), nil
}

// Authenticated is a user with groups and the one of all who are known.
func Authenticated(name string, groups ...string) Subject {
	return Subject{User: name, Groups: strings.Join(append(slices.Clone(groups), user.AllAuthenticated), ",")}
}

//go:embed rights.yaml
var rights string

// where are the paths of the kinds in rights.yaml.
var where = map[string]string{
	"ClusterRole": "/clusterroles", "ClusterRoleBinding": "/clusterrolebindings", "Role": "/namespaces/%s/roles", "RoleBinding": "/namespaces/%s/rolebindings",
}

// Grant writes the users' rights, and removes whatever else gives rights in the namespaces of the attack.
func Grant(ctx context.Context, ask Asker, namespaces []string) error {
	const group = "/apis/rbac.authorization.k8s.io/v1"
	for _, ns := range namespaces {
		for _, kind := range []string{"Role", "RoleBinding"} {
			if _, err := ask(ctx, http.MethodDelete, group+fmt.Sprintf(where[kind], ns), ""); err != nil {
				return err
			}
		}
	}
	for doc := range strings.SplitSeq(rights, "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return err
		}
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		path := where[o.Kind]
		if o.Metadata.Namespace != "" {
			path = fmt.Sprintf(path, o.Metadata.Namespace)
		}
		if _, err := ask(ctx, http.MethodPatch, group+path+"/"+o.Metadata.Name+"?fieldManager=fuzz&force=true", string(data)); err != nil {
			return err
		}
	}
	return nil
}
