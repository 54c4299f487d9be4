// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/test/integration/framework"
)

// classified asks as somebody and returns the FlowSchema and the priority level by which the request was let in, by name.
func classified(t *testing.T, client kubernetes.Interface, config *rest.Config) (schema, level string) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api/v1/namespaces/default/configmaps", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	schemas, err := client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range schemas.Items {
		if string(s.UID) == resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) {
			schema = s.Name
		}
	}
	levels, err := client.FlowcontrolV1().PriorityLevelConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range levels.Items {
		if string(l.UID) == resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) {
			level = l.Name
		}
	}
	return schema, level
}

// TestFairness checks that requests are sorted by the objects that the server has made, and by those of users.
func TestFairness(t *testing.T) {
	t.Parallel()
	schemas := cluster.Client.FlowcontrolV1().FlowSchemas()
	want := func(config *rest.Config, schema, level string) {
		t.Helper()
		framework.Eventually(t, "classification by "+schema, func() error {
			if s, l := classified(t, cluster.Client, config); s != schema || l != level {
				return fmt.Errorf("classified by %q to %q, want %q to %q", s, l, schema, level)
			}
			return nil
		})
	}
	ann := cluster.User("ann", "readers")
	want(cluster.Admin(), "exempt", "exempt")
	want(ann, "global-default", "global-default")
	want(cluster.User("system:kube-scheduler"), "kube-scheduler", "workload-high")

	_, err := schemas.Create(t.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-low"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: "readers"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(ann, "readers", "workload-low")
	framework.Eventually(t, "the status of the schema", func() error {
		s, err := schemas.Get(t.Context(), "readers", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := s.Status.Conditions; len(c) != 1 || c[0].Type != flowcontrolv1.FlowSchemaConditionDangling || c[0].Status != flowcontrolv1.ConditionFalse {
			return fmt.Errorf("conditions are %v", c)
		}
		return nil
	})
	if err := schemas.Delete(t.Context(), "readers", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(ann, "global-default", "global-default")

	for path, text := range map[string]string{
		"dump_priority_levels": "PriorityLevelName", "dump_queues": "Index", "dump_requests": "FlowSchemaName",
	} {
		if a := send(t, http.MethodGet, "/debug/api_priority_and_fairness/"+path, "", "*/*", ""); a.code != http.StatusOK || !strings.Contains(a.body, text) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
}

// TestWithoutFairness checks that without it, the objects are there all the same, and nothing obeys them.
func TestWithoutFairness(t *testing.T) {
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) { c.WithoutFairness = true }})
	if s, l := classified(t, c.Client, c.Admin()); s != "" || l != "" {
		t.Errorf("classified by %q to %q", s, l)
	}
	list, err := c.Client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		t.Errorf("%d schemas (%v)", len(list.Items), err)
	}
}
