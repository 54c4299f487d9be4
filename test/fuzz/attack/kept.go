// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/oracle"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
)

// keptNamespace is where nothing is sent to.
const keptNamespace = "kept"

// kept are objects that must come through unchanged, by the path of their collection.
var kept = []struct{ path, name, body string }{
	{inKept("/api/v1", "configmaps"), "map", `{"metadata":{"name":"map"},"data":{"a":"1"}}`},
	{inKept("/api/v1", "secrets"), "secret", `{"metadata":{"name":"secret"},"stringData":{"a":"` + oracle.Canary + `"}}`},
	{inKept("/api/v1", "services"), "service", `{"metadata":{"name":"service"},"spec":{"ports":[{"port":80}]}}`},
	{inKept("/api/v1", "serviceaccounts"), "owner", `{"metadata":{"name":"owner"}}`},
	{inKept("/apis/apps/v1", "deployments"), "deployment", `{"metadata":{"name":"deployment"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
	{inKept("/apis/rbac.authorization.k8s.io/v1", "roles"), "strong", `{"metadata":{"name":"strong"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "strong", `{"metadata":{"name":"strong"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`},
	{inKept("/apis/fuzz.example.org/v1", "things"), "thing", `{"apiVersion":"fuzz.example.org/v1","kind":"Thing","metadata":{"name":"thing"},"spec":{"replicas":1}}`},
	{"/api/v1/nodes", identity.OtherNode, `{"metadata":{"name":"` + identity.OtherNode + `"}}`},
	{"/apis/storage.k8s.io/v1/csinodes", identity.OtherNode, `{"metadata":{"name":"` + identity.OtherNode + `"},"spec":{"drivers":[]}}`},
	{"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", identity.OtherNode, `{"metadata":{"name":"` + identity.OtherNode + `"},"spec":{"holderIdentity":"` + identity.OtherNode + `"}}`},
	{inKept("/api/v1", "pods"), "pod", `{"metadata":{"name":"pod"},"spec":{"nodeName":"` + identity.OtherNode + `","serviceAccountName":"owner","containers":[{"name":"c","image":"i"}]}}`},
	{inKept("/api/v1", "pods"), "waiting", `{"metadata":{"name":"waiting"},"spec":{"serviceAccountName":"owner","containers":[{"name":"c","image":"i"}]}}`},
}

// asked is a certificate that nobody approves.
const asked = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// ownNode is the node of a user, who may change it within bounds.
const ownNode = `{"metadata":{"name":"` + identity.Node + `","labels":{"node-restriction.kubernetes.io/kept":"yes"}},"spec":{"taints":[{"key":"kept","effect":"NoSchedule"}]}}`

func inKept(group, resource string) string {
	return group + "/namespaces/" + keptNamespace + "/" + resource
}

// Kept are objects that were written before an attack.
type Kept struct {
	client *http.Client
	base   string
	before [][]byte
}

// Reach returns one of a server that has none yet; the client is the administrator's.
func Reach(client *http.Client, base string) *Kept { return &Kept{client: client, base: base} }

// Keep makes the namespaces that requests write to, and objects in another.
func (k *Kept) Keep(ctx context.Context) error {
	for _, ns := range append(slices.Clone(request.Namespaces), keptNamespace, identity.Namespace) {
		if _, err := k.Ask(ctx, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+ns+`"}}`); err != nil {
			return err
		}
	}
	csr, err := signingRequest()
	if err != nil {
		return err
	}
	others := []struct{ path, name, body string }{
		{asked, "", csr}, {"/api/v1/nodes", "", ownNode}, {"/api/v1/namespaces/" + identity.Namespace + "/serviceaccounts", "", `{"metadata":{"name":"worker"}}`},
	}
	for _, o := range slices.Concat(others, kept) {
		if _, err := k.Ask(ctx, http.MethodPost, o.path, o.body); err != nil {
			return err
		}
	}
	k.before, err = k.read(ctx)
	return err
}

// signingRequest asks for what would make an administrator.
func signingRequest() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x"}}, key)
	if err != nil {
		return "", err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return `{"metadata":{"name":"asked"},"spec":{"signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"],"request":"` + base64.StdEncoding.EncodeToString(block) + `"}}`, nil
}

// Changed compares the objects with what they were, and the user's own node with what its user may make of it.
func (k *Kept) Changed(ctx context.Context) error {
	if err := k.nodeChanged(ctx); err != nil {
		return err
	}
	now, err := k.read(ctx)
	if err != nil {
		return err
	}
	for i := range now {
		if !bytes.Equal(now[i], k.before[i]) {
			return fmt.Errorf("%s %s has changed from\n%s\nto\n%s", kept[i].path, kept[i].name, k.before[i], now[i])
		}
	}
	return nil
}

// Renew makes the users' own node what it was.
func (k *Kept) Renew(ctx context.Context) error {
	if _, err := k.Ask(ctx, http.MethodDelete, "/api/v1/nodes/"+identity.Node, ""); err != nil {
		return err
	}
	_, err := k.Ask(ctx, http.MethodPost, "/api/v1/nodes", ownNode)
	return err
}

// nodeChanged looks at what NodeRestriction keeps a kubelet from changing of its own node.
func (k *Kept) nodeChanged(ctx context.Context) error {
	data, err := k.Ask(ctx, http.MethodGet, "/api/v1/nodes/"+identity.Node, "")
	if err != nil {
		return err
	}
	var node corev1.Node
	if err := json.Unmarshal(data, &node); err != nil {
		return err
	}
	restricted := 0
	for label := range node.Labels {
		if strings.Contains(label, "node-restriction.kubernetes.io/") {
			restricted++
		}
	}
	taints := node.Spec.Taints
	if len(node.OwnerReferences) > 0 || restricted != 1 || len(taints) == 0 || taints[0].Key != "kept" {
		return fmt.Errorf("the kubelet of %s has made of it: owners %v, labels %v, taints %v", identity.Node, node.OwnerReferences, node.Labels, taints)
	}
	return nil
}

// Clear deletes what the attack has written, as far as it takes memory.
func (k *Kept) Clear(ctx context.Context, operations []surface.Operation) error {
	var paths, definitions []string
	for _, o := range operations {
		switch {
		case o.Action != "deletecollection":
		case o.Kind.Kind == "CustomResourceDefinition":
			definitions = append(definitions, o.Path)
		case strings.Contains(o.Path, "{namespace}"):
			for _, ns := range request.Namespaces {
				paths = append(paths, strings.ReplaceAll(o.Path, "{namespace}", ns))
			}
		}
	}
	for _, p := range append(paths, definitions...) {
		if _, err := k.Ask(ctx, http.MethodDelete, p+"?gracePeriodSeconds=0&propagationPolicy=Background", ""); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kept) read(ctx context.Context) ([][]byte, error) {
	var all [][]byte
	for _, o := range kept {
		data, err := k.Ask(ctx, http.MethodGet, o.path+"/"+o.name, "")
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// Ask sends a request of the administrator, and returns the answer's body. An answer that is no success is an error. A patch is
// one that applies.
func (k *Kept) Ask(ctx context.Context, method, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, k.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = refusal{code: answer.StatusCode, says: fmt.Sprintf("%s %s: %s: %s", method, path, answer.Status, data)}
	}
	return data, err
}
