// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

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

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	events "k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/csitest"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/token"
	"minik8s.io/minik8s/pkg/machinetest"
)

const driverName = "d.test"

// fixture is a node with a driver that makes real mounts.
type fixture struct {
	calls calls
	*CSI
	t      *testing.T
	root   string
	driver *csitest.Driver
	client *fake.Clientset
	events chan string
	// at is what the clock is ahead.
	clock *ahead
}

// ahead is a clock that a test can put forward.
type ahead struct {
	clock.RealClock
	by time.Duration
}

func (a *ahead) Now() time.Time { return time.Now().Add(a.by) }

func (a *ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }

// newFixture starts the driver and registers it. When the test ends nothing may be left of any volume.
func newFixture(t *testing.T, d *csitest.Driver, objects ...runtime.Object) *fixture {
	t.Helper()
	machinetest.Root(t, "to mount")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d.Name, d.NodeID, d.Data = driverName, "there", filepath.Join(root, "data")
	f := &fixture{t: t, root: filepath.Join(root, "kubelet"), driver: d, clock: &ahead{}, events: make(chan string, 100)}
	objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}})
	f.client = fake.NewClientset(objects...)
	if err := errors.Join(os.MkdirAll(filepath.Join(d.Data, "v"), 0o777), d.Start(filepath.Join(f.root, "plugins/d/csi.sock"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	t.Cleanup(func() {
		left, err := mount.Linux{}.Under(root)
		if err != nil || len(left) > 0 {
			t.Errorf("mounted still: %v, %v", left, err)
		}
		for _, m := range left {
			_ = unix.Unmount(m, unix.MNT_DETACH)
		}
		for _, pattern := range []string{"pods/*/volumes/*/*", "plugins/kubernetes.io/csi/d.test/*", "plugins/kubernetes.io/csi/volumeDevices/*/*"} {
			if found, err := filepath.Glob(filepath.Join(f.root, pattern)); err != nil || len(found) > 0 {
				t.Errorf("on disk still: %v, %v", found, err)
			}
		}
	})
	f.restart()
	return f
}

// calls are those that somebody was told of.
type calls struct {
	mu  sync.Mutex // guards all
	all [][2]string
}

func (c *calls) CSICall(driver, method string, _ time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, [2]string{method, driver + " " + status.Code(err).String()})
}

// of are the drivers and results of those of a method of drivers of nodes.
func (c *calls) of(method string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, call := range c.all {
		if call[0] == "/csi.v1.Node/"+method {
			out = append(out, call[1])
		}
	}
	return out
}

// restart is what a kubelet finds that starts after one that was killed.
func (f *fixture) restart() {
	f.t.Helper()
	c, err := New(Config{
		RootDir: f.root, NodeName: "n", Client: f.client, Recorder: &events.FakeRecorder{Events: f.events}, Clock: f.clock,
		Node:   func() *corev1.Node { return nil },
		Tokens: token.New(f.client, f.clock), Mounts: mount.Linux{}, InUse: func() {}, Calls: &f.calls,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.infos.Stop)
	f.CSI = c
	f.register()
}

func (f *fixture) register() {
	f.t.Helper()
	if err := f.Registrar.Register(f.t.Context(), f.plugin()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) plugin() pluginregistration.Plugin {
	return pluginregistration.Plugin{Name: driverName, Endpoint: filepath.Join(f.root, "plugins/d/csi.sock"), Versions: []string{"1.0.0"}}
}

// setUp brings volume "v" to a pod.
func (f *fixture) setUp(pod string, change ...func(*corev1.PersistentVolume)) (string, error) {
	return f.setUpWithin(f.t.Context(), pod, change...)
}

func (f *fixture) setUpWithin(ctx context.Context, pod string, change ...func(*corev1.PersistentVolume)) (string, error) {
	pv, claim := persistent(), claimed()
	for _, c := range change {
		c(pv)
	}
	return f.SetUpClaim(ctx, mountOf(pod), pv, claim)
}

func persistent() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "v"}
	return pv
}

func claimed() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim"}}
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func mountOf(pod string) plugin.Mount {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, UID: types.UID(pod)}}
	p.Spec.ServiceAccountName = "sa"
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
	}}}
	return plugin.Mount{Pod: p, Volume: &p.Spec.Volumes[0]}
}

