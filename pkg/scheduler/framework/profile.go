// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package framework runs plugins that are written to the published interfaces of
// k8s.io/kube-scheduler/framework: it has our nodes, pods, snapshot and cycle
// state behind those interfaces, and the profile that calls plugins in order.
// Touch it when upstream publishes a new extension point or fact about a node.
package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Factory builds a plugin from its arguments, nil if it has none. Its form is
// that of upstream's out-of-tree plugins. A factory must ask the handle for every
// informer it needs, so that the caller starts them.
type Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error)

// Registry has the factories of all known plugins by name.
type Registry map[string]Factory

// Profile is a set of plugins, ordered per extension point, the runtime that
// calls them, and what plugins see of the scheduler. It is immutable after
// NewProfile and safe for concurrent use.
type Profile struct {
	*Services
	name string
	// PercentageOfNodesToScore is that of the profile, nil if it has none.
	PercentageOfNodesToScore *int32

	queueSort  fwk.QueueSortPlugin
	preEnqueue []named[fwk.PreEnqueuePlugin]
	preFilter  []named[fwk.PreFilterPlugin]
	filter     []named[fwk.FilterPlugin]
	postFilter []named[fwk.PostFilterPlugin]
	preScore   []named[fwk.PreScorePlugin]
	score      []named[fwk.ScorePlugin]
	reserve    []named[fwk.ReservePlugin]
	permit     []named[fwk.PermitPlugin]
	preBind    []named[fwk.PreBindPlugin]
	bind       []named[fwk.BindPlugin]
	postBind   []named[fwk.PostBindPlugin]
	sign       []named[fwk.SignPlugin]
	// Those of groups; the former are called in the order in which plugins are listed.
	groupFeasible   []GroupFeasiblePlugin
	groupPostFilter []named[fwk.PodGroupPostFilterPlugin]

	local   []NodeLocal // those whose findings are remembered
	slots   int         // how many of these score
	signs   bool        // every plugin that decides on nodes signs pods
	events  map[string][]fwk.ClusterEventWithHint
	closers []io.Closer
	timers  timers
}

// named is a plugin at an extension point. The name is at hand because it is
// compared per node.
type named[T fwk.Plugin] struct {
	name   string
	plugin T
	weight int64
	calls  *calls
	local  bool // what it finds is remembered, a score at this slot
	slot   int
}

// NewProfile builds the plugins that a profile lists: configuration.Default has
// merged its lists with the default ones, args are decoded.
func NewProfile(ctx context.Context, services *Services, registry Registry, cfg configv1.KubeSchedulerProfile) (*Profile, error) {
	p := &Profile{Services: services, PercentageOfNodesToScore: cfg.PercentageOfNodesToScore, events: map[string][]fwk.ClusterEventWithHint{}}
	if cfg.SchedulerName != nil {
		p.name = *cfg.SchedulerName
	}
	lists := cfg.Plugins
	if lists == nil {
		lists = &configv1.Plugins{}
	}
	b := &builder{plugins: map[string]fwk.Plugin{}, multi: lists.MultiPoint.Enabled}
	if err := b.build(ctx, p, registry, lists, cfg.PluginConfig); err != nil {
		return nil, err
	}
	var sorts []named[fwk.QueueSortPlugin]
	err := errors.Join(
		collect(b, "QueueSort", lists.QueueSort, &sorts),
		collect(b, "PreEnqueue", lists.PreEnqueue, &p.preEnqueue),
		collect(b, "PreFilter", lists.PreFilter, &p.preFilter),
		collect(b, "Filter", lists.Filter, &p.filter),
		collect(b, "PostFilter", lists.PostFilter, &p.postFilter),
		collect(b, "PreScore", lists.PreScore, &p.preScore),
		collect(b, "Score", lists.Score, &p.score),
		collect(b, "Reserve", lists.Reserve, &p.reserve),
		collect(b, "Permit", lists.Permit, &p.permit),
		collect(b, "PreBind", lists.PreBind, &p.preBind),
		collect(b, "Bind", lists.Bind, &p.bind),
		collect(b, "PostBind", lists.PostBind, &p.postBind),
		collect(b, "PodGroupPostFilter", lists.PodGroupPostFilter, &p.groupPostFilter),
	)
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", p.name, err)
	}
	if err := p.checkGroups(lists); err != nil {
		return nil, fmt.Errorf("profile %q: %w", p.name, err)
	}
	if len(sorts) != 1 {
		return nil, fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d", p.name, len(sorts))
	}
	p.queueSort = sorts[0].plugin
	if len(p.bind) == 0 {
		return nil, fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", p.name)
	}
	p.signs = b.signers(p)
	for _, name := range b.order {
		if x, ok := b.plugins[name].(GroupFeasiblePlugin); ok {
			p.groupFeasible = append(p.groupFeasible, x)
		}
	}
	p.localize()
	p.count()
	return p, p.register(ctx, b)
}

// checkGroups refuses plugins at extension points that nobody would call.
func (p *Profile) checkGroups(lists *configv1.Plugins) error {
	for _, set := range []configv1.PluginSet{lists.PlacementGenerate, lists.PlacementScore} {
		if len(set.Enabled) > 0 {
			return fmt.Errorf("plugin %q: groups are placed in one way only by this scheduler", set.Enabled[0].Name)
		}
	}
	if set := lists.PodGroupPostFilter; len(set.Enabled) > 0 && p.Groups == nil {
		return fmt.Errorf("plugin %q: pods are not scheduled as groups without the feature gate GenericWorkload", set.Enabled[0].Name)
	}
	return nil
}

