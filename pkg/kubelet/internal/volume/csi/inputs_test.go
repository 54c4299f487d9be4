// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/csitest"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func TestAccessMode(t *testing.T) {
	t.Parallel()
	fine := capabilities{csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: true}
	for _, tc := range []struct {
		name string
		mode []corev1.PersistentVolumeAccessMode
		can  capabilities
		want csipb.VolumeCapability_AccessMode_Mode
	}{
		{"none", nil, nil, csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		{"once", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, nil, csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		{"once, told finely", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, fine, csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		{"once per pod", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, nil, csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		{"once per pod, told finely", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, fine, csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		{"the first counts", []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany}, fine, csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY},
		{"many", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, nil, csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
	} {
		if got := accessMode(tc.mode, tc.can); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestGivesGroup(t *testing.T) {
	t.Parallel()
	once, many := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	policy := func(p storagev1.FSGroupPolicy) *storagev1.CSIDriver {
		return unattached(func(s *storagev1.CSIDriverSpec) { s.FSGroupPolicy = &p })
	}
	for _, tc := range []struct {
		name   string
		volume volume
		info   *storagev1.CSIDriver
		want   bool
	}{
		{"by default with a file system for one node", volume{fsType: "ext4", accessModes: once}, nil, true},
		{"by default without file system", volume{accessModes: once}, nil, false},
		{"by default for many nodes", volume{fsType: "ext4", accessModes: many}, unattached(), false},
		{"always", volume{accessModes: many}, policy(storagev1.FileFSGroupPolicy), true},
		{"always, but to read only", volume{accessModes: many, readOnly: true}, policy(storagev1.FileFSGroupPolicy), false},
		{"always, but a device", volume{accessModes: many, block: true}, policy(storagev1.FileFSGroupPolicy), false},
		{"never", volume{fsType: "ext4", accessModes: once}, policy(storagev1.NoneFSGroupPolicy), false},
	} {
		if got := tc.volume.givesGroup(tc.info); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

// last is the newest request of a method.
func last[T any](f *fixture, method string) T {
	f.t.Helper()
	calls := f.driver.Calls(method)
	if len(calls) == 0 {
		f.t.Fatalf("no call of %s", method)
	}
	r, ok := calls[len(calls)-1].Request.(T)
	if !ok {
		f.t.Fatalf("a call of %s has %T", method, r)
	}
	return r
}

// What a volume and its CSIDriver ask for is what the driver gets.
func TestInputs(t *testing.T) {
	t.Parallel()
	d := &csitest.Driver{Capabilities: []csipb.NodeServiceCapability_RPC_Type{
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
	}}
	f := newFixture(t, d,
		unattached(func(s *storagev1.CSIDriverSpec) {
			s.PodInfoOnMount, s.RequiresRepublish, s.TokenRequests = new(true), new(true), []storagev1.TokenRequest{{Audience: "vault"}, {}}
		}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "stage"}, Data: map[string][]byte{"k": []byte("stage")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "publish"}, Data: map[string][]byte{"k": []byte("publish")}})
	issued := 0
	f.client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		issued++
		r.Status.Token = strings.Join(r.Spec.Audiences, "") + strings.Repeat("!", issued)
		r.Status.ExpirationTimestamp = metav1.NewTime(f.clock.Now().Add(time.Hour))
		return true, r, nil
	})
	group := int64(4711)
	pv := persistent()
	pv.Spec.MountOptions = []string{"noexec"}
	pv.Spec.CSI.FSType, pv.Spec.CSI.VolumeAttributes = "ext4", map[string]string{"a": "b"}
	pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "s", Name: "stage"}
	pv.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Namespace: "s", Name: "publish"}
	m := mountOf("a")
	m.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	m.Volume.PersistentVolumeClaim.ReadOnly = true
	_, err := f.SetUpClaim(t.Context(), m, pv, claimed())
	f.check(err)
	stage := last[*csipb.NodeStageVolumeRequest](f, "NodeStageVolume")
	publish := last[*csipb.NodePublishVolumeRequest](f, "NodePublishVolume")
	if s, p := stage.GetSecrets()["k"], publish.GetSecrets()["k"]; s != "stage" || p != "publish" || !publish.GetReadonly() {
		t.Errorf("secrets are %q and %q, read-only is %t", s, p, publish.GetReadonly())
	}
	if mnt := publish.GetVolumeCapability().GetMount(); mnt.GetFsType() != "ext4" || !slices.Equal(mnt.GetMountFlags(), []string{"noexec"}) || mnt.GetVolumeMountGroup() != "4711" {
		t.Errorf("mounted by %v", mnt)
	}
	tokens := func() map[string]string {
		var all map[string]authenticationv1.TokenRequestStatus
		f.check(json.Unmarshal([]byte(last[*csipb.NodePublishVolumeRequest](f, "NodePublishVolume").GetVolumeContext()[tokensKey]), &all))
		out := map[string]string{}
		for k, v := range all {
			out[k] = v.Token
		}
		return out
	}
	if diff := cmp.Diff(map[string]string{"vault": "vault!", "": "!!"}, tokens()); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	context := maps.Clone(publish.GetVolumeContext())
	delete(context, tokensKey)
	if diff := cmp.Diff(map[string]string{"a": "b", "csi.storage.k8s.io/ephemeral": "false", "csi.storage.k8s.io/pod.name": "a",
		"csi.storage.k8s.io/pod.namespace": "ns", "csi.storage.k8s.io/pod.uid": "a", "csi.storage.k8s.io/serviceAccount.name": "sa"}, context); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	f.clock.by = 55 * time.Minute // the tokens are renewed, and the driver gets the new ones
	_, err = f.SetUpClaim(t.Context(), m, pv, claimed())
	f.check(err)
	f.beside.Wait()
	if got := tokens()["vault"]; got != "vault!!!" {
		t.Errorf("published again with %q", got)
	}
	if got := f.methods(); got != "Stage Publish Publish" {
		t.Errorf("calls are %s", got)
	}
	f.takeAway("a")
}

// A volume of a pod's own is published only, by a driver that does so.
func TestInline(t *testing.T) {
	t.Parallel()
	own := func(s *storagev1.CSIDriverSpec) {
		s.PodInfoOnMount = new(true)
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	}
	f := newFixture(t, stages(), unattached(own))
	inline, m := Inline{f.CSI}, mountOf("a")
	m.Volume.VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName, ReadOnly: new(true)}}
	for range 2 {
		f.check(inline.SetUp(t.Context(), m))
	}
	if !inline.Supports(m.Volume) || !inline.ReadOnly(m) || f.methods() != "Publish" {
		t.Errorf("calls are %s", f.methods())
	}
	f.check(os.WriteFile(filepath.Join(inline.HostPath(m), "file"), nil, 0o600))
	if _, err := f.setUp("b"); err == nil || !strings.Contains(err.Error(), `volume mode "Persistent" not supported by driver d.test (only supports ["Ephemeral"])`) {
		t.Errorf("a claim: %v", err)
	}
	f.takeAway("a")

	f = newFixture(t, stages(), unattached())
	if err := (Inline{f.CSI}).SetUp(t.Context(), m); err == nil || !strings.Contains(err.Error(), `volume mode "Ephemeral" not supported by driver d.test (only supports ["Persistent"])`) {
		t.Errorf("of a driver for claims: %v", err)
	}
}

// A pod whose volume is not attached in time, because the node has as many as it takes, has to go elsewhere.
func TestAttached_NoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(counting(10), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: attachmentName("v", driverName, "n")},
			Status:     storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{ErrorCode: new(int32(codes.ResourceExhausted))}},
		})
		c, err := New(Config{RootDir: t.TempDir(), NodeName: "n", Client: client, Clock: clock.RealClock{}, Node: func() *corev1.Node { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.infos.Stop()
		v, began := ofPersistent(mountOf("a").Volume, persistent(), claimed()), time.Now()
		_, err = c.attached(t.Context(), &v)
		if _, is := errors.AsType[*plugin.AttachLimitError](err); !is || time.Since(began) < attachPatience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Nothing is mounted before the API knows that the volume is in use and the controller says that it is attached.
func TestAttached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var node atomic.Pointer[corev1.Node]
		c, err := New(Config{RootDir: t.TempDir(), NodeName: "n", Client: client, Clock: clock.RealClock{}, Node: node.Load})
		if err != nil {
			t.Fatal(err)
		}
		defer c.infos.Stop()
		v := ofPersistent(mountOf("a").Volume, persistent(), claimed())
		unique := uniqueName(driverName, "v")
		type answer struct {
			context map[string]string
			err     error
		}
		ask := func() chan answer {
			out := make(chan answer, 1)
			go func() {
				context, err := c.attached(t.Context(), &v)
				out <- answer{context, err}
			}()
			return out
		}
		a := <-ask()
		if !errors.Is(a.err, plugin.ErrNotAttached) {
			t.Errorf("nobody attaches it: %v", a.err)
		}
		waiting := ask()
		stillWaits := func(why string) {
			t.Helper()
			<-time.After(10 * time.Second)
			select {
			case a := <-waiting:
				t.Fatalf("%s: it does not wait: %v", why, a)
			default:
			}
		}
		node.Store(&corev1.Node{Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: unique}}}})
		stillWaits("what is in use is not told")
		c.Told([]corev1.UniqueVolumeName{unique})
		stillWaits("there is no attachment")
		attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName("v", driverName, "n")}}
		if err := client.Tracker().Add(attachment); err != nil {
			t.Fatal(err)
		}
		stillWaits("it is not attached")
		attachment = attachment.DeepCopy()
		attachment.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "x"}}
		if err := client.Tracker().Update(storagev1.SchemeGroupVersion.WithResource("volumeattachments"), attachment, ""); err != nil {
			t.Fatal(err)
		}
		if a := <-waiting; a.err != nil || a.context["device"] != "x" {
			t.Errorf("got %v", a)
		}
		// The driver becomes one that attaches nothing, while a pod waits for either.
		if err := client.Tracker().Delete(storagev1.SchemeGroupVersion.WithResource("volumeattachments"), "", attachment.Name); err != nil {
			t.Fatal(err)
		}
		driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}
		for _, told := range [][]corev1.UniqueVolumeName{{unique}, nil} {
			c.Told(told)
			waiting = ask()
			stillWaits("there is no attachment any more")
			if err := c.infos.GetStore().Add(driver); err != nil {
				t.Fatal(err)
			}
			if a := <-waiting; a.err != nil || a.context != nil {
				t.Errorf("without need of an attachment: %v", a)
			}
			if err := c.infos.GetStore().Delete(driver); err != nil {
				t.Fatal(err)
			}
		}
		c.Told([]corev1.UniqueVolumeName{unique})
		client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
		if a := <-ask(); !errors.Is(a.err, plugin.ErrUnavailable) {
			t.Errorf("the API server is away: %v", a.err)
		}
	})
}

