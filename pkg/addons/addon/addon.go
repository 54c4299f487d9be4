// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package addon says what an add-on is: kinds of its own, and the controllers that bring them about. Touch it when add-ons
// need something that none needed before.
package addon

import (
	"context"
	"net/netip"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Addon is kinds with the controllers that bring them about. It is enabled in a cluster as long as the definitions of its kinds
// are there; without them nothing of it runs.
type Addon struct {
	// Name is what users enable, a DNS label.
	Name string
	// Title says in half a sentence what it is good for.
	Title string
	// Definitions are the names of the CustomResourceDefinitions of its kinds, such as dns.networking.minik8s.io.
	Definitions []string
	// AddToScheme makes its types known, beside those of Kubernetes, which are known already.
	AddToScheme func(*runtime.Scheme) error
	// Rules are all that its controllers may do; to lead, and to write events, everybody may.
	Rules []rbacv1.PolicyRule
	// Granted are roles that are there while it is enabled and bound to nobody: what its controllers may do in a namespace in which somebody
	// who may do it himself binds the role to their account.
	Granted []rbacv1.ClusterRole
	// Setup adds its controllers to the manager.
	Setup func(context.Context, Env) error
}

// Env is what controllers have.
type Env struct {
	// Manager has their client, whose rights are the add-on's, the cache and the recorder of events.
	Manager manager.Manager
	// Streams returns the same identity for connections that are upgraded, as of exec, which libraries make apart from those of a client.
	Streams func() (*rest.Config, error)
	// Machine is the zero value where the controllers run apart from a cluster's process.
	Machine Machine
}

// Machine is what controllers in the process of a cluster have of its machine.
type Machine struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Address is one of the machine's that pods of all nodes reach; not valid without nodes.
	Address netip.Addr
	// HostsFile is the machine's file of host names.
	HostsFile string
}
