// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"
)

// TestCreate_Quick has objects made as the machinery makes them, and as those that are like one from before are made: what accepts formats
// with a parameter is left to the machinery.
func TestCreate_Quick(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	const template = `{"metadata":{"labels":{"app":"NAME"}},"spec":{"containers":[{"name":"main","image":"image","env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
		"ports":[{"containerPort":80},{"containerPort":80,"protocol":"UDP"}],"resources":{"requests":{"cpu":"1"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],
		"tolerations":[{"key":"a","operator":"Exists"}],"volumes":[{"name":"v","configMap":{"name":"NAME","items":[{"key":"k","path":"p"}]}}]`
	for resource, body := range map[string]string{
		"api/v1/configmaps": `{"metadata":{"name":"NAME","labels":{"a/b":"NAME"},"annotations":{"c":"NAME"},"finalizers":["example.com/x"],
			"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"NAME","uid":"u"}]},"data":{"k":"NAME","":""},"binaryData":{"b":"AAE="}}`,
		"api/v1/secrets":                                         `{"metadata":{"name":"NAME"},"stringData":{"k":"v"},"data":{"d":"AAE="},"type":"example.com/x","immutable":true}`,
		"api/v1/pods":                                            strings.Replace(template, `"metadata":{`, `"metadata":{"name":"NAME",`, 1) + `,"restartPolicy":"Never"}}`,
		"api/v1/services":                                        `{"metadata":{"name":"NAME"},"spec":{"ports":[{"name":"a","port":80,"targetPort":"http"},{"name":"b","port":81,"targetPort":8081}],"selector":{"app":"NAME"},"clusterIP":"None"}}`,
		"api/v1/events":                                          `{"metadata":{"name":"NAME"},"involvedObject":{"kind":"Pod","namespace":"` + ns + `","name":"NAME"},"reason":"R","message":"NAME","type":"Normal","source":{"component":"c"},"firstTimestamp":"2026-01-01T00:00:00Z","count":1}`,
		"apis/apps/v1/deployments":                               `{"metadata":{"name":"NAME"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"NAME"}},"strategy":{"rollingUpdate":{"maxSurge":"25%"}},"template":` + template + `}}}}`,
		"apis/batch/v1/jobs":                                     `{"metadata":{"name":"NAME"},"spec":{"suspend":true,"template":` + strings.Replace(template, `"labels":{"app":"NAME"}`, "", 1) + `,"restartPolicy":"Never"}}}}`,
		"apis/rbac.authorization.k8s.io/v1/roles":                `{"metadata":{"name":"NAME"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["NAME"]}]}`,
		"apis/coordination.k8s.io/v1/leases":                     `{"metadata":{"name":"NAME"},"spec":{"holderIdentity":"NAME","leaseDurationSeconds":3,"renewTime":"2026-01-01T00:00:00.000000Z"}}`,
		"apis/networking.k8s.io/v1/networkpolicies":              `{"metadata":{"name":"NAME"},"spec":{"podSelector":{},"ingress":[{"from":[{"podSelector":{"matchLabels":{"a":"NAME"}}}],"ports":[{"port":80}]}]}}`,
		"apis/authorization.k8s.io/v1/localsubjectaccessreviews": `{"metadata":{"namespace":"` + ns + `"},"spec":{"user":"NAME","resourceAttributes":{"namespace":"` + ns + `","verb":"get","resource":"pods"}}}`,
		"apis/discovery.k8s.io/v1/endpointslices":                `{"metadata":{"name":"NAME"},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}],"ports":[{"name":"a","port":80}]}`,
		// With parameters.
		"api/v1/configmaps?dryRun=All":                         `{"metadata":{"name":"NAME"},"data":{"k":"NAME"}}`,
		"api/v1/configmaps?dryRun=Some":                        `{"metadata":{"name":"NAME"},"data":{"k":"NAME"}}`,
		"api/v1/configmaps?fieldManager=me":                    `{"metadata":{"name":"NAME"},"data":{"k":"NAME"}}`,
		"api/v1/configmaps?fieldValidation=Ignore":             `{"metadata":{"name":"NAME"},"data":{"k":"NAME"},"unknown":1}`,
		"api/v1/configmaps?fieldValidation=Strict":             `{"metadata":{"name":"NAME"},"data":{"k":"NAME"},"unknown":1}`,
		"api/v1/configmaps?fieldValidation=Strict&pretty=true": `{"metadata":{"name":"NAME"},"data":{"k":"NAME"}}`,
		// Answers that are errors.
		"api/v1/pods?no containers":       `{"metadata":{"name":"NAME"},"spec":{"containers":[]}}`,
		"api/v1/pods?two of a name":       `{"metadata":{"name":"NAME"},"spec":{"containers":[{"name":"a","image":"i"},{"name":"a","image":"i"}]}}`,
		"api/v1/configmaps?no name":       `{"metadata":{},"data":{"k":"NAME"}}`,
		"api/v1/configmaps?a bad key":     `{"metadata":{"name":"NAME"},"data":{"a b":"NAME"}}`,
		"api/v1/configmaps?elsewhere":     `{"metadata":{"name":"NAME","namespace":"kube-system"}}`,
		"api/v1/configmaps?unknown field": `{"metadata":{"name":"NAME"},"unknown":1}`,
		"api/v1/configmaps?another kind":  `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"NAME"}}`,
		"api/v1/configmaps?another group": `{"kind":"ConfigMap","apiVersion":"apps/v1","metadata":{"name":"NAME"}}`,
		"api/v1/configmaps?a version":     `{"metadata":{"name":"NAME","resourceVersion":"1"}}`,
		"api/v1/configmaps?no object":     `[`,
		"api/v1/configmaps?system fields": `{"metadata":{"name":"NAME","uid":"u","creationTimestamp":"2020-01-01T00:00:00Z","generation":7,"managedFields":[]}}`,
		"api/v1/configmaps?generated":     `{"metadata":{"generateName":"NAME-"}}`,
		"api/v1/configmaps?owners":        `{"metadata":{"name":"NAME","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"},{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}}`,
	} {
		t.Run(resource, func(t *testing.T) {
			resource, what, _ := strings.Cut(resource, "?")
			query := ""
			if strings.Contains(what, "=") {
				query = "?" + what
			}
			version, plural := resource[:strings.LastIndex(resource, "/")], resource[strings.LastIndex(resource, "/"):]
			path := "/" + version + "/namespaces/" + ns + plural
			id := strings.ToLower(regexp.MustCompile(`[^a-zA-Z]+`).ReplaceAllString(t.Name()[len("TestCreate_Quick/"):], "-"))
			create := func(name, accept string) answer {
				return send(t, "POST", path+query, jsonType, accept, strings.ReplaceAll(body, "NAME", name))
			}
			for i, accept := range []string{jsonType, yamlType, "text/html"} {
				create(fmt.Sprintf("%s-%d-a", id, i), accept) // so that one like it is known
				quick := create(fmt.Sprintf("%s-%d-b", id, i), accept)
				usual := create(fmt.Sprintf("%s-%d-c", id, i), accept+";q=1")
				if diff := cmp.Diff(told(usual, fmt.Sprintf("%s-%d-c", id, i)), told(quick, fmt.Sprintf("%s-%d-b", id, i))); diff != "" {
					t.Errorf("%s (-usual +quick):\n%s", accept, diff)
				}
				again := create(fmt.Sprintf("%s-%d-b", id, i), accept)
				if usual := create(fmt.Sprintf("%s-%d-c", id, i), accept+";q=1"); usual.code != again.code {
					t.Errorf("%s: once more it answers %d, and %d usually", accept, again.code, usual.code)
				}
			}
			group := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(version, "v1"), "apis/"), "api/")
			if made := quickly(t, strings.TrimSuffix(group, "/")+plural); made == 0 && what == "" {
				t.Errorf("nothing of %s is made quickly", resource)
			}
		})
	}
}

