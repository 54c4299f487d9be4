// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	volumehelper "k8s.io/component-helpers/storage/volume"
)

func claim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "uid", Annotations: map[string]string{volumehelper.AnnStorageProvisioner: Name, volumehelper.AnnSelectedNode: "n"},
	}}
	c.Spec.StorageClassName = new(ClassName)
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, f := range change {
		f(c)
	}
	return c
}

// nodeWith is the node n, that keeps volumes in /dir, with what was asked of it and what it reported.
func nodeWith(asked, reported directories) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Annotations: map[string]string{annotationDirectory: "/dir"}}}
	for key, d := range map[string]directories{annotationAsked: asked, annotationReported: reported} {
		if len(d) > 0 {
			n.Annotations[key] = d.String()
		}
	}
	return n
}

type fixture struct {
	*Provisioner
	client *fake.Clientset
	events *record.FakeRecorder
}

// setUp returns a provisioner whose cache has the objects, without running it.
func setUp(t *testing.T, objects ...runtime.Object) fixture {
	t.Helper()
	client, events := fake.NewClientset(append(objects, Class())...), record.NewFakeRecorder(10)
	p, err := New(Config{Client: client, Recorder: events})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.informers.StartWithContext(ctx)
	p.informers.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		p.informers.Shutdown()
	})
	return fixture{p, client, events}
}

func (f fixture) volumes(t *testing.T) []corev1.PersistentVolume {
	t.Helper()
	list, err := f.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (f fixture) asked(t *testing.T) directories {
	t.Helper()
	n, err := f.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return parse(n.Annotations[annotationAsked])
}

func (f fixture) said() []string {
	close(f.events.Events)
	var all []string
	for e := range f.events.Events {
		all = append(all, e)
	}
	return all
}

func TestProvision(t *testing.T) {
	t.Parallel()
	annotated := func(key, value string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Annotations[key] = value }
	}
	waits, there := directories{"pvc-uid": present}, directories{"pvc-uid": present}
	for _, tc := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		node  *corev1.Node
		asked directories
		event string
		made  bool
	}{
		{"wanted", claim(), nodeWith(nil, nil), waits, `Normal Provisioning External provisioner is provisioning volume for claim "ns/c"`, false},
		{"directory about to go", claim(), nodeWith(directories{"pvc-uid": absent}, there), directories{"pvc-uid": absent},
			`Normal Provisioning External provisioner is provisioning volume for claim "ns/c"`, false},
		{"directory gone", claim(), nodeWith(directories{"pvc-uid": absent}, directories{"pvc-uid": absent}), waits,
			`Normal Provisioning External provisioner is provisioning volume for claim "ns/c"`, false},
		{"directory there", claim(), nodeWith(waits, there), waits, "Normal ProvisioningSucceeded Successfully provisioned volume pvc-uid", true},
		{"directory cannot be made", claim(), nodeWith(waits, directories{"pvc-uid": "disk full"}), waits,
			`Warning ProvisioningFailed failed to provision volume with StorageClass "local-path": disk full`, false},
		{"no keeper", claim(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, directories{},
			`Warning ProvisioningFailed failed to provision volume with StorageClass "local-path": node "n" has not said where it keeps volumes`, false},
		{"on another node", claim(annotated(volumehelper.AnnSelectedNode, "other")), nodeWith(nil, there), directories{}, "", false},
		{"of another provisioner", claim(annotated(volumehelper.AnnStorageProvisioner, "other")), nodeWith(nil, there), directories{}, "", false},
		{"bound", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), nodeWith(nil, there), directories{}, "", false},
		{"deleted", claim(func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"f"}
		}), nodeWith(nil, there), directories{}, "", false},
		{"deleted while its directory was made", claim(func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"f"}
		}), nodeWith(waits, there), directories{"pvc-uid": absent}, "", false},
		{"block device", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }), nodeWith(nil, there), directories{},
			`Warning ProvisioningFailed failed to provision volume with StorageClass "local-path": block devices are not supported`, false},
		{"selector", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), nodeWith(nil, there), directories{},
			`Warning ProvisioningFailed failed to provision volume with StorageClass "local-path": claim Selector is not supported`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tc.claim, tc.node)
			for range 2 { // the second time nothing is left to do, and nothing to say
				if err := f.sync(t.Context(), "n"); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			if tc.event != "" {
				want = []string{tc.event}
			}
			if diff := cmp.Diff(want, f.said()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got := f.asked(t); !cmp.Equal(got, tc.asked) && !tc.made {
				t.Errorf("asked for %v, want %v", got, tc.asked)
			}
			volumes := f.volumes(t)
			if made := len(volumes) == 1; made != tc.made || len(volumes) > 1 {
				t.Fatalf("volumes are %v", volumes)
			}
			if !tc.made {
				return
			}
			if diff := cmp.Diff(*volumeFor(tc.claim, Class(), "n", "/dir"), volumes[0], cmpopts.IgnoreFields(corev1.PersistentVolume{}, "TypeMeta", "ManagedFields")); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
		})
	}
}

