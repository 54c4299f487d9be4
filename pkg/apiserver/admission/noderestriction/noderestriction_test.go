// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	for _, f := range change {
		f(p)
	}
	return p
}

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid", Controller: new(true)}}
}

func newNode(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
}

func owned(n *corev1.Node) *corev1.Node {
	n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "storage.k8s.io/v1", Kind: "CSINode", Name: n.Name, UID: "u"}}
	return n
}

func configured(n *corev1.Node, name string) *corev1.Node {
	n.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Name: name}}
	return n
}

func token(ref *authenticationv1.BoundObjectReference, audiences ...string) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref, Audiences: audiences}}
}

// withVolumes gives a pod a token for the API server, one for a vault, and a volume of a CSI driver.
func withVolumes(p *corev1.Pod) {
	sources := []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}},
	}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "tokens", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}
}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func csiNode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestAdmit(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p, pod("mine", "n1", withVolumes), pod("theirs", "n2"), pod("bare", "n1"), newNode("n1", nil),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}},
		}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "cloud"}}}})
	p.(*Plugin).SetUnconditionalAuthorizer(admissiontest.Rules{"request-serviceaccounts-token-audience ruled ": true})
	bound := func(name, uid string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
	}
	del, update := admission.Delete, admission.Update
	for _, tc := range []struct {
		name string
		r    admissiontest.Request
		want string
	}{
		{"somebody else", admissiontest.Request{Resource: "nodes", Name: "n2", Object: newNode("n2", nil), User: &user.DefaultInfo{Name: "ann"}}, ""},
		{"nameless node", admissiontest.Request{Resource: "nodes", Object: newNode("n2", nil), User: &user.DefaultInfo{Name: "system:node:", Groups: []string{"system:nodes"}}}, `could not determine node from user "system:node:"`},

		{"kubelet's labels", admissiontest.Request{Resource: "nodes", Name: "n1", Object: newNode("n1", map[string]string{corev1.LabelHostname: "h", "example.com/x": "y", "kubelet.kubernetes.io/x": "y"})}, ""},
		{"role label", admissiontest.Request{Resource: "nodes", Name: "n1", Object: newNode("n1", map[string]string{"node-role.kubernetes.io/control-plane": ""})},
			`node "n1" is not allowed to set the following labels: node-role.kubernetes.io/control-plane`},
		{"another node", admissiontest.Request{Resource: "nodes", Name: "n2", Object: newNode("n2", nil)}, `node "n1" is not allowed to modify node "n2"`},
		{"taints when made", admissiontest.Request{Resource: "nodes", Name: "n1", Object: newNode("n1", nil, corev1.Taint{Key: "k"})}, ""},
		{"taints later", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: newNode("n1", nil, corev1.Taint{Key: "k"}), Old: newNode("n1", nil)}, `node "n1" is not allowed to modify taints`},
		{"label taken away", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: newNode("n1", nil), Old: newNode("n1", map[string]string{"x.node-restriction.kubernetes.io/a": "b"})},
			"is not allowed to modify labels: x.node-restriction.kubernetes.io/a"},
		{"owner when made", admissiontest.Request{Resource: "nodes", Name: "n1", Object: owned(newNode("n1", nil))}, `node "n1" is not allowed to set ownerReferences`},
		{"owner later", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: owned(newNode("n1", nil)), Old: newNode("n1", nil)},
			`node "n1" is not allowed to modify ownerReferences`},
		{"owner by status", admissiontest.Request{Resource: "nodes", Subresource: "status", Name: "n1", Operation: update, Object: owned(newNode("n1", nil)), Old: newNode("n1", nil)},
			`node "n1" is not allowed to modify ownerReferences`},
		{"owner taken away", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: newNode("n1", nil), Old: owned(newNode("n1", nil))},
			`node "n1" is not allowed to modify ownerReferences`},
		{"owner kept", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: owned(newNode("n1", nil)), Old: owned(newNode("n1", nil))}, ""},
		{"configSource when made", admissiontest.Request{Resource: "nodes", Name: "n1", Object: configured(newNode("n1", nil), "a")}, "non-nil configSource"},
		{"configSource later", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: configured(newNode("n1", nil), "b"), Old: configured(newNode("n1", nil), "a")},
			"is not allowed to update configSource"},
		{"configSource dropped", admissiontest.Request{Resource: "nodes", Name: "n1", Operation: update, Object: newNode("n1", nil), Old: configured(newNode("n1", nil), "a")}, ""},
		{"node with a generated name", admissiontest.Request{Resource: "nodes", Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n"}}}, `is not allowed to modify node ""`},
		{"deletion of another node", admissiontest.Request{Resource: "nodes", Name: "n2", Operation: del}, `node "n1" is not allowed to modify node "n2"`},

		{"ordinary pod", admissiontest.Request{Resource: "pods", Object: pod("p", "n1")}, `can only create mirror pods`},
		{"mirror pod", admissiontest.Request{Resource: "pods", Object: pod("p", "n1", mirror)}, ""},
		{"mirror pod elsewhere", admissiontest.Request{Resource: "pods", Object: pod("p", "n2", mirror)}, `node "n1" can only create pods with spec.nodeName set to itself`},
		{"mirror pod without owner", admissiontest.Request{Resource: "pods", Object: pod("p", "n1", mirror, func(p *corev1.Pod) { p.OwnerReferences = nil })},
			`node "n1" can only create pods with an owner reference set to itself`},
		{"mirror pod of an older node", admissiontest.Request{Resource: "pods", Object: pod("p", "n1", mirror, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" })}, "UID mismatch"},
		{"mirror pod with an account", admissiontest.Request{Resource: "pods", Object: pod("p", "n1", mirror, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "a" })}, "reference serviceaccounts"},
		{"mirror pod with a secret", admissiontest.Request{Resource: "pods", Object: pod("p", "n1", mirror, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} })},
			`node "n1" can not create pods that reference secrets`},
		{"own pod deleted", admissiontest.Request{Resource: "pods", Name: "mine", Operation: del}, ""},
		{"another's pod deleted", admissiontest.Request{Resource: "pods", Name: "theirs", Operation: del}, `node "n1" can only delete pods with spec.nodeName set to itself`},
		{"unknown pod deleted", admissiontest.Request{Resource: "pods", Name: "none", Operation: del}, "not found"},
		{"pod updated", admissiontest.Request{Resource: "pods", Name: "mine", Operation: update, Object: pod("mine", "n1"), Old: pod("mine", "n1")}, `unexpected operation "UPDATE"`},
		{"own status", admissiontest.Request{Resource: "pods", Subresource: "status", Operation: update, Object: pod("mine", "n1"), Old: pod("mine", "n1")}, ""},
		{"another's status", admissiontest.Request{Resource: "pods", Subresource: "status", Operation: update, Object: pod("theirs", "n2"), Old: pod("theirs", "n2")},
			`node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		{"labels by status", admissiontest.Request{Resource: "pods", Subresource: "status", Operation: update, Old: pod("mine", "n1"),
			Object: pod("mine", "n1", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })}, "cannot update labels through pod status"},
		{"claims by status", admissiontest.Request{Resource: "pods", Subresource: "status", Operation: update, Old: pod("mine", "n1"),
			Object: pod("mine", "n1", func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c"}} })}, "cannot update resource claim statues"},
		{"extended resources by status", admissiontest.Request{Resource: "pods", Subresource: "status", Operation: update, Old: pod("mine", "n1"),
			Object: pod("mine", "n1", func(p *corev1.Pod) {
				p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
			})},
			"cannot update extended resource claim status"},
		{"the node's devices by status", admissiontest.Request{Resource: "pods", Subresource: "status", Operation: update, Old: pod("mine", "n1"),
			Object: pod("mine", "n1", func(p *corev1.Pod) {
				p.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "c"}}
			})}, "cannot update node allocatable resource claim statuses"},
		{"own eviction", admissiontest.Request{Resource: "pods", Subresource: "eviction", Name: "mine", Object: &policyv1.Eviction{}}, ""},
		{"another's eviction", admissiontest.Request{Resource: "pods", Subresource: "eviction", Name: "theirs", Object: &policyv1.Eviction{}}, "node n1 can only evict pods with spec.nodeName set to itself"},
		{"binding", admissiontest.Request{Resource: "pods", Subresource: "binding", Name: "mine", Object: &corev1.Binding{}}, `unexpected pod subresource "binding"`},

		{"token of an own pod", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "mine"))}, ""},
		{"token for a pod without volumes", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("bare", "bare"))},
			`system:node:n1 is not authorized to request tokens for audience ""`},
		{"token for an audience of the pod", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "mine"), "vault")}, ""},
		{"token for an audience of a driver", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "mine"), "cloud")}, ""},
		{"token for an audience by a rule", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "mine"), "ruled")}, ""},
		{"token for another audience", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "mine"), "bank")},
			`system:node:n1 is not authorized to request tokens for audience "bank"`},
		{"token for two audiences", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "mine"), "vault", "cloud")}, "0 or 1 audiences"},
		{"unbound token", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(nil)}, "node requested token not bound to a pod"},
		{"token without a uid", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", ""))}, "without a uid"},
		{"token of an older pod", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("mine", "old"))}, "does not match the UID in record"},
		{"token of another's pod", admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(bound("theirs", "theirs"))}, "scheduled on a different node"},

		{"own lease", admissiontest.Request{Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Object: lease("n1")}, ""},
		{"another's lease", admissiontest.Request{Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Object: lease("n2")}, "same name as the requesting node"},
		{"lease elsewhere", admissiontest.Request{Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Object: lease("n1")}, `"kube-node-lease" system namespace`},
		{"own CSINode", admissiontest.Request{Group: "storage.k8s.io", Resource: "csinodes", Object: csiNode("n1")}, ""},
		{"another's CSINode", admissiontest.Request{Group: "storage.k8s.io", Resource: "csinodes", Object: csiNode("n2")}, "same name as the requesting node"},
		{"CSINode's status", admissiontest.Request{Group: "storage.k8s.io", Resource: "csinodes", Subresource: "status", Name: "n1", Operation: update, Object: csiNode("n1"), Old: csiNode("n1")},
			"CSIVolumeHealth feature gate is disabled"},
		{"claim", admissiontest.Request{Resource: "persistentvolumeclaims", Object: &corev1.PersistentVolumeClaim{}}, "may only update PVC status"},
		{"own slice", admissiontest.Request{Group: "resource.k8s.io", Resource: "resourceslices", Object: slice("n1")}, ""},
		{"another's slice", admissiontest.Request{Group: "resource.k8s.io", Resource: "resourceslices", Object: slice("n2")}, "can only create ResourceSlice with the same NodeName"},
		{"another's slice deleted", admissiontest.Request{Group: "resource.k8s.io", Resource: "resourceslices", Operation: del, Old: slice("n2")}, "can only delete ResourceSlice with the same NodeName"},
		{"anything else", admissiontest.Request{Resource: "events", Object: &corev1.Event{}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.r.User == nil {
				tc.r.User = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
			}
			err := admissiontest.Run(p, tc.r.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

func slice(node string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: &node}}
}

func TestClaimStatus(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p)
	grown := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Capacity: corev1.ResourceList{}, Conditions: []corev1.PersistentVolumeClaimCondition{{Type: "x"}}}}
	labelled := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	for _, tc := range []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		refused bool
	}{{"grown", grown, false}, {"labelled", labelled, true}} {
		t.Run(tc.name, func(t *testing.T) {
			err := admissiontest.Run(p, admissiontest.Request{
				Resource: "persistentvolumeclaims", Subresource: "status", Operation: admission.Update, Object: tc.claim, Old: &corev1.PersistentVolumeClaim{},
				User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
			}.Attributes())
			if (err != nil) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}

// A kubelet may hear of its pods before the cache of the plugin does.
func TestAdmit_CacheBehind(t *testing.T) {
	p := New().(*Plugin)
	admissiontest.Initialize(t, p, pod("bound", "n1", withVolumes), pod("made", "n1", withVolumes), pod("again", "n1", withVolumes), pod("theirs", "n2", withVolumes))
	stale := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	before := func(p *corev1.Pod) { p.UID = "before" }
	for _, obj := range []*corev1.Pod{pod("bound", ""), pod("again", "n1", before), pod("theirs", "")} { // and no "made"
		if err := stale.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	p.pods = corelisters.NewPodLister(stale)
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	for name, want := range map[string]string{"bound": "", "made": "", "again": "", "theirs": "a different node", "none": "not found"} {
		ref := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(name)}
		err := admissiontest.Run(p, admissiontest.Request{Resource: "serviceaccounts", Subresource: "token", Object: token(ref), User: node}.Attributes())
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) && want != "" {
			t.Errorf("token of %s: %v, want %q", name, err, want)
		}
	}
}

// Volumes of plugins that were once in the tree are those of the drivers that took over.
func TestAdmit_MigratedVolumes(t *testing.T) {
	with := func(sources ...corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for i, s := range sources {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: s})
			}
		}
	}
	claimed := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	driver := func(name, audience string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: audience}}}}
	}
	p := New()
	admissiontest.Initialize(t, p,
		pod("claimed", "n1", with(claimed)),
		pod("disk", "n1", with(corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}})),
		pod("files", "n1", with(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{ShareName: "s"}})),
		pod("managed", "n1", with(corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{Kind: new(corev1.AzureManagedDisk)}})),
		pod("shared", "n1", with(corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{Kind: new(corev1.AzureSharedBlobDisk)}})),
		pod("none", "n1", with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "v"}},
		}},
		driver("ebs.csi.aws.com", "aws"), driver("file.csi.azure.com", "files"), driver("disk.csi.azure.com", "disks"), driver("cinder.csi.openstack.org", "cinder"))
	for _, tc := range []struct{ pod, audience, want string }{
		{"claimed", "cinder", ""},
		{"disk", "aws", ""},
		{"files", "files", ""},
		{"managed", "disks", ""},
		{"shared", "disks", `error validating audience "disks": kind(Shared) is not supported in csi migration`},
		{"disk", "cinder", `not authorized to request tokens for audience "cinder"`},
		{"none", "aws", `not authorized to request tokens for audience "aws"`},
	} {
		t.Run(tc.pod+" for "+tc.audience, func(t *testing.T) {
			ref := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: tc.pod, UID: types.UID(tc.pod)}
			err := admissiontest.Run(p, admissiontest.Request{
				Resource: "serviceaccounts", Subresource: "token", Object: token(ref, tc.audience),
				User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
			}.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}
