// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	runtimego "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

type fixture struct {
	*Manager
	client *fake.Clientset
	fake   *mount.Fake
	root   string
	ctx    context.Context
}

func setUp(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	client := fake.NewSimpleClientset(objects...)
	client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "token" {
			return false, nil, nil
		}
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		r.Status.Token = "token"
		r.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
		return true, r, nil
	})
	// A name that a server would have generated.
	client.PrependReactor("create", "podcertificaterequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*certificatesv1.PodCertificateRequest).Name = "r"
		return false, nil, nil
	})
	mounts := &mount.Fake{}
	root := t.TempDir()
	m, err := newManager(Config{
		RootDir: root, NodeName: "n", Client: client,
		Node:            func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}} },
		NodeAllocatable: func() corev1.ResourceList { return corev1.ResourceList{"memory": resource.MustParse("1Gi")} },
	}, mounts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &fixture{m, client, mounts, m.config.RootDir, ctx}
}

// podWith is a pod whose container has all the volumes.
func podWith(volumes ...corev1.Volume) *corev1.Pod {
	c := corev1.Container{Name: "c"}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"a": "1"}},
		Spec:       corev1.PodSpec{Volumes: volumes, Containers: []corev1.Container{c}},
	}
}

// ending is a context that ends once it has been asked so often.
type ending struct {
	context.Context
	after int
}

func (e *ending) Err() error {
	if e.after--; e.after < 0 {
		return context.Canceled
	}
	return nil
}

// What a pod has written may be more than can be removed before the kubelet is to end. The next one goes on.
func TestUnmount_Interrupted(t *testing.T) {
	f := setUp(t)
	pod := podWith(volumeOf("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(f.root, "pods/u/volumes/kubernetes.io~empty-dir/disk")
	const all = 100
	for i := range all {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Unmount(&ending{f.ctx, all / 2}, "u"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that of the context", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) == 0 || len(left) == all {
		t.Errorf("%d files are left, %v; want some", len(left), err)
	}
	if err := f.Unmount(f.ctx, "u"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(f.root, "pods/u/volumes")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after another attempt: %v", err)
	}
}

// What no container has is not brought to the node, and what is wrong with it holds up nobody.
func TestUnusedVolume(t *testing.T) {
	f := setUp(t)
	pod := podWith(volumeOf("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	pod.Spec.Volumes = append(pod.Spec.Volumes, configMapVolume("absent", "none"), volumeOf("idle", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(f.root, "pods/u/volumes/*/*")); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: []corev1.VolumeMount{{Name: "idle", MountPath: "/idle"}},
	}}}
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(f.root, "pods/u/volumes/*/*")); err != nil || len(left) != 2 {
		t.Errorf("with a container that uses it there are %v, %v", left, err)
	}
}

func volumeOf(name string, s corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: s}
}

func configMapVolume(name, ref string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: ref}}})
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1"}, Data: data}
}