// The directory of a claim goes when its pod has been put onto another node, but not the one that its volume is in.
func TestProvision_ElsewhereAfterAll(t *testing.T) {
	t.Parallel()
	stripped := volumeFor(claim(), Class(), "other", "/dir")
	stripped.Annotations = nil
	for _, tc := range []struct {
		name   string
		volume *corev1.PersistentVolume
		want   directories
	}{
		{"volume there", volumeFor(claim(), Class(), "other", "/dir"), directories{"pvc-uid": absent}},
		{"volume here", volumeFor(claim(), Class(), "n", "/dir"), directories{}},
		{"volume wherever it may be", stripped, directories{}},
	} {
		for _, cached := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, cached=%t", tc.name, cached), func(t *testing.T) {
				t.Parallel()
				asked := directories{"pvc-uid": present}
				moved := claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[volumehelper.AnnSelectedNode] = "other" })
				volume := tc.volume.DeepCopy()
				f := setUp(t, moved, nodeWith(asked, asked), volume)
				if !cached {
					if err := f.Provisioner.volumes.Delete(volume); err != nil {
						t.Fatal(err)
					}
				}
				if err := f.sync(t.Context(), "n"); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, f.asked(t)); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A call that fails, or whose answer is lost, is made again; it harms nobody that it succeeded.