// unattached is a CSIDriver whose volumes nobody attaches.
func unattached(change ...func(*storagev1.CSIDriverSpec)) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}
	for _, c := range change {
		c(&d.Spec)
	}
	return d
}

func stages() *csitest.Driver {
	return &csitest.Driver{Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}
}

var steps = []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}

// methods are those of the calls that change something, in short.
func (f *fixture) methods() string {
	var out []string
	for _, c := range f.driver.Calls(steps...) {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(c.Method, "Node"), "Volume"))
	}
	return strings.Join(out, " ")
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// A volume is staged once, published to each pod, and unstaged when the last one goes. What has been set up is left alone.
func TestSetUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, stages(), unattached())
	first, err := f.setUp("a")
	f.check(err)
	second, err := f.setUp("b")
	f.check(err)
	f.check(os.WriteFile(filepath.Join(first, "file"), []byte("text"), 0o600))
	if data, err := os.ReadFile(filepath.Join(second, "file")); err != nil || string(data) != "text" {
		t.Errorf("the other pod reads %q, %v", data, err)
	}
	if want := filepath.Join(f.root, "pods/a/volumes/kubernetes.io~csi/pv/mount"); first != want {
		t.Errorf("at %s, want %s", first, want)
	}
	if known, due := f.Due("a", first); !known || due {
		t.Errorf("after it: known %t, due %t", known, due)
	}
	f.clock.by = time.Minute
	if _, due := f.Due("a", first); !due {
		t.Error("it is never looked at again")
	}
	_, err = f.setUp("a")
	f.check(err)
	if known, _ := f.Due("a", f.root); known {
		t.Error("another path is a volume")
	}
	f.restart() // what is mounted is found
	if _, err := f.setUp("a"); err != nil || !f.Holds("a", first) {
		t.Errorf("after a restart: %v", err)
	}
	f.takeAway("a")
	f.takeAway("a")
	if _, err := os.Stat(filepath.Join(second, "file")); err != nil {
		t.Errorf("the other pod has lost its volume: %v", err)
	}
	f.takeAway("b")
	if got, want := f.methods(), "Stage Publish Publish Unpublish Unpublish Unstage"; got != want {
		t.Errorf("calls are %s, want %s", got, want)
	}
	if got := f.calls.of("NodePublishVolume"); !slices.Equal(got, []string{driverName + " OK", driverName + " OK"}) {
		t.Errorf("told of %v", got)
	}
	if data, err := os.ReadFile(filepath.Join(f.driver.Data, "v", "file")); err != nil || string(data) != "text" {
		t.Errorf("the volume has %q, %v", data, err)
	}
}

