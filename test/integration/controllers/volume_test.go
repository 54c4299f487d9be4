// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/integration/framework"
)

// storageClass makes a class that lasts as long as the test.
func storageClass(t *testing.T, ns string, mode storagev1.VolumeBindingMode, change ...func(*storagev1.StorageClass)) string {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class-" + ns}, Provisioner: "example.com/provisioner", VolumeBindingMode: &mode,
	}
	for _, f := range change {
		f(class)
	}
	classes := cluster.Client.StorageV1().StorageClasses()
	if _, err := classes.Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return class.Name
}

func claimOf(name, class, size string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.StorageClassName = &class
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	for _, f := range change {
		f(c)
	}
	return c
}

func createClaim(t *testing.T, ns string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	t.Helper()
	made, err := cluster.Client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// createVolume makes a volume that is removed at the end of the test, whatever has become of it.
func createVolume(t *testing.T, name, class, size string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.StorageClassName = class
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + name}
	for _, f := range change {
		f(v)
	}
	volumes := cluster.Client.CoreV1().PersistentVolumes()
	made, err := volumes.Create(t.Context(), v, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forceDeleteVolume(t, name) })
	return made
}

// forceDeleteVolume removes a volume with its protection.
func forceDeleteVolume(t *testing.T, name string) {
	t.Helper()
	volumes := cluster.Client.CoreV1().PersistentVolumes()
	if err := volumes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := volumes.Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func awaitClaim(t *testing.T, ns, name, what string, ok func(*corev1.PersistentVolumeClaim) bool) *corev1.PersistentVolumeClaim {
	t.Helper()
	var c *corev1.PersistentVolumeClaim
	framework.Eventually(t, "claim "+name+" "+what, func() error {
		var err error
		if c, err = cluster.Client.CoreV1().PersistentVolumeClaims(ns).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !ok(c) {
			return fmt.Errorf("volume %q, annotations %v, status %+v", c.Spec.VolumeName, c.Annotations, c.Status)
		}
		return nil
	})
	return c
}

func awaitBound(t *testing.T, ns, name, volume string) *corev1.PersistentVolumeClaim {
	t.Helper()
	return awaitClaim(t, ns, name, "is bound", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.Phase == corev1.ClaimBound && c.Spec.VolumeName == volume && c.Annotations[volumehelper.AnnBindCompleted] == "yes"
	})
}

func awaitPhase(t *testing.T, name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	t.Helper()
	var v *corev1.PersistentVolume
	framework.Eventually(t, fmt.Sprintf("volume %s is %s", name, phase), func() error {
		var err error
		if v, err = cluster.Client.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if v.Status.Phase != phase {
			return fmt.Errorf("claim %v, status %+v", v.Spec.ClaimRef, v.Status)
		}
		return nil
	})
	return v
}

// awaitEvent waits for an event about an object and returns its message.
func awaitEvent(t *testing.T, ns, object, reason string) string {
	t.Helper()
	message := ""
	framework.Eventually(t, fmt.Sprintf("event %s of %s", reason, object), func() error {
		list, err := cluster.Client.CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == object && e.Reason == reason {
				message = e.Message
				return nil
			}
		}
		return fmt.Errorf("not among %d events", len(list.Items))
	})
	return message
}

