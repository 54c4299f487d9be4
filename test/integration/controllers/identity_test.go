// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/cluster-bootstrap/token/jws"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/test/integration/framework"
)

// whoAmI asks the API server who holds these credentials.
func whoAmI(t *testing.T, config *rest.Config) (authenticationv1.UserInfo, error) {
	t.Helper()
	review, err := framework.ClientFor(t, config).AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// tokenSecret asks for a token of an account.
func tokenSecret(name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

// filled waits until a Secret has its token.
func filled(t *testing.T, c *framework.Cluster, ns, name string) *corev1.Secret {
	t.Helper()
	var got *corev1.Secret
	framework.Eventually(t, "the secret "+name+" is filled", func() error {
		var err error
		if got, err = c.Client.CoreV1().Secrets(ns).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if len(got.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return fmt.Errorf("it has %d values", len(got.Data))
		}
		return nil
	})
	return got
}

func TestTokenSecrets(t *testing.T) {
	t.Parallel()
	ctx, ns := t.Context(), cluster.Namespace(t)
	accounts, secrets := cluster.Client.CoreV1().ServiceAccounts(ns), cluster.Client.CoreV1().Secrets(ns)
	account, err := accounts.Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"}, Secrets: []corev1.ObjectReference{{Name: "short"}, {Name: "plain"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*corev1.Secret{tokenSecret("token", "robot"), tokenSecret("short", "robot"), {ObjectMeta: metav1.ObjectMeta{Name: "plain"}}} {
		if _, err := secrets.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	secret := filled(t, cluster, ns, "token")
	if string(secret.Data["namespace"]) != ns || !bytes.HasPrefix(secret.Data["ca.crt"], []byte("-----BEGIN CERTIFICATE-----")) || secret.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) {
		t.Errorf("secret has %q, annotations %v", secret.Data, secret.Annotations)
	}
	config := cluster.Anonymous()
	config.BearerToken = string(secret.Data["token"])
	if who, err := whoAmI(t, config); err != nil || who.Username != "system:serviceaccount:"+ns+":robot" {
		t.Errorf("the token is that of %+v, %v", who, err)
	}

	filled(t, cluster, ns, "short")
	if err := secrets.Delete(ctx, "short", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the account does not name the secret any more", func() error {
		got, err := accounts.Get(ctx, "robot", metav1.GetOptions{})
		if err == nil && (len(got.Secrets) != 1 || got.Secrets[0].Name != "plain") {
			return fmt.Errorf("it names %v", got.Secrets)
		}
		return err
	})

	if err := accounts.Delete(ctx, "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the secret of the account", func() error {
		_, err := secrets.Get(ctx, "token", metav1.GetOptions{})
		return err
	})
	framework.Eventually(t, "the token is refused", func() error {
		if who, err := whoAmI(t, config); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("it is that of %+v, %w", who, err)
		}
		return nil
	})
	if _, err := secrets.Get(ctx, "plain", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := secrets.Create(ctx, tokenSecret("of-nobody", "robot"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "a secret of an account that is not there", func() error {
		_, err := secrets.Get(ctx, "of-nobody", metav1.GetOptions{})
		return err
	})
}

// TestLegacyTokens lets two years go by for the controllers, not for the API server.
func TestLegacyTokens(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	c := framework.Start(t, framework.Options{Controllers: []string{"serviceaccounttoken"}, Clock: clock})
	ctx, ns := t.Context(), "default"
	accounts, secrets := c.Client.CoreV1().ServiceAccounts(ns), c.Client.CoreV1().Secrets(ns)
	entered := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, Secrets: []corev1.ObjectReference{{Name: "generated"}}}
	if _, err := accounts.Create(ctx, entered, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"generated", "manual"} {
		if _, err := secrets.Create(ctx, tokenSecret(name, "robot"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		filled(t, c, ns, name)
	}
	clock.Step(400 * 24 * time.Hour)
	// Its first pass is at its start.
	if _, err := c.StartControllers("legacyserviceaccounttokencleaner"); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the unused token is marked", func() error {
		got, err := secrets.Get(ctx, "generated", metav1.GetOptions{})
		if err == nil && got.Labels["kubernetes.io/legacy-token-invalid-since"] != clock.Now().UTC().Format(time.DateOnly) {
			return fmt.Errorf("labels are %v", got.Labels)
		}
		return err
	})
	secret, err := secrets.Get(ctx, "generated", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := c.Anonymous()
	config.BearerToken = string(secret.Data["token"])
	if who, err := whoAmI(t, config); !apierrors.IsUnauthorized(err) {
		t.Errorf("the marked token is that of %+v, %v", who, err)
	}
	// That it was tried counts as a use: the day is the API server's, long ago for the controllers.
	clock.Step(400 * 24 * time.Hour)
	gone(t, "the token marked a year ago", func() error {
		// A use in the last moment makes the cleaner wait for the next day.
		clock.Step(24 * time.Hour)
		_, err := secrets.Get(ctx, "generated", metav1.GetOptions{})
		return err
	})
	if got, err := secrets.Get(ctx, "manual", metav1.GetOptions{}); err != nil || len(got.Labels) > 0 {
		t.Errorf("the token that people made has the labels %v, %v", got.Labels, err)
	}
}

// request makes a key and a request for a certificate of it.
func request(t *testing.T, subject pkix.Name, names ...string) (key, request []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject, DNSNames: names}, private)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// ask creates a CertificateSigningRequest as a user and deletes it at the end.
func ask(t *testing.T, as *rest.Config, signer string, content []byte, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: content, SignerName: signer, Usages: usages, ExpirationSeconds: new(int32(7200))},
	}
	r, err := framework.ClientFor(t, as).CertificatesV1().CertificateSigningRequests().Create(context.Background(), r, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.Client.CertificatesV1().CertificateSigningRequests().Delete(context.Background(), r.Name, metav1.DeleteOptions{})
	})
	return r
}