// TestFaults: whatever becomes of a call, and if the kubelet is killed then, the next one sets the volume up, and nothing is left of it.
func TestFaults(t *testing.T) {
	t.Parallel()
	away := status.Error(codes.Unavailable, "away")
	for name, fault := range map[string]csitest.Fault{
		"refused": {Err: status.Error(codes.Internal, "refused")}, "not done": {Err: away}, "answer lost": {Err: away, Done: true},
		"hangs": {Hang: true}, "hangs after it was done": {Hang: true, Done: true},
	} {
		for at, step := range steps {
			for _, again := range []bool{false, true} {
				what := map[bool]string{false: " and goes", true: " and tries again"}[again]
				t.Run(step+" "+name+what, func(t *testing.T) {
					t.Parallel()
					fault := fault
					f := newFixture(t, stages(), unattached())
					short, cancel := context.WithCancel(t.Context())
					defer cancel()
					fault.Met = make(chan struct{})
					if fault.Hang {
						go func() { <-fault.Met; cancel() }()
					}
					var err error
					if at >= 2 {
						_, err = f.setUp("a")
						f.check(err)
					}
					f.driver.Fail(step, fault)
					if at < 2 {
						_, err = f.setUpWithin(short, "a")
					} else {
						err = f.TearDown(short, "a")
					}
					if step == "NodeUnstageVolume" { // which holds up no pod
						f.check(err)
						err = f.takeLeftWithin(short)
					}
					if err == nil {
						t.Fatal("nobody has noticed")
					}
					f.restart()
					if again {
						path, err := f.setUp("a")
						f.check(err)
						f.check(os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
						if _, err := os.Stat(filepath.Join(f.driver.Data, "v", "file")); err != nil {
							t.Errorf("what the pod writes is not in the volume: %v", err)
						}
					}
					f.takeAway("a")
				})
			}
		}
	}
}

// takeAway has a pod leave, and unstages what it has left.
func (f *fixture) takeAway(pod types.UID) {
	f.t.Helper()
	f.check(f.TearDown(f.t.Context(), pod))
	f.check(f.takeLeftWithin(f.t.Context()))
}

// takeLeftWithin unstages what pods have left.
func (f *fixture) takeLeftWithin(ctx context.Context) error {
	var errs []error
	for _, r := range f.records.of(leftBehind) {
		errs = append(errs, f.takeLeft(ctx, r))
	}
	return errors.Join(errs...)
}

// A pod leaves though its volume cannot be unstaged, which stays in use. The next pod has it staged again, and takes it away for both.
func TestTearDown_Left(t *testing.T) {
	t.Parallel()
	refused := csitest.Fault{Err: status.Error(codes.InvalidArgument, "refused")}
	alone := func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	f := newFixture(t, stages(), unattached())
	_, err := f.setUp("a", alone)
	f.check(err)
	f.driver.Fail("NodeUnstageVolume", refused)
	f.check(f.TearDown(t.Context(), "a"))
	if _, err := os.Stat(filepath.Join(f.root, "pods/a/volumes/kubernetes.io~csi/pv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of the pod is left: %v", err)
	}
	left := f.records.of(leftBehind)
	if len(left) != 1 || left[0].Handle != "v" || left[0].Published {
		t.Fatalf("left are %+v", left)
	}
	if err := f.takeLeftWithin(t.Context()); err == nil {
		t.Error("it is unstaged, which was refused")
	}
	f.restart()
	_, err = f.setUp("b", alone)
	f.check(err)
	f.takeAway("b")
	if left := f.records.of(leftBehind); len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
	if got, want := f.methods(), "Stage Publish Unpublish Unstage Stage Publish Unpublish Unstage"; got != want {
		t.Errorf("calls are %s, want %s", got, want)
	}
}

// What a pod has left is unstaged as soon as the driver does it, by a later kubelet too, and not while another pod has it.
func TestUnstageLeft(t *testing.T) {
	t.Parallel()
	refused := csitest.Fault{Err: status.Error(codes.Unavailable, "away")}
	f := newFixture(t, stages(), unattached())
	_, err := f.setUp("a")
	f.check(err)
	f.check(f.TearDown(t.Context(), "a"))
	_, err = f.setUp("b")
	f.check(err)
	f.check(f.takeLeftWithin(t.Context()))
	if got, want := f.methods(), "Stage Publish Unpublish Publish"; got != want {
		t.Errorf("calls are %s, want %s", got, want)
	}
	f.check(f.TearDown(t.Context(), "b"))
	f.driver.Fail("NodeUnstageVolume", refused)
	f.restart()
	f.unstaging(func() { f.awaitNothingLeft() })
}

// unstaging does something while what pods have left is unstaged.
func (f *fixture) unstaging(do func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var done sync.WaitGroup
	done.Go(func() { f.unstageLeft(ctx) })
	do()
	cancel()
	done.Wait()
}

func (f *fixture) awaitNothingLeft() {
	f.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(f.records.of(leftBehind)) > 0; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("it is never unstaged")
		}
	}
}

