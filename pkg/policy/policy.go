// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy makes a node refuse what NetworkPolicies and ClusterNetworkPolicies do not let its pods say and hear. Objects become a
// snapshot (model), the snapshot becomes a table (rules), and the difference to what the kernel has is written (nftables). This package
// only runs that loop, and reports of policies that cannot be enforced as they are written; touch it for when, not for what.
//
// Without a policy there is no table, and only NetworkPolicies are watched, and whether somebody defines ClusterNetworkPolicies.
package policy

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/upkeep"
	"minik8s.io/minik8s/pkg/policy/model"
	"minik8s.io/minik8s/pkg/policy/nftables"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// Enforcer keeps one node's table up to date.
type Enforcer struct {
	config   Config
	factory  informers.SharedInformerFactory
	informer cache.SharedIndexInformer
	policies networkinglisters.NetworkPolicyLister
	cluster  *clusterPolicies
	table    table
	// loop enforces, reports writes statuses.
	loop, reports *upkeep.Loop

	// Only the loop uses these.
	objects *objects     // what policies select; nil while there are none
	applied *rules.Table // what the kernel should have; nil while that is nothing
}

// table is what the loop does with the kernel; see nftables.Table.
type table interface {
	Apply(*rules.Table) error
	Heal(*rules.Table) (amiss bool, err error)
	Remove() error
}

var _ table = (*nftables.Table)(nil)

// New prepares an Enforcer.
func New(config Config) (*Enforcer, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(config.Client, 0)
	policies := factory.Networking().V1().NetworkPolicies()
	e := &Enforcer{
		config: config, factory: factory, informer: policies.Informer(), policies: policies.Lister(),
		table: nftables.New(config.NetNS, rules.TableName(config.Cluster)),
	}
	e.loop = upkeep.New(upkeep.Loop{
		Write: e.sync, Verify: e.heal, VerifyPeriod: config.SyncPeriod, Failed: "Enforcing network policies failed", Clock: config.Clock,
	})
	e.reports = upkeep.New(upkeep.Loop{
		Write: e.report, Verify: func(context.Context) bool { return true }, VerifyPeriod: config.SyncPeriod,
		Failed: "Reporting of cluster network policies failed", Clock: config.Clock,
	})
	e.cluster = &clusterPolicies{config: &e.config, changed: e.loop.Poke, told: e.reports.Poke}
	return e, nil
}

// Purge removes the cluster's table from the network namespace at path, "" for the process's own. Call it when no Enforcer of
// the cluster runs there.
func Purge(cluster, path string) error {
	return nftables.New(path, rules.TableName(cluster)).Remove()
}

// Start enforces until the context ends. The table stays in the kernel when it returns, so that what is refused stays so
// while the process is away; see Purge. It may be called once.
func (e *Enforcer) Start(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName("policy")
	ctx = klog.NewContext(ctx, log)
	if _, err := e.informer.AddEventHandler(policyHandler(e.loop.Poke)); err != nil {
		return fmt.Errorf("watching network policies: %w", err)
	}
	e.factory.Start(ctx.Done())
	defer e.factory.Shutdown()
	defer func() { e.forget(); e.cluster.stop() }()
	if !cache.WaitForCacheSync(ctx.Done(), e.informer.HasSynced) {
		return nil
	}
	if err := e.cluster.start(ctx); err != nil {
		return err
	}
	defer e.cluster.definition.end()
	var beside sync.WaitGroup
	defer beside.Wait()
	if e.config.Statuses != nil {
		beside.Go(func() { e.reports.Run(ctx) })
	}
	e.loop.Run(ctx)
	return nil
}

// sync brings the table up to date.
func (e *Enforcer) sync(ctx context.Context) error {
	policies, err := e.policies.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing network policies: %w", err)
	}
	clusterPolicies, nodes, ready, err := e.cluster.list(ctx)
	if err != nil || !ready {
		return err // what an earlier process has left holds meanwhile
	}
	if len(policies)+len(clusterPolicies) == 0 {
		e.forget()
		e.applied = nil
		return e.table.Remove()
	}
	if e.objects == nil {
		if e.objects, err = e.watch(ctx); err != nil {
			return err
		}
	}
	pods, namespaces, err := e.objects.list()
	if err != nil {
		return err
	}
	of := model.Cluster{Policies: policies, ClusterPolicies: clusterPolicies, Pods: pods, Namespaces: namespaces, Nodes: nodes}
	want := rules.Build(model.Build(e.config.NodeName, of), rules.Config{PodCIDRs: e.config.PodCIDRs, ClusterDNS: e.config.ClusterDNS})
	if err := e.table.Apply(want); err != nil {
		return err
	}
	e.applied = want
	return nil
}

// heal puts back what somebody else has taken away, and tells whether all is well then.
func (e *Enforcer) heal(ctx context.Context) bool {
	if e.applied == nil {
		return true
	}
	amiss, err := e.table.Heal(e.applied)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Verifying network policies failed")
		return false
	}
	if amiss {
		klog.FromContext(ctx).Info("Rules of network policies were changed by somebody, wrote them again")
	}
	return true
}

// forget ends the watch of what policies select.
func (e *Enforcer) forget() {
	if e.objects != nil {
		e.objects.stop()
		e.objects = nil
	}
}
