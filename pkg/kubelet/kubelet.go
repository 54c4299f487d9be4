// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/checkpoint"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/metrics"
	"minik8s.io/minik8s/pkg/kubelet/internal/mirror"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/podusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/prober"
	"minik8s.io/minik8s/pkg/kubelet/internal/server"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

const (
	// resync is how often a pod is looked at without a cause.
	resync = time.Minute
	// apiPatience is how long the pods of the API are waited for before the checkpoints count.
	apiPatience = 3 * time.Second
	// housekeeping is how often leftovers are looked for.
	housekeeping = 30 * time.Second
	// usualStart is what a start takes at most if it waits for nothing but its turn in the engine.
	usualStart = 5 * time.Second
)

// Kubelet is one node's agent.
type Kubelet struct {
	cfg       Config
	hostIPs   []string
	resources node.Resources
	// assemble and evictEvery are others in tests: what makes the parts, and how often limits are enforced (0: as usual).
	assemble   func(context.Context, site, container.Version) (*parts, error)
	evictEvery time.Duration
	thresholds []eviction.Threshold
	metrics    *metrics.Metrics
	probes     *prober.Metrics
	// resizes are those that wait for room.
	resizes allocation.Waiting

	// What follows is made by Start, before anything runs.
	api       *informers
	recorder  record.EventRecorder
	pleg      *pleg.PLEG
	describer *node.Describer
	reporter  *node.Reporter
	status    *status.Manager
	mirrors   *mirror.Manager
	devices   *devicemanager.Manager
	server    *server.Server
	stats     *stats.Collector
	disks     *stats.Volumes

	// running is nil until the engine has answered.
	running atomic.Pointer[running]
	mu      sync.Mutex // guards blocked
	// blocked is why pods cannot run yet, nil once they can.
	blocked error
}

// New returns a Kubelet; nothing happens before Start.
func New(cfg Config) (*Kubelet, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := metrics.New(cfg.NodeName, cfg.Clock)
	cfg.Runtime = m.Runtime(container.Bounded(cfg.Runtime, container.Patience))
	k := &Kubelet{
		cfg: cfg, assemble: assemble, metrics: m, probes: prober.NewMetrics(),
		blocked: errors.New("container runtime status check may not have completed yet"),
	}
	c := cfg.Configuration
	var err error
	if k.thresholds, err = eviction.Parse(eviction.Settings{Hard: c.EvictionHard, Soft: c.EvictionSoft,
		SoftGracePeriod: c.EvictionSoftGracePeriod, MinimumReclaim: c.EvictionMinimumReclaim}); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	reserved, err := reservations(c.SystemReserved, c.KubeReserved)
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k.resources = node.Resources{Host: node.Host{Root: "/"}, Dir: cfg.RootDir, MaxPods: int(c.MaxPods), Reserved: func(capacity corev1.ResourceList) []corev1.ResourceList {
		return append(slices.Clone(reserved), eviction.Reserved(k.thresholds, capacity))
	}, Devices: func() (all, healthy corev1.ResourceList) { return k.devices.Resources() }}
	for _, ip := range cfg.NodeIPs {
		k.hostIPs = append(k.hostIPs, ip.String())
	}
	return k, nil
}

// reservations are the resources that KubeletConfiguration keeps for others than pods.
func reservations(lists ...map[string]string) ([]corev1.ResourceList, error) {
	var out []corev1.ResourceList
	for _, list := range lists {
		parsed := corev1.ResourceList{}
		for name, text := range list {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, fmt.Errorf("parsing quantity %q of reserved %s: %w", text, name, err)
			}
			parsed[corev1.ResourceName(name)] = q
		}
		out = append(out, parsed)
	}
	return out, nil
}

// Start runs the node until ctx ends. Pods keep running then, and the next Start adopts them. It returns an error only
// for what waiting does not cure; an engine or API server that is away is waited for.
func (k *Kubelet) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.FromContext(ctx).WithName("kubelet")))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	fatal := make(chan error, 8)
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				fatal <- fmt.Errorf("%s: %w", what, err)
			}
		})
	}
	if err := k.claim(ctx); err != nil {
		return err
	}
	store, err := checkpoint.Open(filepath.Join(k.cfg.RootDir, "checkpoints"))
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.cfg.Client.CoreV1().Events("")})
	k.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: k.cfg.NodeName})
	sources, err := k.prepare(ctx)
	if err != nil {
		return err
	}
	if k.server != nil {
		run("serving the kubelet API", k.server.Start)
	}
	run("reporting node", k.reporter.Start)
	run("reporting pods", k.status.Start)
	run("serving device plugins", k.devices.Start)
	run("serving the resources of pods", k.newPodResources().Start)
	run("showing static pods", k.mirrors.Start)
	for _, i := range k.api.all() {
		run("watching", func(ctx context.Context) error { i.RunWithContext(ctx); return nil })
	}
	run("running pods", func(ctx context.Context) error { return k.work(ctx, store, sources...) })

	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return err
	}
}

