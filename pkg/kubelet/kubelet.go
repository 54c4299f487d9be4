// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/checkpoint"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/metrics"
	"minik8s.io/minik8s/pkg/kubelet/internal/mirror"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
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
	cfg      Config
	host     node.Host
	hostIPs  []string
	assemble func(ctx context.Context, k *Kubelet, engine container.Version) (*parts, error)

	recorder record.EventRecorder
	pleg     *pleg.PLEG
	reporter *node.Reporter
	status   *status.Manager
	mirrors  *mirror.Manager
	parts    *parts
	workers  *podworker.Workers
	life     *podsync.Syncer
	server   *server.Server
	stats    *stats.Collector
	disks    *stats.Volumes
	metrics  *metrics.Metrics
	probes   *prober.Metrics

	// resizes are those that wait for room.
	resizes    allocation.Waiting
	thresholds []eviction.Threshold
	reserved   []corev1.ResourceList
	// evictEvery is how often limits are enforced; the usual interval if 0.
	evictEvery time.Duration

	pods, nodes, services cache.SharedIndexInformer

	mu sync.Mutex // guards the fields below
	// notReady says why pods cannot run yet, nil once they can.
	notReady error
	images   []corev1.ContainerImage
	imagesAt time.Time
	engine   container.Version
	eviction *eviction.Manager // nil until pods can run
	// intake is nil until pods are taken.
	intake *source.Intake
}

