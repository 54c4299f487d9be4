// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podcertificaterequest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type pcr = certificatesv1.PodCertificateRequest

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(curve, rand.Reader))
}

func request(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	return must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))
}

func valid(request []byte) *pcr {
	return &pcr{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "1", ServiceAccountName: "a", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			MaxExpirationSeconds: new(int32(7200)), StubPKCS10Request: request,
			UnverifiedUserAnnotations: map[string]string{"example.com/A": "b"},
		},
	}
}

func TestResource(t *testing.T) {
	der := request(t, ecKey(t, elliptic.P256()))
	forged := slices.Clone(der)
	forged[len(forged)-1] ^= 1
	invalid := func(name, field string, mutate func(*certificatesv1.PodCertificateRequestSpec)) registrytest.Invalid[*pcr] {
		return registrytest.Invalid[*pcr]{Name: name, Field: field, Mutate: func(r *pcr) { mutate(&r.Spec) }}
	}
	type spec = certificatesv1.PodCertificateRequestSpec
	registrytest.Run(t, Resource, registrytest.Case[*pcr]{
		AddToScheme: certificatesv1.AddToScheme,
		Valid:       func() *pcr { return valid(der) },
		Update:      func(r *pcr) { r.Labels = map[string]string{"a": "b"} },
		StatusUpdate: func(r *pcr) {
			r.Status.Conditions = []metav1.Condition{{Type: denied, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}
		},
		Invalid: []registrytest.Invalid[*pcr]{
			invalid("signer", "spec.signerName", func(s *spec) { s.SignerName = "s" }),
			invalid("pod", "spec.podName", func(s *spec) { s.PodName = "" }),
			invalid("pod UID", "spec.podUID", func(s *spec) { s.PodUID = "" }),
			invalid("account", "spec.serviceAccountName", func(s *spec) { s.ServiceAccountName = "A" }),
			invalid("account UID", "spec.serviceAccountUID", func(s *spec) { s.ServiceAccountUID = types.UID(strings.Repeat("a", 129)) }),
			invalid("node", "spec.nodeName", func(s *spec) { s.NodeName = "" }),
			invalid("node UID", "spec.nodeUID", func(s *spec) { s.NodeUID = "" }),
			invalid("short life", "spec.maxExpirationSeconds", func(s *spec) { s.MaxExpirationSeconds = new(int32(3599)) }),
			invalid("long life", "spec.maxExpirationSeconds", func(s *spec) { s.MaxExpirationSeconds = new(int32(91*86400 + 1)) }),
			invalid("long life of Kubernetes", "spec.maxExpirationSeconds", func(s *spec) {
				s.SignerName, s.MaxExpirationSeconds = "kubernetes.io/s", new(int32(86401))
			}),
			invalid("annotation", "spec.unverifiedUserAnnotations", func(s *spec) { s.UnverifiedUserAnnotations = map[string]string{"a": "b"} }),
			invalid("no request", "spec", func(s *spec) { s.StubPKCS10Request = nil }),
			invalid("long request", "spec.stubPKCS10Request", func(s *spec) { s.StubPKCS10Request = make([]byte, 10<<10+1) }),
			invalid("rubbish", "spec.stubPKCS10Request", func(s *spec) { s.StubPKCS10Request = []byte("x") }),
			invalid("forged", "spec.stubPKCS10Request", func(s *spec) { s.StubPKCS10Request = forged }),
			invalid("curve", "spec.stubPKCS10Request", func(s *spec) { s.StubPKCS10Request = request(t, ecKey(t, elliptic.P224())) }),
			invalid("short RSA key", "spec.stubPKCS10Request", func(s *spec) {
				s.StubPKCS10Request = request(t, must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048)))
			}),
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*pcr]{{Name: "spec", Field: "spec", Mutate: func(r *pcr) { r.Spec.PodName = "q" }}},
		Row:            []any{"r", "p", "a", "n", "example.com/s", "Pending", "example.com/A=b"},
	})
}