// A volume that somebody attaches is in use from before it is mounted until after it is unmounted, and is told anew each time.
func TestInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, stages())
	unique := uniqueName(driverName, "v")
	node := &corev1.Node{Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: unique}}}}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName("v", driverName, "n")}}
	attachment.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "x"}}
	f.check(f.client.Tracker().Add(attachment))
	var seen []string
	f.cfg.Node = func() *corev1.Node { return node }
	f.cfg.InUse = func() {
		seen = append(seen, f.methods())
		f.Told(f.InUse())
	}
	_, err := f.setUp("a")
	f.check(err)
	if got := f.InUse(); !slices.Equal(got, []corev1.UniqueVolumeName{unique}) || !slices.Equal(seen, []string{""}) {
		t.Errorf("in use are %v, told at %q", got, seen)
	}
	if got := last[*csipb.NodePublishVolumeRequest](f, "NodePublishVolume").GetPublishContext()["device"]; got != "x" {
		t.Errorf("published with %q", got)
	}
	// The driver becomes one that attaches nothing: what it has attached can go.
	f.check(f.client.Tracker().Add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}))
	for deadline := time.Now().Add(10 * time.Second); len(f.InUse()) > 0; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in use are still %v", f.InUse())
		}
	}
	f.check(f.client.Tracker().Delete(storagev1.SchemeGroupVersion.WithResource("volumeattachments"), "", attachment.Name))
	if _, err := f.setUp("a"); err != nil {
		t.Errorf("without its attachment: %v", err)
	}
	f.takeAway("a")
	if got := f.InUse(); got == nil || len(got) > 0 || f.reported(unique) || seen[len(seen)-1] != "Stage Publish Unpublish Unstage" {
		t.Errorf("in use are %v, told at %q", got, seen)
	}
}