// New returns a Kubelet; nothing happens before Start.
func New(cfg Config) (*Kubelet, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := metrics.New(cfg.NodeName, cfg.Clock)
	cfg.Runtime = m.Runtime(container.Bounded(cfg.Runtime, container.Patience))
	k := &Kubelet{
		cfg: cfg, host: node.Host{Root: "/"}, assemble: assemble, metrics: m, probes: prober.NewMetrics(),
		notReady: errors.New("container runtime status check may not have completed yet"),
	}
	c := cfg.Configuration
	var err error
	if k.thresholds, err = eviction.Parse(eviction.Settings{Hard: c.EvictionHard, Soft: c.EvictionSoft,
		SoftGracePeriod: c.EvictionSoftGracePeriod, MinimumReclaim: c.EvictionMinimumReclaim}); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if k.reserved, err = reservations(c.SystemReserved, c.KubeReserved); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	for _, ip := range cfg.NodeIPs {
		k.hostIPs = append(k.hostIPs, ip.String())
	}
	return k, nil
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
	if err := os.MkdirAll(filepath.Join(k.cfg.RootDir, "pods"), 0o750); err != nil {
		return fmt.Errorf("making kubelet directory: %w", err)
	}
	store, err := checkpoint.Open(filepath.Join(k.cfg.RootDir, "checkpoints"))
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.cfg.Client.CoreV1().Events("")})
	k.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: k.cfg.NodeName})

	labels := node.Labels(k.cfg.NodeName)
	maps.Copy(labels, k.cfg.Labels)
	k.reporter = node.New(node.Config{
		Name: k.cfg.NodeName, Client: k.cfg.Client, Recorder: k.recorder, Clock: k.cfg.Clock,
		Labels: labels, Taints: k.cfg.Configuration.RegisterWithTaints, PodCIDRs: k.cfg.PodCIDRs, Machine: k.machine,
	})
	k.pleg = pleg.New(pleg.Config{Runtime: k.cfg.Runtime, Clock: k.cfg.Clock, Changed: k.wake, Relisted: k.metrics.Relisted})
	k.informers()
	k.mirrors = k.newMirrors()
	k.status = status.NewManager(k.cfg.Client, k.mirrors.Mirror)
	sources, err := k.sources()
	if err != nil {
		return err
	}
	k.measure()
	if k.cfg.Certificate != nil {
		if k.server, err = k.newServer(); err != nil {
			return err
		}
		run("serving the kubelet API", k.server.Start)
	}
	run("reporting node", k.reporter.Start)
	run("reporting pods", k.status.Start)
	run("showing static pods", k.mirrors.Start)
	for _, i := range []cache.SharedIndexInformer{k.pods, k.nodes, k.services} {
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
	p, err := k.assemble(ctx, k, engine)
	if err != nil {
		return err
	}
	probes := prober.New(ctx, prober.Config{Exec: k.cfg.Runtime, Recorder: k.recorder, Clock: k.cfg.Clock, Metrics: k.probes, Changed: k.wake})
	defer probes.Wait()
	settings := k.cfg.Configuration
	builder := launch.New(launch.Config{
		RootDir: k.cfg.RootDir, Volumes: p.volumes, Services: k.servicesFor,
		ClusterDNS: settings.ClusterDNS, ClusterDomain: settings.ClusterDomain, HostResolvConf: ptr.Deref(settings.ResolverConfig, ""),
		HostIPs: k.hostIPs, Recorder: k.recorder, Resources: p.resources, OOMScoreAdj: p.oomScoreAdj,
	})
	life := podsync.New(ctx, podsync.Config{
		Runtime: k.pleg.Runtime(), RuntimeName: engine.Name, Network: k.cfg.Network, HostPorts: p.hostPorts, Images: p.images,
		Volumes: p.volumes, Cgroups: p.cgroups, Builder: builder, Status: k.status, Probes: probes,
		Observe: k.pleg.Pod, Recorder: k.recorder, Clock: k.cfg.Clock, HostIPs: k.hostIPs,
		Logs: podlog.Standard(), Starts: gate.New(2*runtime.NumCPU(), usualStart), Handler: k.handler, Resources: p.resources,
		Failures: store, Resizes: &k.resizes, Terminated: k.metrics.Terminated,
	})
	if !k.prepare(ctx) {
		return nil
	}
	leaving := &farewell{Life: k.metrics.Life(store.Keep(life), k.phase)}
	workers := podworker.New(ctx, leaving, k.cfg.Clock, resync)
	defer workers.Wait()
	intake := source.New(source.Config{Sources: sources, Workers: workers, Node: (*judge)(k), Mirrors: k.mirrors, Clock: k.cfg.Clock})
	leaving.left = intake.Left
	k.mu.Lock()
	k.parts, k.workers, k.life, k.intake = p, workers, life, intake
	k.eviction = k.evictions(p.node)
	k.notReady = nil
	k.mu.Unlock()
	k.reporter.Poke()

	wg.Go(func() { _ = k.pleg.Start(ctx) })
	wg.Go(func() { _ = p.volumes.Start(ctx) })
	wg.Go(func() { _ = k.eviction.Start(ctx) })
	wg.Go(func() { k.collectImages(ctx) })
	wg.Go(func() { k.disks.Start(ctx) })
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case uid := <-p.volumes.Changed():
				workers.Wake(uid)
			}
		}
	})
	kept, err := store.Load()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some pod checkpoints are lost")
	}
	wg.Go(func() { k.housekeep(ctx, intake) })
	running := k.pleg.Pods()
	return intake.Run(ctx, kept, func(uid types.UID) bool { return running[uid] != nil }, apiPatience)
}

// housekeep looks for leftovers once the pods are known, and then now and again.
func (k *Kubelet) housekeep(ctx context.Context, intake *source.Intake) {
	select {
	case <-ctx.Done():
		return
	case <-intake.Begun():
	}
	k.mirrors.LookAtAll() // some may show what has gone
	k.tidy(ctx, intake)
	for k.sleep(ctx, housekeeping) {
		k.tidy(ctx, intake)
		intake.Retry() // the node may have grown
	}
}

// awaitEngine waits until the engine answers.
func (k *Kubelet) awaitEngine(ctx context.Context) (container.Version, bool) {
	for {
		v, err := k.cfg.Runtime.Version(ctx)
		if err == nil {
			return v, true
		}
		k.unready(fmt.Errorf("container runtime is down: %w", err))
		if !k.sleep(ctx, time.Second) {
			return v, false
		}
	}
}