func deleteClaim(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.Client.CoreV1().PersistentVolumeClaims(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A claim gets the smallest volume that will do, keeps it, and leaves it Released; who wants it back takes the claim away.
func TestVolume_StaticBindingAndRetain(t *testing.T) {
	ns := cluster.Namespace(t)
	class := "manual-" + ns // volumes and claims may agree on a class that nobody made
	large, small, fits := ns+"-large", ns+"-small", ns+"-fits"
	for name, size := range map[string]string{large: "5Gi", small: "500Mi", fits: "2Gi"} {
		createVolume(t, name, class, size)
	}
	for _, name := range []string{large, small, fits} {
		awaitPhase(t, name, corev1.VolumeAvailable)
	}
	made := createClaim(t, ns, claimOf("data", class, "1Gi"))
	claim := awaitBound(t, ns, "data", fits)
	if got := claim.Status.Capacity[corev1.ResourceStorage]; got.String() != "2Gi" {
		t.Errorf("capacity is %s, want that of the volume", got.String())
	}
	volume := awaitPhase(t, fits, corev1.VolumeBound)
	if volume.Spec.ClaimRef.UID != made.UID || volume.Annotations[volumehelper.AnnBoundByController] != "yes" {
		t.Errorf("volume refers to %v, annotations %v", volume.Spec.ClaimRef, volume.Annotations)
	}
	awaitPhase(t, small, corev1.VolumeAvailable)

	deleteClaim(t, ns, "data")
	volume = awaitPhase(t, fits, corev1.VolumeReleased)
	if volume.Spec.ClaimRef == nil {
		t.Error("a released volume has forgotten its claim")
	}
	createClaim(t, ns, claimOf("next", class, "1Gi"))
	awaitBound(t, ns, "next", large) // what is released holds data of somebody else
	if _, err := cluster.Client.CoreV1().PersistentVolumes().Patch(t.Context(), fits, types.MergePatchType,
		[]byte(`{"spec":{"claimRef":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPhase(t, fits, corev1.VolumeAvailable)
}

// What users fix by hand is kept: the volume of a claim, the claim of a volume, labels.
func TestVolume_PreBound(t *testing.T) {
	ns := cluster.Namespace(t)
	class := "manual-" + ns
	meant, named, labelled := ns+"-meant", ns+"-named", ns+"-labelled"
	createVolume(t, meant, class, "9Gi", func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns, Name: "a"}
	})
	createVolume(t, named, class, "1Gi")
	createVolume(t, labelled, class, "1Gi", func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "ssd"} })
	createClaim(t, ns, claimOf("a", class, "1Gi"))
	awaitBound(t, ns, "a", meant)
	if v := awaitPhase(t, meant, corev1.VolumeBound); v.Annotations[volumehelper.AnnBoundByController] != "" {
		t.Error("the controller says that it had bound what the user had")
	}
	createClaim(t, ns, claimOf("b", class, "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = named }))
	if c := awaitBound(t, ns, "b", named); c.Annotations[volumehelper.AnnBoundByController] != "" {
		t.Error("the controller says that it had bound what the user had")
	}
	createClaim(t, ns, claimOf("c", class, "1Gi", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	}))
	awaitBound(t, ns, "c", labelled)
	createClaim(t, ns, claimOf("d", class, "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = named }))
	if got, want := awaitEvent(t, ns, "d", "FailedBinding"), fmt.Sprintf("volume %q already bound to a different claim.", named); got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
}

// Of several claims one gets the volume, and the next one as soon as there is another.
func TestVolume_Race(t *testing.T) {
	ns := cluster.Namespace(t)
	class := "manual-" + ns
	names := []string{"a", "b", "c"}
	for _, name := range names {
		createClaim(t, ns, claimOf(name, class, "1Gi"))
	}
	bound := map[string]string{}
	for n := range names {
		volume := fmt.Sprintf("%s-%d", ns, n)
		createVolume(t, volume, class, "1Gi")
		ref := awaitPhase(t, volume, corev1.VolumeBound).Spec.ClaimRef
		if bound[ref.Name] != "" {
			t.Errorf("claim %s has volumes %s and %s", ref.Name, bound[ref.Name], volume)
		}
		bound[ref.Name] = volume
		awaitBound(t, ns, ref.Name, volume)
	}
}

// A claim whose volume is taken away is Lost, which it says once.
func TestVolume_Lost(t *testing.T) {
	ns := cluster.Namespace(t)
	volume := ns + "-v"
	createVolume(t, volume, "manual-"+ns, "1Gi")
	createClaim(t, ns, claimOf("data", "manual-"+ns, "1Gi"))
	awaitBound(t, ns, "data", volume)
	forceDeleteVolume(t, volume)
	awaitClaim(t, ns, "data", "is lost", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimLost })
	if got, want := awaitEvent(t, ns, "data", "ClaimLost"), "Bound claim has lost its PersistentVolume. Data on the volume is lost!"; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
}

// provide plays an external provisioner.
func provide(t *testing.T, claim *corev1.PersistentVolumeClaim, node string, change ...func(*corev1.PersistentVolume)) string {
	t.Helper()
	name := "pvc-" + string(claim.UID)
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	createVolume(t, name, *claim.Spec.StorageClassName, size.String(), append(change, func(v *corev1.PersistentVolume) {
		v.Annotations = map[string]string{volumehelper.AnnDynamicallyProvisioned: "example.com/provisioner"}
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		if node != "" {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}}
		}
	})...)
	return name
}

// The external provisioner is told by an annotation, makes the volume, and deletes it when it is released.
func TestVolume_ExternalProvisioner(t *testing.T) {
	ns := cluster.Namespace(t)
	class := storageClass(t, ns, storagev1.VolumeBindingImmediate)
	createClaim(t, ns, claimOf("data", class, "1Gi"))
	claim := awaitClaim(t, ns, "data", "names its provisioner", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[volumehelper.AnnStorageProvisioner] == "example.com/provisioner" &&
			c.Annotations[volumehelper.AnnBetaStorageProvisioner] == "example.com/provisioner"
	})
	if got := awaitEvent(t, ns, "data", "ExternalProvisioning"); !strings.HasPrefix(got, "Waiting for a volume to be created either by the external provisioner 'example.com/provisioner' or") {
		t.Errorf("message is %q", got)
	}
	name := provide(t, claim, "")
	awaitBound(t, ns, "data", name)
	deleteClaim(t, ns, "data")
	if v := awaitPhase(t, name, corev1.VolumeReleased); v.Status.Message != "" {
		t.Errorf("message is %q, but the volume is another one's to delete", v.Status.Message)
	}
	volumes := cluster.Client.CoreV1().PersistentVolumes()
	if err := volumes.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the volume", func() error {
		_, err := volumes.Get(context.Background(), name, metav1.GetOptions{})
		return err
	})
}

// A class that waits for the first consumer provides nothing until a node is selected.
func TestVolume_WaitForFirstConsumer(t *testing.T) {
	ns := cluster.Namespace(t)
	class := storageClass(t, ns, storagev1.VolumeBindingWaitForFirstConsumer)
	createVolume(t, ns+"-free", class, "1Gi")
	awaitPhase(t, ns+"-free", corev1.VolumeAvailable)
	createClaim(t, ns, claimOf("data", class, "1Gi"))
	if got, want := awaitEvent(t, ns, "data", "WaitForFirstConsumer"), "waiting for first consumer to be created before binding"; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
	claim := awaitClaim(t, ns, "data", "is pending", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimPending })
	if claim.Spec.VolumeName != "" || claim.Annotations[volumehelper.AnnStorageProvisioner] != "" {
		t.Errorf("volume is %q, annotations are %v", claim.Spec.VolumeName, claim.Annotations)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"node-a"}}}`, volumehelper.AnnSelectedNode)
	if _, err := cluster.Client.CoreV1().PersistentVolumeClaims(ns).Patch(t.Context(), "data", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	claim = awaitClaim(t, ns, "data", "names its provisioner", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[volumehelper.AnnStorageProvisioner] != ""
	})
	awaitBound(t, ns, "data", provide(t, claim, "node-a"))
}

// The scheduler selects the node, the pod waits for the volume and goes where it is, and so does the next pod.
func TestVolume_ScheduledWithItsPod(t *testing.T) {
	ns := cluster.Namespace(t)
	class := storageClass(t, ns, storagev1.VolumeBindingWaitForFirstConsumer)
	createClaim(t, ns, claimOf("data", class, "1Gi"))
	claims, pods := cluster.Client.CoreV1().PersistentVolumeClaims(ns), cluster.Client.CoreV1().Pods(ns)
	w, err := claims.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := func(name string) *corev1.Pod {
		p := framework.Pod(name, "v1")
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		return p
	}
	if _, err := pods.Create(t.Context(), user("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := framework.Await(t, w, "a claim with a node", func(_ watch.EventType, c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[volumehelper.AnnStorageProvisioner] != ""
	})
	node := claim.Annotations[volumehelper.AnnSelectedNode]
	if p, err := pods.Get(t.Context(), "first", metav1.GetOptions{}); err != nil || p.Spec.NodeName != "" {
		t.Errorf("the pod is on node %q before its volume is there (%v)", p.Spec.NodeName, err)
	}
	name := provide(t, claim, node)
	awaitBound(t, ns, "data", name)
	on := func(pod string) string {
		t.Helper()
		found := ""
		framework.Eventually(t, "pod "+pod+" has a node", func() error {
			p, err := pods.Get(context.Background(), pod, metav1.GetOptions{})
			if err == nil && p.Spec.NodeName == "" {
				err = fmt.Errorf("conditions are %v", p.Status.Conditions)
			}
			if err == nil {
				found = p.Spec.NodeName
			}
			return err
		})
		return found
	}
	if _, err := pods.Create(t.Context(), user("second"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"first", "second"} {
		if got := on(pod); got != node {
			t.Errorf("pod %s is on node %s, its volume on %s", pod, got, node)
		}
	}
	// The claim is kept for as long as pods use it, and with it the volume.
	deleteClaim(t, ns, "data")
	claim = awaitClaim(t, ns, "data", "is being deleted", func(c *corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })
	if !slices.Contains(claim.Finalizers, "kubernetes.io/pvc-protection") {
		t.Errorf("finalizers are %v", claim.Finalizers)
	}
	for _, pod := range []string{"first", "second"} {
		if err := pods.Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
	}
	awaitPhase(t, name, corev1.VolumeReleased)
}

// A volume that nobody can recycle or delete says so.
func TestVolume_ReclaimFails(t *testing.T) {
	ns := cluster.Namespace(t)
	for name, tc := range map[string]struct {
		policy          corev1.PersistentVolumeReclaimPolicy
		reason, message string
	}{
		"recycle": {corev1.PersistentVolumeReclaimRecycle, "VolumeFailedRecycle", "No recycler plugin found for the volume!"},
		"delete": {corev1.PersistentVolumeReclaimDelete, "VolumeFailedDelete",
			"host_path deleter only supports /tmp/.+ but received provided /srv/data"},
	} {
		t.Run(name, func(t *testing.T) {
			class, volume := "manual-"+name+ns, ns+"-"+name
			createVolume(t, volume, class, "1Gi", func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy, v.Spec.HostPath.Path = tc.policy, "/srv/data"
			})
			createClaim(t, ns, claimOf(name, class, "1Gi"))
			awaitBound(t, ns, name, volume)
			deleteClaim(t, ns, name)
			if got := awaitPhase(t, volume, corev1.VolumeFailed).Status.Message; got != tc.message {
				t.Errorf("message is %q, want %q", got, tc.message)
			}
			// Events of what is in no namespace are in the default one.
			if got := awaitEvent(t, metav1.NamespaceDefault, volume, tc.reason); got != tc.message {
				t.Errorf("message is %q, want %q", got, tc.message)
			}
		})
	}
}

// awaitUnused waits for the condition Unused of a claim.
func awaitUnused(t *testing.T, ns, name string, status corev1.ConditionStatus) {
	t.Helper()
	awaitClaim(t, ns, name, "has condition Unused "+string(status), func(c *corev1.PersistentVolumeClaim) bool {
		return slices.ContainsFunc(c.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimUnused && c.Status == status
		})
	})
}

// The volume of a CSI driver is attached when a pod that uses it gets a node, reported to the node, and detached when the
// pod is gone and the node has unmounted it. Until then no other node gets it.
func TestVolume_AttachDetach(t *testing.T) {
	ns := cluster.Namespace(t)
	const driver = "csi.example.com"
	volume, class := ns+"-v", "manual-"+ns
	createVolume(t, volume, class, "1Gi", func(v *corev1.PersistentVolume) {
		v.Spec.HostPath = nil
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle-" + ns}
	})
	createClaim(t, ns, claimOf("data", class, "1Gi"))
	awaitBound(t, ns, "data", volume)
	awaitUnused(t, ns, "data", corev1.ConditionTrue)
	unique := corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^handle-" + ns)

	nodes, attachments, pods := cluster.Client.CoreV1().Nodes(), cluster.Client.StorageV1().VolumeAttachments(), cluster.Client.CoreV1().Pods(ns)
	for _, name := range []string{"node-a", "node-b"} {
		patch := []byte(`{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}`)
		if _, err := nodes.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	use := func(value string) {
		t.Helper()
		if _, err := nodes.Patch(t.Context(), "node-a", types.MergePatchType, []byte(`{"status":{"volumesInUse":`+value+`}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	user := func(name, node string) {
		t.Helper()
		p := framework.Pod(name, "v1")
		p.Spec.NodeName = node
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	on := func(node string) (*storagev1.VolumeAttachment, error) {
		list, err := attachments.List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if a := &list.Items[i]; a.Spec.NodeName == node && ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == volume {
				return a, nil
			}
		}
		return nil, apierrors.NewNotFound(storagev1.Resource("volumeattachments"), node)
	}

	user("first", "node-a")
	awaitUnused(t, ns, "data", corev1.ConditionFalse)
	var made *storagev1.VolumeAttachment
	framework.Eventually(t, "the attachment", func() (err error) {
		made, err = on("node-a")
		return err
	})
	if made.Spec.Attacher != driver {
		t.Errorf("attacher is %s", made.Spec.Attacher)
	}
	// The node mounts what was attached.
	use(fmt.Sprintf("[%q]", unique))
	made.Status.Attached = true
	if _, err := attachments.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	reported := func(want bool) func() error {
		return func() error {
			n, err := nodes.Get(context.Background(), "node-a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if has := slices.ContainsFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == unique }); has != want {
				return fmt.Errorf("volumes attached are %v", n.Status.VolumesAttached)
			}
			return nil
		}
	}
	framework.Eventually(t, "the node's status says that it is attached", reported(true))
	if got, want := awaitEvent(t, ns, "first", "SuccessfulAttachVolume"), fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", volume); got != want {
		t.Errorf("message is %q, want %q", got, want)
	}

	user("second", "node-b")
	if got := awaitEvent(t, ns, "second", "FailedAttachVolume"); !strings.Contains(got, "Volume is already used by pod(s) first") {
		t.Errorf("message is %q", got)
	}
	if err := pods.Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the pod", func() error {
		_, err := pods.Get(context.Background(), "first", metav1.GetOptions{})
		return err
	})
	if a, err := on("node-a"); err != nil || a.DeletionTimestamp != nil {
		t.Errorf("detached although it is mounted: %v", err)
	}
	use("null")
	gone(t, "the attachment to the first node", func() error {
		_, err := on("node-a")
		return err
	})
	framework.Eventually(t, "the node's status says that it is detached", reported(false))
	framework.Eventually(t, "the attachment to the second node", func() error {
		_, err := on("node-b")
		return err
	})
	if err := pods.Delete(t.Context(), "second", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the attachment to the second node", func() error {
		_, err := on("node-b")
		return err
	})
	awaitUnused(t, ns, "data", corev1.ConditionTrue)
}

// A claim that asks for more says who is waited for.
func TestVolume_Expand(t *testing.T) {
	ns := cluster.Namespace(t)
	class := storageClass(t, ns, storagev1.VolumeBindingImmediate, func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = new(true) })
	claim := createClaim(t, ns, claimOf("data", class, "1Gi"))
	awaitBound(t, ns, "data", provide(t, claim, ""))
	patch := []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	if _, err := cluster.Client.CoreV1().PersistentVolumeClaims(ns).Patch(t.Context(), "data", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := awaitEvent(t, ns, "data", "ExternalExpanding"), "waiting for an external controller to expand this PVC"; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
}
