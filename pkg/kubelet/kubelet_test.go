// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/nodeshutdown"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
	volumeplugin "minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/bandwidth"
)

// plugin is a network.Plugin that hands out addresses.
type plugin struct {
	mu    sync.Mutex
	next  byte
	addrs map[string][]netip.Addr
	kept  map[string]bool
	// fail is the error of SetUp, which has given an address before; setUps are its calls that succeeded.
	fail       error
	unfinished map[string]bool
	setUps     int
	last       network.Pod // of SetUp
	missing    error       // of Ready
}

func (p *plugin) Start(context.Context) error { return nil }
func (p *plugin) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}
func (p *plugin) Purge(context.Context) error { return nil }
func (p *plugin) Reserve(_ context.Context, id string) ([]netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserve(id)
	p.unfinished[id] = true
	return p.addrs[id], nil
}

// reserve gives an address to a sandbox that has none. The caller holds mu.
func (p *plugin) reserve(id string) {
	if p.addrs == nil {
		p.addrs, p.unfinished = map[string][]netip.Addr{}, map[string]bool{}
	}
	if p.addrs[id] == nil {
		p.next++
		p.addrs[id] = []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, p.next})}
	}
}

func (p *plugin) SetUp(_ context.Context, pod network.Pod, _ string) ([]netip.Addr, error) {
	id := pod.SandboxID
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = pod
	p.reserve(id)
	if p.unfinished[id] = p.fail != nil; p.fail != nil {
		return nil, p.fail
	}
	p.setUps++
	return p.addrs[id], nil
}

func (p *plugin) Addresses(id string) []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unfinished[id] {
		return nil
	}
	return p.addrs[id]
}

// breaks lets SetUp fail, or not any more.
func (p *plugin) breaks(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

// misses lets the network be there, or not.
func (p *plugin) misses(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = why
}

// completed is how often SetUp has succeeded.
func (p *plugin) completed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setUps
}

// all are the addresses that pods have.
func (p *plugin) all() map[string][]netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.addrs)
}

func (p *plugin) TearDown(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.addrs, id)
	return nil
}

func (p *plugin) Retain(_ context.Context, keep map[string]bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = keep
	return nil
}

type fakeImages struct{ r *fake.Runtime }

func (i fakeImages) Ensure(ctx context.Context, _ *corev1.Pod, ref string, _ corev1.PullPolicy, _ *corev1.ObjectReference) (*container.Image, error) {
	return i.r.PullImage(ctx, ref, nil)
}

// set is a set of pods that stands for volumes, cgroups and host ports.
type set struct {
	mu   sync.Mutex
	pods map[types.UID]bool
	fail map[types.UID]error
}

func (s *set) add(uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail[uid]; err != nil {
		return err
	}
	if s.pods == nil {
		s.pods = map[types.UID]bool{}
	}
	s.pods[uid] = true
	return nil
}

// refuse lets a pod's be refused, nil: not any more.
func (s *set) refuse(uid types.UID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.fail = map[types.UID]error{}
	}
	s.fail[uid] = err
}

func (s *set) remove(uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	return nil
}

func (s *set) Pods() ([]types.UID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []types.UID
	for u := range s.pods {
		out = append(out, u)
	}
	return out, nil
}

type fakeVolumes struct {
	set
	used map[string]diskusage.Usage // by volume; what pods take
}

func (v *fakeVolumes) Usage(context.Context, *corev1.Pod) (map[string]diskusage.Usage, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.used), nil
}

func (v *fakeVolumes) Counts() (desired, actual map[string]int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return map[string]int{"fake": len(v.pods)}, map[string]int{"fake": len(v.pods)}
}

func (*fakeVolumes) CertificateStates() map[[2]string]int { return nil }

// write lets the volume of that name take u.
func (v *fakeVolumes) write(name string, u diskusage.Usage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used = map[string]diskusage.Usage{name: u}
}

// fakeNode is a machine that observes what it is told, nothing at first.
type fakeNode struct {
	mu   sync.Mutex
	seen eviction.Observations
}

func (n *fakeNode) Observe(context.Context) (eviction.Observations, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen, nil
}

func (n *fakeNode) observes(seen eviction.Observations) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = seen
}

func (n *fakeNode) Dedicated(context.Context) bool                                       { return false }
func (n *fakeNode) Collect(context.Context, int64) (int64, error)                        { return 0, nil }
func (n *fakeNode) Start(context.Context, record.EventRecorder, *corev1.ObjectReference) {}