func (f *fixture) read(t *testing.T, kind, volume, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.root, "pods/u/volumes", "kubernetes.io~"+kind, volume, file))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestMountAllKinds(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "v"}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"pw": []byte("x"), "other": []byte("y")}})
	dir := t.TempDir()
	pod := podWith(
		volumeOf("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volumeOf("mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: new(resource.MustParse("1Mi"))}}),
		volumeOf("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: new(corev1.HostPathDirectory)}}),
		configMapVolume("config", "cm"),
		volumeOf("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "pw", Path: "in/pw", Mode: new(int32(0o400))}}}}),
		volumeOf("down", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "ip", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
			{Path: "mem", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}}}}),
		volumeOf("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o440)), Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}),
	)
	for range 2 {
		if err := f.Mount(f.ctx, pod, []string{"10.0.0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ kind, volume, file, want string }{
		{"configmap", "config", "k", "v"},
		{"secret", "secret", "in/pw", "x"},
		{"downward-api", "down", "labels", `a="1"`},
		{"downward-api", "down", "ip", "10.0.0.1"},
		{"downward-api", "down", "mem", "1024"},
		{"projected", "all", "k", "v"},
		{"projected", "all", "token", "token"},
	} {
		if got := f.read(t, c.kind, c.volume, c.file); got != c.want {
			t.Errorf("%s/%s is %q, want %q", c.volume, c.file, got, c.want)
		}
	}
	volumes := filepath.Join(f.root, "pods/u/volumes")
	if info, err := os.Stat(filepath.Join(volumes, "kubernetes.io~empty-dir/disk")); err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Errorf("emptyDir: %v, %v", info.Mode(), err)
	}
	want := map[string]int64{
		volumes + "/kubernetes.io~empty-dir/mem": 1 << 20, volumes + "/kubernetes.io~secret/secret": 0,
		volumes + "/kubernetes.io~downward-api/down": 0, volumes + "/kubernetes.io~projected/all": 0,
	}
	if diff := cmp.Diff(want, f.fake.Sizes); diff != "" {
		t.Errorf("unexpected tmpfs mounts (-want +got):\n%s", diff)
	}

	pods, err := f.Pods()
	if diff := cmp.Diff([]types.UID{"u"}, pods); err != nil || diff != "" {
		t.Errorf("Pods: %v\n%s", err, diff)
	}
	busy := volumes + "/kubernetes.io~secret/secret"
	f.fake.Busy = map[string]error{busy: errors.New("busy")}
	if err := f.Unmount(f.ctx, "u"); err == nil || f.read(t, "configmap", "config", "k") != "v" {
		t.Errorf("Unmount of a busy volume: %v; nothing may be deleted below a mount", err)
	}
	f.fake.Busy = nil
	for range 2 {
		if err := f.Unmount(f.ctx, "u"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(volumes); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("volumes remain: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory of the host is gone: %v", err)
	}
	if list, _ := f.fake.Under(f.root); len(list) != 0 {
		t.Errorf("mounts remain: %v", list)
	}
}

// Trust anchors and a certificate, whose files are the user's alone. The pod is told when the signer has answered.
func TestMountCertificates(t *testing.T) {
	text := func(s string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(s)}))
	}
	f := setUp(t,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}},
		&certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: text("ca")}})
	pod := podWith(volumeOf("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o444)), Sources: []corev1.VolumeProjection{
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("b"), Path: "anchors.pem"}},
		{PodCertificate: &corev1.PodCertificateProjection{SignerName: "e.com/s", KeyType: "ED25519", CredentialBundlePath: "bundle.pem", CertificateChainPath: "in/chain.pem"}},
	}}}))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(os.Getgid()))}
	if err := f.Mount(f.ctx, pod, nil); !errors.Is(err, plugin.ErrPending) {
		t.Fatalf("while the signer has not answered: %v", err)
	}
	requests := f.client.CertificatesV1().PodCertificateRequests("ns")
	r, err := requests.Get(f.ctx, "r", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Status = certificatesv1.PodCertificateRequestStatus{
		Conditions:     []metav1.Condition{{Type: certificatesv1.PodCertificateRequestConditionTypeIssued}},
		BeginRefreshAt: &metav1.Time{Time: time.Now().Add(time.Hour)}, NotAfter: &metav1.Time{Time: time.Now().Add(2 * time.Hour)}, CertificateChain: text("leaf"),
	}
	if _, err := requests.UpdateStatus(f.ctx, r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for err = plugin.ErrPending; errors.Is(err, plugin.ErrPending); err = f.Mount(f.ctx, pod, nil) {
		if uid := <-f.Changed(); uid != "u" {
			t.Errorf("%s is to be synced", uid)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := f.read(t, "projected", "all", "anchors.pem"); got != text("ca") {
		t.Errorf("trust anchors %s", got)
	}
	if got := f.read(t, "projected", "all", "in/chain.pem"); got != text("leaf") {
		t.Errorf("chain %s", got)
	}
	if key, chain, _ := strings.Cut(f.read(t, "projected", "all", "bundle.pem"), "-----END PRIVATE KEY-----\n"); !strings.HasPrefix(key, "-----BEGIN PRIVATE KEY-----") || chain != text("leaf") {
		t.Errorf("key %s, chain %s", key, chain)
	}
	info, err := os.Stat(filepath.Join(f.root, "pods/u/volumes/kubernetes.io~projected/all/bundle.pem"))
	if err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("a key that others read: %v, %v", info, err)
	}
}

func TestMountErrors(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "v"}))
	tests := []struct {
		name string
		v    corev1.VolumeSource
		want string
	}{
		{"missing config map", configMapVolume("x", "no").VolumeSource, `MountVolume.SetUp failed for volume "x" : configmap "no" not found`},
		{"missing secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "no"}}, `MountVolume.SetUp failed for volume "x" : secret "no" not found`},
		{"missing key", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Items: []corev1.KeyToPath{{Key: "z", Path: "z"}}}}, `MountVolume.SetUp failed for volume "x" : configmap references non-existent config key: z`},
		{"host path of another type", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev/null", Type: new(corev1.HostPathDirectory)}}, `MountVolume.SetUp failed for volume "x" : hostPath type check failed: /dev/null is not a directory`},
		{"host path missing", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/no/such", Type: new(corev1.HostPathFile)}}, `MountVolume.SetUp failed for volume "x" : hostPath type check failed: /no/such is not a file`},
		{"claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}, `Unable to attach or mount volumes: unmounted volumes=[x], unattached volumes=[], failed to process volumes=[x]: error processing PVC ns/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found`},
		{"kind of others", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}, `volume plugin for "x" is not supported by this kubelet`},
		{"trust bundle", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("b"), Path: "b"}}}}}, `MountVolume.SetUp failed for volume "x" : while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "b" not found`},
		{"huge pages", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages"}}, `MountVolume.SetUp failed for volume "x" : medium HugePages: hugePages storage requested, but there is no resource request for huge pages`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := f.Mount(f.ctx, podWith(volumeOf("x", tc.v)), nil)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// Whatever a pod waits for, of its claims there is one event, and its end if the node has no room for all.
func TestTogether(t *testing.T) {
	t.Parallel()
	ok, bad := error(nil), plugin.Event(errors.New("MountVolume.SetUp failed"))
	waits, full := plugin.Event(fmt.Errorf("waiting: %w", plugin.ErrNotAttached)), plugin.Event(&plugin.AttachLimitError{Volumes: "v"})
	unbound, gone := &plugin.ClaimError{Err: errors.New("PVC is not bound")}, &plugin.ClaimError{Err: errors.New("PVC is being deleted")}
	for _, tc := range []struct {
		name string
		errs []error // of d, c, b, a
		want string
	}{
		{"all there", []error{ok, ok, ok, ok}, ""},
		{"each by itself", []error{bad, ok, waits, ok}, "MountVolume.SetUp failed\nwaiting: the volume is not attached to the node"},
		{"claims", []error{unbound, ok, gone, waits}, "waiting: the volume is not attached to the node\n" +
			"Unable to attach or mount volumes: unmounted volumes=[a b d], unattached volumes=[a], failed to process volumes=[b d]: PVC is not bound; PVC is being deleted"},
		{"no room", []error{full, bad, unbound, waits}, "Node has reached its volume attachment limit, rejecting pod. " +
			"unmounted volumes=[a b c d], unattached volumes=[a d], failed to process volumes=[b]: context deadline exceeded"},
	} {
		err := together([]*corev1.Volume{{Name: "d"}, {Name: "c"}, {Name: "b"}, {Name: "a"}}, tc.errs)
		if got := fmt.Sprint(errors.Join(err)); err != nil && got != tc.want || (err == nil) != (tc.want == "") {
			t.Errorf("%s: got %q", tc.name, got)
		}
	}
}

// Somebody's file beside the directories of pods keeps nobody from finding out which images are in use.
func TestImages_StrayFiles(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	images := filepath.Join(f.root, "pods/u/volumes/kubernetes.io~image/v")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(images, "sha256-1"), 0o750), os.WriteFile(filepath.Join(f.root, "pods/file"), nil, 0o600),
		os.WriteFile(filepath.Join(filepath.Dir(images), "file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := f.Images(); err != nil || !slices.Equal(got, []string{"sha256:1"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// A pod's containers are in the groups of its volumes.
func TestGroups(t *testing.T) {
	t.Parallel()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c"}}
	claim.Spec.VolumeName, claim.Status.Phase = "v", corev1.ClaimBound
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Annotations: map[string]string{"pv.beta.kubernetes.io/gid": "1234"}}}
	pv.Spec.HostPath, pv.Spec.ClaimRef = &corev1.HostPathVolumeSource{Path: "/"}, &corev1.ObjectReference{UID: "c"}
	f := setUp(t, configMap("cm", nil), claim, pv)
	pod := podWith(configMapVolume("config", "cm"), volumeOf("data", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}))
	if got := f.Groups(pod); got != nil {
		t.Errorf("before: %v", got)
	}
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.Groups(pod); !slices.Equal(got, []int64{1234}) {
		t.Errorf("got %v", got)
	}
	if err := f.Unmount(f.ctx, pod.UID); err != nil {
		t.Fatal(err)
	}
	if got := f.Groups(pod); got != nil {
		t.Errorf("after: %v", got)
	}
}