// TestCreate_QuickConverted has fields that are others in the version that is sent than in the one that is kept: of two autoscalers with a
// metric each one has it in an annotation.
func TestCreate_QuickConverted(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create := func(name, metadata, spec, accept string) string {
		body := `{"metadata":{"name":"` + name + `"` + metadata + `},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":2` + spec + `}}`
		return told(send(t, "POST", "/apis/autoscaling/v1/namespaces/"+ns+"/horizontalpodautoscalers", jsonType, accept, body), name)
	}
	const annotation = `,"annotations":{"x":"1","autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"targetAverageUtilization\":50}}]"}`
	create("zz-taught", `,"annotations":{"x":"1"}`, `,"targetCPUUtilizationPercentage":50`, jsonType)
	quick := create("zz-quick", annotation, "", jsonType)
	if diff := cmp.Diff(create("zz-usual", annotation, "", jsonType+";q=1"), quick); diff != "" {
		t.Errorf("(-usual +quick):\n%s", diff)
	}
}

// quickly is how many objects of a resource, GROUP/RESOURCE, were made quickly.
func quickly(t *testing.T, resource string) float64 {
	t.Helper()
	group, resource, _ := strings.Cut(resource, "/")
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "minik8s_apiserver_quick_creates_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); labels[0].GetValue() == group && labels[1].GetValue() == resource {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// told is what was answered, but for what differs from object to object.
func told(a answer, name string) string {
	text := strings.ReplaceAll(a.body, name, "NAME")
	for _, differs := range []string{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, `"?resourceVersion"?: ?"\d+"`, `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, `NAME-[a-z0-9]{5}`, `kube-api-access-[a-z0-9]{5}`, `"?\d+s"?`} {
		text = regexp.MustCompile(differs).ReplaceAllString(text, "...")
	}
	headers, err := json.Marshal([]any{a.code, a.header.Get("Content-Type"), a.header.Get("Cache-Control"), a.warnings})
	if err != nil {
		return err.Error()
	}
	return string(headers) + "\n" + text
}
