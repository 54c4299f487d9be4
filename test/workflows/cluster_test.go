// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package workflows tests the add-on "workflows" with a real API server and its own rights: what a run does when its controller is
// killed, and, with the build tag workflowkit, the conformance kit of the Serverless Workflow specification. Calls go to loopback only.
package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons"
	"minik8s.io/minik8s/pkg/addons/addon"
	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	workflowsaddon "minik8s.io/minik8s/pkg/addons/workflows"
	"minik8s.io/minik8s/test/integration/framework"
)

var (
	cluster *framework.Cluster
	admin   client.Client
)

func TestMain(m *testing.M) {
	os.Exit(framework.Main(m, framework.Options{}, func(c *framework.Cluster) error {
		cluster = c
		s := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, workflowsv1alpha1.AddToScheme} {
			if err := add(s); err != nil {
				return err
			}
		}
		config := c.Admin()
		config.ContentType, config.AcceptContentTypes = "", ""
		var err error
		if admin, err = client.New(config, client.Options{Scheme: s}); err != nil {
			return err
		}
		// It is enabled for all tests; each runs it for itself.
		stop, err := start(nil)
		if err != nil {
			return err
		}
		defer stop()
		installer, err := addons.NewInstaller(c.Admin())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return installer.Enable(ctx, workflowsaddon.Addon())
	}))
}

// start runs the add-on. Its requests are made by transport.
func start(transport http.RoundTripper) (stop func(), err error) {
	a := workflowsaddon.Addon()
	a.Setup = func(ctx context.Context, env addon.Env) error {
		return workflowsaddon.SetupWithTransport(ctx, env, transport)
	}
	runner, err := addons.NewRunner(addons.Config{
		Watch: cluster.Admin(), Identity: "test", Addons: []addon.Addon{a},
		ClientFor: func(a addon.Addon) (*rest.Config, error) { return cluster.User(addons.User(a)), nil },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runner.Start(ctx) }()
	return func() {
		cancel()
		<-done
	}, nil
}

// run starts the add-on until the test ends.
func run(tb testing.TB, transport http.RoundTripper) {
	tb.Helper()
	stop, err := start(transport)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
}

// loopback sends all requests to one server on loopback, which sees the host that they were for.
type loopback struct {
	server *httptest.Server
}

func newLoopback(tb testing.TB, h http.Handler) loopback {
	tb.Helper()
	l := loopback{httptest.NewServer(h)}
	tb.Cleanup(l.server.Close)
	return l
}

func (l loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	at, err := url.Parse(l.server.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Host = r.URL.Host
	r.URL.Scheme, r.URL.Host = at.Scheme, at.Host
	return l.server.Client().Transport.RoundTrip(r)
}

// allowSecrets lets the add-on read the Secrets of a namespace.
func allowSecrets(tb testing.TB, namespace string) {
	tb.Helper()
	a := workflowsaddon.Addon()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "workflows"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: addons.User(a)}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Granted[0].Name},
	}
	if err := admin.Create(tb.Context(), binding); err != nil {
		tb.Fatal(err)
	}
}

// jsonOf returns YAML as JSON.
func jsonOf(tb testing.TB, text string) *apiextensionsv1.JSON {
	tb.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return &apiextensionsv1.JSON{Raw: encoded}
}

// create makes a run of a document.
func create(tb testing.TB, namespace, document, input string) *workflowsv1alpha1.WorkflowRun {
	tb.Helper()
	w := &workflowsv1alpha1.WorkflowRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "run-"},
		Spec:       workflowsv1alpha1.WorkflowRunSpec{Definition: jsonOf(tb, document)},
	}
	if input != "" {
		w.Spec.Input = jsonOf(tb, input)
	}
	if err := admin.Create(tb.Context(), w); err != nil {
		tb.Fatal(err)
	}
	return w
}

// await returns a run when it has come to something.
func await(tb testing.TB, w *workflowsv1alpha1.WorkflowRun, what string, check func(*workflowsv1alpha1.WorkflowRun) bool) *workflowsv1alpha1.WorkflowRun {
	tb.Helper()
	got := &workflowsv1alpha1.WorkflowRun{}
	framework.Eventually(tb, what, func() error {
		if err := admin.Get(tb.Context(), client.ObjectKeyFromObject(w), got); err != nil {
			return err
		}
		if check(got) {
			return nil
		}
		status, _ := json.Marshal(got.Status)
		return fmt.Errorf("its status is %s", status)
	})
	return got
}

func finished(w *workflowsv1alpha1.WorkflowRun) bool { return w.Status.Phase.Finished() }