// prepare starts the network and clears what belongs to no sandbox any more. It repeats until that succeeds.
func (k *Kubelet) prepare(ctx context.Context) bool {
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
		k.unready(err)
		if !k.sleep(ctx, time.Second) {
			return false
		}
	}
}

func (k *Kubelet) unready(err error) {
	k.mu.Lock()
	k.notReady = err
	k.mu.Unlock()
	k.reporter.Poke()
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

func (k *Kubelet) informers() {
	byField := func(field, value string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, value).String() }
	}
	ns := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	k.pods = coreinformers.NewFilteredPodInformer(k.cfg.Client, metav1.NamespaceAll, 0, ns, byField("spec.nodeName", k.cfg.NodeName))
	k.nodes = coreinformers.NewFilteredNodeInformer(k.cfg.Client, 0, cache.Indexers{}, byField("metadata.name", k.cfg.NodeName))
	k.services = coreinformers.NewServiceInformer(k.cfg.Client, metav1.NamespaceAll, 0, ns)
}

// servicesFor are the services that pods of a namespace have in their environment: its own and the API server's.
func (k *Kubelet) servicesFor(namespace string) []*corev1.Service {
	var out []*corev1.Service
	add := func(o any) {
		if s, ok := o.(*corev1.Service); ok {
			out = append(out, s)
		}
	}
	objs, err := k.services.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	for _, o := range objs {
		add(o)
	}
	if namespace != metav1.NamespaceDefault {
		if o, ok, _ := k.services.GetIndexer().GetByKey("default/kubernetes"); ok {
			add(o)
		}
	}
	return out
}

// handler looks a runtime class up. So few pods name one that nothing watches them.
func (k *Kubelet) handler(ctx context.Context, class string) (string, error) {
	c, err := k.cfg.Client.NodeV1().RuntimeClasses().Get(ctx, class, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: %w", class, err)
	}
	return c.Handler, nil
}

// machine describes this machine for its Node.
func (k *Kubelet) machine(ctx context.Context) node.Machine {
	k.mu.Lock()
	notReady := k.notReady
	k.mu.Unlock()
	vctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	v, err := k.cfg.Runtime.Version(vctx)
	cancel()
	k.mu.Lock()
	if err == nil {
		k.engine = v
	}
	engine := k.engine
	k.mu.Unlock()
	if notReady == nil && err != nil {
		notReady = fmt.Errorf("container runtime is down: %w", err)
	}
	if notReady == nil {
		if err := k.pleg.Healthy(); err != nil {
			notReady = fmt.Errorf("PLEG is not healthy: %w", err)
		}
	}
	m := node.Machine{
		Addresses: node.Addresses(k.cfg.NodeName, k.cfg.NodeIPs),
		Info:      k.host.Info(engine, k.cfg.Version),
		Images:    k.imageList(ctx, err == nil),
	}
	m.Pressure = k.pressure()
	if m.Capacity, m.Allocatable, err = k.resources(); err != nil && notReady == nil {
		notReady = err
	}
	if k.server != nil {
		if m.KubeletPort, err = k.server.Port(ctx); err != nil && notReady == nil {
			notReady = fmt.Errorf("kubelet API is not served: %w", err)
		}
	}
	if notReady != nil {
		m.NotReady = notReady.Error()
	}
	return m
}

// imageList is the node's image list, looked up once a minute because it is long and rarely changes.
func (k *Kubelet) imageList(ctx context.Context, up bool) []corev1.ContainerImage {
	k.mu.Lock()
	list, at := k.images, k.imagesAt
	k.mu.Unlock()
	if !up || k.cfg.Clock.Since(at) < time.Minute {
		return list
	}
	fresh, err := node.Images(ctx, k.cfg.Runtime)
	if err != nil {
		return list
	}
	k.mu.Lock()
	k.images, k.imagesAt = fresh, k.cfg.Clock.Now()
	k.mu.Unlock()
	return fresh
}

// wake has a pod looked at.
func (k *Kubelet) wake(uid types.UID) {
	k.mu.Lock()
	w := k.workers
	k.mu.Unlock()
	if w != nil {
		w.Wake(uid)
	}
}
