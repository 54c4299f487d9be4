// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"math/rand/v2"
	"strings"
)

// escalation is a request by which somebody would gain rights, or learn secrets. NS is a namespace, NAME the name of something
// that may be there, WHO a user.
type escalation struct{ method, path, contentType, body string }

const (
	rbacGroup  = "/apis/rbac.authorization.k8s.io/v1"
	certGroup  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	isJSON     = "application/json"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

var escalations = []escalation{
	{"POST", rbacGroup + "/namespaces/NS/rolebindings", isJSON, `{"metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"WHO"}]}`},
	{"POST", rbacGroup + "/namespaces/NS/roles", isJSON, `{"metadata":{"name":"NAME"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`},
	{"POST", rbacGroup + "/namespaces/NS/roles", isJSON, `{"metadata":{"name":"NAME"},"rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["get"]},{"nonResourceURLs":["/metrics"],"verbs":["get"]}]}`},
	{"PATCH", rbacGroup + "/namespaces/NS/roles/worker", mergePatch, `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]},{"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],"verbs":["escalate","bind"]}]}`},
	{"PATCH", rbacGroup + "/namespaces/NS/rolebindings/worker", isJSON, `[{"op":"replace","path":"/roleRef/name","value":"admin"}]`},
	{"PATCH", rbacGroup + "/namespaces/NS/rolebindings/NAME", applyPatch, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"},"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:authenticated"}]}`},
	{"POST", rbacGroup + "/clusterroles", isJSON, `{"metadata":{"name":"NAME","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get","list"]}]}`},
	{"POST", rbacGroup + "/clusterrolebindings", isJSON, `{"metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"WHO"}]}`},
	{"PATCH", rbacGroup + "/clusterroles/view", mergePatch, `{"aggregationRule":{"clusterRoleSelectors":[{}]}}`},
	{"PUT", rbacGroup + "/clusterroles/strong", applyPatch, `{}`},
	{"PATCH", "/api/v1/nodes/node-y", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`},
	{"PATCH", "/api/v1/nodes/node-y/status", mergePatch, `{"status":{"capacity":{"example.com/x":"1"}}}`},
	{"PATCH", "/api/v1/nodes/node-x", mergePatch, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"kept","uid":"u"}]}}`},
	{"PATCH", "/api/v1/nodes/node-x", isJSON, `[{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}]`},
	{"PATCH", "/api/v1/nodes/node-x/status", mergePatch, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}],"labels":{"node-restriction.kubernetes.io/x":"y"}}}`},
	{"PATCH", "/api/v1/nodes/node-x", mergePatch, `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y","kubernetes.io/role":"z"}},"spec":{"taints":[]}}`},
	{"PATCH", "/api/v1/nodes/node-x", applyPatch, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-x"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}],"providerID":"x","configSource":{"configMap":{"namespace":"kept","name":"map","kubeletConfigKey":"a"}}}}`},
	{"POST", "/api/v1/nodes", isJSON, `{"metadata":{"name":"node-z"}}`},
	{"DELETE", "/api/v1/nodes/NAME", isJSON, ``},
	{"POST", "/api/v1/namespaces/NS/pods", isJSON, `{"metadata":{"name":"NAME","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"node-y","containers":[{"name":"c","image":"i"}]}}`},
	{"POST", "/api/v1/namespaces/NS/pods", isJSON, `{"metadata":{"name":"NAME","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"node-x","serviceAccountName":"owner","containers":[{"name":"c","image":"i","envFrom":[{"secretRef":{"name":"secret"}}]}],"volumes":[{"name":"v","secret":{"secretName":"secret"}}]}}`},
	{"POST", "/api/v1/namespaces/NS/pods", isJSON, `{"metadata":{"name":"NAME"},"spec":{"nodeName":"node-x","hostPID":true,"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}],"volumes":[{"name":"v","secret":{"secretName":"secret"}}]}}`},
	{"DELETE", "/api/v1/namespaces/kept/pods/pod", isJSON, `{"gracePeriodSeconds":0}`},
	{"POST", "/api/v1/namespaces/kept/pods/pod/eviction", isJSON, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"pod"}}`},
	{"POST", "/api/v1/namespaces/kept/pods/waiting/binding", isJSON, `{"metadata":{"name":"waiting"},"target":{"kind":"Node","name":"node-x"}}`},
	{"POST", "/api/v1/namespaces/kept/bindings", isJSON, `{"metadata":{"name":"waiting"},"target":{"kind":"Node","name":"node-x"}}`},
	{"PATCH", "/api/v1/namespaces/kept/pods/pod/ephemeralcontainers", "application/strategic-merge-patch+json", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`},
	{"PATCH", "/api/v1/namespaces/kept/pods/pod/status", mergePatch, `{"status":{"phase":"Failed"}}`},
	{"GET", "/api/v1/namespaces/NS/secrets", "", ""},
	{"GET", "/api/v1/secrets", "", ""},
	{"GET", "/api/v1/secrets?limit=1", "", ""},
	{"GET", "/api/v1/secrets?fieldSelector=metadata.namespace%3Dkept", "", ""},
	{"GET", "/api/v1/namespaces/kept/secrets?fieldSelector=metadata.name%3Dsecret", "", ""},
	{"GET", "/api/v1/namespaces/fuzz-0/secrets?fieldSelector=metadata.namespace%3Dkept", "", ""},
	{"GET", "/api/v1/namespaces/kept/secrets?watch=true&fieldSelector=metadata.name%3Dsecret", "", ""},
	{"GET", "/api/v1/watch/namespaces/kept/secrets/secret", "", ""},
	{"GET", "/api/v1/watch/secrets", "", ""},
	{"GET", "/api/v1/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "", ""},
	{"GET", "/api/v1/namespaces/fuzz-0%2f..%2fkept/secrets/secret", "", ""},
	{"GET", "/api/v1/namespaces/fuzz-0/../kept/secrets/secret", "", ""},
	{"GET", "/api/v1/namespaces/fuzz-0/secrets/..%2F..%2Fkept%2Fsecrets%2Fsecret", "", ""},
	{"GET", "/api/v1//namespaces/kept/secrets/secret", "", ""},
	{"GET", "/api/v1/proxy/namespaces/kept/secrets/secret", "", ""},
	{"DELETE", "/api/v1/namespaces/kept/secrets", isJSON, `{"dryRun":["All"]}`},
	{"PATCH", "/api/v1/namespaces/kept/secrets/secret?dryRun=All", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`},
	{"POST", "/api/v1/namespaces/NS/serviceaccounts/NAME/token", isJSON, `{"spec":{"audiences":["https://kubernetes.default.svc.cluster.local"]}}`},
	{"POST", "/api/v1/namespaces/kept/serviceaccounts/owner/token", isJSON, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"pod"}}}`},
	{"POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", isJSON, `{"spec":{}}`},
	{"POST", "/api/v1/namespaces/NS/secrets", isJSON, `{"metadata":{"name":"NAME","annotations":{"kubernetes.io/service-account.name":"default"}},"type":"kubernetes.io/service-account-token"}`},
	{"PUT", certGroup + "/asked/approval", isJSON, `{"metadata":{"name":"asked"},"status":{"conditions":[{"type":"Approved","status":"True"}]}}`},
	{"PATCH", certGroup + "/asked/approval", mergePatch, `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"x"}]}}`},
	{"PATCH", certGroup + "/asked/status", mergePatch, `{"status":{"certificate":"eA=="}}`},
	{"DELETE", certGroup + "/asked", isJSON, ``},
	{"POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", isJSON, `{"metadata":{"name":"NAME"}}`},
	{"POST", "/apis/apiregistration.k8s.io/v1/apiservices", isJSON, `{"metadata":{"name":"v1.NAME.io"},"spec":{"group":"NAME.io","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"name":"a","namespace":"NS"}}}`},
	{"PATCH", "/api/v1/namespaces/NS", mergePatch, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`},
	{"PUT", "/api/v1/namespaces/kept/finalize", isJSON, `{"metadata":{"name":"kept"},"spec":{"finalizers":[]}}`},
	{"DELETE", "/api/v1/namespaces/NS", isJSON, ``},
	{"PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-y", mergePatch, `{"spec":{"holderIdentity":"WHO"}}`},
	{"PATCH", "/apis/storage.k8s.io/v1/csinodes/node-y", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`},
	{"DELETE", "/apis/resource.k8s.io/v1/resourceslices", isJSON, ``},
	{"DELETE", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dnode-y", isJSON, ``},
	{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-x", "", ""},
	{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-y", "", ""},
	{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-x,spec.nodeName%3Dnode-y", "", ""},
	{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%21%3Dnode-x", "", ""},
	{"GET", "/api/v1/nodes/node-x/proxy/metrics", "", ""},
	{"GET", "/api/v1/nodes/127.0.0.1/proxy/", "", ""},
	{"GET", "/api/v1/namespaces/kept/services/https:service:80/proxy/", "", ""},
	{"POST", "/api/v1/namespaces/kept/pods/pod/exec?command=sh", "", ""},
	{"GET", "/apis/fuzz.example.org/v1/things", "", ""},
	{"PATCH", "/apis/fuzz.example.org/v1/namespaces/kept/things/thing/scale", mergePatch, `{"spec":{"replicas":3}}`},
	{"PATCH", "/apis/fuzz.example.org/v1/namespaces/kept/things/thing", applyPatch, `{"apiVersion":"fuzz.example.org/v1","kind":"Thing","metadata":{"name":"thing"},"spec":{"a":1}}`},
	{"PATCH", "/apis/apps/v1/namespaces/NS/deployments/deployment/scale", mergePatch, `{"spec":{"replicas":9}}`},
	{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", isJSON, `{"spec":{"token":"x"}}`},
	{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", isJSON, `{"spec":{"user":"WHO","resourceAttributes":{"verb":"*"}}}`},
	{"GET", "/debug/pprof/heap", "", ""},
	{"GET", "/metrics", "", ""},
	{"GET", "/logs/", "", ""},
	{"GET", "/configz", "", ""},
}

// whom the users would be instead.
var whom = []string{"admin", "impersonated", "system:admin", "system:masters", "viewer", "landlord", "system:node:node-y", "system:serviceaccount:kube-system:default", "system:kube-controller-manager", "system:apiserver", "system:anonymous"}

// escalate makes such a request, as a rule a little wrong.
func (m *Maker) escalate(r *rand.Rand) Request {
	e := pick(r, escalations)
	name := pick(r, m.scope.Names)
	values := strings.NewReplacer("NAME", name, "NS", pick(r, m.scope.Namespaces), "WHO", pick(r, append(whom, "system:node:node-x", "nobody")))
	q := newRequest(e.method, values.Replace(e.path))
	q.Tactic = "escalation"
	if e.contentType != "" {
		q.Header.Set("Content-Type", e.contentType)
		q.Body = []byte(values.Replace(e.body))
		if e.method == "PATCH" && e.contentType == isJSON {
			q.Header.Set("Content-Type", "application/json-patch+json")
		}
	}
	if e.contentType == applyPatch {
		q.Target += pick(r, []string{"?fieldManager=fuzz", "?fieldManager=fuzz&force=true"})
	}
	if strings.HasPrefix(string(q.Body), "{") && chance(r, 3) {
		q.Body = mutateObject(r, string(q.Body), 1)
	}
	if chance(r, 6) {
		q.Header.Set("Impersonate-User", pick(r, whom))
		if chance(r, 3) {
			q.Header.Add("Impersonate-Group", pick(r, []string{"system:masters", "system:authenticated", "system:nodes", ""}))
		}
		q.Tactic += " as another"
	}
	if chance(r, 8) {
		headers(r, &q)
	}
	q.Streams = strings.Contains(q.Target, "watch") || strings.Contains(q.Target, "/exec") || q.Streams
	q.Proxied = strings.Contains(q.Target, "/proxy")
	return q
}