// approve does what kubectl certificate approve does.
func approve(t *testing.T, r *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	framework.Eventually(t, "the request can be approved", func() error {
		now, err := cluster.Client.CertificatesV1().CertificateSigningRequests().Get(context.Background(), r.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Conditions = append(now.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubectlApprove", Message: "by a test",
		})
		_, err = cluster.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(context.Background(), r.Name, now, metav1.UpdateOptions{})
		return err
	})
}

// settled waits until a request has a certificate or has failed.
func settled(t *testing.T, r *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	var got *certificatesv1.CertificateSigningRequest
	framework.Eventually(t, "the request is settled", func() error {
		var err error
		if got, err = cluster.Client.CertificatesV1().CertificateSigningRequests().Get(context.Background(), r.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				return nil
			}
		}
		if len(got.Status.Certificate) == 0 {
			return fmt.Errorf("its status is %+v", got.Status)
		}
		return nil
	})
	return got
}

func TestCertificates_KubeletClient(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	// As in the documentation of TLS bootstrapping; the group is this test's own.
	for role, group := range map[string]string{
		"system:node-bootstrapper": "test:joining",
		"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     "test:joining",
		"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": "test:renewing",
	} {
		b, err := cluster.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: group}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cluster.Client.RbacV1().ClusterRoleBindings().Delete(context.Background(), b.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	const signer = "kubernetes.io/kube-apiserver-client-kubelet"
	node := pkix.Name{CommonName: "system:node:node-x", Organization: []string{"system:nodes"}}
	key, content := request(t, node)
	joining := cluster.User("joiner", "test:joining")
	framework.Eventually(t, "the rights are in force", func() error {
		_, err := framework.ClientFor(t, joining).CertificatesV1().CertificateSigningRequests().Get(ctx, "none", metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return err
		}
		return nil
	})
	got := settled(t, ask(t, joining, signer, content, "digital signature", "client auth"))
	approved := got.Status.Conditions[0]
	if approved.Type != "Approved" || approved.Reason != "AutoApproved" || approved.Message != "Auto approving kubelet client certificate after SubjectAccessReview." || approved.LastUpdateTime.IsZero() {
		t.Errorf("condition is %+v", approved)
	}
	kubelet := cluster.Anonymous()
	kubelet.CertData, kubelet.KeyData = got.Status.Certificate, key
	if who, err := whoAmI(t, kubelet); err != nil || who.Username != "system:node:node-x" {
		t.Errorf("the certificate is that of %+v, %v", who, err)
	}

	renewal := settled(t, ask(t, cluster.User("system:node:node-x", "system:nodes", "test:renewing"), signer, content, "digital signature", "client auth"))
	if m := renewal.Status.Conditions[0].Message; m != "Auto approving self kubelet client certificate after SubjectAccessReview." {
		t.Errorf("renewal is approved with %q", m)
	}
}

func TestCertificates_ByPeople(t *testing.T) {
	t.Parallel()
	key, content := request(t, pkix.Name{CommonName: "jane", Organization: []string{"team"}})
	r := ask(t, cluster.Admin(), "kubernetes.io/kube-apiserver-client", content, "client auth")
	approve(t, r)
	got := settled(t, r)
	cert, err := pki.ParseCertificate(got.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if lasts := time.Until(cert.NotAfter); lasts > 2*time.Hour || lasts < 2*time.Hour-time.Minute {
		t.Errorf("the certificate lasts %v, 2h were asked for", lasts)
	}
	jane := cluster.Anonymous()
	jane.CertData, jane.KeyData = got.Status.Certificate, key
	if who, err := whoAmI(t, jane); err != nil || who.Username != "jane" || who.Groups[0] != "team" {
		t.Errorf("the certificate is that of %+v, %v", who, err)
	}

	t.Run("kubelet serving", func(t *testing.T) {
		node := pkix.Name{CommonName: "system:node:node-a", Organization: []string{"system:nodes"}}
		_, content := request(t, node, "node-a")
		r := ask(t, cluster.User("system:node:node-a", "system:nodes"), "kubernetes.io/kubelet-serving", content, "digital signature", "server auth")
		approve(t, r)
		cert, err := pki.ParseCertificate(settled(t, r).Status.Certificate)
		if err != nil || cert.VerifyHostname("node-a") != nil {
			t.Errorf("certificate for %v, %v", cert, err)
		}
	})
	t.Run("not what the signer signs", func(t *testing.T) {
		_, content := request(t, pkix.Name{CommonName: "jane"})
		r := ask(t, cluster.Admin(), "kubernetes.io/kube-apiserver-client", content, "client auth", "server auth")
		approve(t, r)
		got := settled(t, r)
		failed := got.Status.Conditions[len(got.Status.Conditions)-1]
		if failed.Type != "Failed" || failed.Reason != "SignerValidationFailure" || failed.Message != "invalid usage for client certificate: server auth" || len(got.Status.Certificate) > 0 {
			t.Errorf("condition is %+v", failed)
		}
	})
}

// TestRequests_AreCleanedUp has controllers that live a day later than the API server: all that is new is old for them.
func TestRequests_AreCleanedUp(t *testing.T) {
	t.Parallel()
	c := framework.Start(t, framework.Options{
		Controllers: []string{"certificatesigningrequestcleaner", "podcertificaterequestcleaner"},
		Clock:       clocktesting.NewFakeClock(time.Now().Add(25 * time.Hour)),
	})
	ctx := t.Context()
	_, content := request(t, pkix.Name{CommonName: "jane"})
	pending, err := c.Client.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "pending"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: content, SignerName: "example.com/s", Usages: []certificatesv1.KeyUsage{"client auth"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone(t, "a request that nobody decided on", func() error {
		_, err := c.Client.CertificatesV1().CertificateSigningRequests().Get(ctx, pending.Name, metav1.GetOptions{})
		return err
	})
	block, _ := pem.Decode(content)
	requests := c.Client.CertificatesV1().PodCertificateRequests("default")
	_, err = requests.Create(ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "of-a-pod"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "1", ServiceAccountName: "a", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			MaxExpirationSeconds: new(int32(7200)), StubPKCS10Request: block.Bytes,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone(t, "a pod's request", func() error {
		_, err := requests.Get(ctx, "of-a-pod", metav1.GetOptions{})
		return err
	})
}

func TestBootstrapTokens(t *testing.T) {
	t.Parallel()
	stop, err := cluster.StartControllers("bootstrap-signer-controller", "tokencleaner")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	ctx := t.Context()
	infos, secrets := cluster.Client.CoreV1().ConfigMaps("kube-public"), cluster.Client.CoreV1().Secrets("kube-system")
	if _, err := infos.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "K"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := infos.Delete(context.Background(), "cluster-info", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	_, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signature := func(want func(string) bool) func() error {
		return func() error {
			info, err := infos.Get(ctx, "cluster-info", metav1.GetOptions{})
			if err == nil && !want(info.Data["jws-kubeconfig-abcdef"]) {
				return fmt.Errorf("data is %v", info.Data)
			}
			return err
		}
	}
	framework.Eventually(t, "the kubeconfig is signed", signature(func(s string) bool { return jws.DetachedTokenIsValid(s, "K", "abcdef", "0123456789abcdef") }))
	patch := fmt.Sprintf(`{"stringData":{"expiration":%q}}`, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339))
	if _, err := secrets.Patch(ctx, "bootstrap-token-abcdef", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the token that expired", func() error {
		_, err := secrets.Get(ctx, "bootstrap-token-abcdef", metav1.GetOptions{})
		return err
	})
	framework.Eventually(t, "its signature is gone", signature(func(s string) bool { return s == "" }))
}

func TestClusterTrustBundle(t *testing.T) {
	t.Parallel()
	ctx, bundles := t.Context(), cluster.Client.CertificatesV1().ClusterTrustBundles()
	root, err := cluster.Client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		framework.Eventually(t, "the root CA is published", func() error {
			root, err = cluster.Client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	published := func() error {
		list, err := bundles.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=kubernetes.io/kube-apiserver-serving"})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d bundles", len(list.Items))
		}
		b := list.Items[0]
		if !strings.HasPrefix(b.Name, "kubernetes.io:kube-apiserver-serving:") || b.Spec.TrustBundle != root.Data["ca.crt"] {
			return fmt.Errorf("bundle %q: %q", b.Name, b.Spec.TrustBundle)
		}
		return nil
	}
	framework.Eventually(t, "the bundle is published", published)
	foreign := &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes.io:kube-apiserver-serving:foreign"},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: "kubernetes.io/kube-apiserver-serving", TrustBundle: root.Data["ca.crt"]},
	}
	if _, err := bundles.Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "a bundle that is not the signer's", func() error {
		_, err := bundles.Get(ctx, foreign.Name, metav1.GetOptions{})
		return err
	})
	list, err := bundles.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=kubernetes.io/kube-apiserver-serving"})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err, len(list.Items))
	}
	before := list.Items[0]
	if err := bundles.Delete(ctx, before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the bundle is back", func() error {
		now, err := bundles.Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && now.UID == before.UID {
			return errors.New("it is the old one")
		}
		return err
	})
}
