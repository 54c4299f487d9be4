// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitioninformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	policyinformers "sigs.k8s.io/network-policy-api/pkg/client/informers/externalversions/apis/v1alpha2"

	"minik8s.io/minik8s/pkg/policy/model"
)

// definitionName is the name of the definition of ClusterNetworkPolicies, which users install.
const definitionName = "clusternetworkpolicies." + v1alpha2.GroupName

// patience is how long what an earlier process has left holds while ClusterNetworkPolicies, or the nodes that they speak of, cannot be read.
// NetworkPolicies are not to wait for them longer than that.
const patience = 10 * time.Second

// clusterPolicies watches ClusterNetworkPolicies while they are defined, and nodes while one of them selects nodes. Without the definition
// there is one watch, of nothing.
type clusterPolicies struct {
	config *Config
	// changed is called when what is enforced may change, told when a policy is another one in any way.
	changed, told func()

	definition *feed // since start
	nodes      *feed // nil while no policy selects nodes; only list uses it

	mu       sync.Mutex
	policies *feed // nil while there is no definition; only list sets it; guarded by mu
}

// start begins to watch the definition. It comes before list.
func (c *clusterPolicies) start(ctx context.Context) (err error) {
	informer := definitioninformers.NewFilteredCustomResourceDefinitionInformer(c.config.Definitions, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, definitionName).String()
	})
	h := handler(c.changed, func(a, b *apiextensionsv1.CustomResourceDefinition) bool { return served(a) != served(b) })
	if c.definition, err = follow(ctx, "the definition of cluster network policies", informer, h, c.changed); err != nil {
		return fmt.Errorf("watching the definition of cluster network policies: %w", err)
	}
	return nil
}

// trimDefinition leaves what served looks at: the schema is large.
func trimDefinition(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metaOf(&d.ObjectMeta), Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: d.Status.Conditions}}
	for _, v := range d.Spec.Versions {
		out.Spec.Versions = append(out.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served})
	}
	return out
}

// served tells whether the API server has the version of the kind that is read here.
func served(d *apiextensionsv1.CustomResourceDefinition) bool {
	return d.DeletionTimestamp == nil &&
		slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) &&
		slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == v1alpha2.GroupVersion.Version && v.Served
		})
}

// list returns the policies, and the nodes if one needs them. ready is false while they are waited for; changed is called then.
func (c *clusterPolicies) list(ctx context.Context) (policies []*v1alpha2.ClusterNetworkPolicy, nodes []*corev1.Node, ready bool, err error) {
	if !c.definition.ready() {
		return nil, nil, false, nil
	}
	if !slices.ContainsFunc(listOf[apiextensionsv1.CustomResourceDefinition](c.definition), served) {
		c.stop()
		return nil, nil, true, nil
	}
	if c.policies == nil {
		informer := policyinformers.NewClusterNetworkPolicyInformer(c.config.ClusterPolicies, 0, cache.Indexers{})
		f, err := follow(ctx, "cluster network policies", informer, clusterPolicyHandler(c.changed, c.told), func() { c.changed(); c.told() })
		if err != nil {
			return nil, nil, false, fmt.Errorf("watching cluster network policies: %w", err)
		}
		c.set(f)
	}
	if !c.policies.ready() {
		return nil, nil, false, nil
	}
	policies = listOf[v1alpha2.ClusterNetworkPolicy](c.policies)
	if !model.NeedNodes(policies) {
		c.nodes.end()
		c.nodes = nil
		return policies, nil, true, nil
	}
	if c.nodes == nil {
		informer := coreinformers.NewNodeInformer(c.config.Client, 0, cache.Indexers{})
		if c.nodes, err = follow(ctx, "nodes", informer, nodeHandler(c.changed), c.changed); err != nil {
			return nil, nil, false, fmt.Errorf("watching nodes: %w", err)
		}
	}
	return policies, listOf[corev1.Node](c.nodes), c.nodes.ready(), nil
}

// known are the policies that are known, for anybody.
func (c *clusterPolicies) known() []*v1alpha2.ClusterNetworkPolicy {
	c.mu.Lock()
	f := c.policies
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	return listOf[v1alpha2.ClusterNetworkPolicy](f)
}

func (c *clusterPolicies) set(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policies = f
}

// stop ends the watches of policies and nodes.
func (c *clusterPolicies) stop() {
	c.policies.end()
	c.nodes.end()
	c.nodes = nil
	c.set(nil)
}

// feed is a watch that can be ended.
type feed struct {
	informer cache.SharedIndexInformer
	overdue  atomic.Bool // it was waited for long enough
	stop     func()
}

// ready tells whether all there is is known, or is not waited for any more.
func (f *feed) ready() bool { return f.informer.HasSynced() || f.overdue.Load() }

// follow begins a watch. Once it is ready, and once all there is is known, known is called.
func follow(ctx context.Context, what string, informer cache.SharedIndexInformer, h cache.ResourceEventHandler, known func()) (*feed, error) {
	if err := informer.SetTransform(trim); err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(h); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	f := &feed{informer: informer, stop: func() { cancel(); running.Wait() }}
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() { // of which there is none, no event comes
		limited, done := context.WithTimeout(ctx, patience)
		defer done()
		if !cache.WaitForCacheSync(limited.Done(), informer.HasSynced) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(nil, "Network policies are enforced without what cannot be read, until it can", "missing", what, "waited", patience)
			f.overdue.Store(true)
			known()
		}
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			known()
		}
	})
	return f, nil
}

// end returns when the watch has ended.
func (f *feed) end() {
	if f != nil {
		f.stop()
	}
}

func listOf[T any](f *feed) []*T {
	var out []*T
	for _, o := range f.informer.GetStore().List() {
		if o, ok := o.(*T); ok {
			out = append(out, o)
		}
	}
	return out
}

// clusterPolicyHandler tells of every change, for somebody's status may be one, and says which of them matter.
func clusterPolicyHandler(changed, told func()) cache.ResourceEventHandler {
	h := handler(changed, func(a, b *v1alpha2.ClusterNetworkPolicy) bool { return !equality.Semantic.DeepEqual(a.Spec, b.Spec) })
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { h.OnAdd(o, false); told() },
		UpdateFunc: func(before, after any) { h.OnUpdate(before, after); told() },
		DeleteFunc: h.OnDelete,
	}
}

func nodeHandler(changed func()) cache.ResourceEventHandler {
	return handler(changed, func(a, b *corev1.Node) bool {
		return !maps.Equal(a.Labels, b.Labels) || !slices.Equal(model.NodeAddresses(a), model.NodeAddresses(b))
	})
}