// A driver that hangs when it is to unstage a volume holds up neither the pod that had it, nor one that waits for it and is deleted, nor
// other volumes.
func TestUnstage_Hangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, stages(), unattached())
	f.check(os.Mkdir(filepath.Join(f.driver.Data, "w"), 0o777))
	other := func(pv *corev1.PersistentVolume) { pv.Name, pv.Spec.CSI.VolumeHandle = "other", "w" }
	_, err := f.setUp("a")
	f.check(err)
	_, err = f.setUp("o", other)
	f.check(err)
	began, fault := time.Now(), csitest.Fault{Hang: true, Met: make(chan struct{})}
	f.driver.Fail("NodeUnstageVolume", fault)
	f.unstaging(func() {
		f.check(f.TearDown(t.Context(), "a"))
		<-fault.Met
		short, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { _, err = f.setUpWithin(short, "b") })
		for len(f.records.of("b")) == 0 {
			<-time.After(time.Millisecond)
		}
		cancel()
		waiting.Wait()
		if err == nil {
			t.Error("a pod has what is being unstaged")
		}
		f.check(f.TearDown(t.Context(), "b"))
		f.check(f.TearDown(t.Context(), "o"))
		for len(f.records.of(leftBehind)) > 1 && time.Since(began) < patience/2 {
			<-time.After(time.Millisecond)
		}
	})
	if left := f.records.of(leftBehind); len(left) != 1 || left[0].Handle != "v" {
		t.Errorf("left are %+v", left)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %s", took)
	}
	f.unstaging(f.awaitNothingLeft) // a call that was given up is made again
}

// Of a pod's volumes one whose driver hangs does not hold up the others.
func TestUnpublish_Hangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &csitest.Driver{}, unattached())
	f.check(os.Mkdir(filepath.Join(f.driver.Data, "w"), 0o777))
	_, err := f.setUp("a")
	f.check(err)
	_, err = f.setUp("a", func(pv *corev1.PersistentVolume) { pv.Name, pv.Spec.CSI.VolumeHandle = "other", "w" })
	f.check(err)
	f.driver.Fail("NodeUnpublishVolume", csitest.Fault{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f.TearDown(ctx, "a") }()
	for deadline := time.Now().Add(10 * time.Second); len(f.records.of("a")) != 1; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the other volume stays")
			break
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a volume that is there still is taken for gone")
	}
	f.takeAway("a")
}