// prepare makes what needs no engine, and returns where pods come from. Nothing runs yet.
func (k *Kubelet) prepare(ctx context.Context) (sources []source.Source, err error) {
	k.api = newInformers(k.cfg.Client, k.cfg.NodeName)
	k.pleg = pleg.New(pleg.Config{Runtime: k.cfg.Runtime, Clock: k.cfg.Clock, Changed: k.wake, Relisted: k.metrics.Relisted})
	k.mirrors, k.devices = k.newMirrors(), k.newDevices(ctx)
	k.status = status.NewManager(k.cfg.Client, k.mirrors.Mirror)
	if sources, err = k.sources(); err != nil {
		return nil, err
	}
	k.describer = &node.Describer{
		Name: k.cfg.NodeName, IPs: k.cfg.NodeIPs, Version: k.cfg.Version, Resources: k.resources, Runtime: k.cfg.Runtime,
		Clock: k.cfg.Clock, NotReady: k.notReady, Pressure: k.pressure, VolumesInUse: k.volumesInUse,
	}
	k.measure()
	if k.cfg.Certificate != nil {
		if k.server, err = k.newServer(); err != nil {
			return nil, err
		}
		k.describer.Port = k.server.Port
	}
	labels := node.Labels(k.cfg.NodeName)
	maps.Copy(labels, k.cfg.Labels)
	k.reporter = node.New(node.Config{
		Name: k.cfg.NodeName, Client: k.cfg.Client, Recorder: k.recorder, Clock: k.cfg.Clock,
		Labels: labels, Taints: k.cfg.Configuration.RegisterWithTaints, PodCIDRs: k.cfg.PodCIDRs, Machine: k.describer.Machine, Told: k.told,
	})
	return sources, nil
}

// work brings the node up in order and then runs pods until ctx ends.
func (k *Kubelet) work(ctx context.Context, store *checkpoint.Store, sources ...source.Source) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	engine, ok := k.awaitEngine(ctx)
	if !ok {
		return nil
	}
	p, err := k.assemble(ctx, site{cfg: &k.cfg, recorder: k.recorder, resources: k.resources, self: k.api.Current, inUse: k.reporter.Poke}, engine)
	if err != nil {
		return err
	}
	probes := prober.New(ctx, prober.Config{Exec: k.cfg.Runtime, Recorder: k.recorder, Clock: k.cfg.Clock, Metrics: k.probes, Changed: k.wake})
	defer probes.Wait()
	life := k.newLife(ctx, p, engine, probes, store)
	if !k.connect(ctx) {
		return nil
	}
	leaving := &farewell{Life: k.metrics.Life(store.Keep(k.devices.Life(life, k.refuse(life))), k.phase)}
	r := &running{pods: pods{podworker.New(ctx, leaving, k.cfg.Clock, resync), k.status}, parts: p}
	defer r.workers.Wait()
	evictor := &evictor{pods: &r.pods, life: life, recorder: k.recorder, meter: &podusage.Meter{
		Observe: k.pleg.Pod, Groups: p.usage, Disk: k.cfg.Runtime.DiskUsage, Volumes: p.volumes.Usage, Clock: k.cfg.Clock,
	}}
	r.eviction = k.evictions(evictor, &machine{observer: p.node, pods: &r.pods, pleg: k.pleg, garbage: p.garbage})
	judge := &judge{
		informers: k.api, pods: &r.pods, devices: k.devices, features: k.features, preempt: evictor.preempt,
		status: k.status, resizes: &k.resizes, recorder: k.recorder, clock: k.cfg.Clock,
	}
	r.intake = source.New(source.Config{Sources: sources, Workers: r.workers, Node: judge, Mirrors: k.mirrors, Clock: k.cfg.Clock})
	leaving.left = r.intake.Left
	k.running.Store(r)
	k.block(nil)

	wg.Go(func() { _ = k.pleg.Start(ctx) })
	wg.Go(func() { _ = p.volumes.Start(ctx) })
	wg.Go(func() { _ = k.registration(p).Start(ctx) })
	wg.Go(func() { _ = r.eviction.Start(ctx) })
	wg.Go(func() { p.garbage.Start(ctx, k.recorder, node.Ref(k.cfg.NodeName)) })
	wg.Go(func() { k.disks.Start(ctx) })
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case uid := <-p.volumes.Changed():
				r.workers.Wake(uid)
			}
		}
	})
	kept, err := store.Load()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some pod checkpoints are lost")
	}
	wg.Go(func() { k.housekeep(ctx, r) })
	there := k.pleg.Pods()
	return r.intake.Run(ctx, kept, func(uid types.UID) bool { return there[uid] != nil }, apiPatience)
}

