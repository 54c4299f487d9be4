// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
)

// patient is how long anything may take that is to happen.
const patient = 20 * time.Second

// node is what outlives a kubelet.
type node struct {
	t      *testing.T
	dir    string
	client *fake.Clientset
	clock  *clocktesting.FakeClock

	mu sync.Mutex // guards the fields below
	// runs are the pods with a sandbox, silent has the engine not tell.
	runs   map[types.UID]bool
	silent bool
	woken  []types.UID
	// done are the operations and calls that were measured.
	done []string
	// away has the API server not answer.
	away bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), client: fake.NewClientset(), clock: clocktesting.NewFakeClock(time.Now()), runs: map[types.UID]bool{}}
	n.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.away {
			return true, nil, errors.New("the server is away")
		}
		return false, nil, nil
	})
	return n
}

func (n *node) Operation(name string, _ time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		name += " failed"
	}
	n.done = append(n.done, name)
}

func (n *node) Call(driver, method string, _ time.Duration, _ error) {
	n.Operation(driver+" "+method, 0, nil)
}

func (n *node) set(change func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// kubelet starts a Manager, until the test ends or stop is called. No memory of an earlier one is left but the disk.
func (n *node) kubelet() (m *Manager, stop func()) {
	n.t.Helper()
	m = New(n.t.Context(), Config{
		RootDir: n.dir, NodeName: "n1", Client: n.client, Clock: n.clock, Metrics: n,
		Runs: func(_ context.Context, uid types.UID) (bool, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.silent {
				return false, errors.New("the engine does not tell")
			}
			return n.runs[uid], nil
		},
		Wake: func(uid types.UID) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.woken = append(n.woken, uid)
		},
	})
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
	n.t.Cleanup(stop)
	eventually(n.t, "it has started", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.life != nil
	})
	return m, stop
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func register(t *testing.T, m *Manager, p pluginregistration.Plugin) {
	t.Helper()
	if err := m.Registered().Validate(p); err != nil {
		t.Fatal(err)
	}
	if err := m.Registered().Register(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// claim makes one that is allocated from drivers and reserved for pods.
func (n *node) claim(name string, drivers []string, pods ...string) *resourcev1.ResourceClaim {
	n.t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: d, Pool: "pool", Device: "a"})
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID(p)})
	}
	n.put(c)
	return c
}

func (n *node) put(c *resourcev1.ResourceClaim) {
	n.t.Helper()
	claims := n.client.ResourceV1().ResourceClaims(c.Namespace)
	_, err := claims.Update(n.t.Context(), c, metav1.UpdateOptions{})
	if err != nil {
		_, err = claims.Create(n.t.Context(), c, metav1.CreateOptions{})
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// using is a pod, its UID like its name, whose container c uses claims, which it calls as they are called.
func using(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: &c})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: c})
	}
	return p
}

func prepare(t *testing.T, m *Manager, p *corev1.Pod, want string) {
	t.Helper()
	err := m.Prepare(t.Context(), p)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "prepare dynamic resources: "+want)) {
		t.Fatalf("preparing %s: %v, want %q", p.Name, err, want)
	}
}

func unprepare(t *testing.T, m *Manager, pod types.UID, want string) {
	t.Helper()
	err := m.Unprepare(t.Context(), pod)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "unprepare dynamic resources: "+want)) {
		t.Fatalf("unpreparing %s: %v, want %q", pod, err, want)
	}
}

func wantCDI(t *testing.T, m *Manager, p *corev1.Pod, want ...string) {
	t.Helper()
	got, err := m.CDIDevices(p, &p.Spec.Containers[0])
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("devices of %s: %q, %v, want %q", p.Name, got, err, want)
	}
}

// nothing checks that nothing is noted any more.
func nothing(t *testing.T, n *node, m *Manager) {
	t.Helper()
	onDisk, err := load(filepath.Join(n.dir, stateFile))
	if pods, _ := m.Pods(); err != nil || len(pods)+len(m.state.Claims)+len(onDisk.Pods)+len(onDisk.Claims) > 0 {
		t.Errorf("noted is %+v, on disk %+v, %v", m.state, onDisk, err)
	}
}

