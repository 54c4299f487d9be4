// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"minik8s.io/minik8s/pkg/kubelet/csitest"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
)

func TestRegistrar_Validate(t *testing.T) {
	t.Parallel()
	r := &Registrar{drivers: map[string]driver{}}
	first := pluginregistration.Plugin{Name: "d", Endpoint: "/a.sock", Versions: []string{"0.3.0", "1.2.0"}}
	d, err := r.judge(first)
	if err != nil || d.version.String() != "1.2.0" {
		t.Fatalf("got %v, %v", d.version, err)
	}
	r.drivers["d"] = d
	for _, tc := range []struct {
		name   string
		plugin pluginregistration.Plugin
		ok     bool
	}{
		{"once more", first, true},
		{"another with the same version", pluginregistration.Plugin{Name: "d", Endpoint: "/b.sock", Versions: []string{"1.2.0"}}, false},
		{"another with a higher version", pluginregistration.Plugin{Name: "d", Endpoint: "/b.sock", Versions: []string{"1.3.0"}}, true},
		{"too old", pluginregistration.Plugin{Name: "e", Endpoint: "/b.sock", Versions: []string{"0.3.0"}}, false},
		{"too new", pluginregistration.Plugin{Name: "e", Endpoint: "/b.sock", Versions: []string{"2.0.0"}}, false},
		{"nonsense", pluginregistration.Plugin{Name: "e", Endpoint: "/b.sock", Versions: []string{"x"}}, false},
	} {
		if err := r.Validate(tc.plugin); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	r.root = "/data/kubelet"
	for endpoint, want := range map[string][2]string{
		"/var/lib/kubelet/plugins/d/csi.sock": {"/data/kubelet", "plugins/d/csi.sock"},
		"/data/kubelet/plugins/d/csi.sock":    {"/data/kubelet", "plugins/d/csi.sock"},
		"/run/d/csi.sock":                     {"/run/d", "csi.sock"},
	} {
		if dir, socket := r.place(endpoint); [2]string{dir, socket} != want {
			t.Errorf("%s is %s in %s", endpoint, socket, dir)
		}
	}
}

func (f *fixture) node() *corev1.Node {
	f.t.Helper()
	n, err := f.client.CoreV1().Nodes().Get(f.t.Context(), "n", metav1.GetOptions{})
	f.check(err)
	return n
}

// drivers are those of the CSINode.
func (f *fixture) drivers() []storagev1.CSINodeDriver {
	f.t.Helper()
	n, err := f.client.StorageV1().CSINodes().Get(f.t.Context(), "n", metav1.GetOptions{})
	f.check(err)
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "node"}}, n.OwnerReferences); diff != "" {
		f.t.Errorf("owner (-want +got):\n%s", diff)
	}
	return n.Spec.Drivers
}