// What containers have mounted in a volume that they may only read has its place there, whatever becomes of the files.
func TestMount_Nested(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "v", "file": "x"}))
	pod := podWith(configMapVolume("config", "cm"), volumeOf("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	c := &pod.Spec.Containers[0]
	for _, path := range []string{"config/in/side", "/config/file", "/config/../other", "/configured"} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "disk", MountPath: path})
	}
	dir := filepath.Join(f.root, "pods/u/volumes/kubernetes.io~configmap/config")
	look := func() os.FileInfo {
		t.Helper()
		if err := f.Mount(f.ctx, pod, nil); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(filepath.Join(dir, "in/side"))
		if err != nil || !info.IsDir() {
			t.Fatalf("there is no place to mount: %v", err)
		}
		var names []string
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "..") {
				names = append(names, e.Name())
			}
		}
		if diff := cmp.Diff([]string{"file", "in", "k"}, names); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		return info
	}
	before := look()
	update := configMap("cm", map[string]string{"k": "new", "file": "x"})
	update.ResourceVersion = "2"
	if _, err := f.client.CoreV1().ConfigMaps("ns").Update(f.ctx, update, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(t)
	if !os.SameFile(before, look()) || f.read(t, "configmap", "config", "k") != "new" || f.read(t, "configmap", "config", "file") != "x" {
		t.Error("what is mounted there is mounted on something else now")
	}
}