// A claim is prepared for the first pod that uses it, and unprepared after the last one, in either version of the API.
func TestManager(t *testing.T) {
	t.Parallel()
	for _, version := range []string{drav1.DRAPluginService, drav1beta1.DRAPluginService} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			m, _ := n.kubelet()
			d, p := serve(t, n.dir, "d.io", "d.sock", version)
			register(t, m, p)
			n.claim("shared", []string{"d.io", "d.io"}, "one", "two")
			one, two := using("one", "shared"), using("two", "shared")
			prepare(t, m, one, "")
			d.want(t, 1, "prepare ns/shared")
			prepare(t, m, one, "")
			prepare(t, m, two, "")
			d.want(t, 1)
			wantCDI(t, m, two, "d.io/c=uid-shared-a", "d.io/c=uid-shared-b")
			if got := m.InUse(); got[AnyDriver] != 1 || got["d.io"] != 1 {
				t.Errorf("in use: %v", got)
			}
			claims := m.Claims(two, &two.Spec.Containers[0])
			want := []Claim{{Namespace: "ns", Name: "shared", Devices: []Device{
				{Driver: "d.io", Pool: "pool", Name: "a", CDI: []string{"d.io/c=uid-shared-a"}},
				{Driver: "d.io", Pool: "pool", Name: "b", CDI: []string{"d.io/c=uid-shared-b"}, ShareID: new("s")},
			}}}
			if diff := cmp.Diff(want, claims); diff != "" && version == drav1.DRAPluginService {
				t.Error(diff)
			}
			unprepare(t, m, "one", "")
			d.want(t, 1)
			unprepare(t, m, "one", "")
			unprepare(t, m, "two", "")
			d.want(t, 0, "unprepare ns/shared")
			unprepare(t, m, "stranger", "")
			nothing(t, n, m)
			n.set(func(n *node) {
				service := "/k8s.io.kubelet.pkg.apis.dra." + strings.TrimSuffix(version, ".DRAPlugin") + ".DRAPlugin/"
				want := []string{"d.io " + service + "NodePrepareResources", "PrepareResources", "PrepareResources", "PrepareResources",
					"UnprepareResources", "d.io " + service + "NodeUnprepareResources", "UnprepareResources"}
				if diff := cmp.Diff(want, n.done); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// Claims of templates, those that have become unnecessary, and those of extended resources are found by the pod's status.
func TestManager_Status(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m, _ := n.kubelet()
	d, p := serve(t, n.dir, "d.io", "d.sock")
	register(t, m, p)
	own := n.claim("p-x1", []string{"d.io"}, "p")
	n.claim("ext", []string{"d.io"}, "p")
	pod := using("p")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "own", ResourceClaimTemplateName: new("t")}, {Name: "no", ResourceClaimTemplateName: new("t")}}
	pod.Spec.Containers = []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "own", Request: "second"}, {Name: "no"}}}},
		{Name: "e"}, {Name: "none"},
	}
	prepare(t, m, pod, `pod "ns/p": ResourceClaim not created yet`)
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: new("p-x1")}, {Name: "no"}}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "ext", RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "e", ResourceName: "v.io/r", RequestName: "first"}},
	}
	prepare(t, m, pod, "ResourceClaim ns/p-x1 was not created for Pod ns/p (Pod is not owner)")
	if _, err := m.CDIDevices(pod, &pod.Spec.Containers[0]); err == nil {
		t.Error("a container would start without its claim")
	}
	if _, err := m.CDIDevices(pod, &pod.Spec.Containers[1]); err == nil {
		t.Error("a container would start without its extended resource")
	}
	own.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: new(true)}}
	n.put(own)
	prepare(t, m, pod, "")
	d.want(t, 2, "prepare ns/ext ns/p-x1")
	wantCDI(t, m, pod, "d.io/c=uid-p-x1-b")
	for i, want := range [][]string{1: {"d.io/c=uid-ext-a"}, 2: nil} {
		if got, err := m.CDIDevices(pod, &pod.Spec.Containers[i]); i > 0 && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("container %d: %q, %v", i, got, err)
		}
	}
	unprepare(t, m, "p", "")
	d.want(t, 0, "unprepare ns/ext ns/p-x1")
	nothing(t, n, m)
}

