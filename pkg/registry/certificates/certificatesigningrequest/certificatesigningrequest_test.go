// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/certificates/certificatesigningrequest"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type csr = certificatesv1.CertificateSigningRequest

// request is a PKCS#10 request in DER.
func request(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func encode(kind string, data []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
}

func valid(der []byte) *csr {
	return &csr{
		// Of the rest, server-side apply owns nothing.
		ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{"example.com/team": "x"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           encode("CERTIFICATE REQUEST", der),
			SignerName:        "example.com/s",
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			ExpirationSeconds: new(int32(7200)),
		},
	}
}

func TestResource(t *testing.T) {
	der := request(t)
	forged := append([]byte{}, der...)
	forged[len(forged)-1] ^= 1
	invalid := func(name, field string, mutate func(*csr)) registrytest.Invalid[*csr] {
		return registrytest.Invalid[*csr]{Name: name, Field: field, Mutate: mutate}
	}
	registrytest.Run(t, certificatesigningrequest.Resource, registrytest.Case[*csr]{
		AddToScheme: certificatesv1.AddToScheme,
		Valid:       func() *csr { return valid(der) },
		Update:      func(r *csr) { r.Labels = map[string]string{"a": "b"} },
		StatusUpdate: func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue}}
		},
		Invalid: []registrytest.Invalid[*csr]{
			invalid("no request", "spec.request", func(r *csr) { r.Spec.Request = nil }),
			invalid("another block", "spec.request", func(r *csr) { r.Spec.Request = encode("CERTIFICATE", der) }),
			invalid("rubbish", "spec.request", func(r *csr) { r.Spec.Request = encode("CERTIFICATE REQUEST", []byte("x")) }),
			invalid("forged", "spec.request", func(r *csr) { r.Spec.Request = encode("CERTIFICATE REQUEST", forged) }),
			invalid("no usage", "spec.usages", func(r *csr) { r.Spec.Usages = nil }),
			invalid("unknown usage", "spec.usages[0]", func(r *csr) { r.Spec.Usages[0] = "dancing" }),
			invalid("usage twice", "spec.usages[1]", func(r *csr) { r.Spec.Usages = append(r.Spec.Usages, r.Spec.Usages[0]) }),
			invalid("no signer", "spec.signerName", func(r *csr) { r.Spec.SignerName = "" }),
			invalid("signer", "spec.signerName", func(r *csr) { r.Spec.SignerName = "s" }),
			invalid("legacy signer", "spec.signerName", func(r *csr) { r.Spec.SignerName = "kubernetes.io/legacy-unknown" }),
			invalid("short life", "spec.expirationSeconds", func(r *csr) { r.Spec.ExpirationSeconds = new(int32(599)) }),
		},
		Row: []any{"r"}, // the age comes next
	})
}

// TestFlow follows a request: who asked is noted, the spec stays, approval and certificate come each on its own path.
func TestFlow(t *testing.T) {
	config := registrytest.Serve(t, registry.Config{}, registry.Group{
		Name: certificatesv1.GroupName, AddToScheme: certificatesv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{certificatesigningrequest.Resource}}},
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, api := t.Context(), client.CertificatesV1().CertificateSigningRequests()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	condition := func(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: status}
	}
	approved, denied := condition(certificatesv1.CertificateApproved, corev1.ConditionTrue), condition(certificatesv1.CertificateDenied, corev1.ConditionTrue)

	r := valid(request(t))
	r.Spec.Username, r.Spec.Groups = "somebody else", []string{"system:masters"}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approved}
	if r, err = api.Create(ctx, r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if r.Spec.Username != "system:apiserver" || len(r.Spec.UID) == 0 || len(r.Status.Conditions) > 0 {
		t.Fatalf("created: %+v %+v", r.Spec, r.Status)
	}
	changed := r.DeepCopy()
	changed.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}
	if changed, err = api.Update(ctx, changed, metav1.UpdateOptions{}); err != nil || changed.Spec.Usages[0] != certificatesv1.UsageClientAuth {
		t.Fatalf("spec after an update: %+v (%v)", changed.Spec, err)
	}

	update := func(from *csr, path string, conditions []certificatesv1.CertificateSigningRequestCondition, certificate []byte) (*csr, error) {
		next := from.DeepCopy()
		next.Status.Conditions, next.Status.Certificate = conditions, certificate
		if path == "approval" {
			return api.UpdateApproval(ctx, next.Name, next, metav1.UpdateOptions{})
		}
		return api.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	}
	refused := func(what, field string, err error) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want Invalid about %s", what, err, field)
		}
	}
	type list = []certificatesv1.CertificateSigningRequestCondition
	_, err = update(r, "status", list{approved}, nil)
	refused("approval by status", "status.conditions: Forbidden", err)
	_, err = update(r, "approval", list{approved, denied}, nil)
	refused("approval and denial", "must specify at most one of", err)
	_, err = update(r, "approval", list{condition(certificatesv1.CertificateApproved, corev1.ConditionFalse)}, nil)
	refused("negated approval", "status.conditions[0].status", err)
	_, err = update(r, "approval", list{condition("", corev1.ConditionTrue)}, nil)
	refused("condition without type", "status.conditions[0].type", err)
	_, err = update(r, "approval", list{condition("Odd", ""), condition("Odd", corev1.ConditionFalse)}, nil)
	refused("condition without status", "status.conditions[0].status", err)
	refused("condition twice", "status.conditions[1].type", err)
	_, err = update(r, "status", nil, []byte("rubbish"))
	refused("rubbish", "status.certificate", err)
	_, err = update(r, "status", nil, append(append([]byte{}, ca.Cert...), encode("X", []byte("x"))...))
	refused("another block behind a certificate", "status.certificate", err)

	if r, err = update(r, "approval", list{approved}, ca.Cert); err != nil {
		t.Fatal(err)
	}
	if len(r.Status.Certificate) > 0 || len(r.Status.Conditions) != 1 || r.Status.Conditions[0].LastUpdateTime.IsZero() || r.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Fatalf("after approval: %+v", r.Status)
	}
	_, err = update(r, "approval", list{}, nil)
	refused("withdrawn approval", "status.conditions: Forbidden", err)
	kept, err := update(r, "status", list{condition("Odd", corev1.ConditionFalse), condition(certificatesv1.CertificateApproved, corev1.ConditionTrue)}, ca.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if c := kept.Status.Conditions; len(c) != 2 || !c[1].LastUpdateTime.Equal(&r.Status.Conditions[0].LastUpdateTime) || len(kept.Status.Certificate) == 0 {
		t.Errorf("after signing: %+v", kept.Status)
	}
	second, err := pki.NewCA("second")
	if err != nil {
		t.Fatal(err)
	}
	_, err = update(kept, "status", kept.Status.Conditions, second.Cert)
	refused("another certificate", "status.certificate: Forbidden", err)
}

