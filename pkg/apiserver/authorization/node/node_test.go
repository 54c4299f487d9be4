// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
)

// everything is a pod on a node that refers to every kind of object in every way.
func everything(name, node string) *corev1.Pod {
	secretKey := func(n string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: n}}}
	}
	local := &corev1.LocalObjectReference{Name: "driver"}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "sa",
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
			InitContainers:   []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: secretKey("init")}}}},
			Containers: []corev1.Container{{
				EnvFrom: []corev1.EnvFromSource{
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "from"}}},
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "from"}}},
				},
				Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}}}},
			}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{{ValueFrom: secretKey("debug")}}}}},
			Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
				{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "volume"}}}},
				{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "projected"}}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
				}}}},
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local}}},
			},
			ResourceClaims: []corev1.PodResourceClaim{{ResourceClaimName: new("gpu")}},
		},
		Status: corev1.PodStatus{
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: new("made")}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"},
		},
	}
}

// volumeOf is a volume that is bound to a claim.
func volumeOf(name, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: claim, UID: types.UID(claim)},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			NodeStageSecretRef:         &corev1.SecretReference{Namespace: "drivers", Name: name + "-stage"},
			ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "drivers", Name: name + "-attach"},
		}},
	}}
}

// claimOf is a claim that names a volume.
func claimOf(name, volume string, uid types.UID) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
}