// What is not to be is refused in upstream's words, before anything is noted or a driver asked.
func TestPrepare_Refused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		change     func(*resourcev1.ResourceClaim)
	}{
		{name: "no claim", want: `fetch ResourceClaim r: resourceclaims.resource.k8s.io "r" not found`, change: func(c *resourcev1.ResourceClaim) { c.Name = "other" }},
		{name: "not allocated", want: "ResourceClaim r: not allocated", change: func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }},
		{name: "another's", want: "pod p (p) is not allowed to use ResourceClaim r (uid-r)", change: func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "q" }},
		{name: "no driver", want: "DRA driver e.io is not registered", change: func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = "e.io" }},
		{name: "operations to skip", want: "ResourceClaim r: DRAOptionalNodeOperations feature gate is disabled on kubelet", change: func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourcev1.SkipNodeOperation{"*"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			m, _ := n.kubelet()
			d, p := serve(t, n.dir, "d.io", "d.sock")
			register(t, m, p)
			c := n.claim("r", []string{"d.io"}, "p").DeepCopy()
			if tc.change(c); c.Name != "r" {
				if err := n.client.Tracker().Delete(resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), "ns", "r"); err != nil {
					t.Fatal(err)
				}
			}
			n.put(c)
			prepare(t, m, using("p", "r"), tc.want)
			unprepare(t, m, "p", "")
			d.want(t, 0)
			nothing(t, n, m)
		})
	}
}

// Whatever a driver does, it is asked again, and what it may have done is undone.
func TestPrepare_BadDriver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		bad        func(*driver)
	}{
		{name: "refuses", want: "NodePrepareResources failed for ResourceClaim r: no", bad: func(d *driver) { d.refuse = "no" }},
		{name: "loses the answer", want: "NodePrepareResources: rpc error: code = Unknown desc = the answer is lost", bad: func(d *driver) { d.lose = true }},
		{name: "skips", want: "NodePrepareResources skipped 1 ResourceClaims", bad: func(d *driver) {
			d.alter = func(all map[string]*drav1.NodePrepareResourceResponse) { delete(all, "uid-r") }
		}},
		{name: "invents", want: "NodePrepareResources returned result for unknown claim UID x", bad: func(d *driver) {
			d.alter = func(all map[string]*drav1.NodePrepareResourceResponse) {
				all["x"] = &drav1.NodePrepareResourceResponse{}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			m, _ := n.kubelet()
			good, p := serve(t, n.dir, "a.io", "a.sock")
			register(t, m, p)
			d, p := serve(t, n.dir, "d.io", "d.sock")
			register(t, m, p)
			n.claim("r", []string{"d.io", "a.io"}, "p", "q")
			d.set(tc.bad)
			prepare(t, m, using("p", "r"), tc.want)
			good.want(t, 1, "prepare ns/r")
			d.set(func(d *driver) { d.refuse, d.lose, d.alter, d.calls = "", false, nil, nil })
			prepare(t, m, using("p", "r"), "")
			d.want(t, 1, "prepare ns/r")
			good.want(t, 1, "prepare ns/r")
			wantCDI(t, m, using("p", "r"), "a.io/c=uid-r-a", "a.io/c=uid-r-b", "d.io/c=uid-r-a", "d.io/c=uid-r-b")

			// The same on the way back: until all have undone it, nobody gets the claim.
			if tc.name == "skips" || tc.name == "invents" {
				return
			}
			d.set(tc.bad)
			unprepare(t, m, "p", strings.ReplaceAll(tc.want, "Prepare", "Unprepare"))
			good.want(t, 0, "unprepare ns/r")
			prepare(t, m, using("q", "r"), "ResourceClaim r is being unprepared")
			d.set(func(d *driver) { d.refuse, d.lose = "", false })
			unprepare(t, m, "p", "")
			nothing(t, n, m)
			d.set(func(d *driver) { d.calls = nil })
			prepare(t, m, using("q", "r"), "")
			d.want(t, 1, "prepare ns/r")
		})
	}
}

// Two pods that come at once with the same claim have it prepared once, and a driver that hangs holds up nobody else.
func TestPrepare_AtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m, _ := n.kubelet()
	slow, p := serve(t, n.dir, "slow.io", "slow.sock")
	register(t, m, p)
	quick, p := serve(t, n.dir, "quick.io", "quick.sock")
	register(t, m, p)
	n.claim("r", []string{"slow.io"}, "one", "two", "three")
	n.claim("q", []string{"quick.io"}, "four")
	hang := make(chan struct{})
	slow.set(func(d *driver) { d.hang = hang })
	errs := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		go func() { errs <- m.Prepare(t.Context(), using(name, "r")) }()
	}
	<-slow.asked
	prepare(t, m, using("four", "q"), "")
	quick.want(t, 1, "prepare ns/q")
	// Who is in more of a hurry gives up.
	ctx, cancel := context.WithCancel(t.Context())
	third := make(chan error, 1)
	go func() { third <- m.Prepare(ctx, using("three", "r")) }()
	cancel()
	if err := <-third; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(hang)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	slow.want(t, 1, "prepare ns/r")
	unprepare(t, m, "one", "")
	unprepare(t, m, "two", "")
	unprepare(t, m, "three", "")
	slow.want(t, 0, "unprepare ns/r")
	unprepare(t, m, "four", "")
	nothing(t, n, m)
}

