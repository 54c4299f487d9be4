// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
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
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/checkpoint"
	"minik8s.io/minik8s/pkg/kubelet/internal/cpumanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/dra"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/memorymanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/metrics"
	"minik8s.io/minik8s/pkg/kubelet/internal/mirror"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/nodeshutdown"
	"minik8s.io/minik8s/pkg/kubelet/internal/oom"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsapi"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/podusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/prober"
	"minik8s.io/minik8s/pkg/kubelet/internal/server"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
	"minik8s.io/minik8s/pkg/kubelet/internal/topologymanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/tracing"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/network/namespace"
)

const (
	// apiPatience is how long the pods of the API are waited for before the checkpoints count.
	apiPatience = 3 * time.Second
	// housekeeping is how often leftovers are looked for.
	housekeeping = 30 * time.Second
	// retryServing is how long is waited before programs of the node are served again.
	retryServing = 5 * time.Second
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
	// logind is another in tests.
	logind     func(context.Context) (nodeshutdown.Logind, error)
	thresholds []eviction.Threshold
	// reserved is what is not for pods, by whom it is for.
	reserved []corev1.ResourceList
	metrics  *metrics.Metrics
	probes   *prober.Metrics
	tracer   *tracing.Tracer // nil: nobody is told
	// resizes are those that wait for room.
	resizes allocation.Waiting
	// victims are the containers that the kernel has killed processes of for want of memory.
	victims oom.Victims

	// What follows is made by Start, before anything runs.
	api       *informers
	recorder  record.EventRecorder
	pleg      *pleg.PLEG
	describer *node.Describer
	reporter  *node.Reporter
	status    *status.Manager
	mirrors   *mirror.Manager
	devices   *devicemanager.Manager
	claims    *dra.Manager
	machine   *topology.Machine
	cpus      *cpumanager.Manager
	memory    *memorymanager.Manager
	topology  *topologymanager.Manager
	podsAPI   *podsapi.Server
	server    *server.Server
	stats     *stats.Collector
	disks     *stats.Volumes
	layers    *stats.Layers

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
	tracer, err := newTracer(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if cfg.CredentialProvidersHash != "" {
		m.CredentialProviders(cfg.CredentialProvidersHash)
	}
	cfg.Runtime = tracer.Runtime(m.Runtime(container.Bounded(cfg.Runtime, cmp.Or(cfg.Configuration.RuntimeRequestTimeout.Duration, container.Patience))))
	k := &Kubelet{
		cfg: cfg, assemble: assemble, metrics: m, tracer: tracer, probes: prober.NewMetrics(), logind: nodeshutdown.Connect,
		blocked: errors.New("container runtime status check may not have completed yet"),
	}
	c := cfg.Configuration
	if k.thresholds, err = eviction.Parse(eviction.Settings{Hard: c.EvictionHard, Soft: c.EvictionSoft,
		SoftGracePeriod: c.EvictionSoftGracePeriod, MinimumReclaim: c.EvictionMinimumReclaim}); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if k.reserved, err = reservations(configuration.Reserved(c)); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k.resources = node.Resources{Host: node.Host{Root: "/", CPU: cfg.Size.CPU, Memory: cfg.Size.Memory}, Dir: cfg.RootDir, MaxPods: int(c.MaxPods), Reserved: func(capacity corev1.ResourceList) []corev1.ResourceList {
		return append(slices.Clone(k.reserved), eviction.Reserved(k.thresholds, capacity))
	}, Devices: func() (all, healthy corev1.ResourceList) { return k.devices.Resources() }}
	if enforces(c, k.resources.Host) {
		k.thresholds = eviction.Allocatable(k.thresholds)
	}
	for _, ip := range cfg.NodeIPs {
		k.hostIPs = append(k.hostIPs, ip.String())
	}
	return k, nil
}

// newTracer is nil if nobody is to be told.
func newTracer(cfg Config) (*tracing.Tracer, error) {
	if cfg.Configuration.Tracing == nil {
		return nil, nil
	}
	return tracing.New(cfg.Configuration.Tracing, cfg.NodeName)
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
	defer k.tracer.Close(ctx)
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
	settings := k.cfg.Configuration
	text, err := yaml.Marshal(configuration.Masked(settings))
	if err != nil {
		return fmt.Errorf("writing the settings of the kubelet: %w", err)
	}
	klog.FromContext(ctx).Info("Effective KubeletConfiguration", "settings", string(text))
	broadcaster.StartRecordingToSink(limitEvents(ctx, &typedcorev1.EventSinkImpl{Interface: k.cfg.Client.CoreV1().Events("")},
		ptr.Deref(settings.EventRecordQPS, 0), settings.EventBurst))
	k.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: k.cfg.NodeName})
	sources, err := k.prepare(ctx)
	if err != nil {
		return err
	}
	if k.server != nil {
		run("serving the kubelet API", k.server.Start)
	}
	k.checkResolver()
	k.tellSwap("/", mount.CanKeepOffSwap)
	wg.Go(func() { k.tellKills(ctx, oom.Kernel) })
	run("reporting node", k.reporter.Start)
	run("reporting pods", k.status.Start)
	wg.Go(func() { k.serve(ctx, k.devices.Start) })
	wg.Go(func() { k.serve(ctx, k.newPodResources().Start) })
	if configuration.Enabled(settings, configuration.PodsAPI) {
		wg.Go(func() { k.serve(ctx, k.podsAPI.Start) })
	}
	run("serving DRA drivers", k.claims.Start)
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