// Of two pods that go at once one stays, by whose record the volume is unstaged.
func TestRecords_YieldAtOnce(t *testing.T) {
	t.Parallel()
	for range 100 {
		r, err := load(layout{t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var going sync.WaitGroup
		for _, pod := range []types.UID{"a", "b", leftBehind} {
			one := record{pod: pod, Name: "pv", Driver: driverName, Handle: "v"}
			if err := r.set(one); err != nil {
				t.Fatal(err)
			}
			going.Go(func() { _, _ = r.yield(one) })
		}
		going.Wait()
		if left := r.filter(func(record) bool { return true }); len(left) != 1 {
			t.Fatalf("left are %+v", left)
		}
	}
}

// What a driver refuses for good needs no driver to be taken back; what it says without doing it is found out.
func TestFaults_Lies(t *testing.T) {
	t.Parallel()
	for _, step := range steps[:2] {
		f := newFixture(t, stages(), unattached())
		f.driver.Fail("NodeStageVolume", csitest.Fault{Err: status.Error(codes.InvalidArgument, "never")})
		if _, err := f.setUp("a"); err == nil || !strings.HasPrefix(err.Error(), `MountVolume.MountDevice failed for volume "pv" : `) {
			t.Errorf("%s: %v", step, err)
		}
		f.Registrar.Deregister(f.plugin())
		f.takeAway("a")
	}
	f := newFixture(t, stages(), unattached())
	f.driver.Fail("NodePublishVolume", csitest.Fault{Lie: true})
	if _, err := f.setUp("a"); err == nil || !strings.Contains(err.Error(), "the driver has published nothing at the target path") {
		t.Errorf("published: %v", err)
	}
	_, err := f.setUp("a")
	f.check(err)
	const mounted = "is still mounted, although the driver has taken the volume away"
	f.driver.Fail("NodeUnpublishVolume", csitest.Fault{Lie: true})
	if err := f.TearDown(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), mounted) {
		t.Errorf("unpublished: %v", err)
	}
	f.driver.Fail("NodeUnstageVolume", csitest.Fault{Lie: true})
	f.check(f.TearDown(t.Context(), "a"))
	if err := f.takeLeftWithin(t.Context()); err == nil || !strings.Contains(err.Error(), mounted) {
		t.Errorf("unstaged: %v", err)
	}
	f.check(f.takeLeftWithin(t.Context()))
}

// Without its driver a volume cannot be set up, goes on if it was, and is not taken away.
func TestDriverGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, stages(), unattached())
	_, err := f.setUp("a")
	f.check(err)
	f.Registrar.Deregister(f.plugin())
	if _, err := f.setUp("a"); err != nil {
		t.Errorf("a pod that has it: %v", err)
	}
	const want = `MountVolume.SetUp failed for volume "pv" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: ` +
		"driver name d.test not found in the list of registered CSI drivers"
	if _, err := f.setUp("b"); err == nil || err.Error() != want {
		t.Errorf("another pod: %v", err)
	}
	f.takeAway("b")
	if err := f.TearDown(t.Context(), "a"); err == nil {
		t.Error("it was taken away by nobody")
	}
	f.register()
	f.takeAway("a")
}

// A pod that has a volume goes on with it while its driver does not do what it is asked for: what was to be done is told, and asked for
// again later.
func TestDriverAway(t *testing.T) {
	t.Parallel()
	away := status.Error(codes.Unavailable, "away")
	for _, tc := range []struct {
		name, step string
		republish  bool
		told       string
	}{
		{"with nothing to do", "NodeGetCapabilities", false, ""},
		{"to be published again", "NodeGetCapabilities", true, `Warning FailedMount MountVolume.SetUp failed for volume "pv" : ` +
			"kubernetes.io/csi: failed to get capabilities of the driver: rpc error: code = Unavailable desc = away"},
		{"when it is published again", "NodePublishVolume", true, `Warning FailedMount MountVolume.SetUp failed for volume "pv" : ` +
			"rpc error: code = Unavailable desc = away"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, stages(), unattached(func(s *storagev1.CSIDriverSpec) { s.RequiresRepublish = new(tc.republish) }))
			path, err := f.setUp("a")
			f.check(err)
			f.clock.by += time.Minute
			f.driver.Fail(tc.step, csitest.Fault{Err: away})
			if again, err := f.setUp("a"); err != nil || again != path {
				t.Errorf("it is at %q: %v", again, err)
			}
			f.beside.Wait()
			told := ""
			select {
			case told = <-f.events:
			default:
			}
			if told != tc.told {
				t.Errorf("told %q, want %q", told, tc.told)
			}
			if _, due := f.Due("a", path); due {
				t.Error("who has just failed is asked again at once")
			}
			f.takeAway("a")
		})
	}
}

