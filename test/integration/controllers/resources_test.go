// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/test/integration/framework"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("counted", 1))
	rolledOut(t, cluster.Client, ns, "counted")
	answer := httptest.NewRecorder()
	controllers.Metrics().ServeHTTP(answer, httptest.NewRequest("GET", controllers.MetricsPath, nil))
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.Code != 200 {
		t.Fatalf("%d, %v", answer.Code, err)
	}
	for _, want := range []string{
		`workqueue_adds_total{controller="deployment",name="deployment"}`,
		`controller_runtime_reconcile_total{controller="replicaset",result="success"}`,
		`horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// version is a version of the definition of Things.
func version(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true, Storage: storage,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}},
		}},
	}
}

// define makes a CustomResourceDefinition with the given plural and waits until it is served.
func define(t *testing.T, plural string, scope apiextensionsv1.ResourceScope, versions ...apiextensionsv1.CustomResourceDefinitionVersion) apiextensions.Interface {
	t.Helper()
	client, err := apiextensions.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: scope, Versions: versions,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		},
	}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ApiextensionsV1().CustomResourceDefinitions().Delete(context.WithoutCancel(t.Context()), crd.Name, metav1.DeleteOptions{})
	})
	framework.Eventually(t, "the definition is established", func() error {
		got, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), crd.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not")
	})
	return client
}

// custom is the client of a custom resource.
func custom(t *testing.T, gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(gvr)
}

// migrate runs a storage version migration to its end.
func migrate(t *testing.T, name string, resource metav1.GroupResource) *migrationv1.StorageVersionMigration {
	t.Helper()
	migrations := cluster.Client.StoragemigrationV1().StorageVersionMigrations()
	m := &migrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: migrationv1.StorageVersionMigrationSpec{Resource: resource}}
	if _, err := migrations.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the migration has run", func() error {
		var err error
		if m, err = migrations.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || !meta.IsStatusConditionFalse(m.Status.Conditions, "Running") {
			return fmt.Errorf("status %+v", m.Status)
		}
		return nil
	})
	return m
}

func TestStorageVersionMigrator_BuiltIn(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	for i := range 3 {
		_, err := cluster.Client.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	m := migrate(t, "secrets", metav1.GroupResource{Resource: "secrets"})
	if m.Status.ResourceVersion == "" {
		t.Errorf("no resource version in %+v", m.Status)
	}
}

func TestStorageVersionMigrator_CustomResource(t *testing.T) {
	t.Parallel()
	client := define(t, "movables", apiextensionsv1.ClusterScoped, version("v1", true), version("v2", false))
	things := custom(t, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "movables"})
	_, err := things.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Movable", "metadata": map[string]any{"name": "a"}, "size": int64(3),
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// There and back: the second migration finds what the first has left.
	for i, storage := range []string{"v2", "v1"} {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/storage","value":%t},{"op":"replace","path":"/spec/versions/1/storage","value":%t}]`, storage == "v1", storage == "v2")
		crds := client.ApiextensionsV1().CustomResourceDefinitions()
		if _, err := crds.Patch(t.Context(), "movables.example.com", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "both versions are stored", func() error {
			crd, err := crds.Get(t.Context(), "movables.example.com", metav1.GetOptions{})
			if err == nil && !slices.Contains(crd.Status.StoredVersions, storage) {
				err = fmt.Errorf("stored versions %v", crd.Status.StoredVersions)
			}
			return err
		})
		before, err := things.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		migrate(t, fmt.Sprint("movables-", i), metav1.GroupResource{Group: "example.com", Resource: "movables"})
		crd, err := crds.Get(t.Context(), "movables.example.com", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var reason string
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.StorageMigrating {
				reason = c.Reason
			}
		}
		if !slices.Equal(crd.Status.StoredVersions, []string{storage}) || reason != "MigrationSucceeded" {
			t.Errorf("stored versions %v, reason %q after migration %d", crd.Status.StoredVersions, reason, i)
		}
		after, err := things.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || after.GetResourceVersion() == before.GetResourceVersion() {
			t.Errorf("the object was not written: %v", err)
		}
	}
}