func (v *fakeVolumes) Groups(*corev1.Pod) []int64 { return nil }

func (v *fakeVolumes) Start(ctx context.Context) error     { <-ctx.Done(); return nil }
func (v *fakeVolumes) Drivers() pluginregistration.Handler { return nil }

func (v *fakeVolumes) VolumesInUse() []corev1.UniqueVolumeName { return nil }

func (v *fakeVolumes) Told([]corev1.UniqueVolumeName) {}

func (v *fakeVolumes) Places(*corev1.Pod) []volume.Place { return nil }
func (v *fakeVolumes) Changed() <-chan types.UID         { return nil }
func (v *fakeVolumes) Mount(_ context.Context, pod *corev1.Pod, _ []string) error {
	return v.add(pod.UID)
}
func (v *fakeVolumes) Unmount(_ context.Context, uid types.UID) error { return v.remove(uid) }
func (v *fakeVolumes) ContainerDevices(*corev1.Pod, *corev1.Container) ([]container.Device, error) {
	return nil, nil
}

func (v *fakeVolumes) ContainerMounts(context.Context, volumeplugin.Container) ([]container.Mount, error) {
	return nil, nil
}
func (v *fakeVolumes) Source(context.Context, *corev1.Pod) env.Source { return noSource{} }

type noSource struct{}

func (noSource) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}
func (noSource) Secret(_, name string) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}
func (noSource) EnvFile(*corev1.Pod, string, string) ([]byte, string, error) {
	return nil, "", fs.ErrNotExist
}
func (noSource) NodeAllocatable() corev1.ResourceList { return nil }

type fakeCgroups struct {
	set
	limits atomic.Pointer[container.Resources]
	used   atomic.Int64 // memory, of each container
}

func (c *fakeCgroups) LimitPods(r container.Resources) error {
	c.limits.Store(&r)
	return nil
}

func (c *fakeCgroups) EnsurePod(pod *corev1.Pod) (string, error) {
	return "/test/pod" + string(pod.UID), c.add(pod.UID)
}
func (c *fakeCgroups) Shrink(_ *corev1.Pod, of *container.Container, memory int64) error {
	if used := c.used.Load(); used >= memory {
		return &cgroup.InUseError{Container: of.Name, Limit: memory, Usage: uint64(used)}
	}
	return nil
}
func (c *fakeCgroups) Tune(*corev1.Pod, *corev1.Container, string) error { return nil }
func (c *fakeCgroups) RemovePod(uid types.UID) error                     { return c.remove(uid) }

type fakeHostPorts struct{ set }

func (h *fakeHostPorts) Set(uid types.UID, _ []string, _ []corev1.ContainerPort) error {
	return h.add(uid)
}
func (h *fakeHostPorts) Remove(uid types.UID) error { return h.remove(uid) }
func (h *fakeHostPorts) Retain(keep map[types.UID]bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for u := range h.pods {
		if !keep[u] {
			delete(h.pods, u)
		}
	}
	return nil
}

// world is a node with its engine and API server, which outlive the kubelet.
type world struct {
	kubelet *Kubelet // as last started
	t       *testing.T
	dir     string
	client  *clientfake.Clientset
	runtime *fake.Runtime
	network *plugin
	volumes *fakeVolumes
	cgroups *fakeCgroups
	ports   *fakeHostPorts
	node    *fakeNode
	usage   stats.Usage
	// logind shuts the machine down; nil: there is none.
	logind *nodeshutdown.Fake
	// settings are those of the kubelets that start; nil: the defaults.
	settings *kubeletconfigv1beta1.KubeletConfiguration
}

func newWorld(t *testing.T, cfg fake.Config, objects ...*corev1.Pod) *world {
	t.Helper()
	cfg.PullAll = true
	w := &world{t: t, dir: t.TempDir(), client: clientfake.NewClientset(), runtime: fake.New(cfg), network: &plugin{},
		volumes: &fakeVolumes{}, cgroups: &fakeCgroups{}, ports: &fakeHostPorts{}, node: &fakeNode{}}
	for _, o := range objects {
		w.create(o)
	}
	return w
}

// start runs a kubelet and returns what stops it.
func (w *world) start() (stop func()) {
	w.t.Helper()
	return w.startWith(w.client)
}

