// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

func TestValidate_APIServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		config APIServerConfig
		want   string // "": valid
	}{
		{"nothing", APIServerConfig{}, ""},
		{
			"all", APIServerConfig{
				AuditPolicyFile: "/p", AuditLogPath: "-", AuditLogMaxage: 1, AuditLogMaxbackup: 1, AuditLogMaxsize: 1,
				EncryptionProviderConfig: "/e", EncryptionProviderConfigAutomaticReload: true, MaxRequestsInflight: 1, MaxMutatingRequestsInflight: 1,
				RequestTimeout: metav1.Duration{Duration: time.Second}, MinRequestTimeout: 1, FeatureGates: map[string]bool{"StorageVersionHash": false}, Profiling: true,
			}, "",
		},
		{"age", APIServerConfig{AuditLogMaxage: -1}, "apiServer.auditLogMaxage must not be negative, is -1"},
		{"backups", APIServerConfig{AuditLogMaxbackup: -1}, "apiServer.auditLogMaxbackup "},
		{"size", APIServerConfig{AuditLogMaxsize: -1}, "apiServer.auditLogMaxsize "},
		{"size of nothing", APIServerConfig{AuditLogMaxsize: 1}, "apiServer.auditLogPath is required"},
		{"policy without log", APIServerConfig{AuditPolicyFile: "/p"}, "apiServer.auditLogPath is required"},
		{"log without policy", APIServerConfig{AuditLogPath: "/l"}, "apiServer.auditPolicyFile is required"},
		{"relative policy", APIServerConfig{AuditPolicyFile: "p", AuditLogPath: "/l"}, "apiServer.auditPolicyFile must be an absolute path"},
		{"relative log", APIServerConfig{AuditPolicyFile: "/p", AuditLogPath: "l"}, "apiServer.auditLogPath must be an absolute path"},
		{"relative encryption", APIServerConfig{EncryptionProviderConfig: "e"}, "apiServer.encryptionProviderConfig must be an absolute path"},
		{"reload of nothing", APIServerConfig{EncryptionProviderConfigAutomaticReload: true}, "apiServer.encryptionProviderConfig is required"},
		{"reads", APIServerConfig{MaxRequestsInflight: -1}, "apiServer.maxRequestsInflight "},
		{"writes", APIServerConfig{MaxMutatingRequestsInflight: -1}, "apiServer.maxMutatingRequestsInflight "},
		{"timeout", APIServerConfig{RequestTimeout: metav1.Duration{Duration: -time.Second}}, "apiServer.requestTimeout must not be negative, is -1s"},
		{"watch", APIServerConfig{MinRequestTimeout: -1}, "apiServer.minRequestTimeout "},
		{"unknown gate", APIServerConfig{FeatureGates: map[string]bool{"Nonsense": true}}, "apiServer.featureGates: unrecognized feature gate: Nonsense"},
		{"fixed gate", APIServerConfig{FeatureGates: map[string]bool{"DynamicResourceAllocation": false}}, "apiServer.featureGates: cannot set feature gate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := Config{Name: "a", APIServer: tc.config}.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if err := (Config{Name: "a", ControllerManager: setup.Settings{NodeEvictionRate: new(-1.0)}}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "controllerManager.nodeEvictionRate must") {
		t.Errorf("a negative rate: %v", err)
	}
	if err := (Config{Name: "a", Etcd: EtcdConfig{QuotaBackendBytes: 1 << 20}}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "etcd.quotaBackendBytes must") {
		t.Errorf("a small quota: %v", err)
	}
}

// serve runs the API server of a cluster with the configuration file given until the test ends. It is alone in its process.
func serve(t *testing.T, apiServer string) (*runner, *rest.Config) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	writeText(t, file, "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nname: a\nnodes: 0\n"+apiServer)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.DataDir, c.BindAddress, c.Etcd.UnsafeNoFsync = dir, "127.0.0.1", true
	c.Networking = NetworkingConfig{PodSubnet: "10.244.0.0/16", ServiceSubnet: "10.96.0.0/16", DNSDomain: "cluster.local"}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.APIPort = free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	r := &runner{config: c, fleet: newFleet(c, nil)}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := r.startEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	server, err := r.apiServer()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := r.backend.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.waitFor(t.Context(), apiStep); err != nil {
		t.Fatal(err)
	}
	admin, err := r.credentials.Client("kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return r, admin
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get returns the code and the body of an answer.
func get(t *testing.T, c *rest.Config, path string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(c.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body.String()
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}

func TestAPIServer_Defaults(t *testing.T) {
	_, admin := serve(t, "")
	if code, _ := get(t, admin, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/ answers %d, want 404", code)
	}
	if _, body := get(t, admin, "/api/v1"); !strings.Contains(body, `"storageVersionHash"`) {
		t.Error("discovery has no storageVersionHash")
	}
}

func encryptionBy(key string) string {
	return fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{"resources": ["secrets"],
"providers": [{"secretbox": {"keys": [{"name": %q, "secret": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}]}}, {"identity": {}}]}]}`, key)
}

func TestAPIServer_Configured(t *testing.T) {
	poll := controller.EncryptionConfigFileChangePollDuration
	controller.EncryptionConfigFileChangePollDuration = 100 * time.Millisecond
	t.Cleanup(func() {
		controller.EncryptionConfigFileChangePollDuration = poll
		if err := (APIServerConfig{FeatureGates: map[string]bool{"StorageVersionHash": true}}).setGates(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	policy, log, keys := filepath.Join(dir, "policy"), filepath.Join(dir, "audit.log"), filepath.Join(dir, "keys")
	writeText(t, policy, `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "resources": [{"resources": ["secrets"]}]}, {"level": "None"}]}`)
	writeText(t, keys, encryptionBy("first"))
	r, admin := serve(t, fmt.Sprintf(`apiServer:
  auditPolicyFile: %s
  auditLogPath: %s
  encryptionProviderConfig: %s
  encryptionProviderConfigAutomaticReload: true
  maxRequestsInflight: 1
  maxMutatingRequestsInflight: 1
  requestTimeout: 20s
  minRequestTimeout: 1
  featureGates: {StorageVersionHash: false}
  profiling: true