// waiting is a kind of volume that is ready when the others that have to be waited for are.
type waiting struct {
	plugin.Plugin
	begun sync.WaitGroup // of the claims

	mu     sync.Mutex // guards the fields below
	claims map[string]int
}

func (w *waiting) Name() string { return "waiting" }

func (w *waiting) Supports(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil }

func (w *waiting) HostPath(m plugin.Mount) string { return m.Dir }

func (w *waiting) SetUp(ctx context.Context, m plugin.Mount) error {
	claim := m.Volume.PersistentVolumeClaim.ClaimName
	w.mu.Lock()
	w.claims[claim]++
	now := w.claims[claim]
	w.mu.Unlock()
	switch now {
	case 1:
		w.begun.Done()
	case 2:
		return errors.New("two at once have one claim")
	}
	all := make(chan struct{})
	go func() { w.begun.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[claim] = 10 // whoever comes next does not wait
	return nil
}

// Volumes that have to be waited for are waited for together, but two of one claim.
func TestMount_Together(t *testing.T) {
	f := setUp(t)
	w := &waiting{claims: map[string]int{}}
	w.begun.Add(3)
	f.plugins = []plugin.Plugin{w}
	var volumes []corev1.Volume
	for name, claim := range map[string]string{"a": "x", "b": "x", "c": "y", "d": "z"} {
		volumes = append(volumes, volumeOf(name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}))
	}
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	if err := f.Mount(ctx, podWith(volumes...), nil); err != nil {
		t.Error(err)
	}
}

func TestChanged(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "old"}))
	pod := podWith(configMapVolume("config", "cm"))
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	update := configMap("cm", map[string]string{"k": "new", "more": "1"})
	update.ResourceVersion = "2"
	if _, err := f.client.CoreV1().ConfigMaps("ns").Update(f.ctx, update, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(t)
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.read(t, "configmap", "config", "k") + f.read(t, "configmap", "config", "more"); got != "new1" {
		t.Errorf("files hold %q", got)
	}
	if err := f.client.CoreV1().ConfigMaps("ns").Delete(f.ctx, "cm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(t)
	told := record.NewFakeRecorder(10)
	f.config.Recorder = told
	// The pod goes on with what it has: its containers are to be killed, and started again, as before.
	if err := f.Mount(f.ctx, pod, nil); err != nil || f.read(t, "configmap", "config", "k") != "new" {
		t.Errorf("Mount after deletion: %v", err)
	}
	const missing = `MountVolume.SetUp failed for volume "config" : configmap "cm" not found`
	if got := event(told); got != "Warning FailedMount "+missing {
		t.Errorf("told of %q", got)
	}
	other := pod.DeepCopy()
	other.UID = "new"
	if err := f.Mount(f.ctx, other, nil); err == nil || err.Error() != missing {
		t.Errorf("Mount for another pod: %v", err)
	}
}

// A file of the node that goes later is the trouble of containers that start then, and not of the others.
func TestMountWithoutItsHostPath(t *testing.T) {
	f := setUp(t)
	told := record.NewFakeRecorder(10)
	f.config.Recorder = told
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pod := podWith(volumeOf("node", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: file, Type: new(corev1.HostPathFile)}}))
	if err := errors.Join(f.Mount(f.ctx, pod, nil), os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Error(err)
	}
	if got, want := event(told), `Warning FailedMount MountVolume.SetUp failed for volume "node" : hostPath type check failed: `+file+" is not a file"; got != want {
		t.Errorf("told of %q, want %q", got, want)
	}
}