// A kubelet that is killed while a driver works undoes what that has done; one that is killed later leaves alone what runs.
func TestManager_Killed(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, p := serve(t, n.dir, "d.io", "d.sock")
	n.claim("r", []string{"d.io"}, "p", "q")
	pod := using("p", "r")

	m, stop := n.kubelet()
	register(t, m, p)
	d.set(func(d *driver) { d.lose = true }) // nobody is there any more for the answer
	prepare(t, m, pod, "NodePrepareResources: ")
	stop()
	m, stop = n.kubelet()
	register(t, m, p)
	d.set(func(d *driver) { d.lose, d.calls = false, nil })
	if pods, _ := m.Pods(); !slices.Equal(pods, []types.UID{"p"}) {
		t.Errorf("pods are %v", pods)
	}
	unprepare(t, m, "p", "")
	d.want(t, 0, "unprepare ns/r")
	nothing(t, n, m)
	prepare(t, m, pod, "")
	d.want(t, 1, "prepare ns/r")
	stop()

	// It runs: another pod shares what there is, once the engine tells. No driver is needed to know the devices.
	n.set(func(n *node) { n.runs["p"], n.silent = true, true })
	m, stop = n.kubelet()
	wantCDI(t, m, pod, "d.io/c=uid-r-a", "d.io/c=uid-r-b")
	register(t, m, p)
	if err := m.Prepare(t.Context(), using("q", "r")); err == nil {
		t.Error("nobody knows whether it is prepared")
	}
	n.set(func(n *node) { n.silent = false })
	prepare(t, m, using("q", "r"), "")
	d.want(t, 1)
	stop()

	// The machine was off: the driver is asked again, once, which takes no API server.
	n.set(func(n *node) { n.runs, n.away = map[types.UID]bool{}, true })
	m, stop = n.kubelet()
	prepare(t, m, pod, "DRA driver d.io is not registered")
	register(t, m, p)
	prepare(t, m, pod, "")
	prepare(t, m, using("q", "r"), "")
	d.want(t, 1, "prepare ns/r")
	n.set(func(n *node) { n.away = false })

	// Killed while it is undone.
	unprepare(t, m, "q", "")
	d.set(func(d *driver) { d.lose = true })
	unprepare(t, m, "p", "NodeUnprepareResources: ")
	stop()
	d.set(func(d *driver) { d.lose, d.calls = false, nil })
	n.set(func(n *node) { n.runs["p"] = true }) // which must not make it prepared
	m, stop = n.kubelet()
	register(t, m, p)
	prepare(t, m, using("q", "r"), "ResourceClaim r is being unprepared")
	unprepare(t, m, "p", "")
	d.want(t, 0, "unprepare ns/r")
	nothing(t, n, m)
	stop()
}

// A claim that is made anew under its name waits for the one before, and what a pod had before somebody replaced it is undone, too.
func TestManager_Replaced(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m, _ := n.kubelet()
	d, p := serve(t, n.dir, "d.io", "d.sock")
	register(t, m, p)
	old := n.claim("r", []string{"d.io"}, "p", "q")
	prepare(t, m, using("p", "r"), "")
	fresh := old.DeepCopy()
	fresh.UID = "uid-new"
	n.put(fresh)
	prepare(t, m, using("q", "r"), "old ResourceClaim with same name r and different UID uid-r still exists (previous pod force-deleted?!)")
	unprepare(t, m, "p", "")
	prepare(t, m, using("q", "r"), "")
	unprepare(t, m, "q", "")
	d.set(func(d *driver) { d.calls = nil })

	n.claim("t1", []string{"d.io"}, "t")
	n.claim("t2", []string{"d.io"}, "t")
	pod := using("t", "t1")
	d.set(func(d *driver) { d.lose = true })
	prepare(t, m, pod, "NodePrepareResources: ")
	d.set(func(d *driver) { d.lose = false })
	pod.Spec.ResourceClaims[0].ResourceClaimName = new("t2")
	prepare(t, m, pod, "")
	prepare(t, m, pod, "")
	d.want(t, 2, "prepare ns/t1", "prepare ns/t2")
	wantCDI(t, m, pod, "d.io/c=uid-t2-a", "d.io/c=uid-t2-b")
	unprepare(t, m, "t", "")
	d.want(t, 0, "unprepare ns/t1 ns/t2")
	nothing(t, n, m)
}