`, policy, log, keys))
	client := kubernetes.NewForConfigOrDie(admin)

	if code, _ := get(t, admin, "/debug/pprof/"); code != http.StatusOK {
		t.Errorf("/debug/pprof/ answers %d, want 200", code)
	}
	if _, body := get(t, admin, "/api/v1"); strings.Contains(body, `"storageVersionHash"`) {
		t.Error("discovery has a storageVersionHash")
	}

	etcd := r.backend.NewClient()
	defer etcd.Close()
	n := 0
	stored := func(ctx context.Context, key string) error {
		n++
		name := fmt.Sprintf("s%d", n)
		if _, err := client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		got, err := etcd.Get(ctx, "/registry/secrets/default/"+name)
		if err == nil && (len(got.Kvs) != 1 || !bytes.HasPrefix(got.Kvs[0].Value, []byte("k8s:enc:secretbox:v1:"+key+":"))) {
			err = fmt.Errorf("etcd has %v", got.Kvs)
		}
		return err
	}
	eventually(t, "a secret", func(ctx context.Context) error { return stored(ctx, "first") })
	if n != 1 {
		t.Errorf("the first of %d secrets were not encrypted", n)
	}
	writeText(t, keys, encryptionBy("second"))
	eventually(t, "a secret with the new key", func(ctx context.Context) error { return stored(ctx, "second") })

	eventually(t, "the audit log", func(context.Context) error {
		lines, err := os.ReadFile(log)
		if err == nil && !bytes.Contains(lines, []byte(`"requestURI":"/api/v1/namespaces/default/secrets`)) {
			err = fmt.Errorf("it has %s", lines)
		}
		return err
	})

	w, err := client.CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := time.AfterFunc(20*time.Second, func() { t.Error("a watch lasts longer than it must"); w.Stop() })
	for range w.ResultChan() { // until the server ends it
	}
	ended.Stop()
	tooMany(t, r, client)
}

// tooMany asks more at once than the server takes, as somebody whose requests do not wait for one another.
func tooMany(t *testing.T, r *runner, admin kubernetes.Interface) {
	t.Helper()
	ann, err := r.credentials.Client("ann")
	if err != nil {
		t.Fatal(err)
	}
	schema := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "ann"}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "catch-all"}, MatchingPrecedence: 2,
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "ann"}}},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
				Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"},
			}},
		}},
	}}
	if _, err := admin.FlowcontrolV1().FlowSchemas().Create(t.Context(), schema, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer 429", func(context.Context) error {
		codes := make(chan int, 30)
		var asking sync.WaitGroup
		for range cap(codes) {
			asking.Go(func() {
				code, _ := get(t, ann, "/apis/rbac.authorization.k8s.io/v1/clusterroles")
				codes <- code
			})
		}
		asking.Wait()
		close(codes)
		counts := map[int]int{}
		for code := range codes {
			counts[code]++
		}
		if counts[http.StatusTooManyRequests] == 0 {
			return fmt.Errorf("codes %v", counts)
		}
		return nil
	})
}

func TestAPIServer_BadFiles(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	for _, tc := range []struct {
		name   string
		config APIServerConfig
		want   string
	}{
		{"policy", APIServerConfig{AuditPolicyFile: missing, AuditLogPath: filepath.Join(dir, "log")}, "apiServer.auditPolicyFile " + missing},
		{"encryption", APIServerConfig{EncryptionProviderConfig: missing}, "apiServer.encryptionProviderConfig " + missing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.config.apply(genericapiserver.NewConfig(serializer.CodecFactory{}))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