func TestAuthorize(t *testing.T) {
	x := NewIndex()
	h := x.Handler()
	h.OnAdd(everything("p", "n1"), false)
	h.OnAdd(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mirror", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec: corev1.PodSpec{NodeName: "n2", Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
		}},
	}, false)
	h.OnAdd(everything("pending", ""), false)
	h.OnAdd(&certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Spec: certificatesv1.PodCertificateRequestSpec{NodeName: "n1"},
	}, false)
	h.OnAdd(volumeOf("v", "data"), false)
	h.OnAdd(claimOf("data", "v", "data"), false)
	// Volumes that only say that they are the claim's.
	h.OnAdd(volumeOf("forged", "data"), false)
	h.OnAdd(volumeOf("early", "p-scratch"), false)
	h.OnAdd(claimOf("p-scratch", "", "p-scratch"), false)
	// A volume of an earlier claim of the same name.
	former := volumeOf("former", "scratch")
	former.Spec.ClaimRef.UID = "another"
	h.OnAdd(former, false)
	h.OnAdd(claimOf("scratch", "former", "scratch"), false)
	h.OnAdd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p2"}, Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "scratch"}}},
	}}}, false)
	h.OnAdd(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourcev1.ResourceSliceSpec{NodeName: new("n1")}}, false)
	h.OnAdd(volumeOf("stranger", "other"), false)
	h.OnAdd(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "unbound"}}, false)
	h.OnAdd(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}}, false)
	a := &Authorizer{Index: x, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"services", "secrets", "nodes", "pods"}},
	}}
	n1 := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	n2 := &user.DefaultInfo{Name: "system:node:n2", Groups: []string{"system:nodes"}}

	ask := func(u user.Info, verb, group, resource, sub, namespace, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: u, Verb: verb, APIGroup: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true}
	}
	selecting := func(r authorizer.AttributesRecord, selector string) authorizer.AttributesRecord {
		r.FieldSelectorRequirements = fields.ParseSelectorOrDie(selector).Requirements()
		return r
	}
	for _, tc := range []struct {
		name  string
		attrs authorizer.AttributesRecord
		allow bool
	}{
		{"not a node", ask(&user.DefaultInfo{Name: "system:node:n1"}, "get", "", "services", "", "ns", "s"), false},
		{"a user in the group of nodes", ask(&user.DefaultInfo{Name: "bob", Groups: []string{"system:nodes"}}, "get", "", "services", "", "ns", "s"), false},
		{"a node without a name", ask(&user.DefaultInfo{Name: "system:node:", Groups: []string{"system:nodes"}}, "get", "", "services", "", "ns", "s"), false},
		{"static rule", ask(n1, "list", "", "services", "", "", ""), true},
		{"static rule does not say", ask(n1, "delete", "", "services", "", "ns", "s"), false},

		{"secret of a volume", ask(n1, "get", "", "secrets", "", "ns", "volume"), true},
		{"watch of one secret", ask(n1, "watch", "", "secrets", "", "ns", "volume"), true},
		{"list of one secret", ask(n1, "list", "", "secrets", "", "ns", "volume"), true},
		{"all secrets of a namespace", ask(n1, "list", "", "secrets", "", "ns", ""), false},
		{"all secrets", ask(n1, "watch", "", "secrets", "", "", ""), false},
		{"secret in another namespace", ask(n1, "get", "", "secrets", "", "other", "volume"), false},
		{"secret write", ask(n1, "update", "", "secrets", "", "ns", "volume"), false},
		{"secret of another node's pod", ask(n2, "get", "", "secrets", "", "ns", "volume"), false},
		{"pull secret", ask(n1, "get", "", "secrets", "", "ns", "pull"), true},
		{"init container's secret", ask(n1, "get", "", "secrets", "", "ns", "init"), true},
		{"ephemeral container's secret", ask(n1, "get", "", "secrets", "", "ns", "debug"), true},
		{"envFrom secret", ask(n1, "get", "", "secrets", "", "ns", "from"), true},
		{"projected secret", ask(n1, "get", "", "secrets", "", "ns", "projected"), true},
		{"driver's secret", ask(n1, "get", "", "secrets", "", "ns", "driver"), true},
		{"config map of env", ask(n1, "get", "", "configmaps", "", "ns", "key"), true},
		{"config map of envFrom", ask(n1, "get", "", "configmaps", "", "ns", "from"), true},
		{"config map of a volume", ask(n1, "watch", "", "configmaps", "", "ns", "volume"), true},
		{"projected config map", ask(n1, "get", "", "configmaps", "", "ns", "kube-root-ca.crt"), true},
		{"unknown config map", ask(n1, "get", "", "configmaps", "", "ns", "none"), false},
		{"claim", ask(n1, "get", "", "persistentvolumeclaims", "", "ns", "data"), true},
		{"claim of an ephemeral volume", ask(n1, "get", "", "persistentvolumeclaims", "", "ns", "p-scratch"), true},
		{"claim list", ask(n1, "list", "", "persistentvolumeclaims", "", "ns", "data"), false},
		{"claim status", ask(n1, "patch", "", "persistentvolumeclaims", "status", "ns", "data"), true},
		{"another's claim status", ask(n2, "patch", "", "persistentvolumeclaims", "status", "ns", "data"), false},
		{"volume of a claim", ask(n1, "get", "", "persistentvolumes", "", "", "v"), true},
		{"volume of another node's claim", ask(n2, "get", "", "persistentvolumes", "", "", "v"), false},
		{"volume of a claim that no pod uses", ask(n1, "get", "", "persistentvolumes", "", "", "stranger"), false},
		{"volume without a claim", ask(n1, "get", "", "persistentvolumes", "", "", "unbound"), false},
		{"volume that the claim does not name", ask(n1, "get", "", "persistentvolumes", "", "", "forged"), false},
		{"its secret", ask(n1, "get", "", "secrets", "", "drivers", "forged-stage"), false},
		{"volume of a claim that waits for one", ask(n1, "get", "", "persistentvolumes", "", "", "early"), false},
		{"secret of a volume of a claim that waits", ask(n1, "get", "", "secrets", "", "drivers", "early-stage"), false},
		{"volume of an earlier claim of that name", ask(n1, "get", "", "persistentvolumes", "", "", "former"), false},
		{"all volumes", ask(n1, "list", "", "persistentvolumes", "", "", ""), false},
		{"secret for mounting", ask(n1, "get", "", "secrets", "", "drivers", "v-stage"), true},
		{"another node's secret for mounting", ask(n2, "get", "", "secrets", "", "drivers", "v-stage"), false},
		{"secret of a driver's controller", ask(n1, "get", "", "secrets", "", "drivers", "v-attach"), false},
		{"own attachment", ask(n1, "get", "storage.k8s.io", "volumeattachments", "", "", "va"), true},
		{"another's attachment", ask(n2, "get", "storage.k8s.io", "volumeattachments", "", "", "va"), false},
		{"resource claim", ask(n1, "get", "resource.k8s.io", "resourceclaims", "", "ns", "gpu"), true},
		{"resource claim made from a template", ask(n1, "get", "resource.k8s.io", "resourceclaims", "", "ns", "made"), true},
		{"resource claim made for extended resources", ask(n1, "get", "resource.k8s.io", "resourceclaims", "", "ns", "extended"), true},

		{"token", ask(n1, "create", "", "serviceaccounts", "token", "ns", "sa"), true},
		{"token of another node's account", ask(n2, "create", "", "serviceaccounts", "token", "ns", "sa"), false},
		{"account", ask(n1, "get", "", "serviceaccounts", "", "ns", "sa"), true},
		{"another node's account", ask(n2, "get", "", "serviceaccounts", "", "ns", "sa"), false},
		{"accounts", ask(n1, "list", "", "serviceaccounts", "", "ns", ""), false},

		{"new certificate request", ask(n1, "create", "certificates.k8s.io", "podcertificaterequests", "", "ns", ""), true},
		{"own certificate request", ask(n1, "get", "certificates.k8s.io", "podcertificaterequests", "", "ns", "r"), true},
		{"another's certificate request", ask(n2, "get", "certificates.k8s.io", "podcertificaterequests", "", "ns", "r"), false},
		{"own certificate requests", selecting(ask(n1, "watch", "certificates.k8s.io", "podcertificaterequests", "", "", ""), "spec.nodeName=n1"), true},
		{"all certificate requests", ask(n1, "list", "certificates.k8s.io", "podcertificaterequests", "", "", ""), false},
		{"certificate of a request", ask(n1, "update", "certificates.k8s.io", "podcertificaterequests", "status", "ns", "r"), false},
		{"withdrawn certificate request", ask(n1, "delete", "certificates.k8s.io", "podcertificaterequests", "", "ns", "r"), false},

		{"own lease", ask(n1, "update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1"), true},
		{"new lease", ask(n1, "create", "coordination.k8s.io", "leases", "", "kube-node-lease", ""), true},
		{"another's lease", ask(n1, "update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2"), false},
		{"lease elsewhere", ask(n1, "update", "coordination.k8s.io", "leases", "", "kube-system", "n1"), false},
		{"leases", ask(n1, "list", "coordination.k8s.io", "leases", "", "kube-node-lease", ""), false},
		{"own CSINode", ask(n1, "get", "storage.k8s.io", "csinodes", "", "", "n1"), true},
		{"another's CSINode", ask(n1, "get", "storage.k8s.io", "csinodes", "", "", "n2"), false},

		{"own node", ask(n1, "get", "", "nodes", "", "", "n1"), true},
		{"watch of own node", ask(n1, "watch", "", "nodes", "", "", "n1"), true},
		{"another node", ask(n1, "get", "", "nodes", "", "", "n2"), false},
		{"all nodes", ask(n1, "list", "", "nodes", "", "", ""), false},
		{"node status", ask(n1, "patch", "", "nodes", "status", "", "n1"), true},
		{"node deletion", ask(n1, "delete", "", "nodes", "", "", "n1"), false},
		{"node proxy", ask(n1, "get", "", "nodes", "proxy", "", "n1"), false},

		{"own pods", selecting(ask(n1, "watch", "", "pods", "", "", ""), "spec.nodeName=n1"), true},
		{"own pods that run", selecting(ask(n1, "list", "", "pods", "", "", ""), "status.phase=Running,spec.nodeName=n1"), true},
		{"another's pods", selecting(ask(n1, "watch", "", "pods", "", "", ""), "spec.nodeName=n2"), false},
		{"pods not of another", selecting(ask(n1, "watch", "", "pods", "", "", ""), "spec.nodeName!=n1"), false},
		{"all pods", ask(n1, "list", "", "pods", "", "", ""), false},
		{"one own pod", ask(n1, "get", "", "pods", "", "ns", "p"), true},
		{"own mirror pod", ask(n2, "get", "", "pods", "", "ns", "mirror"), true},
		{"another's pod", ask(n2, "get", "", "pods", "", "ns", "p"), false},
		{"pod without a node", ask(n1, "get", "", "pods", "", "ns", "pending"), false},
		{"pod status", ask(n1, "patch", "", "pods", "status", "ns", "p"), true},
		{"pod deletion", ask(n1, "delete", "", "pods", "", "ns", "p"), true},
		{"pod eviction", ask(n1, "create", "", "pods", "eviction", "ns", "p"), true},
		{"pod update", ask(n1, "update", "", "pods", "", "ns", "p"), false},
		{"exec", ask(n1, "create", "", "pods", "exec", "ns", "p"), false},
		{"secret of a mirror pod", ask(n2, "get", "", "secrets", "", "ns", "volume"), false},
		{"own slices", selecting(ask(n1, "list", "resource.k8s.io", "resourceslices", "", "", ""), "spec.nodeName=n1"), true},
		{"own slice", ask(n1, "update", "resource.k8s.io", "resourceslices", "", "", "slice"), true},
		{"another's slice", ask(n2, "get", "resource.k8s.io", "resourceslices", "", "", "slice"), false},
		{"all slices", ask(n1, "list", "resource.k8s.io", "resourceslices", "", "", ""), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, reason, err := a.Authorize(context.Background(), tc.attrs)
			if (got == authorizer.DecisionAllow) != tc.allow || got == authorizer.DecisionDeny || err != nil {
				t.Errorf("decision %v (%s, %v), want allow = %v", got, reason, err, tc.allow)
			}
		})
	}
}