func (w *world) startWith(client kubernetes.Interface) (stop func()) {
	w.t.Helper()
	k, err := New(Config{NodeName: "n1", Client: client, Heartbeats: client, Runtime: w.runtime, Network: w.network, RootDir: w.dir,
		NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Configuration: w.settings})
	if err != nil {
		w.t.Fatal(err)
	}
	k.evictEvery, w.kubelet = 50*time.Millisecond, k
	if w.logind != nil {
		k.logind = w.logind.Connect
	}
	k.assemble = func(context.Context, site, container.Version) (*parts, error) {
		return &parts{images: fakeImages{w.runtime}, volumes: w.volumes, cgroups: w.cgroups, hostPorts: w.ports, node: w.node, garbage: w.node, usage: w.usage,
			resources: func(_ *corev1.Pod, c *corev1.Container) container.Resources {
				return container.Resources{MemoryBytes: c.Resources.Limits.Memory().Value()}
			},
			oomScoreAdj: func(*corev1.Pod, *corev1.Container) int { return 0 }}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Start(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					w.t.Errorf("kubelet ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				w.t.Error("kubelet does not stop")
			}
		})
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) create(p *corev1.Pod) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// await returns the pod once ok holds of it; a missing pod is nil.
func (w *world) await(what, name string, ok func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var last *corev1.Pod
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		p, err := w.client.CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			p = nil
		} else if err != nil {
			w.t.Fatal(err)
		}
		if last = p; ok(p) {
			return p
		}
		<-time.After(10 * time.Millisecond)
	}
	w.t.Fatalf("pod %q is not %s: %s", name, what, describe(last))
	return nil
}

func describe(p *corev1.Pod) string {
	if p == nil {
		return "gone"
	}
	return fmt.Sprintf("%+v", p.Status)
}

func ready(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == want }
}

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), Generation: 1},
		Spec: corev1.PodSpec{
			NodeName: "n1", RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(3)),
			Containers: []corev1.Container{{Name: "c", Image: "img", TerminationMessagePath: "/dev/termination-log"}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// remove deletes a pod gracefully, as the API server does when its kubelet is to confirm it.
func (w *world) remove(name string) {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(3 * time.Second)}
	p.DeletionGracePeriodSeconds = new(int64(3))
	if _, err := w.client.CoreV1().Pods("ns").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) left() string {
	engine, err := w.runtime.List(context.Background())
	v, _ := w.volumes.Pods()
	c, _ := w.cgroups.Pods()
	h, _ := w.ports.Pods()
	addrs := w.network.all()
	if err == nil && len(engine)+len(v)+len(c)+len(h)+len(addrs) == 0 {
		return ""
	}
	return fmt.Sprintf("engine %v volumes %v cgroups %v ports %v addresses %v err %v", engine, v, c, h, addrs, err)
}

func TestPodLife(t *testing.T) {
	w := newWorld(t, fake.Config{})
	stop := w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}))
	p := w.await("ready", "a", ready)
	if p.Status.PodIP != "10.1.0.1" || p.Status.HostIP != "192.0.2.1" || p.Status.ObservedGeneration != 1 || p.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status: %s", describe(p))
	}
	id := w.runtime.Find("uid-a", "c").ID
	if got := p.Status.ContainerStatuses[0].ContainerID; got != "fake://"+id {
		t.Errorf("container id %q, want fake://%s", got, id)
	}

	// A new kubelet adopts the container, and reports nothing that was not so.
	stop()
	w.client.ClearActions()
	stop = w.start()
	w.create(newPod("b", nil))
	w.await("ready", "b", ready)
	if got := w.runtime.Find("uid-a", "c").ID; got != id {
		t.Errorf("container was replaced on restart: %s, was %s", got, id)
	}
	for _, a := range w.client.Actions() {
		if pa, ok := a.(interface{ GetName() string }); ok && a.GetVerb() == "patch" && pa.GetName() == "a" {
			t.Errorf("status of the adopted pod was patched: %+v", a)
		}
	}

	w.remove("a")
	w.remove("b")
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
	w.await("gone", "b", func(p *corev1.Pod) bool { return p == nil })
	stop()
	if l := w.left(); l != "" {
		t.Errorf("left behind: %s", l)
	}
}

// TestForeignStatus: what somebody else writes into the kubelet's part of a status does not stay, as after a partition, when the
// node controller has said that the pods are not ready.
func TestForeignStatus(t *testing.T) {
	w := newWorld(t, fake.Config{})
	stop := w.start()
	w.create(newPod("a", nil))
	overwrite := func() {
		t.Helper()
		p := w.await("ready", "a", ready).DeepCopy()
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.PodReady {
				p.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "foreign", Status: corev1.ConditionTrue})
		if _, err := w.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	overwrite()
	p := w.await("ready again", "a", ready)
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "foreign" }) {
		t.Errorf("the condition of somebody else is gone: %s", describe(p))
	}
	stop()
	overwrite()
	w.start()
	w.await("ready under another kubelet", "a", ready)
}