// A driver that takes long to do something about a volume of a pod holds up neither the pod nor its end, and is not asked again meanwhile.
func TestDriverSlow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, stages(), unattached(func(s *storagev1.CSIDriverSpec) { s.RequiresRepublish = new(true) }))
	_, err := f.setUp("a")
	f.check(err)
	began, fault := time.Now(), csitest.Fault{Hang: true, Met: make(chan struct{})}
	f.driver.Fail("NodePublishVolume", fault)
	short, cancel := context.WithCancel(t.Context())
	f.clock.by += time.Minute
	_, err = f.setUpWithin(short, "a")
	f.check(err)
	<-fault.Met
	cancel() // the pass of the worker has ended
	f.clock.by += time.Minute
	_, err = f.setUp("a")
	f.check(err)
	f.takeAway("a")
	f.beside.Wait()
	if took := time.Since(began); took > lookPatience/2 {
		t.Errorf("it took %s", took)
	}
	if got, want := f.methods(), "Stage Publish Publish Unpublish Unstage"; got != want {
		t.Errorf("calls are %s, want %s", got, want)
	}
	select {
	case told := <-f.events:
		t.Errorf("told %q of a volume that goes", told)
	default:
	}
}

// With ReadWriteOncePod a second pod waits until the first has left; a record that cannot be read keeps its pod.
func TestOncePod(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &csitest.Driver{}, unattached())
	once := func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	_, err := f.setUp("a", once)
	f.check(err)
	f.restart()
	if _, err := f.setUp("b", once); err == nil || !strings.HasSuffix(err.Error(), "already in use by another pod") {
		t.Errorf("a second pod: %v", err)
	}
	file := filepath.Join(f.layout.pod("a", "pv"), recordFile)
	good, err := os.ReadFile(file)
	f.check(err)
	f.check(os.WriteFile(file, []byte("{"), 0o600))
	broken, err := New(f.cfg)
	if err == nil || broken == nil {
		t.Fatalf("a broken record: %v", err)
	}
	if err := broken.TearDown(t.Context(), "a"); err == nil {
		t.Error("a pod left whose record is broken")
	}
	f.check(os.WriteFile(file, good, 0o600))
	f.takeAway("a")
	_, err = f.setUp("b", once)
	f.check(err)
	f.takeAway("b")
}

// After a restart of the machine nothing is mounted: the volume is set up again.
func TestMachineRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, stages(), unattached())
	path, err := f.setUp("a")
	f.check(err)
	points, err := mount.Linux{}.Under(f.root)
	f.check(err)
	for _, p := range points {
		f.check(unix.Unmount(p, 0))
	}
	f.restart()
	if f.Holds("a", path) {
		t.Error("what is not mounted is held")
	}
	_, err = f.setUp("a")
	f.check(err)
	if _, err := os.ReadDir(path); err != nil || !f.Holds("a", path) {
		t.Errorf("it is not there: %v", err)
	}
	f.takeAway("a")
	if got, want := f.methods(), "Stage Publish Stage Publish Unpublish Unstage"; got != want {
		t.Errorf("calls are %s, want %s", got, want)
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	d := stages()
	f := newFixture(t, d, unattached())
	d.Device = filepath.Join(d.Data, "device")
	if err := unix.Mknod(d.Device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 251))); err != nil {
		machinetest.Lacks(t, "making a device node: %v", err)
	}
	block := func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }
	path, err := f.setUp("a", block)
	f.check(err)
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != os.ModeDevice {
		t.Errorf("%s is %v, %v", path, info.Mode(), err)
	}
	if known, _ := f.Due("a", path); !known {
		t.Error("it is not known")
	}
	f.restart()
	f.takeAway("a")
	if left, err := filepath.Glob(filepath.Join(f.root, "plugins/kubernetes.io/csi/volumeDevices/*/*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	d := &csitest.Driver{}
	f := newFixture(t, d, unattached())
	path, err := f.setUp("a")
	f.check(err)
	if f.Stats("a", f.root) != nil {
		t.Error("what is no volume has figures")
	}
	if _, err := f.Stats("a", path)(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a driver that tells none: %v", err)
	}
	d.Capabilities = append(d.Capabilities, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	got, err := f.Stats("a", path)(t.Context())
	if err != nil || *got.UsedBytes != 300 || *got.CapacityBytes != 1000 || *got.AvailableBytes != 700 || *got.InodesUsed != 30 {
		t.Errorf("got %+v, %v", got, err)
	}
	f.takeAway("a")
}
