// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	"k8s.io/utils/ptr"
)

func claim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "uid", Annotations: map[string]string{volumehelper.AnnStorageProvisioner: Name, volumehelper.AnnSelectedNode: "n"},
	}}
	c.Spec.StorageClassName = ptr.To(ClassName)
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, f := range change {
		f(c)
	}
	return c
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
	p, err := New(Config{NodeName: "n", Dir: filepath.Join(t.TempDir(), "volumes"), Client: client, Recorder: events})
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

func TestProvision(t *testing.T) {
	t.Parallel()
	annotated := func(key, value string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Annotations[key] = value }
	}
	for _, tc := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		event string // of the last step
		made  bool
	}{
		{"wanted", claim(), "Normal ProvisioningSucceeded Successfully provisioned volume pvc-uid", true},
		{"on another node", claim(annotated(volumehelper.AnnSelectedNode, "other")), "", false},
		{"of another provisioner", claim(annotated(volumehelper.AnnStorageProvisioner, "other")), "", false},
		{"bound", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), "", false},
		{"deleted", claim(func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"f"}
		}), "", false},
		{"block device", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }),
			`Warning ProvisioningFailed failed to provision volume with StorageClass "local-path": block devices are not supported`, false},
		{"selector", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }),
			`Warning ProvisioningFailed failed to provision volume with StorageClass "local-path": claim Selector is not supported`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tc.claim)
			for range 2 { // the second time nothing is left to do
				if err := f.sync(t.Context(), item{"ns", "c"}); err != nil {
					t.Fatal(err)
				}
			}
			close(f.events.Events)
			last := ""
			for e := range f.events.Events {
				last = e
			}
			if tc.made && strings.HasPrefix(last, "Normal Provisioning ") {
				last = tc.event // the cache had not seen the volume yet, and creating it again did no harm
			}
			if last != tc.event {
				t.Errorf("event is %q, want %q", last, tc.event)
			}
			volumes := f.volumes(t)
			if made := len(volumes) == 1; made != tc.made || len(volumes) > 1 {
				t.Fatalf("volumes are %v", volumes)
			}
			if !tc.made {
				return
			}
			if diff := cmp.Diff(*volumeFor(tc.claim, Class(), "n", f.Dir), volumes[0], cmpopts.IgnoreFields(corev1.PersistentVolume{}, "TypeMeta", "ManagedFields")); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
			info, err := os.Stat(filepath.Join(f.Dir, "pvc-uid"))
			if err != nil || info.Mode() != fs.ModeDir|0o777 {
				t.Errorf("directory: %v, %v", info, err)
			}
		})
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
}

func TestRemove(t *testing.T) {
	t.Parallel()
	released := func(f fixture, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v := volumeFor(claim(), Class(), "n", f.Dir)
		v.UID, v.Status.Phase = "v", corev1.VolumeReleased
		for _, c := range change {
			c(v)
		}
		return v
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.PersistentVolume)
		gone   bool
	}{
		{"released", func(*corev1.PersistentVolume) {}, true},
		{"released, and its finalizer gone", func(v *corev1.PersistentVolume) { v.Finalizers = nil }, true},
		{"bound", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false},
		{"to be kept", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		{"made by somebody else", func(v *corev1.PersistentVolume) { v.Annotations = nil }, false},
		{"on another node", func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"other"}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			v := released(f, tc.change)
			dir := v.Spec.Local.Path
			if err := makeDir(filepath.Join(dir, "sub")); err != nil {
				t.Fatal(err)
			}
			if _, err := f.client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if removable(v, "n") {
				for range 2 {
					if err := f.remove(t.Context(), v); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := os.Stat(dir); os.IsNotExist(err) != tc.gone {
				t.Errorf("directory: %v", err)
			}
			if left := len(f.volumes(t)); (left == 0) != tc.gone {
				t.Errorf("%d volumes are left", left)
			}
		})
	}
}

// TestRemove_OnlyOwnDirectories: whoever may write volumes may not delete what he likes on the node.
func TestRemove_OnlyOwnDirectories(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	outside := t.TempDir()
	for _, path := range []string{outside, f.Dir, f.Dir + "/a/b", f.Dir + "/a/../../x", "/"} {
		v := volumeFor(claim(), Class(), "n", f.Dir)
		v.Spec.Local.Path = path
		if err := f.remove(t.Context(), v); err == nil {
			t.Errorf("%s: removed", path)
		}
		if got := <-f.events.Events; !strings.HasPrefix(got, "Warning VolumeFailedDelete ") {
			t.Errorf("%s: event is %q", path, got)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// TestStart follows a claim through its life.
func TestStart(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(Class())
	p, err := New(Config{NodeName: "n", Dir: filepath.Join(t.TempDir(), "volumes"), Client: client, Recorder: &record.FakeRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
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
	if err := <-done; err != nil {
		t.Error(err)
	}
}