// event is what was told first, "" if nothing was.
func event(told *record.FakeRecorder) string {
	select {
	case e := <-told.Events:
		return e
	default:
		return ""
	}
}

func (f *fixture) await(t *testing.T) {
	t.Helper()
	select {
	case uid := <-f.Changed():
		if uid != "u" {
			t.Errorf("pod %s changed", uid)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no change was reported")
	}
}

func TestContainerMounts(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "v"}))
	dir := t.TempDir()
	pod := podWith(
		configMapVolume("config", "cm"),
		volumeOf("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volumeOf("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}),
		volumeOf("kubelet", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/d", Type: new(corev1.HostPathDirectoryOrCreate)}}),
	)
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(f.root, "pods/u")
	tests := []struct {
		name  string
		mount corev1.VolumeMount
		want  container.Mount
		err   string
	}{
		{name: "config map is read-only", mount: corev1.VolumeMount{Name: "config", MountPath: "/etc/c"},
			want: container.Mount{HostPath: base + "/volumes/kubernetes.io~configmap/config", ContainerPath: "/etc/c", ReadOnly: true}},
		{name: "propagation", mount: corev1.VolumeMount{Name: "host", MountPath: "h", MountPropagation: new(corev1.MountPropagationBidirectional)},
			want: container.Mount{HostPath: dir, ContainerPath: "/h", Propagation: "rshared"}},
		{name: "the kubelet's directory is the node's", mount: corev1.VolumeMount{Name: "kubelet", MountPath: "/var/lib/kubelet/plugins/d"},
			want: container.Mount{HostPath: f.root + "/plugins/d", ContainerPath: "/var/lib/kubelet/plugins/d"}},
		{name: "subPath", mount: corev1.VolumeMount{Name: "config", MountPath: "/f", SubPath: "k"},
			want: container.Mount{HostPath: base + "/volume-subpaths/config/c/0", ContainerPath: "/f", ReadOnly: true}},
		{name: "subPath that is not there", mount: corev1.VolumeMount{Name: "data", MountPath: "/d", SubPath: "p/x"},
			want: container.Mount{HostPath: base + "/volume-subpaths/data/c/0", ContainerPath: "/d"}},
		{name: "escape", mount: corev1.VolumeMount{Name: "data", MountPath: "/d", SubPath: "../x"},
			err: `failed to prepare subPath for volumeMount "data" of container "c": subPath must not contain '..': "../x"`},
		{name: "unknown volume", mount: corev1.VolumeMount{Name: "no"}, err: `cannot find volume "no" to mount into container "c"`},
		{name: "recursive read-only", mount: corev1.VolumeMount{Name: "data", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled)},
			err: `failed to resolve recursive read-only mode: volume "data" requested recursive read-only mode, but it is not supported by the runtime`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{tc.mount}}
			got, err := f.ContainerMounts(f.ctx, plugin.Container{Pod: pod, Spec: &c})
			if err != nil || tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff([]container.Mount{tc.want}, got); diff != "" {
				t.Errorf("unexpected mounts (-want +got):\n%s", diff)
			}
		})
	}
	if info, err := os.Stat(base + "/volumes/kubernetes.io~empty-dir/data/p/x"); err != nil || !info.IsDir() {
		t.Errorf("the subPath was not made: %v", err)
	}
	for _, name := range []string{"data", "none"} {
		if got, err := f.ContainerDevices(pod, &corev1.Container{Name: "c", VolumeDevices: []corev1.VolumeDevice{{Name: name}}}); err == nil {
			t.Errorf("volume %s is a device: %v", name, got)
		}
	}
}