// Without a note on disk no driver is asked, and nothing counts as prepared.
func TestManager_FullDisk(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m, _ := n.kubelet()
	d, p := serve(t, n.dir, "d.io", "d.sock")
	register(t, m, p)
	n.claim("r", []string{"d.io"}, "p")
	path := filepath.Join(n.dir, stateFile)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	prepare(t, m, using("p", "r"), "checkpoint ResourceClaim state: ")
	d.want(t, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	prepare(t, m, using("p", "r"), "")
	d.want(t, 1, "prepare ns/r")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	unprepare(t, m, "p", "checkpoint ResourceClaim state: ")
	d.want(t, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unprepare(t, m, "p", "")
	d.want(t, 0, "unprepare ns/r")
	nothing(t, n, m)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "[]", `{"claims":{"u":null}}`, `{"pods":{"p":null}}`, `{"pods":{"p":{"claims":{"r":"u"}}}}`} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := load(path); err == nil || s.Claims == nil || s.Pods == nil {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

// connected is the file of the driver's instance that is spoken with, if it is connected.
func connected(m *Manager, driver string) string {
	i, err := m.driver(driver)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || !i.connected {
		return ""
	}
	return filepath.Base(i.endpoint)
}

// During an update the newest instance that is there is spoken with; one that restarts at its socket is found again.
func TestInstances(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m, _ := n.kubelet()
	old, first := serve(t, n.dir, "d.io", "old.sock")
	register(t, m, first)
	eventually(t, "the first is connected", func() bool { return connected(m, "d.io") == "old.sock" })
	fresh, second := serve(t, n.dir, "d.io", "new.sock")
	register(t, m, second)
	eventually(t, "the second is connected", func() bool { return connected(m, "d.io") == "new.sock" })
	if err := m.Registered().Register(t.Context(), second); err == nil || !strings.Contains(err.Error(), "already registered for DRA driver plugin d.io") {
		t.Errorf("the same once more: %v", err)
	}
	n.claim("r", []string{"d.io"}, "p")
	prepare(t, m, using("p", "r"), "")
	fresh.want(t, 1, "prepare ns/r")
	fresh.server.Stop()
	eventually(t, "the first is spoken with again", func() bool { return connected(m, "d.io") == "old.sock" })
	unprepare(t, m, "p", "")
	old.want(t, 0, "unprepare ns/r")
	fresh.listen(t)
	eventually(t, "the second is there again", func() bool { return connected(m, "d.io") == "new.sock" })
	m.Registered().Deregister(second)
	m.Registered().Deregister(second)
	if got := connected(m, "d.io"); got != "old.sock" {
		t.Errorf("after the second has gone: %s", got)
	}
	m.Registered().Deregister(first)
	prepare(t, m, using("p", "r"), "DRA driver d.io is not registered")
}

func TestRegister_Refused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m := New(t.Context(), Config{RootDir: n.dir, NodeName: "n1", Client: n.client, Clock: n.clock, Metrics: n})
	p := pluginregistration.Plugin{Name: "d.io", Endpoint: filepath.Join(n.dir, "s"), Versions: []string{"v1alpha4.Node"}}
	if err := m.Registered().Validate(p); err == nil || !strings.Contains(err.Error(),
		`none of services supported by the plugin (["v1alpha4.Node"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])`) {
		t.Errorf("got %v", err)
	}
	p.Versions = []string{"v1.DRAPlugin"}
	if err := m.Registered().Register(t.Context(), p); !errors.Is(err, errStopped) {
		t.Errorf("before the start: %v", err)
	}
	p.Endpoint = "/elsewhere/s"
	if err := m.Registered().Register(t.Context(), p); err == nil || !strings.Contains(err.Error(), "not below the kubelet's directory") {
		t.Errorf("elsewhere: %v", err)
	}
}

// wiped are the field selectors of the removals of ResourceSlices so far.
func (n *node) wiped() []string {
	var out []string
	for _, a := range n.client.Actions() {
		if d, is := a.(clienttesting.DeleteCollectionAction); is {
			out = append(out, d.GetListRestrictions().Fields.String())
		}
	}
	return out
}

// What drivers have told goes at the start, and when one has been away for long; not when it is only replaced.
func TestSlices(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *node) { n.away = true })
	m, _ := n.kubelet()
	await := func(want ...string) {
		t.Helper()
		eventually(t, "slices are removed", func() bool { return len(n.wiped()) >= len(want) })
		if got := n.wiped(); !slices.Equal(got, want) {
			t.Fatalf("removed are %q, want %q", got, want)
		}
	}
	const all, own = "spec.nodeName=n1", "spec.driver=d.io,spec.nodeName=n1"
	await(all)
	n.set(func(n *node) { n.away = false })
	eventually(t, "it waits", n.clock.HasWaiters)
	n.clock.Step(firstWipe)
	await(all, all)
	eventually(t, "that was all", func() bool { return !n.clock.HasWaiters() })

	d, p := serve(t, n.dir, "d.io", "d.sock")
	register(t, m, p)
	is := func() bool { return connected(m, "d.io") == "d.sock" }
	waits := func(want bool) func() bool { return func() bool { return n.clock.HasWaiters() == want } }
	eventually(t, "it is connected", is)
	eventually(t, "nothing is to be removed", waits(false))
	m.Registered().Deregister(p)
	eventually(t, "it is waited for", waits(true))
	n.clock.Step(wipeDelay - time.Second)
	register(t, m, p)
	eventually(t, "it is connected", is)
	eventually(t, "nothing is to be removed", waits(false))
	d.server.Stop() // it stays registered
	eventually(t, "it is waited for", waits(true))
	n.clock.Step(wipeDelay)
	await(all, all, own)
	d.listen(t)
	eventually(t, "it is connected", is)
	m.Registered().Deregister(p)
	eventually(t, "it is waited for", waits(true))
	n.clock.Step(wipeDelay)
	await(all, all, own, own)
}