// serve runs what serves other programs of the node until ctx ends. Pods do not need it, so a full disk or a file in its way is
// no reason to end: it is tried again.
func (k *Kubelet) serve(ctx context.Context, start func(context.Context) error) {
	for {
		if err := start(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Programs of this node are not served for now")
		}
		if !k.sleep(ctx, retryServing) {
			return
		}
	}
}

// prepare makes what needs no engine, and returns where pods come from. Nothing runs yet.
func (k *Kubelet) prepare(ctx context.Context) (sources []source.Source, err error) {
	k.api = newInformers(k.cfg.Client, k.cfg.NodeName)
	k.pleg = pleg.New(pleg.Config{Runtime: k.cfg.Runtime, Clock: k.cfg.Clock, Changed: k.wake, Relisted: k.metrics.Relisted})
	if k.machine, err = k.readMachine(); err != nil {
		return nil, err
	}
	k.mirrors, k.devices, k.claims = k.newMirrors(), k.newDevices(ctx), k.newClaims(ctx)
	if err = k.newManagers(); err != nil {
		return nil, err
	}
	k.podsAPI = k.newPodsAPI()
	k.status = status.NewManager(k.cfg.Client, k.mirrors.Mirror, k.podsAPI.Changed)
	k.status.Delivered = k.metrics.StatusDelivered
	if sources, err = k.sources(); err != nil {
		return nil, err
	}
	k.describer = &node.Describer{
		Name: k.cfg.NodeName, IPs: k.cfg.NodeIPs, Version: k.cfg.Version, Resources: k.resources, Runtime: k.cfg.Runtime,
		Clock: k.cfg.Clock, NotReady: k.unready, MaxImages: int(ptr.Deref(k.cfg.Configuration.NodeStatusMaxImages, 50)), Pressure: k.pressure, VolumesInUse: k.volumesInUse,
		DeclaredFeatures: configuration.Declared(k.cfg.Configuration),
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
		Name: k.cfg.NodeName, Client: k.cfg.Heartbeats, Recorder: k.recorder, Clock: k.cfg.Clock,
		Labels: labels, Taints: k.cfg.Configuration.RegisterWithTaints, PodCIDRs: k.cfg.PodCIDRs, Machine: k.describer.Machine, Told: k.told,
		Steps:       k.metrics.Startup(stats.BootTime()),
		UpdateEvery: k.cfg.Configuration.NodeStatusUpdateFrequency.Duration, ReportEvery: k.cfg.Configuration.NodeStatusReportFrequency.Duration,
		LeaseSeconds: k.cfg.Configuration.NodeLeaseDurationSeconds,
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
	p, err := k.assemble(ctx, site{cfg: &k.cfg, recorder: k.recorder, resources: k.resources, self: k.api.Current, inUse: k.reporter.Poke, exclusive: k.cpus.Exclusive, metrics: k.metrics}, engine)
	if err != nil {
		return err
	}
	var life *podsync.Syncer // which begins all probes
	probes := prober.New(ctx, prober.Config{Exec: k.cfg.Runtime, Dial: k.dial(), Recorder: k.recorder, Clock: k.cfg.Clock, Metrics: k.probes, Changed: func(pod types.UID) {
		life.Probed(pod)
		k.wake(pod)
	}})
	defer probes.Wait()
	life = k.newLife(ctx, p, engine, probes, store)
	if !k.connect(ctx) {
		return nil
	}
	provided := volume.Life(k.topology.Life(k.devices.Life(life, k.refuse(life), life.Show), k.refuse(life)), k.refuse(life))
	leaving := &farewell{Life: k.tracer.Life(k.metrics.Life(store.Keep(provided), k.phase))}
	r := &running{pods: pods{podworker.New(ctx, leaving, k.cfg.Clock, k.resync()), k.status}, parts: p}
	defer r.workers.Wait()
	evictor := &evictor{pods: &r.pods, life: life, recorder: k.recorder, metrics: k.metrics, meter: &podusage.Meter{
		Observe: k.pleg.Pod, Groups: p.usage, Disk: k.cfg.Runtime.DiskUsage, Volumes: p.volumes.Usage, Clock: k.cfg.Clock,
	}}
	k.tellCgroups(engine.CgroupVersion)
	k.metrics.VolumeCounts(p.volumes.Counts)
	k.metrics.CertificateStates(p.volumes.CertificateStates)
	r.eviction = k.evictions(evictor, &machine{observer: p.node, pods: &r.pods, pleg: k.pleg, garbage: p.garbage})
	r.shutdown = k.newShutdown(evictor)
	judge := &judge{
		informers: k.api, pods: &r.pods, devices: k.devices, features: k.features, preempt: evictor.preempt,
		status: k.status, resizes: &k.resizes, rules: k.resizeRules(engine), metrics: k.metrics, recorder: k.recorder, clock: k.cfg.Clock,
		rejected: k.metrics.Rejected,
	}
	r.intake = source.New(source.Config{Sources: sources, Workers: telling{r.workers, k.podsAPI.Changed}, Node: judge, Mirrors: k.mirrors, Counts: k.metrics, Clock: k.cfg.Clock})
	leaving.left = func(pod *corev1.Pod) {
		r.intake.Left(pod)
		k.podsAPI.Changed(pod.UID)
	}
	k.running.Store(r)
	k.block(nil)

	wg.Go(func() { k.enforce(ctx, p.cgroups) })
	wg.Go(func() { _ = k.pleg.Start(ctx) })
	wg.Go(func() { _ = p.volumes.Start(ctx) })
	wg.Go(func() { _ = k.registration(p).Start(ctx) })
	wg.Go(func() { _ = r.eviction.Start(ctx) })
	if r.shutdown != nil {
		wg.Go(func() { r.shutdown.Start(ctx) })
	}
	wg.Go(func() { p.garbage.Start(ctx, k.recorder, node.Ref(k.cfg.NodeName)) })
	wg.Go(func() { k.disks.Start(ctx) })
	wg.Go(func() { k.layers.Start(ctx) })
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
	settings, resources := k.cfg.Configuration, k.placed(p.resources)
	builder := launch.New(launch.Config{
		RootDir: k.cfg.RootDir, Volumes: p.volumes, Devices: k.devices, Claims: k.claims, Services: k.api.servicesFor,
		ClusterDNS: settings.ClusterDNS, ClusterDomain: settings.ClusterDomain, HostResolvConf: resolverConfig(settings),
		SeccompDefault: ptr.Deref(settings.SeccompDefault, false), HostIPs: k.hostIPs, Node: node.Ref(k.cfg.NodeName),
		Recorder: k.recorder, Resources: resources,
		OOMScoreAdj: p.oomScoreAdj,
	})
	return podsync.New(ctx, podsync.Config{
		Runtime: k.pleg.Runtime(), RuntimeName: engine.Name, Dial: k.dial(), Network: k.cfg.Network, HostPorts: p.hostPorts, Images: p.images,
		Volumes: p.volumes, Cgroups: k.metrics.Cgroups(p.cgroups), Builder: builder, Status: k.status, Probes: probes,
		Observe: k.pleg.Pod, Recorder: k.recorder, Clock: k.cfg.Clock, HostIPs: k.hostIPs,
		Logs: podlog.Standard(), Starts: gate.New(2*runtime.NumCPU(), usualStart), Handler: k.api.handler,
		RecursiveReadOnly: k.describer.RecursiveReadOnly, Resources: resources, Devices: k.devices, Claims: k.claims, Failures: store,
		Resizes: &k.resizes, Resized: k.metrics.Resized, OutOfMemory: k.victims.Has, Terminated: k.metrics.Terminated, NotStarted: k.metrics.NotStarted, SleepEnded: k.metrics.SleepEnded, HookFellBack: k.metrics.HookFellBack,
		MaxBackoff: maxBackoff(settings),
	})
}

// dial connects from the node's network namespace.
func (k *Kubelet) dial() namespace.Dial { return namespace.Dialer(k.cfg.NetNS) }

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
	if err := k.topology.Tidy(); err != nil {
		klog.FromContext(ctx).Error(err, "CPUs and memory of pods that have gone are not free")
	}
	h := &housekeeper{pleg: k.pleg, workers: r.workers, intake: r.intake, parts: r.parts, claims: k.claims}
	h.tidy(ctx)
	for k.sleep(ctx, housekeeping) {
		h.tidy(ctx)
		r.intake.Retry(source.Periodic) // the node may have grown
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
	if why != nil {
		return why
	}
	if err := k.pleg.Healthy(); err != nil {
		return fmt.Errorf("PLEG is not healthy: %w", err)
	}
	if err := k.cfg.Network.Ready(); err != nil {
		return fmt.Errorf("container runtime network not ready: %w", err)
	}
	return nil
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