func TestIndexForgets(t *testing.T) {
	x := NewIndex()
	h := x.Handler()
	s := ref{secret, "ns", "volume"}
	h.OnAdd(everything("a", "n1"), false)
	h.OnAdd(everything("b", "n1"), false)
	h.OnUpdate(everything("b", "n1"), everything("b", "n1"))
	h.OnDelete(everything("a", "n1"))
	if !x.Has("n1", s) {
		t.Error("secret forgotten while a pod still refers to it")
	}
	h.OnUpdate(everything("b", "n1"), everything("b", "n2")) // another pod of the same name
	if x.Has("n1", s) || !x.Has("n2", s) {
		t.Error("access did not move with the pod")
	}
	v, attachment := volumeOf("v", "data"), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n2"}}
	h.OnAdd(v, false)
	h.OnAdd(attachment, false)
	h.OnAdd(claimOf("data", "v", "data"), false)
	stage := ref{secret, "drivers", "v-stage"}
	if !x.Has("n2", stage) || !x.Has("n2", ref{kind: volume, name: "v"}) || !x.Has("n2", ref{kind: volumeAttachment, name: "va"}) {
		t.Error("volume, its secret or its attachment is not the node's")
	}
	h.OnUpdate(v, volumeOf("v", "other")) // bound anew
	if x.Has("n2", stage) {
		t.Error("secret not forgotten with the claim")
	}
	h.OnUpdate(v, v)
	if !x.Has("n2", stage) {
		t.Error("secret not found again")
	}
	h.OnDelete(claimOf("data", "v", "data"))
	if x.Has("n2", stage) || len(x.claims) != 0 {
		t.Error("secret not forgotten with the claim's object")
	}
	h.OnDelete(v)
	h.OnDelete(attachment)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/b", Obj: everything("b", "n2")})
	if len(x.uses)+len(x.placed)+len(x.volumes)+len(x.mounting) != 0 {
		t.Errorf("left behind: %+v", x)
	}
}