// chain is a certificate for a key, in PEM.
func chain(t *testing.T, key crypto.Signer, begin time.Time, life time.Duration, names ...string) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(life), DNSNames: names}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestValidateStatus(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	now := time.Now().Truncate(time.Second)
	old := valid(request(t, key))
	end := func(kind string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}
	}
	type status = certificatesv1.PodCertificateRequestStatus
	good := func(begin time.Time, life time.Duration, names ...string) status {
		at := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(begin.Add(d))) }
		return status{Conditions: end(issued), CertificateChain: chain(t, key, begin, life, names...), NotBefore: at(0), NotAfter: at(life), BeginRefreshAt: at(life / 2)}
	}
	with := func(mutate func(*status)) status {
		s := good(now, time.Hour)
		mutate(&s)
		return s
	}
	other := chain(t, ecKey(t, elliptic.P256()), now, time.Hour)
	block := string(pem.EncodeToMemory(&pem.Block{Type: "X"}))
	for _, tc := range []struct {
		name string
		was  []metav1.Condition
		is   status
		want []string
	}{
		{"nothing", nil, status{}, nil},
		{"no outcome", nil, with(func(s *status) { s.Conditions = nil }), []string{"status"}},
		{"denied", nil, status{Conditions: end(denied)}, nil},
		{"failed with a certificate", nil, with(func(s *status) { s.Conditions = end(failed) }), []string{"status"}},
		{"after the end", end(denied), good(now, time.Hour), []string{"status"}},
		{"unknown condition", nil, status{Conditions: end("Odd")}, []string{"status.conditions.[0].type"}},
		{"two outcomes", nil, status{Conditions: append(end(denied), end(failed)...)}, []string{"status.conditions.[1].type"}},
		{"negated outcome", nil, status{Conditions: []metav1.Condition{{Type: denied, Status: "False", Reason: "R", LastTransitionTime: metav1.Now()}}}, []string{"status.conditions.[0].status"}},
		{"outcome without reason", nil, status{Conditions: []metav1.Condition{{Type: denied, Status: "True", LastTransitionTime: metav1.Now()}}}, []string{"status.conditions[0].reason"}},

		{"issued", nil, good(now, time.Hour, "a.b"), nil},
		{"issued with an intermediate", nil, with(func(s *status) { s.CertificateChain += other }), nil},
		{"no chain", nil, with(func(s *status) { s.CertificateChain = "" }), []string{"status.certificateChain"}},
		{"long chain", nil, with(func(s *status) { s.CertificateChain += strings.Repeat("\n", 100<<10) }), []string{"status.certificateChain"}},
		{"another block", nil, with(func(s *status) { s.CertificateChain = block }), []string{"status.certificateChain"}},
		{"another block behind", nil, with(func(s *status) { s.CertificateChain += block }), []string{"status.certificateChain"}},
		{"another key", nil, with(func(s *status) { s.CertificateChain = other }), []string{"status.certificateChain"}},
		{"bad names", nil, good(now, time.Hour, "a..b", ".a"), []string{"status.certificateChain", "status.certificateChain"}},
		{"no times", nil, with(func(s *status) { s.NotBefore, s.NotAfter, s.BeginRefreshAt = nil, nil, nil }), []string{"status.notBefore", "status.notAfter", "status.beginRefreshAt"}},
		{"another beginning", nil, with(func(s *status) { s.NotBefore = new(metav1.NewTime(now.Add(time.Second))) }), []string{"status.notBefore"}},
		{"past beginning", nil, good(now.Add(-6*time.Minute), time.Hour), []string{"status.notBefore"}},
		{"another end", nil, with(func(s *status) { s.NotAfter = new(metav1.NewTime(now)) }), []string{"status.notAfter"}},
		{"short life", nil, good(now, 59*time.Minute), []string{"status.certificateChain"}},
		{"long life", nil, good(now, 121*time.Minute), []string{"status.certificateChain"}},
		{"early refresh", nil, with(func(s *status) { s.BeginRefreshAt = new(metav1.NewTime(now.Add(9 * time.Minute))) }), []string{"status.beginRefreshAt"}},
		{"late refresh", nil, with(func(s *status) { s.BeginRefreshAt = new(metav1.NewTime(now.Add(51 * time.Minute))) }), []string{"status.beginRefreshAt"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := old.DeepCopy(), old.DeepCopy()
			before.Status.Conditions, after.Status = tc.was, tc.is
			var got []string
			for _, err := range validateStatus(context.Background(), after, before) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuthorize(t *testing.T) {
	old, changed := valid(nil), valid(nil)
	changed.Status.Conditions = []metav1.Condition{{Type: denied}}
	ctx := genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: "ann"})
	c := registry.Config{Authorizer: authorizerfactory.NewAlwaysDenyAuthorizer()}
	if errs := authorize(ctx, c, old, old, nil); len(errs) > 0 {
		t.Errorf("nothing changed: %v", errs)
	}
	if errs := authorize(ctx, c, changed, old, nil); len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || errs[0].Field != "spec.signerName" {
		t.Errorf("change without the right: %v", errs)
	}
	c.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	if errs := authorize(ctx, c, changed, old, nil); len(errs) > 0 {
		t.Errorf("change with the right: %v", errs)
	}
}