// TestNetworkIsCompleted: a pod whose network was begun and not completed has none, whoever began it.
func TestNetworkIsCompleted(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.network.breaks(errors.New("no link"))
	stop := w.start()
	w.create(newPod("a", nil))
	p := w.await("refused", "a", func(*corev1.Pod) bool { return len(w.network.all()) > 0 })
	if ready(p) || p.Status.PodIP != "" {
		t.Errorf("without a network: %s", describe(p))
	}
	w.network.breaks(nil)
	w.await("ready", "a", ready)
	stop()
	before := w.network.completed()
	w.start()
	w.await("looked at by another kubelet", "a", func(*corev1.Pod) bool { return w.network.completed() > before })
}

func TestBandwidth(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Annotations = map[string]string{bandwidth.IngressAnnotation: "1M", bandwidth.EgressAnnotation: "2M"}
	}))
	w.await("ready", "a", ready)
	w.network.mu.Lock()
	got := w.network.last
	w.network.mu.Unlock()
	if got.Name != "a" || got.Namespace != "ns" || got.Bandwidth != (bandwidth.Limits{Ingress: 1_000_000, Egress: 2_000_000}) {
		t.Errorf("the network is told %+v", got)
	}
	w.create(newPod("b", func(p *corev1.Pod) { p.Annotations = map[string]string{bandwidth.EgressAnnotation: "fast"} }))
	if got := w.events("FailedCreatePodSandBox"); !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, `"fast" is no quantity`) }) {
		t.Errorf("events %q", got)
	}
}

func TestCompletion(t *testing.T) {
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		code   int
		phase  corev1.PodPhase
	}{
		{"success", corev1.RestartPolicyNever, 0, corev1.PodSucceeded},
		{"failure", corev1.RestartPolicyNever, 3, corev1.PodFailed},
		{"success-onfailure", corev1.RestartPolicyOnFailure, 0, corev1.PodSucceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{Program: func(container.ContainerConfig) fake.Program {
				return func(context.Context, fake.Process) int { return tt.code }
			}})
			w.start()
			w.create(newPod("a", func(p *corev1.Pod) { p.Spec.RestartPolicy = tt.policy }))
			p := w.await("over", "a", phase(tt.phase))
			end := p.Status.ContainerStatuses[0].State.Terminated
			if end == nil || int(end.ExitCode) != tt.code {
				t.Errorf("container state %+v, want terminated with %d", p.Status.ContainerStatuses[0].State, tt.code)
			}
			if ready(p) {
				t.Error("an ended pod is ready")
			}
			if w.runtime.Find("uid-a", "c") == nil {
				t.Error("the container is gone before its pod, and its log with it")
			}
		})
	}
}

func TestCrashLoop(t *testing.T) {
	w := newWorld(t, fake.Config{Program: func(container.ContainerConfig) fake.Program {
		return func(context.Context, fake.Process) int { return 1 }
	}})
	w.start()
	w.create(newPod("a", nil))
	p := w.await("in back-off", "a", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	cs := p.Status.ContainerStatuses[0]
	if want := "back-off 10s restarting failed container=c pod=a_ns(uid-a)"; cs.State.Waiting.Message != want {
		t.Errorf("message %q, want %q", cs.State.Waiting.Message, want)
	}
	if cs.RestartCount != 1 || cs.LastTerminationState.Terminated == nil || cs.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("container status %+v", cs)
	}
	if p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s, want Running", p.Status.Phase)
	}
}

// withHostPort gives a pod a port of the node that one pod can have.
func withHostPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
}

func TestRejected(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", withHostPort))
	w.await("ready", "a", ready)
	w.create(newPod("b", withHostPort))
	p := w.await("rejected", "b", phase(corev1.PodFailed))
	if p.Status.Reason != "NodePorts" || p.Status.Message != "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports" {
		t.Errorf("reason %q message %q", p.Status.Reason, p.Status.Message)
	}
	w.remove("b")
	w.await("gone", "b", func(p *corev1.Pod) bool { return p == nil })
	if w.runtime.FindSandbox("uid-b") != nil {
		t.Error("a rejected pod has a sandbox")
	}
}