// TestDurations has certificates issued to who asked for two hours.
func TestDurations(t *testing.T) {
	config := registrytest.Serve(t, registry.Config{}, registry.Group{
		Name: certificatesv1.GroupName, AddToScheme: certificatesv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{certificatesigningrequest.Resource}}},
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	api := client.CertificatesV1().CertificateSigningRequests()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name               string
		mutate             func(*csr)
		lifetime           time.Duration
		dryRun             []string
		requested, honored float64
	}{
		{"honored", func(*csr) {}, 2 * time.Hour, nil, 1, 1},
		{"nearly", func(*csr) {}, 2*time.Hour + 10*time.Minute, nil, 1, 1},
		{"not honored", func(*csr) {}, 24 * time.Hour, nil, 1, 0},
		{"not requested", func(r *csr) { r.Spec.ExpirationSeconds = nil }, 2 * time.Hour, nil, 0, 0},
		{"not kept", func(*csr) {}, 2 * time.Hour, []string{metav1.DryRunAll}, 0, 0},
		{"signed before", func(r *csr) { r.Status.Certificate = ca.Cert }, 2 * time.Hour, nil, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pair, err := ca.Issue(pki.Request{CommonName: "ann", Lifetime: tt.lifetime, NotBefore: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			r := valid(request(t))
			r.Name, r.GenerateName = "", "r-"
			tt.mutate(r)
			signed := r.Status.Certificate
			if r, err = api.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if signed != nil {
				r.Status.Certificate = signed
				if r, err = api.UpdateStatus(t.Context(), r, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			} else {
				r.Status.Certificate = pair.Cert
			}
			requested, honored := counted(t, "requested"), counted(t, "honored")
			r.Labels = map[string]string{"a": "b"}
			if _, err := api.UpdateStatus(t.Context(), r, metav1.UpdateOptions{DryRun: tt.dryRun}); err != nil {
				t.Fatal(err)
			}
			if requested, honored = counted(t, "requested")-requested, counted(t, "honored")-honored; requested != tt.requested || honored != tt.honored {
				t.Errorf("counted %v as requested and %v as honored, want %v and %v", requested, honored, tt.requested, tt.honored)
			}
		})
	}
}

// counted is how many certificates were issued, by signers that are not Kubernetes's, whose duration was requested or honored.
func counted(t *testing.T, what string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "apiserver_certificates_registry_csr_"+what+"_duration_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 1 && l[0].GetName() == "signerName" && l[0].GetValue() == "other" {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestRow(t *testing.T) {
	kinds := func(k ...certificatesv1.RequestConditionType) *csr {
		r := &csr{}
		for _, kind := range k {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind})
		}
		return r
	}
	issued := kinds(certificatesv1.CertificateApproved)
	issued.Status.Certificate = []byte("x")
	for want, r := range map[string]*csr{
		"Pending":         kinds(),
		"Approved":        kinds(certificatesv1.CertificateApproved),
		"Denied":          kinds(certificatesv1.CertificateApproved, certificatesv1.CertificateDenied),
		"Approved,Failed": kinds(certificatesv1.CertificateFailed, certificatesv1.CertificateApproved),
		"Approved,Issued": issued,
	} {
		if cells := certificatesigningrequest.Resource.Row(r); cells[5] != want || cells[2] != "<none>" || cells[4] != "<none>" {
			t.Errorf("cells %v, want condition %s", cells, want)
		}
	}
	if cells := certificatesigningrequest.Resource.Row(valid(nil)); cells[4] != "120m" {
		t.Errorf("requested duration is %v", cells[4])
	}
}