func TestSource(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "v"}))
	pod := podWith(volumeOf("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	c := &pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{
		{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Key: "k"}}},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "data", Path: "f", Key: "X"}}},
	}
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(f.root, "pods/u/volumes/kubernetes.io~empty-dir/data/f")
	if err := os.WriteFile(file, []byte("X='1'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := env.Make(pod, c, "", nil, nil, nil, f.Source(f.ctx, pod))
	if diff := cmp.Diff([]string{"A=v", "B=1"}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volumeOf("idle", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	for _, name := range []string{"absent", "idle"} { // what no container mounts is not on the node
		if _, _, err := f.Source(f.ctx, pod).EnvFile(pod, name, "f"); !errors.As(err, new(*env.NoVolumeError)) {
			t.Errorf("a file in volume %s: %v", name, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Make(pod, c, "", nil, nil, nil, f.Source(f.ctx, pod)); err == nil {
		t.Error("an env file led out of its volume")
	}
}

// TestMountWhileTheAPIServerIsAway covers a kubelet that was restarted: what it knows is on disk only.
func TestMountWhileTheAPIServerIsAway(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": "v"}))
	pod := podWith(configMapVolume("config", "cm"))
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	away := fake.NewSimpleClientset()
	away.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	restarted, err := newManager(Config{RootDir: f.root, Client: away}, f.fake)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() { done <- restarted.Start(ctx) }()
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if err := restarted.Mount(short, pod, nil); err != nil {
		t.Errorf("Mount of an existing volume: %v", err)
	}
	other := podWith(configMapVolume("config", "cm"))
	other.UID = "new"
	if err := restarted.Mount(short, other, nil); err == nil {
		t.Error("Mount of a volume never seen succeeded")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestUsage: only what is on the node's disk and goes with the pod counts as the pod's.
func TestUsage(t *testing.T) {
	f := setUp(t, configMap("cm", map[string]string{"k": strings.Repeat("x", 5000)}))
	dir := t.TempDir()
	pod := podWith(
		volumeOf("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volumeOf("mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}),
		volumeOf("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}),
		configMapVolume("config", "cm"),
	)
	if u, err := f.Usage(f.ctx, pod); err != nil || len(u) != 2 || u["disk"].Inodes != 0 {
		t.Errorf("before it is mounted: %v, %v", u, err)
	}
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	before, err := f.Usage(f.ctx, pod)
	if err != nil || before["disk"].Inodes != 1 || before["config"].Bytes < 5000 {
		t.Errorf("%v, %v", before, err)
	}
	if err := os.WriteFile(filepath.Join(f.root, "pods/u/volumes/kubernetes.io~empty-dir/disk/file"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := f.Usage(f.ctx, pod)
	if n := after["disk"].Bytes - before["disk"].Bytes; err != nil || n < 100_000 || n > 110_000 || after["disk"].Inodes != 2 {
		t.Errorf("after 100000 bytes: %v, before %v, %v", after, before, err)
	}
}

// TestAnswered: who asks a server that is away gets an error, and so does who asks again, but no second one waits for it.
func TestAnswered(t *testing.T) {
	f := setUp(t)
	clock := testingclock.NewFakeClock(time.Now())
	f.config.Clock = clock
	calls, release, ended := make(chan bool, 9), make(chan bool), make(chan bool)
	hang := func() error { calls <- true; <-release; close(ended); return fs.ErrClosed }
	result := make(chan error)
	go func() { result <- f.answered("x", hang) }()
	<-calls
	for !clock.HasWaiters() {
		runtimego.Gosched()
	}
	clock.Step(answerPatience)
	if err := <-result; err == nil || err.Error() != "the file system of the volume has not answered within 30s" {
		t.Errorf("error %v", err)
	}
	if err := f.answered("x", hang); err == nil || len(calls) != 0 {
		t.Errorf("asked again: %v, %d calls", err, len(calls))
	}
	if err := f.answered("y", func() error { return fs.ErrExist }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another: %v", err)
	}
	close(release)
	<-ended
	for f.answered("x", func() error { return nil }) != nil {
		runtimego.Gosched()
	}
}