func TestProvision_LostAnswer(t *testing.T) {
	t.Parallel()
	f := setUp(t, claim(), nodeWith(directories{"pvc-uid": present}, directories{"pvc-uid": present}))
	lost := errors.New("connection reset")
	f.client.PrependReactor("create", "persistentvolumes", lose(f.client, lost))
	if err := f.sync(t.Context(), "n"); !errors.Is(err, lost) {
		t.Fatalf("error is %v, want %v", err, lost)
	}
	if err := f.sync(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if v := f.volumes(t); len(v) != 1 {
		t.Errorf("volumes are %v", v)
	}
}

func TestVolumeFor_Affinity(t *testing.T) {
	t.Parallel()
	v := volumeFor(claim(), Class(), "n", "/dir")
	if err := volumehelper.CheckNodeAffinity(v, map[string]string{corev1.LabelHostname: "n"}); err != nil {
		t.Errorf("on its node: %v", err)
	}
	if volumehelper.CheckNodeAffinity(v, map[string]string{corev1.LabelHostname: "other"}) == nil {
		t.Error("reached from another node")
	}
	if got := nodeOf(v); got != "n" {
		t.Errorf("it is the business of node %q", got)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	asks, gone := directories{"pvc-uid": absent}, directories{"pvc-uid": absent}
	same := func(*corev1.PersistentVolume) {}
	for _, tc := range []struct {
		name   string
		change func(*corev1.PersistentVolume)
		node   *corev1.Node
		asked  directories
		event  string
		gone   bool
	}{
		{"released", same, nodeWith(nil, nil), asks, "", false},
		{"released, and the report is about its beginning", same, nodeWith(nil, directories{"pvc-uid": present}), asks, "", false},
		{"directory gone", same, nodeWith(asks, gone), directories{}, "", true},
		{"directory gone, and the finalizer", func(v *corev1.PersistentVolume) { v.Finalizers = nil }, nodeWith(asks, gone), directories{}, "", true},
		{"directory cannot be removed", same, nodeWith(asks, directories{"pvc-uid": "/dir/pvc-uid is a mount point"}), asks,
			"Warning VolumeFailedDelete /dir/pvc-uid is a mount point", false},
		{"bound", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, nodeWith(nil, gone), directories{}, "", false},
		{"to be kept", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, nodeWith(nil, gone), directories{}, "", false},
		{"kept after all", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, nodeWith(asks, nil), directories{}, "", false},
		{"made by somebody else", func(v *corev1.PersistentVolume) { v.Annotations = nil }, nodeWith(nil, gone), directories{}, "", false},
		{"on another node", func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"other"}
		}, nodeWith(nil, gone), directories{}, "", false},
		// Whoever may write volumes may not delete what he likes on the node.
		{"elsewhere", func(v *corev1.PersistentVolume) { v.Spec.Local.Path = "/etc" }, nodeWith(nil, gone), directories{},
			`Warning VolumeFailedDelete /etc is not the directory of this volume in "/dir"`, false},
		{"another's directory", func(v *corev1.PersistentVolume) { v.Spec.Local.Path = "/dir/pvc-other" }, nodeWith(nil, gone), directories{},
			`Warning VolumeFailedDelete /dir/pvc-other is not the directory of this volume in "/dir"`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := volumeFor(claim(), Class(), "n", "/dir")
			v.UID, v.Status.Phase = "v", corev1.VolumeReleased
			tc.change(v)
			f := setUp(t, v, tc.node)
			for range 2 {
				if err := f.sync(t.Context(), "n"); err != nil {
					t.Fatal(err)
				}
			}
			if gone := len(f.volumes(t)) == 0; gone != tc.gone {
				t.Errorf("volume gone = %t, want %t", gone, tc.gone)
			}
			if got := f.asked(t); !cmp.Equal(got, tc.asked) && !tc.gone {
				t.Errorf("asked for %v, want %v", got, tc.asked)
			}
			var want []string
			if tc.event != "" {
				want = []string{tc.event}
			}
			if diff := cmp.Diff(want, f.said()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	var many, late []string
	for i := range maxAsked {
		many = append(many, fmt.Sprintf("pvc-a-%03d", i))
		late = append(late, fmt.Sprintf("pvc-z-%03d", i))
	}
	asOf := func(names []string, state string) directories {
		d := directories{}
		for _, name := range names {
			d[name] = state
		}
		return d
	}
	for _, tc := range []struct {
		name              string
		asked, reported   directories
		waiting, released []string
		volumes           []string
		want              directories
	}{
		{"nothing", nil, nil, nil, nil, nil, directories{}},
		{"both", nil, nil, []string{"pvc-a"}, []string{"pvc-b"}, nil, directories{"pvc-a": present, "pvc-b": absent}},
		{"provisioned", directories{"pvc-a": present}, directories{"pvc-a": present}, nil, nil, []string{"pvc-a"}, directories{}},
		{"abandoned", directories{"pvc-a": present}, directories{"pvc-a": present}, nil, nil, nil, directories{"pvc-a": absent}},
		{"abandoned before it was made", directories{"pvc-a": present}, nil, nil, nil, nil, directories{"pvc-a": absent}},
		{"abandoned and removed", directories{"pvc-a": absent}, directories{"pvc-a": absent}, nil, nil, nil, directories{}},
		{"abandoned, then waited for again", directories{"pvc-a": absent}, directories{"pvc-a": absent}, []string{"pvc-a"}, nil, nil, directories{"pvc-a": present}},
		{"abandoned, then waited for again before it is removed", directories{"pvc-a": absent}, directories{"pvc-a": present}, []string{"pvc-a"}, nil, nil, directories{"pvc-a": absent}},
		{"released, then claimed again", directories{"pvc-a": absent}, nil, nil, nil, []string{"pvc-a"}, directories{}},
		{"abandoned, with more to do than is asked for at a time", asOf(late, present), nil, many, nil, nil, asOf(late, absent)},
		{"waited for, with more to do than is asked for at a time", asOf(late, present), nil, slices.Concat(many, late), nil, nil, asOf(late, present)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			exists := func(name string) (bool, error) { return slices.Contains(tc.volumes, name), nil }
			got, err := ask(tc.asked, tc.reported, tc.waiting, tc.released, exists)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
	unknown := errors.New("no answer")
	if _, err := ask(directories{"pvc-a": present}, nil, nil, nil, func(string) (bool, error) { return false, unknown }); !errors.Is(err, unknown) {
		t.Errorf("error is %v: a directory whose volume nobody could look for would be removed", err)
	}
	if got, _ := ask(nil, nil, slices.Concat(many, late), nil, nil); len(got) != maxAsked {
		t.Errorf("asked for %d at a time", len(got))
	}
}

// TestStart follows a claim through its life, on the server and on the node.
func TestStart(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(Class(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}})
	dir := filepath.Join(t.TempDir(), "volumes")
	p, err := New(Config{Client: client, Recorder: &record.FakeRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKeeper(KeeperConfig{NodeName: "n", Dir: dir, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- p.Start(ctx) }()
	go func() { done <- k.Start(ctx) }()
	volumes := client.CoreV1().PersistentVolumes()
	w, err := volumes.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if _, err := client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, claim(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v := (<-w.ResultChan()).Object.(*corev1.PersistentVolume).DeepCopy()
	if v.Spec.Local.Path != filepath.Join(dir, "pvc-uid") {
		t.Errorf("the volume is at %s", v.Spec.Local.Path)
	}
	if _, err := os.Stat(v.Spec.Local.Path); err != nil {
		t.Errorf("there is a volume without directory: %v", err)
	}
	v.Status.Phase = corev1.VolumeReleased
	if err := client.CoreV1().PersistentVolumeClaims("ns").Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		if e.Type == "DELETED" {
			break
		}
	}
	if _, err := os.Stat(v.Spec.Local.Path); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