func TestValidatingAdmissionPolicyStatus(t *testing.T) {
	t.Parallel()
	define(t, "sizeds", apiextensionsv1.NamespaceScoped, version("v1", true))
	policies := cluster.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for name, tc := range map[string]struct {
		group, resource, expression string
		warning                     string
	}{
		"right":        {group: "apps", resource: "deployments", expression: "object.spec.replicas < 5"},
		"wrong":        {group: "apps", resource: "deployments", expression: "object.spec.replicaz < 5", warning: "undefined field 'replicaz'"},
		"right-custom": {group: "example.com", resource: "sizeds", expression: "object.size < 5"},
		"wrong-custom": {group: "example.com", resource: "sizeds", expression: "object.size == 'large'", warning: "no matching overload"},
	} {
		p := &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				Validations: []admissionv1.Validation{{Expression: tc.expression}},
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{tc.group}, APIVersions: []string{"v1"}, Resources: []string{tc.resource}},
				}}}},
			},
		}
		if _, err := policies.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, name+" is checked", func() error {
			got, err := policies.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got.Status.ObservedGeneration != got.Generation || got.Status.TypeChecking == nil {
				return fmt.Errorf("status %+v", got.Status)
			}
			warnings := got.Status.TypeChecking.ExpressionWarnings
			if tc.warning == "" && len(warnings) > 0 || tc.warning != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Warning, tc.warning)) {
				return fmt.Errorf("warnings %+v", warnings)
			}
			return nil
		})
	}
}