// newLife makes what carries out what is decided about pods.
func (k *Kubelet) newLife(ctx context.Context, p *parts, engine container.Version, probes *prober.Manager, store *checkpoint.Store) *podsync.Syncer {
	settings := k.cfg.Configuration
	builder := launch.New(launch.Config{
		RootDir: k.cfg.RootDir, Volumes: p.volumes, Devices: k.devices, Services: k.api.servicesFor,
		ClusterDNS: settings.ClusterDNS, ClusterDomain: settings.ClusterDomain, HostResolvConf: ptr.Deref(settings.ResolverConfig, ""),
		HostIPs: k.hostIPs, Recorder: k.recorder, Resources: p.resources, OOMScoreAdj: p.oomScoreAdj,
	})
	return podsync.New(ctx, podsync.Config{
		Runtime: k.pleg.Runtime(), RuntimeName: engine.Name, Network: k.cfg.Network, HostPorts: p.hostPorts, Images: p.images,
		Volumes: p.volumes, Cgroups: p.cgroups, Builder: builder, Status: k.status, Probes: probes,
		Observe: k.pleg.Pod, Recorder: k.recorder, Clock: k.cfg.Clock, HostIPs: k.hostIPs,
		Logs: podlog.Standard(), Starts: gate.New(2*runtime.NumCPU(), usualStart), Handler: k.api.handler,
		RecursiveReadOnly: k.describer.RecursiveReadOnly, Resources: p.resources, Devices: k.devices, Failures: store, Resizes: &k.resizes,
		Terminated: k.metrics.Terminated,
	})
}

// evictions makes the watch over the node.
func (k *Kubelet) evictions(pods eviction.Pods, machine eviction.Node) *eviction.Manager {
	c := k.cfg.Configuration
	return eviction.New(eviction.Config{
		Thresholds: k.thresholds, PressureTransitionPeriod: c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriod: time.Duration(c.EvictionMaxPodGracePeriod) * time.Second,
		Node:              machine, Pods: pods, Recorder: k.recorder, NodeRef: node.Ref(k.cfg.NodeName), Clock: k.cfg.Clock,
		Interval: k.evictEvery, Changed: k.reporter.Poke,
	})
}

// housekeep looks for leftovers once the pods are known, and then now and again.
func (k *Kubelet) housekeep(ctx context.Context, r *running) {
	select {
	case <-ctx.Done():
		return
	case <-r.intake.Begun():
	}
	k.mirrors.LookAtAll() // some may show what has gone
	h := &housekeeper{pleg: k.pleg, workers: r.workers, intake: r.intake, parts: r.parts}
	h.tidy(ctx)
	for k.sleep(ctx, housekeeping) {
		h.tidy(ctx)
		r.intake.Retry() // the node may have grown
	}
}

// awaitEngine waits until the engine answers.
func (k *Kubelet) awaitEngine(ctx context.Context) (container.Version, bool) {
	for {
		v, err := k.describer.Ask(ctx)
		if err == nil {
			return v, true
		}
		k.block(fmt.Errorf("container runtime is down: %w", err))
		if !k.sleep(ctx, time.Second) {
			return v, false
		}
	}
}

// connect starts the network and clears what belongs to no sandbox any more. It repeats until that succeeds.
func (k *Kubelet) connect(ctx context.Context) bool {
	for started := false; ; {
		err := k.pleg.Relist(ctx)
		if err == nil && !started {
			if err = k.cfg.Network.Start(ctx); err != nil {
				err = fmt.Errorf("container runtime network not ready: %w", err)
			}
			started = err == nil
		}
		if err == nil {
			err = k.cfg.Network.Retain(ctx, k.pleg.IDs())
		}
		if err == nil {
			return true
		}
		k.block(err)
		if !k.sleep(ctx, time.Second) {
			return false
		}
	}
}

// block notes why pods cannot run, nil if they can, and has it told.
func (k *Kubelet) block(why error) {
	k.mu.Lock()
	k.blocked = why
	k.mu.Unlock()
	k.reporter.Poke()
}

// notReady is why the kubelet does not do its work, nil if it does.
func (k *Kubelet) notReady() error {
	k.mu.Lock()
	why := k.blocked
	k.mu.Unlock()
	if why == nil {
		if err := k.pleg.Healthy(); err != nil {
			why = fmt.Errorf("PLEG is not healthy: %w", err)
		}
	}
	return why
}

// sleep waits for d and returns false if ctx ended first.
func (k *Kubelet) sleep(ctx context.Context, d time.Duration) bool {
	t := k.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}