// What a pod has is free for others as soon as the API has it no more, even if somebody has forced that and it ends still: the scheduler
// sends others at once.
func TestForcedDeletion(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", withHostPort))
	w.await("ready", "a", ready)
	release := w.runtime.Hang("StopContainer", "")
	if err := w.client.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for len(w.runtime.Calls("StopContainer")) == 0 {
		<-time.After(time.Millisecond)
	}
	w.create(newPod("b", withHostPort))
	w.await("ready", "b", ready)
	release()
	for w.runtime.FindSandbox("uid-a") != nil {
		<-time.After(time.Millisecond)
	}
}

func TestEngineAway(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", nil))
	w.await("ready", "a", ready)
	id := w.runtime.Find("uid-a", "c").ID
	w.runtime.ResetCalls()
	w.runtime.SetUnavailable(true)
	w.create(newPod("b", nil))
	w.runtime.SetUnavailable(false)
	w.await("ready", "b", ready)
	if got := w.runtime.Find("uid-a", "c"); got == nil || got.ID != id || got.State != container.StateRunning {
		t.Errorf("container of the first pod: %+v", got)
	}
	if calls := w.runtime.Calls("StopContainer"); len(calls) > 0 {
		t.Errorf("something was stopped: %v", calls)
	}
}

// TestDeletedWhileStarting: the engine makes the sandbox of a pod that is deleted meanwhile. The pod is not gone before that is.
func TestDeletedWhileStarting(t *testing.T) {
	w := newWorld(t, fake.Config{})
	release := w.runtime.Hang("CreateSandbox", "")
	w.start()
	w.create(newPod("p", nil))
	for len(w.runtime.Calls("CreateSandbox")) == 0 {
		<-time.After(time.Millisecond)
	}
	w.remove("p")
	<-time.After(300 * time.Millisecond) // it may go now, if it is wrong
	release()
	w.await("gone", "p", func(p *corev1.Pod) bool { return p == nil })
	<-time.After(300 * time.Millisecond) // the engine may make something now, if it is wrong
	if left := w.left(); left != "" {
		t.Error(left)
	}
}

// TestMadeAhead: containers are made while the engine starts their sandbox, and then started, not made again.
func TestMadeAhead(t *testing.T) {
	w := newWorld(t, fake.Config{})
	release := w.runtime.Hang("StartSandbox", "")
	w.start()
	w.create(newPod("p", nil))
	for len(w.runtime.Calls("CreateContainer")) == 0 {
		<-time.After(time.Millisecond)
	}
	release()
	w.await("ready", "p", ready)
	if n, removed := len(w.runtime.Calls("CreateContainer")), w.runtime.Calls("RemoveContainer"); n != 1 || len(removed) > 0 {
		t.Errorf("the container was made %d times, and removed: %v", n, removed)
	}
}

// TestStopWhileStarting: a kubelet that is to end does not wait for an engine that is stuck.
func TestStopWhileStarting(t *testing.T) {
	w := newWorld(t, fake.Config{})
	release := w.runtime.Hang("CreateSandbox", "")
	defer release()
	stop := w.start()
	w.create(newPod("p", nil))
	for len(w.runtime.Calls("CreateSandbox")) == 0 {
		<-time.After(time.Millisecond)
	}
	stop() // fails if that takes longer than 20 s
}

func TestLeftovers(t *testing.T) {
	// The pod is deleted by force while no kubelet runs.
	w := newWorld(t, fake.Config{})
	stop := w.start()
	w.create(newPod("a", nil))
	w.await("ready", "a", ready)
	stop()
	if err := w.client.CoreV1().Pods("ns").Delete(context.Background(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stop = w.start()
	deadline := time.Now().Add(15 * time.Second)
	for w.left() != "" && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	stop()
	if l := w.left(); l != "" {
		t.Errorf("left behind: %s", l)
	}
}

func TestCheckpoints(t *testing.T) {
	// The kubelet is restarted while the API server is away; a container that crashes is restarted all the same.
	w := newWorld(t, fake.Config{})
	stop := w.start()
	w.create(newPod("a", nil))
	w.await("ready", "a", ready)
	stop()
	id := w.runtime.Find("uid-a", "c").ID
	w.runtime.Exit(id, 1)
	away := clientfake.NewClientset()
	away.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	stop = w.startWith(away)
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		if c := w.runtime.Find("uid-a", "c"); c != nil && c.ID != id && c.State == container.StateRunning {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if c := w.runtime.Find("uid-a", "c"); c == nil || c.ID == id || c.Attempt != 1 {
		t.Errorf("container after the crash: %+v", c)
	}
	stop()
}