func TestRegister(t *testing.T) {
	t.Parallel()
	d := &csitest.Driver{MaxVolumes: 7, Topology: map[string]string{"d.test/zone": "z", "d.test/rack": "r"}}
	f := newFixture(t, d)
	want := []storagev1.CSINodeDriver{{
		Name: driverName, NodeID: "there", TopologyKeys: []string{"d.test/rack", "d.test/zone"}, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))},
	}}
	if diff := cmp.Diff(want, f.drivers()); diff != "" {
		t.Errorf("CSINode (-want +got):\n%s", diff)
	}
	if n := f.node(); n.Annotations[nodeIDs] != `{"d.test":"there"}` || n.Labels["d.test/zone"] != "z" {
		t.Errorf("node is %v, %v", n.Annotations, n.Labels)
	}

	f.Registrar.Deregister(f.plugin())
	f.check(f.Registrar.node.flush(t.Context(), driverName))
	if n := f.node(); len(f.drivers()) > 0 || n.Annotations[nodeIDs] != "" || n.Labels["d.test/zone"] != "z" {
		t.Errorf("after it: %v, %v, %v", f.drivers(), n.Annotations, n.Labels)
	}

	d.Topology = map[string]string{"d.test/zone": "elsewhere"}
	if err := f.Registrar.Register(t.Context(), f.plugin()); err == nil || !strings.HasSuffix(err.Error(), `driver reported "d.test/zone":"elsewhere" but existing label is "d.test/zone":"z"`) {
		t.Errorf("at another place: %v", err)
	}
	d.Topology = nil
	refused := apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no"))
	for _, tc := range []struct {
		name string
		err  error
		ok   bool
	}{{"the API server is away", errors.New("connection refused"), true}, {"the API server refuses it", refused, false}} {
		away := true
		f.client.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return away, nil, tc.err })
		if err := f.Registrar.Register(t.Context(), f.plugin()); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
		if _, err := f.Registrar.find(driverName); (err == nil) != tc.ok {
			t.Errorf("%s: driver: %v", tc.name, err)
		}
		away = false
		f.check(f.Registrar.node.flush(t.Context(), driverName))
		if (len(f.drivers()) == 1) != tc.ok {
			t.Errorf("%s: afterwards the API has %v", tc.name, f.drivers())
		}
		f.Registrar.Deregister(f.plugin())
		f.check(f.Registrar.node.flush(t.Context(), driverName))
	}
	d.NodeID = ""
	if err := f.Registrar.Register(t.Context(), f.plugin()); err == nil {
		t.Error("a driver that knows no name of the node is registered")
	}
}

func TestGrows(t *testing.T) {
	t.Parallel()
	can := capabilities{csipb.NodeServiceCapability_RPC_EXPAND_VOLUME: true}
	for _, tc := range []struct {
		name   string
		change func(*volume)
		can    capabilities
		want   bool
	}{
		{"larger", func(*volume) {}, can, true},
		{"as large", func(v *volume) { v.persistent = persistent() }, can, false},
		{"the driver cannot", func(*volume) {}, nil, false},
		{"to read only", func(v *volume) { v.readOnly = true }, can, false},
		{"of a pod's own", func(v *volume) { v.persistent, v.claim = nil, nil }, can, false},
		{"it is the node's turn", func(v *volume) {
			v.claim.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizePending)
		}, can, true},
		{"it was begun", func(v *volume) {
			v.claim.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizeInProgress)
		}, can, true},
		{"it cannot be", func(v *volume) {
			v.claim.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizeInfeasible)
		}, can, false},
		{"it is the controller's turn", func(v *volume) {
			v.claim.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimControllerResizeInProgress)
		}, can, false},
	} {
		pv := persistent()
		larger(pv)
		v := ofPersistent(mountOf("a").Volume, pv, claimed())
		tc.change(&v)
		if got := v.grows(resource.MustParse("1Gi"), tc.can); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func turn(s corev1.ClaimResourceStatus) map[corev1.ResourceName]corev1.ClaimResourceStatus {
	return map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: s}
}

func larger(pv *corev1.PersistentVolume) {
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
}

