// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/client-go/discovery"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Config is what resources may need from the server that serves them. Every resource gets the same one.
type Config struct {
	// Scheme holds all served types.
	Scheme *runtime.Scheme
	// RESTOptions gives each resource its storage.
	RESTOptions generic.RESTOptionsGetter
	// Stores finds the storage of other resources; filled while resources are built, so to be asked at request time only.
	Stores *Stores

	// ServiceIPRanges are the ranges that ClusterIPs come from, the primary family first; at least one.
	ServiceIPRanges []netip.Prefix
	// NodePorts is the range that node ports come from, by default 30000-32767.
	NodePorts utilnet.PortRange
	// EventTTL is how long events are kept; 0 means one hour.
	EventTTL time.Duration

	// Kubelet reaches the kubelets for logs, exec, attach, port-forward and proxy. Nil: these subresources answer that
	// the server has no connection to nodes.
	Kubelet Kubelet
	// Tokens signs ServiceAccount tokens. Nil: the token subresource is not served.
	Tokens TokenIssuer
	// MaxTokenExpiration bounds their lifetime; 0: no bound.
	MaxTokenExpiration time.Duration
	// Authenticator answers TokenReviews, Authorizer and RuleResolver the access reviews.
	Authenticator authenticator.Request
	APIAudiences  authenticator.Audiences
	Authorizer    authorizer.Authorizer
	RuleResolver  authorizer.RuleResolver
	// RoleRules are the rules that users hold by roles, and may grant. Nil: everybody may grant everything.
	RoleRules authorizer.RuleResolver
	// Usage tells what metrics.k8s.io shows. Required if that is served.
	Usage Usage
	// Components are the parts of the control plane by the names that ComponentStatuses have.
	Components map[string]Check
	// Discovery tells which resource serves a kind, custom ones included.
	Discovery discovery.ServerResourcesInterface
}

// Check returns what is wrong with a part of the control plane, nil if it is well.
type Check func(ctx context.Context) error

// Kubelet tells how to reach the kubelet of a node.
type Kubelet interface {
	// Location is the base URL of the kubelet on a node (https://ADDRESS:PORT).
	Location(ctx context.Context, node string) (*url.URL, error)
	// Transport authenticates the API server to it.
	Transport() http.RoundTripper
}

// Usage tells what nodes and pods use. Safe for concurrent use.
type Usage interface {
	// Measure returns when that is known as of now, as far as it can be found out within a few seconds.
	Measure(ctx context.Context)
	// Node is what a node uses, without its labels; false if that is not known.
	Node(name string) (metricsv1beta1.NodeMetrics, bool)
	// Pod is what the containers of a pod use by what its node says, without its labels; false if that is not known of one of them.
	Pod(node string, name types.NamespacedName) (metricsv1beta1.PodMetrics, bool)
}

// TokenIssuer signs ServiceAccount tokens.
type TokenIssuer interface {
	// Issue signs a token for the account; bound may be nil. Expiry is the granted lifetime. It fails with an API status
	// error if the request is invalid.
	Issue(ctx context.Context, account types.NamespacedName, accountUID types.UID, bound *BoundObject, spec authenticationv1.TokenRequestSpec) (token string, expires metav1.Time, err error)
}

// BoundObject is what a token dies with.
type BoundObject struct {
	Kind, Name string
	UID        types.UID
	// Node is that of a bound pod: its name and UID are put into the token.
	NodeName string
	NodeUID  types.UID
}

// Stores are the stores of all resources by group and resource.
type Stores struct {
	mu     sync.RWMutex // guards stores
	stores map[schema.GroupResource]*genericregistry.Store
}

// NewStores returns an empty set.
func NewStores() *Stores {
	return &Stores{stores: map[schema.GroupResource]*genericregistry.Store{}}
}

// Get returns the store of a resource. It fails if the resource is not served.
func (s *Stores) Get(gr schema.GroupResource) (*genericregistry.Store, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if st, ok := s.stores[gr]; ok {
		return st, nil
	}
	return nil, fmt.Errorf("resource %s is not served", gr)
}

func (s *Stores) put(gr schema.GroupResource, st *genericregistry.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores[gr] = st
}
