// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	rbac "minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
)

// cluster is a running API server and the means to be anybody on it.
type cluster struct {
	ca   *pki.CA
	host string
}

// start runs a whole API server on a real etcd until the test ends.
func start(tb testing.TB, change ...func(*Config)) *cluster {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	member, err := etcd.Start(ctx, etcd.Config{Dir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = member.Close() })
	must := func(p pki.Pair, err error) pki.Pair {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return p
	}
	ca, err := pki.NewCA("test")
	if err != nil {
		tb.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := Config{
		Backend: member, Listener: listener, AdvertiseAddress: netip.MustParseAddr("192.0.2.1"), ClientCA: ca.Cert, TokenKey: key,
		Serving: must(ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: []string{"127.0.0.1"}})),
		Storage: etcdstore.Options{CompactionInterval: -1},
		Policy:  rbac.AddOns(),
		Handlers: map[string]http.Handler{"/metrics/controllers": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "workqueue_depth 0")
		})},
	}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	begin := time.Now()
	go func() { done <- s.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("server ended with: %v", err)
		}
	})
	k := &cluster{ca: ca, host: "https://" + listener.Addr().String()}
	k.waitReady(tb)
	tb.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	return k
}

func (c *cluster) waitReady(tb testing.TB) {
	tb.Helper()
	transport, err := rest.TransportFor(c.config(tb, ""))
	if err != nil {
		tb.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ; time.Now().Before(deadline); <-ticker.C {
		resp, err := client.Get(c.host + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	tb.Fatal("the API server did not become ready in 30 s")
}

// config identifies as a user by certificate; "" is nobody.
func (c *cluster) config(tb testing.TB, user string, groups ...string) *rest.Config {
	tb.Helper()
	config := &rest.Config{Host: c.host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.Cert}}
	if user != "" {
		pair, err := c.ca.Issue(pki.Request{CommonName: user, Organizations: groups})
		if err != nil {
			tb.Fatal(err)
		}
		config.CertData, config.KeyData = pair.Cert, pair.Key
	}
	return config
}

func (c *cluster) as(tb testing.TB, user string, groups ...string) kubernetes.Interface {
	tb.Helper()
	return c.client(tb, c.config(tb, user, groups...))
}

func (c *cluster) admin(tb testing.TB) kubernetes.Interface {
	tb.Helper()
	return c.as(tb, "admin", "system:masters")
}

func (c *cluster) client(tb testing.TB, config *rest.Config) kubernetes.Interface {
	tb.Helper()
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// eventually waits for what happens by way of watches.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var err error
	for ; time.Now().Before(deadline); <-ticker.C {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func create[T any](t *testing.T, f func(context.Context, T, metav1.CreateOptions) (T, error), obj T) T {
	t.Helper()
	made, err := f(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestServer(t *testing.T) {
	c := start(t)
	t.Run("anonymous", func(t *testing.T) { testAnonymous(t, c) })
	t.Run("rbac", func(t *testing.T) { testRBAC(t, c) })
	t.Run("escalation", func(t *testing.T) { testEscalation(t, c) })
	t.Run("policy", func(t *testing.T) { testPolicy(t, c) })
	t.Run("node", func(t *testing.T) { testNode(t, c) })
	t.Run("pods", func(t *testing.T) { testPods(t, c) })
}

func testAnonymous(t *testing.T, c *cluster) {
	t.Helper()
	transport, err := rest.TransportFor(c.config(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/healthz": 200, "/version": 401, "/api": 401, "/api/v1/namespaces": 401, "/metrics": 401,
		"/metrics/controllers": 401,
	} {
		resp, err := client.Get(c.host + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("anonymous GET %s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func testRBAC(t *testing.T, c *cluster) {
	t.Helper()
	ctx, admin, bob := t.Context(), c.admin(t), c.as(t, "bob", "devs")
	_, err := bob.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "bob" cannot list resource "configmaps" in API group "" in the namespace "default"`) {
		t.Fatalf("list without a role: %v", err)
	}
	if _, err := bob.Discovery().ServerVersion(); err != nil {
		t.Errorf("version: %v", err)
	}
	if _, err := bob.Discovery().RESTClient().Get().AbsPath("/metrics/controllers").DoRaw(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("metrics of controllers without a role: %v", err)
	}
	if got, err := c.as(t, "prometheus", "system:monitoring").Discovery().RESTClient().Get().AbsPath("/metrics/controllers").DoRaw(ctx); err != nil || string(got) != "workqueue_depth 0\n" {
		t.Errorf("metrics of controllers: %q, %v", got, err)
	}
	create(t, admin.RbacV1().RoleBindings("default").Create, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "devs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "devs"}},
	})
	eventually(t, "list with a role", func() error {
		_, err := bob.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	})
	if _, err := bob.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("viewer lists secrets: %v", err)
	}
	if _, err := bob.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("viewer of default lists kube-system: %v", err)
	}

	self := func(resource, namespace string) *authorizationv1.SelfSubjectAccessReview {
		return create(t, bob.AuthorizationV1().SelfSubjectAccessReviews().Create, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: resource, Namespace: namespace}},
		})
	}
	if r := self("configmaps", "default"); !r.Status.Allowed || !strings.Contains(r.Status.Reason, `RoleBinding "devs/default"`) {
		t.Errorf("can-i list configmaps: %+v", r.Status)
	}
	if r := self("secrets", "default"); r.Status.Allowed || r.Status.Denied {
		t.Errorf("can-i list secrets: %+v", r.Status)
	}
	_, err = bob.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("empty review: %v", err)
	}
	rules := create(t, bob.AuthorizationV1().SelfSubjectRulesReviews().Create, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}})
	if rules.Status.Incomplete || rules.Status.EvaluationError != "" || !slices.ContainsFunc(rules.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool {
		return slices.Contains(r.Resources, "configmaps") && slices.Contains(r.Verbs, "watch")
	}) {
		t.Errorf("rules: %+v", rules.Status)
	}
	who := create(t, bob.AuthenticationV1().SelfSubjectReviews().Create, &authenticationv1.SelfSubjectReview{})
	if u := who.Status.UserInfo; u.Username != "bob" || !slices.Equal(u.Groups, []string{"devs", "system:authenticated"}) {
		t.Errorf("whoami: %+v", u)
	}

	if _, err := bob.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer asks about others: %v", err)
	}
	about := create(t, admin.AuthorizationV1().SubjectAccessReviews().Create, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "x", Groups: []string{"devs"}, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "default", Name: "p"},
	}})
	if !about.Status.Allowed {
		t.Errorf("review of a dev: %+v", about.Status)
	}
	local := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "x", Groups: []string{"devs"}, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "default"},
	}}
	if r := create(t, admin.AuthorizationV1().LocalSubjectAccessReviews("default").Create, local); !r.Status.Allowed {
		t.Errorf("local review of a dev: %+v", r.Status)
	}
	local.Spec.ResourceAttributes.Namespace = "kube-system"
	if _, err := admin.AuthorizationV1().LocalSubjectAccessReviews("default").Create(ctx, local, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("local review of another namespace: %v", err)
	}
}

func testEscalation(t *testing.T, c *cluster) {
	t.Helper()
	ctx, admin, eve := t.Context(), c.admin(t), c.as(t, "eve")
	create(t, admin.RbacV1().RoleBindings("default").Create, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eve"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-admin"},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eve"}, {APIGroup: rbacv1.GroupName, Kind: "User", Name: "system:node:n"},
		},
	})
	grab := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "grab"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}
	eventually(t, "refusal of more than is held", func() error {
		_, err := eve.RbacV1().Roles("default").Create(ctx, grab, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "attempting to grant RBAC permissions not currently held") {
			return fmt.Errorf("granted, or refused for another reason: %w", err)
		}
		return nil
	})
	// What counts are the rules that are held by roles, and not what another authorizer allows, or cannot tell.
	_, err := c.as(t, "system:node:n", "system:nodes").RbacV1().Roles("default").Create(ctx, grab, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not currently held") || strings.Contains(err.Error(), "resolution errors") {
		t.Errorf("a node with that role grants more: %v", err)
	}
	grab.Rules[0] = rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"get"}}
	if _, err := eve.RbacV1().Roles("default").Create(ctx, grab, metav1.CreateOptions{}); err != nil {
		t.Errorf("granting what is held: %v", err)
	}
}

// testPolicy checks the identities of the parts of the control plane.
func testPolicy(t *testing.T, c *cluster) {
	t.Helper()
	ctx := t.Context()
	if _, err := c.as(t, "system:kube-controller-manager").CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("controller manager: %v", err)
	}
	scheduler := c.as(t, "system:kube-scheduler")
	if _, err := scheduler.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("scheduler: %v", err)
	}
	if _, err := scheduler.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("scheduler reads secrets: %v", err)
	}
	if _, err := c.as(t, "system:kube-proxy").DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("proxy: %v", err)
	}
	controller := c.as(t, "system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccounts")
	if _, err := controller.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("replica set controller: %v", err)
	}
	if err := controller.AppsV1().Deployments("default").Delete(ctx, "x", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("replica set controller deletes deployments: %v", err)
	}
	kubelet := create(t, c.admin(t).AuthorizationV1().SubjectAccessReviews().Create, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "kube-apiserver-kubelet-client", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes", Subresource: "proxy", Name: "n"},
	}})
	if !kubelet.Status.Allowed {
		t.Errorf("API server at the kubelet: %+v", kubelet.Status)
	}
}

func (c *cluster) node(tb testing.TB, name string) kubernetes.Interface {
	tb.Helper()
	return c.as(tb, "system:node:"+name, "system:nodes")
}

func testNode(t *testing.T, c *cluster) {
	t.Helper()
	ctx, n1 := t.Context(), c.node(t, "n1")
	node := create(t, n1.CoreV1().Nodes().Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "n1"}}})
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("taints of a new node: %v", node.Spec.Taints)
	}
	_, err := n1.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `node "n1" is not allowed to modify node "n2"`) {
		t.Errorf("another node: %v", err)
	}
	_, err = n1.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType, []byte(`{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("restricted label: %v", err)
	}
	_, err = n1.CoreV1().Nodes().Patch(ctx, "n1", types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Errorf("status: %v", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	create(t, n1.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create, lease)
	lease.Name = "n2"
	if _, err := n1.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another's lease: %v", err)
	}
	if _, err := n1.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("all nodes: %v", err)
	}
	if _, err := n1.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=n1"}); err != nil {
		t.Errorf("own node by selector: %v", err)
	}
	if _, err := n1.CoreV1().Services("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("services: %v", err)
	}
}

// testPods follows a pod from its creation, over the token of its ServiceAccount, to its end.
func testPods(t *testing.T, c *cluster) {
	t.Helper()
	ctx, admin := t.Context(), c.admin(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			NodeName:   "n1",
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes:    []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}},
		},
	}
	without := pod.DeepCopy()
	without.Spec.ServiceAccountName = "nobody"
	_, err := admin.CoreV1().Pods("default").Create(ctx, without, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `error looking up service account default/nobody: serviceaccount "nobody" not found`) {
		t.Errorf("pod without its account: %v", err)
	}
	account := create(t, admin.CoreV1().ServiceAccounts("default").Create, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	create(t, admin.CoreV1().Secrets("default").Create, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
	made := create(t, admin.CoreV1().Pods("default").Create, pod)
	if made.Spec.ServiceAccountName != "default" || made.Spec.Priority == nil || *made.Spec.Priority != 0 || len(made.Spec.Tolerations) != 2 {
		t.Errorf("pod was made as %+v", made.Spec)
	}
	if v := made.Spec.Volumes; len(v) != 2 || !strings.HasPrefix(v[1].Name, "kube-api-access-") || made.Spec.Containers[0].VolumeMounts[0].MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" {
		t.Errorf("volumes: %+v", v)
	}

	n1, n2 := c.node(t, "n1"), c.node(t, "n2")
	eventually(t, "secret of an own pod", func() error {
		_, err := n1.CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{})
		return err
	})
	if _, err := n1.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=s"}); err != nil {
		t.Errorf("secret by selector: %v", err)
	}
	if _, err := n1.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("all secrets: %v", err)
	}
	if _, err := n2.CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("secret of another node's pod: %v", err)
	}
	if _, err := n1.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}); err != nil {
		t.Errorf("own pods: %v", err)
	}
	status := []byte(`{"status":{"phase":"Running"}}`)
	if _, err := n2.CoreV1().Pods("default").Patch(ctx, "p", types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); !apierrors.IsForbidden(err) {
		t.Errorf("status by another node: %v", err)
	}
	if _, err := n1.CoreV1().Pods("default").Patch(ctx, "p", types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("status by the node: %v", err)
	}

	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: made.UID},
	}}
	if _, err := n2.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", request, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("token for another node: %v", err)
	}
	if _, err := n1.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("unbound token for a node: %v", err)
	}
	token, err := n1.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		return create(t, n1.AuthenticationV1().TokenReviews().Create, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
		}).Status
	}
	s := review(token.Status.Token)
	if !s.Authenticated || s.User.Username != "system:serviceaccount:default:default" || s.User.UID != string(account.UID) ||
		!slices.Contains(s.User.Groups, "system:serviceaccounts:default") || s.User.Extra["authentication.kubernetes.io/pod-name"][0] != "p" {
		t.Errorf("token review: %+v", s)
	}
	if s := review(token.Status.Token, "somebody-else"); s.Authenticated {
		t.Errorf("token review for another audience: %+v", s)
	}
	if s := review("rubbish"); s.Authenticated || s.Error == "" {
		t.Errorf("review of rubbish: %+v", s)
	}

	config := c.config(t, "")
	config.BearerToken = token.Status.Token
	workload := c.client(t, config)
	who := create(t, workload.AuthenticationV1().SelfSubjectReviews().Create, &authenticationv1.SelfSubjectReview{})
	if who.Status.UserInfo.Username != "system:serviceaccount:default:default" {
		t.Errorf("pod is %+v", who.Status.UserInfo)
	}
	if _, err := workload.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("pod lists pods: %v", err)
	}

	if err := n2.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deletion by another node: %v", err)
	}
	if err := n1.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "revocation of the token", func() error {
		if s := review(token.Status.Token); s.Authenticated {
			return errors.New("still valid")
		}
		return nil
	})
	if _, err := workload.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("request with a revoked token: %v", err)
	}
	eventually(t, "secret forgotten", func() error {
		if _, err := n1.CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("still readable: %w", err)
		}
		return nil
	})
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"unknown plugin", func(c *Config) { c.EnableAdmission = []string{"Nonsense"} }, `enable-admission-plugins plugin "Nonsense" is unknown`},
		{"unknown mode", func(c *Config) { c.Authorization.Modes = []string{"ABAC"} }, `unknown authorization mode "ABAC"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close()
			ca, err := pki.NewCA("test")
			if err != nil {
				t.Fatal(err)
			}
			serving, err := ca.Issue(pki.Request{CommonName: "s", Hosts: []string{"127.0.0.1"}})
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			c := Config{Backend: member, Listener: listener, Serving: serving}
			tc.change(&c)
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %s", err, tc.want)
			}
		})
	}
}