// A volume that has become larger grows on the node while its pod runs, and the claim tells.
func TestExpand(t *testing.T) {
	t.Parallel()
	pending := claimed()
	pending.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizePending)
	pending.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	f := newFixture(t, &csitest.Driver{Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_EXPAND_VOLUME}}, unattached(), pending)
	_, err := f.setUp("a")
	f.check(err)
	claim := func() *corev1.PersistentVolumeClaim {
		c, err := f.client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "c", metav1.GetOptions{})
		f.check(err)
		return c
	}
	look := func() *corev1.PersistentVolumeClaimStatus {
		t.Helper()
		pv := persistent()
		larger(pv)
		if _, err := f.SetUpClaim(t.Context(), mountOf("a"), pv, claim()); err != nil {
			t.Fatalf("a pod that runs: %v", err)
		}
		f.beside.Wait()
		return &claim().Status
	}
	f.driver.Fail("NodeExpandVolume", csitest.Fault{Err: status.Error(codes.Unavailable, "away")}, csitest.Fault{Err: status.Error(codes.OutOfRange, "never")})
	if st := look(); st.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimNodeResizeInProgress || len(st.Conditions) != 1 {
		t.Errorf("no answer: %+v", st)
	}
	if st := look(); st.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimNodeResizeInfeasible || st.Conditions[1].Type != corev1.PersistentVolumeClaimNodeResizeError {
		t.Errorf("refused: %+v", st)
	}
	for range 2 {
		if e := <-f.events; !strings.HasPrefix(e, `Warning VolumeResizeFailed NodeExpandVolume.NodeExpandVolume failed for volume "pv" : `) {
			t.Errorf("event is %s", e)
		}
		<-f.events // of the claim
	}
	look()
	if calls := f.driver.Calls("NodeExpandVolume"); len(calls) != 2 {
		t.Errorf("%d calls for what cannot be", len(calls))
	}
	again := claim()
	again.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizePending)
	_, err = f.client.CoreV1().PersistentVolumeClaims("ns").UpdateStatus(t.Context(), again, metav1.UpdateOptions{})
	f.check(err)
	if st := look(); st.Capacity.Storage().String() != "2Gi" || len(st.AllocatedResourceStatuses) > 0 || len(st.Conditions) > 0 {
		t.Errorf("expanded: %+v", st)
	}
	if e := <-f.events; e != `Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv" n` {
		t.Errorf("event is %s", e)
	}
	look()
	if calls := f.driver.Calls("NodeExpandVolume"); len(calls) != 3 {
		t.Errorf("%d calls", len(calls))
	}
	f.takeAway("a")
}

// What failed for good is given up if another size was asked for since, and only then.
func TestExpandOtherwise(t *testing.T) {
	t.Parallel()
	pending := claimed()
	pending.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	pending.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizePending)
	f := newFixture(t, &csitest.Driver{Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_EXPAND_VOLUME}}, unattached(), pending)
	_, err := f.setUp("a")
	f.check(err)
	denied := csitest.Fault{Err: status.Error(codes.PermissionDenied, "not yours")}
	f.driver.Fail("NodeExpandVolume", denied, denied, denied)
	for _, tc := range []struct {
		asked string
		want  corev1.ClaimResourceStatus
	}{
		{"2Gi", corev1.PersistentVolumeClaimNodeResizeInProgress},
		{"2Gi", corev1.PersistentVolumeClaimNodeResizeInProgress},
		{"1536Mi", corev1.PersistentVolumeClaimNodeResizeInfeasible},
	} {
		claim, err := f.client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "c", metav1.GetOptions{})
		f.check(err)
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(tc.asked)
		claim, err = f.client.CoreV1().PersistentVolumeClaims("ns").Update(t.Context(), claim, metav1.UpdateOptions{})
		f.check(err)
		pv := persistent()
		larger(pv)
		_, err = f.SetUpClaim(t.Context(), mountOf("a"), pv, claim)
		f.check(err)
		f.beside.Wait()
		claim, err = f.client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "c", metav1.GetOptions{})
		f.check(err)
		if got := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; got != tc.want {
			t.Errorf("%s asked for: %s, want %s", tc.asked, got, tc.want)
		}
	}
	f.takeAway("a")
}

// A volume that does not grow while it is in use is mounted as it is, and left alone.
func TestExpandInUse(t *testing.T) {
	t.Parallel()
	pending := claimed()
	pending.Status.AllocatedResourceStatuses = turn(corev1.PersistentVolumeClaimNodeResizePending)
	f := newFixture(t, &csitest.Driver{Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_EXPAND_VOLUME}}, unattached(), pending)
	f.driver.Fail("NodeExpandVolume", csitest.Fault{Err: status.Error(codes.FailedPrecondition, "in use")})
	pv := persistent()
	larger(pv)
	for range 2 {
		_, err := f.SetUpClaim(t.Context(), mountOf("a"), pv, pending)
		f.check(err)
	}
	if calls := f.driver.Calls("NodeExpandVolume"); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	}
	claim, err := f.client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "c", metav1.GetOptions{})
	f.check(err)
	if c := claim.Status.Conditions; len(c) != 1 || c[0].Type != corev1.PersistentVolumeClaimNodeResizeError {
		t.Errorf("conditions %+v", c)
	}
	f.takeAway("a")
}