// Health is what the newest driver says, for as long as it says; pods are looked at when it changes.
func TestHealth(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	m, _ := n.kubelet()
	d, p := serve(t, n.dir, "d.io", "d.sock", drav1.DRAPluginService, drahealthv1.DRAResourceHealthService)
	register(t, m, p)
	old, q := serve(t, n.dir, "e.io", "e.sock", drav1.DRAPluginService, drahealthv1alpha1.DRAResourceHealthService)
	register(t, m, q)
	n.claim("r", []string{"d.io", "e.io"}, "p")
	pod := using("p", "r")
	pod.Spec.Containers[0].Resources.Claims[0].Request = "first"
	prepare(t, m, pod, "")
	health := func() string {
		var out []string
		for _, s := range m.Health(pod, &pod.Spec.Containers[0]) {
			out = append(out, string(s.Name))
			for _, r := range s.Resources {
				text := string(r.ResourceID) + " " + string(r.Health)
				if r.Message != nil {
					text += " " + *r.Message
				}
				out = append(out, text)
			}
		}
		return strings.Join(out, ", ")
	}
	await := func(d, e string) {
		t.Helper()
		want := "claim:r/first, d.io/c=uid-r-a " + d + ", e.io/c=uid-r-a " + e
		eventually(t, want, func() bool { return health() == want })
	}
	report := func(h drahealthv1.HealthStatus, text string, seconds int64) []*drahealthv1.DeviceHealth {
		return []*drahealthv1.DeviceHealth{{Device: &drahealthv1.DeviceIdentifier{PoolName: "pool", DeviceName: "a"}, Health: h, Message: text, HealthCheckTimeoutSeconds: seconds}}
	}
	await("Unknown", "Unknown")
	d.health <- report(drahealthv1.HealthStatus_HEALTHY, "", 0)
	old.health <- report(drahealthv1.HealthStatus_UNHEALTHY, "hot", 3600)
	await("Healthy", "Unhealthy hot")
	eventually(t, "the pod is looked at", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.Equal(n.woken, []types.UID{"p", "p"})
	})
	n.clock.Step(healthTimeout)
	await("Unknown", "Unhealthy hot")
	d.health <- report(drahealthv1.HealthStatus_HEALTHY, strings.Repeat("x", 2000), 0)
	await("Healthy "+strings.Repeat("x", 1021)+"...", "Unhealthy hot")
	close(d.health)
	await("Unknown", "Unhealthy hot")
	m.Registered().Deregister(q)
	await("Unknown", "Unknown")
}