func TestResourceClaim(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	claims := cluster.Client.ResourceV1().ResourceClaims(ns)
	template := &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus"}},
		}}}},
	}
	pod := framework.Pod("user", "main")
	pod.Spec.SchedulerName = "none"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "mine", ResourceClaimTemplateName: new("gpu")}}
	if _, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The template may come later.
	if _, err := cluster.Client.ResourceV1().ResourceClaimTemplates(ns).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	name := ""
	framework.Eventually(t, "the pod has its claim", func() error {
		got, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "user", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := got.Status.ResourceClaimStatuses; len(s) != 1 || s[0].ResourceClaimName == nil {
			return fmt.Errorf("statuses %+v", s)
		}
		name, pod = *got.Status.ResourceClaimStatuses[0].ResourceClaimName, got
		return nil
	})
	claim, err := claims.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(claim, pod) || !strings.HasPrefix(name, "user-mine-") {
		t.Fatalf("claim %+v, %v", claim, err)
	}
	allocate(t, claim, pod)
	tainted := podOnNode(t, ns, pod)
	// A rule that nobody tolerates takes the pod away from the device.
	rule := &resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "broken-" + ns},
		Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: new(ns)},
			Taint:          resourcev1.DeviceTaint{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNone},
		},
	}
	rules := cluster.Client.ResourceV1().DeviceTaintRules()
	if _, err := rules.Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const described = "NoEffect 0 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. " +
		"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	framework.Eventually(t, "the rule without effect is described", func() error {
		got, err := rules.Get(t.Context(), rule.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(got.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress)
		if c != nil && c.Reason+" "+c.Message == described {
			return nil
		}
		if c != nil && c.Reason == "NoEffect" { // the controller had not seen the pod on its node yet, and looks once
			if err := rules.Delete(t.Context(), rule.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			if _, err := rules.Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return fmt.Errorf("condition %+v", c)
	})
	if _, err := rules.Patch(t.Context(), rule.Name, types.MergePatchType, []byte(`{"spec":{"taint":{"effect":"NoExecute"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the pod is evicted", func() error {
		got, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), tainted, metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(got.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
		if got.DeletionTimestamp == nil || i < 0 || got.Status.Conditions[i].Reason != "DeletionByDeviceTaintManager" {
			return fmt.Errorf("deleted %v, conditions %+v", got.DeletionTimestamp, got.Status.Conditions)
		}
		return nil
	})
	// The node takes the finalizer's part here: the pod ends, and with it the claim.
	if _, err := cluster.Client.CoreV1().Pods(ns).Patch(t.Context(), tainted, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), tainted, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Log(err)
	}
	gone(t, "the claim", func() error {
		_, err := claims.Get(t.Context(), name, metav1.GetOptions{})
		return err
	})
}

// allocate plays the scheduler.
func allocate(t *testing.T, claim *resourcev1.ResourceClaim, pod *corev1.Pod) {
	t.Helper()
	claims := cluster.Client.ResourceV1().ResourceClaims(claim.Namespace)
	claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	claim, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: "gpu.example.com", Pool: claim.Namespace, Device: "gpu-0"},
	}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podOnNode binds the pod and keeps it from going before the test has looked at it.
func podOnNode(t *testing.T, ns string, pod *corev1.Pod) string {
	t.Helper()
	pods := cluster.Client.CoreV1().Pods(ns)
	if _, err := pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-a"}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pod.Name
}

// TestResourceQuota_CustomResource counts objects of a kind that is defined while the quota is there already.
func TestResourceQuota_CustomResource(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	quotas := cluster.Client.CoreV1().ResourceQuotas(ns)
	define(t, "countables", apiextensionsv1.NamespaceScoped, version("v1", true))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/countables.example.com": resource.MustParse("2")},
	}}
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(want string) func() error {
		return func() error {
			q, err := quotas.Get(t.Context(), "q", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got, ok := q.Status.Used["count/countables.example.com"]; !ok || got.String() != want {
				return fmt.Errorf("used %v", q.Status.Used)
			}
			return nil
		}
	}
	framework.Eventually(t, "nothing is used", used("0"))
	things := custom(t, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "countables"}).Namespace(ns)
	thing := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Countable", "metadata": map[string]any{"name": name}}}
	}
	for _, name := range []string{"a", "b"} {
		if _, err := things.Create(t.Context(), thing(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	framework.Eventually(t, "both are counted", used("2"))
	if _, err := things.Create(t.Context(), thing("c"), metav1.CreateOptions{}); err == nil {
		t.Error("the third was let in")
	}
	if err := things.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "one is left", used("1"))
}

func TestResourceQuota_DeviceClaims(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	hard := corev1.ResourceList{"count/resourceclaims.resource.k8s.io": resource.MustParse("5"), "gpus.deviceclass.resource.k8s.io/devices": resource.MustParse("3")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if _, err := cluster.Client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(claims, devices string) func() error {
		return func() error {
			q, err := cluster.Client.CoreV1().ResourceQuotas(ns).Get(t.Context(), "q", metav1.GetOptions{})
			if err != nil {
				return err
			}
			c, d := q.Status.Used["count/resourceclaims.resource.k8s.io"], q.Status.Used["gpus.deviceclass.resource.k8s.io/devices"]
			if len(q.Status.Used) != 2 || c.String() != claims || d.String() != devices {
				return fmt.Errorf("used %v", q.Status.Used)
			}
			return nil
		}
	}
	framework.Eventually(t, "nothing is used", used("0", "0"))
	claims := cluster.Client.ResourceV1().ResourceClaims(ns)
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
				{Name: "two", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus", Count: 2}},
			}}},
		}
	}
	if _, err := claims.Create(t.Context(), claim("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "two devices are used", used("1", "2"))
	if _, err := claims.Create(t.Context(), claim("b"), metav1.CreateOptions{}); err == nil {
		t.Error("two more devices than there may be were let in")
	}
	if err := claims.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "they are given back", used("0", "0"))
}

// TestLeaderElection lets two processes wait for one lease, and ends the one that leads.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	run := func() (stop func()) {
		loops, err := controllers.New(controllers.Config{
			RESTConfig: cluster.User("system:kube-controller-manager"), LeaderElection: true, LeaseDuration: 6 * time.Second,
			Enabled: []string{"clusterroleaggregation"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- loops.Start(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the controllers ended: %v", err)
			}
		})
	}
	holder := func(not string) string {
		name := ""
		framework.Eventually(t, "somebody leads", func() error {
			lease, err := cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "kube-controller-manager", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if name = ptr.Deref(lease.Spec.HolderIdentity, ""); name == "" || name == not {
				return fmt.Errorf("the holder is %q", name)
			}
			return nil
		})
		return name
	}
	first := run()
	t.Cleanup(first)
	leader := holder("")
	t.Cleanup(run())
	first()
	holder(leader)
}