// builder has the plugins of a profile while it is built.
type builder struct {
	plugins map[string]fwk.Plugin
	order   []string
	multi   []configv1.Plugin
}

// build makes each listed plugin once.
func (b *builder) build(ctx context.Context, p *Profile, registry Registry, lists *configv1.Plugins, args []configv1.PluginConfig) error {
	for _, set := range []configv1.PluginSet{
		lists.MultiPoint, lists.QueueSort, lists.PreEnqueue, lists.PreFilter, lists.Filter, lists.PostFilter, lists.PreScore, lists.Score,
		lists.Reserve, lists.Permit, lists.PreBind, lists.Bind, lists.PostBind, lists.PlacementGenerate, lists.PlacementScore, lists.PodGroupPostFilter,
	} {
		for _, e := range set.Enabled {
			if _, ok := b.plugins[e.Name]; ok {
				continue
			}
			factory, ok := registry[e.Name]
			if !ok {
				return fmt.Errorf("plugin %q is not registered", e.Name)
			}
			var arg runtime.Object
			if i := slices.IndexFunc(args, func(c configv1.PluginConfig) bool { return c.Name == e.Name }); i >= 0 {
				arg = args[i].Args.Object
				if raw := args[i].Args.Raw; arg == nil && raw != nil {
					arg = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
				}
			}
			plugin, err := factory(ctx, arg, p)
			if err != nil {
				return fmt.Errorf("initializing plugin %q: %w", e.Name, err)
			}
			if plugin.Name() != e.Name {
				return fmt.Errorf("plugin %q calls itself %q", e.Name, plugin.Name())
			}
			if c, ok := plugin.(io.Closer); ok {
				p.closers = append(p.closers, c)
			}
			b.plugins[e.Name] = plugin
			b.order = append(b.order, e.Name)
		}
	}
	return nil
}

// collect lists the plugins of an extension point: those that are named for it
// and listed at MultiPoint too, the others named for it, and then the rest of
// MultiPoint that is not disabled here.
func collect[T fwk.Plugin](b *builder, point string, set configv1.PluginSet, out *[]named[T]) error {
	var override, explicit, rest []named[T]
	weights, named1 := map[string]int64{}, sets.New[string]()
	for _, e := range set.Enabled {
		plugin, ok := b.plugins[e.Name].(T)
		if !ok {
			return fmt.Errorf("plugin %q does not extend %s plugin", e.Name, point)
		}
		if named1.Has(e.Name) {
			return fmt.Errorf("plugin %q already registered as %q", e.Name, point)
		}
		named1.Insert(e.Name)
		weights[e.Name] = weight(e)
		if !slices.ContainsFunc(b.multi, func(m configv1.Plugin) bool { return m.Name == e.Name }) {
			explicit = append(explicit, named[T]{name: e.Name, plugin: plugin, weight: weight(e)})
		}
	}
	disabled := sets.New[string]()
	for _, d := range set.Disabled {
		disabled.Insert(d.Name)
	}
	seen := sets.New[string]()
	for _, m := range b.multi {
		plugin, ok := b.plugins[m.Name].(T)
		switch {
		case !ok:
		case named1.Has(m.Name):
			override = append(override, named[T]{name: m.Name, plugin: plugin, weight: weights[m.Name]})
		case disabled.Has("*") || disabled.Has(m.Name):
		case seen.Has(m.Name):
			return fmt.Errorf("plugin %q already registered as %q", m.Name, point)
		default:
			rest = append(rest, named[T]{name: m.Name, plugin: plugin, weight: weight(m)})
		}
		seen.Insert(m.Name)
	}
	*out = slices.Concat(override, explicit, rest)
	return nil
}

// weight is one if none is given.
func weight(p configv1.Plugin) int64 {
	if p.Weight == nil || *p.Weight == 0 {
		return 1
	}
	return int64(*p.Weight)
}

// signers tells whether all plugins that decide on nodes can sign pods, and
// lists those that do.
func (b *builder) signers(p *Profile) bool {
	all := true
	for _, name := range b.order {
		if s, ok := b.plugins[name].(fwk.SignPlugin); ok {
			p.sign = append(p.sign, named[fwk.SignPlugin]{name: name, plugin: s})
			continue
		}
		switch b.plugins[name].(type) {
		case fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin:
			all = false
		}
	}
	return all
}

// register asks the plugins for the events that may help pods they rejected.
func (p *Profile) register(ctx context.Context, b *builder) error {
	for _, name := range b.order {
		x, ok := b.plugins[name].(fwk.EnqueueExtensions)
		if !ok {
			continue
		}
		events, err := x.EventsToRegister(ctx)
		if err != nil {
			return fmt.Errorf("registering events of plugin %q: %w", name, err)
		}
		p.events[name] = events
	}
	return nil
}

// Close closes the plugins that are an io.Closer, when no more pods are scheduled.
func (p *Profile) Close() error {
	errs := make([]error, len(p.closers))
	for i, c := range p.closers {
		errs[i] = c.Close()
	}
	return errors.Join(errs...)
}

// Name is the scheduler name that pods choose the profile by.
func (p *Profile) Name() string { return p.name }

// Events returns the events each plugin declares, by plugin name. Plugins that
// declare nothing are absent: they are retried upon every event.
func (p *Profile) Events() map[string][]fwk.ClusterEventWithHint { return p.events }

// Less orders the queue.
func (p *Profile) Less(a, b fwk.QueuedEntityInfo) bool { return p.queueSort.Less(a, b) }

// QueueSort names the plugin that orders the queue.
func (p *Profile) QueueSort() string { return p.queueSort.Name() }