// A kubelet's watch may be ahead of the index: its request waits for that.
func TestAuthorize_Waits(t *testing.T) {
	a := &Authorizer{Index: NewIndex(), Patience: time.Minute}
	attrs := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
		Verb: "get", Namespace: "ns", Resource: "pods", Name: "a", ResourceRequest: true,
	}
	pods := func(node string) {
		a.Index.Handler().OnAdd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{NodeName: node}}, false)
	}
	decided := make(chan authorizer.Decision)
	go func() {
		d, _, _ := a.Authorize(t.Context(), attrs)
		decided <- d
	}()
	for { // until it waits
		a.Index.mu.RLock()
		waits := a.Index.changed != nil
		a.Index.mu.RUnlock()
		if waits {
			break
		}
		runtime.Gosched()
	}
	pods("n2") // which does not concern it
	pods("n1")
	if d := <-decided; d != authorizer.DecisionAllow {
		t.Errorf("decision %v once the pod is known", d)
	}
	pods("n2")
	a.Patience = time.Millisecond
	if d, reason, _ := a.Authorize(t.Context(), attrs); d != authorizer.DecisionNoOpinion || !strings.Contains(reason, "no relationship found") {
		t.Errorf("decision %v, %q for a pod of another node", d, reason)
	}
	a.Patience = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, _, _ := a.Authorize(ctx, attrs); d != authorizer.DecisionNoOpinion {
		t.Errorf("decision %v for a request that has ended", d)
	}
}

func TestRulesFor(t *testing.T) {
	a := &Authorizer{Index: NewIndex()}
	if _, _, incomplete, err := a.RulesFor(context.Background(), &user.DefaultInfo{Name: "system:node:n", Groups: []string{"system:nodes"}}, "ns"); !incomplete || err == nil {
		t.Error("the rules of a node are said to be complete")
	}
	if _, _, incomplete, err := a.RulesFor(context.Background(), &user.DefaultInfo{Name: "ann"}, "ns"); incomplete || err != nil {
		t.Error("the rules of a user are said to be incomplete")
	}
}
