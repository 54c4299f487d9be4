// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequestsigning

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/pki"
)

type csr = certificatesv1.CertificateSigningRequest

func authority(t *testing.T) (*Authority, *x509.Certificate) {
	t.Helper()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAuthority(ca.Pair, 365*24*time.Hour, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return a, a.cert
}

// content is a request that also asks for what it does not get: to be a CA.
func content(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, DNSNames: []string{"a"},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func request(t *testing.T, signer string, change ...func(*csr)) *csr {
	t.Helper()
	r := &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: content(t), SignerName: signer, Usages: []certificatesv1.KeyUsage{"digital signature", "server auth"}},
		Status:     certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True"}}},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

var key = reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}}

func TestReconcile_Signs(t *testing.T) {
	a, ca := authority(t)
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{request(t, "kubernetes.io/kubelet-serving", func(r *csr) { r.Spec.ExpirationSeconds = new(int32(3600)) })},
		Request: key,
		New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c, CA: a} },
		Want: func(ctx context.Context, c client.Client) error {
			var got csr
			if err := c.Get(ctx, key.NamespacedName, &got); err != nil {
				return err
			}
			cert, err := pki.ParseCertificate(got.Status.Certificate)
			if err != nil {
				return err
			}
			if err := cert.CheckSignatureFrom(ca); err != nil {
				return err
			}
			if cert.IsCA || cert.Subject.CommonName != "system:node:a" || cert.VerifyHostname("a") != nil {
				return fmt.Errorf("certificate of %v for %v, CA: %t", cert.Subject, cert.DNSNames, cert.IsCA)
			}
			if cert.KeyUsage != x509.KeyUsageDigitalSignature || !cmp.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
				return fmt.Errorf("usages are %v and %v", cert.KeyUsage, cert.ExtKeyUsage)
			}
			if got := cert.NotAfter.Sub(cert.NotBefore); got != time.Hour+backdate {
				return fmt.Errorf("lasts %v", got)
			}
			return nil
		},
	})
}

func TestReconcile_Refuses(t *testing.T) {
	a, _ := authority(t)
	for _, tt := range []struct{ signer, message string }{
		{"kubernetes.io/kube-apiserver-client-kubelet", "DNS subjectAltNames are not allowed"},
		{"kubernetes.io/kube-apiserver-client", "invalid usage for client certificate: server auth"},
	} {
		t.Run(tt.signer, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{request(t, tt.signer)},
				Request: key,
				New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c, CA: a} },
				Want: func(ctx context.Context, c client.Client) error {
					var got csr
					if err := c.Get(ctx, key.NamespacedName, &got); err != nil {
						return err
					}
					if len(got.Status.Conditions) != 2 || len(got.Status.Certificate) > 0 {
						return fmt.Errorf("status is %+v", got.Status)
					}
					failed := got.Status.Conditions[1]
					if failed.Type != "Failed" || failed.Status != "True" || failed.Reason != "SignerValidationFailure" || failed.Message != tt.message {
						return fmt.Errorf("condition is %+v", failed)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Leaves(t *testing.T) {
	a, _ := authority(t)
	with := func(condition certificatesv1.RequestConditionType) func(*csr) {
		return func(r *csr) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: condition, Status: "True"})
		}
	}
	const serving = "kubernetes.io/kubelet-serving"
	for name, tt := range map[string]struct {
		request *csr
		wantErr bool
	}{
		"of another signer": {request: request(t, "example.com/s")},
		"not approved":      {request: request(t, serving, func(r *csr) { r.Status.Conditions = nil })},
		"denied":            {request: request(t, serving, with("Denied"))},
		"failed":            {request: request(t, serving, with("Failed"))},
		"issued":            {request: request(t, serving, func(r *csr) { r.Status.Certificate = []byte("C") })},
		"no request":        {request: request(t, serving, func(r *csr) { r.Spec.Request = []byte("R") }), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tt.request).Build()
			if _, err := (&Reconciler{Client: c, CA: a}).Reconcile(t.Context(), key); (err != nil) != tt.wantErr {
				t.Errorf("error %v", err)
			}
			var got csr
			if err := c.Get(t.Context(), key.NamespacedName, &got); err != nil || got.ResourceVersion != "999" {
				t.Errorf("request is %+v, %v", got.Status, err)
			}
		})
	}
}

func TestValidateClient(t *testing.T) {
	for name, tt := range map[string]struct {
		usages []certificatesv1.KeyUsage
		want   string
	}{
		"client":  {[]certificatesv1.KeyUsage{"client auth"}, "<nil>"},
		"all":     {[]certificatesv1.KeyUsage{"client auth", "digital signature", "key encipherment"}, "<nil>"},
		"neither": {[]certificatesv1.KeyUsage{"digital signature"}, "missing required usage for client certificate: client auth"},
		"server":  {[]certificatesv1.KeyUsage{"client auth", "server auth"}, "invalid usage for client certificate: server auth"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(validateClient(nil, tt.usages)); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	for name, tt := range map[string]struct {
		seconds *int32
		want    time.Duration
	}{
		"by default": {nil, 365 * 24 * time.Hour},
		"asked for":  {new(int32(3600)), time.Hour},
		"too short":  {new(int32(60)), 10 * time.Minute},
		"too long":   {new(int32(2 * 365 * 24 * 3600)), 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lifetime(tt.seconds, 365*24*time.Hour); got != tt.want {
				t.Errorf("lasts %v, want %v", got, tt.want)
			}
		})
	}
}

func TestValidity(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		lifetime  time.Duration
		end, want time.Time
		wantErr   bool
	}{
		"long":              {lifetime: 24 * time.Hour, end: now.AddDate(1, 0, 0), want: now.Add(24*time.Hour - 5*time.Minute)},
		"short":             {lifetime: time.Hour, end: now.AddDate(1, 0, 0), want: now.Add(time.Hour)},
		"as long as its CA": {lifetime: 24 * time.Hour, end: now.Add(time.Hour), want: now.Add(time.Hour)},
		"of an expired CA":  {lifetime: time.Hour, end: now, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, err := validity(now, tt.lifetime, tt.end)
			if (err != nil) != tt.wantErr || !to.Equal(tt.want) {
				t.Fatalf("ends %v, %v", to, err)
			}
			if err == nil && !from.Equal(now.Add(-5*time.Minute)) {
				t.Errorf("begins %v", from)
			}
		})
	}
}

func TestKeyUsages(t *testing.T) {
	bits, extended, err := keyUsages([]certificatesv1.KeyUsage{"signing", "cert sign", "s/mime", "client auth", "email protection"})
	if err != nil || bits != x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign {
		t.Errorf("bits %v, error %v", bits, err)
	}
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageEmailProtection}, extended); diff != "" {
		t.Errorf("extended usages (-want +got):\n%s", diff)
	}
	if _, _, err := keyUsages([]certificatesv1.KeyUsage{"fun"}); err == nil || err.Error() != `unrecognized usage values: ["fun"]` {
		t.Errorf("error %v", err)
	}
}
