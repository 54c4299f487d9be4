// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/authentication"
	"minik8s.io/minik8s/pkg/apiserver/authentication/oidc"
	"minik8s.io/minik8s/pkg/apiserver/authentication/serviceaccount"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/test/integration/framework"
)

// whoami asks the server who the holder of a configuration is.
func whoami(ctx context.Context, config *rest.Config) (authenticationv1.UserInfo, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

func bearer(c *framework.Cluster, token string) *rest.Config {
	config := c.Anonymous()
	config.BearerToken = token
	return config
}

// expectUser waits until the server takes the holder of a configuration for a user in a group.
func expectUser(t *testing.T, config *rest.Config, name, group string) {
	t.Helper()
	var got authenticationv1.UserInfo
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		got, err = whoami(ctx, config)
		if apierrors.IsUnauthorized(err) {
			return false, nil
		}
		return err == nil && got.Username == name, err
	})
	if err != nil {
		t.Fatalf("user is %+v, want %s: %v", got, name, err)
	}
	if !slices.Contains(got.Groups, group) || !slices.Contains(got.Groups, "system:authenticated") {
		t.Errorf("groups of %s are %v, want %s and system:authenticated", name, got.Groups, group)
	}
}

func expectUnauthorized(t *testing.T, config *rest.Config) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := whoami(ctx, config)
		return apierrors.IsUnauthorized(err), nil
	})
	if err != nil {
		t.Fatal("still accepted")
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "kubeconfig"), fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: remote, cluster: {server: %q}}]
users: [{name: me, user: {}}]
contexts: [{name: c, context: {cluster: remote, user: me}}]
current-context: c
`, url))
}

// provider is an OpenID Connect provider. What this server publishes about its own tokens is all that one needs.
type provider struct {
	*httptest.Server
	tokens *serviceaccount.Tokens
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	container := restful.NewContainer()
	p := &provider{Server: httptest.NewTLSServer(container)}
	t.Cleanup(p.Close)
	var err error
	if p.tokens, err = serviceaccount.New(serviceaccount.Config{Issuer: p.URL, Key: newKey(t)}); err != nil {
		t.Fatal(err)
	}
	services, err := p.tokens.Discovery(p.URL + serviceaccount.KeysPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, ws := range services {
		container.Add(ws)
	}
	return p
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// token is one for the client "minik8s" whose subject is system:serviceaccount:people:NAME.
func (p *provider) token(t *testing.T, name string) string {
	t.Helper()
	token, _, err := p.tokens.Issue(t.Context(), types.NamespacedName{Namespace: "people", Name: name}, "uid", nil, authenticationv1.TokenRequestSpec{Audiences: []string{"minik8s"}})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// configuration trusts the provider; prefix is that of user names.
func (p *provider) configuration(prefix string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	return fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [{
"issuer": {"url": %q, "audiences": ["minik8s"], "certificateAuthority": %q},
"claimMappings": {"username": {"expression": "'%s' + claims.sub.split(':')[3]"}, "groups": {"expression": "['people']"}}}],
"anonymous": {"enabled": true, "conditions": [{"path": "/version"}, {"path": "/readyz"}]}}`, p.URL, ca, prefix)
}

// webhook answers reviews as decide says, and keeps the last one that it was asked.
type webhook[T any] struct {
	*httptest.Server
	mu   sync.Mutex
	last T
}

func newWebhook[T any](t *testing.T, decide func(*T)) *webhook[T] {
	t.Helper()
	w := &webhook[T]{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var review T
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		w.last = review
		w.mu.Unlock()
		decide(&review)
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(review)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *webhook[T]) asked() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	issuer := newProvider(t)
	file := write(t, filepath.Join(t.TempDir(), "authentication.json"), issuer.configuration("oidc:"))
	configured, err := oidc.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	remote := newWebhook(t, func(r *authenticationv1.TokenReview) {
		r.Status.Authenticated = r.Spec.Token == "known-to-the-webhook"
		r.Status.User = authenticationv1.UserInfo{Username: "remote", Groups: []string{"elsewhere"}}
	})
	proxyCA, err := pki.NewCA("front-proxy")
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := dynamiccertificates.NewStaticCAContent("front-proxy", proxyCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	signer := newKey(t)
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
		c.TokenKey = signer
		c.Authentication = authentication.Config{
			TokenFile:       write(t, filepath.Join(t.TempDir(), "tokens.csv"), "from-the-file,ann,1,\"a,b\"\n"),
			BootstrapTokens: true,
			OIDC:            &oidc.Config{Providers: configured.JWT, File: file},
			Webhook:         &authentication.Webhook{Kubeconfig: kubeconfig(t, remote.URL), Version: "v1", Backoff: wait.Backoff{Steps: 1}},
			Anonymous:       configured.Anonymous,
			RequestHeader: &authenticatorfactory.RequestHeaderConfig{
				UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}, UIDHeaders: headerrequest.StaticStringSlice{"X-Remote-Uid"},
				GroupHeaders: headerrequest.StaticStringSlice{"X-Remote-Group"}, ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
				CAContentProvider: proxies, AllowedClientNames: headerrequest.StaticStringSlice{"proxy"},
			},
		}
	}})

	t.Run("token file", func(t *testing.T) { expectUser(t, bearer(c, "from-the-file"), "ann", "b") })
	t.Run("webhook", func(t *testing.T) {
		expectUser(t, bearer(c, "known-to-the-webhook"), "remote", "elsewhere")
		expectUnauthorized(t, bearer(c, "known-to-nobody"))
		if got := remote.asked().Spec.Token; got != "known-to-nobody" {
			t.Errorf("the webhook was asked about %q", got)
		}
	})
	t.Run("front proxy", func(t *testing.T) {
		expectUser(t, proxied(t, c, proxyCA, "proxy"), "behind", "hidden")
		expectUnauthorized(t, proxied(t, c, proxyCA, "not-the-proxy"))
	})
	t.Run("anonymous", func(t *testing.T) {
		for path, want := range map[string]int{"/version": http.StatusOK, "/api": http.StatusUnauthorized} {
			if got := anonymous(t, c, path); got != want {
				t.Errorf("%s answers %d, want %d", path, got, want)
			}
		}
	})
	t.Run("bootstrap token", func(t *testing.T) { bootstrapToken(t, c) })
	t.Run("token in a secret", func(t *testing.T) { legacyToken(t, c, signer) })
	t.Run("OpenID Connect", func(t *testing.T) {
		expectUser(t, bearer(c, issuer.token(t, "eve")), "oidc:eve", "people")
		write(t, file, issuer.configuration("new:"))
		// A token that is not in the cache of those that were accepted.
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			got, err := whoami(ctx, bearer(c, issuer.token(t, "kim")))
			return got.Username == "new:kim", err
		})
		if err != nil {
			t.Error("the changed file has no effect")
		}
	})
}

// proxied says in headers who the user is, as a proxy does.
func proxied(t *testing.T, c *framework.Cluster, ca *pki.CA, name string) *rest.Config {
	t.Helper()
	pair, err := ca.Issue(pki.Request{CommonName: name})
	if err != nil {
		t.Fatal(err)
	}
	config := c.Anonymous()
	config.CertData, config.KeyData = pair.Cert, pair.Key
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("X-Remote-User", "behind")
			r.Header.Set("X-Remote-Group", "hidden")
			return rt.RoundTrip(r)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func anonymous(t *testing.T, c *framework.Cluster, path string) int {
	t.Helper()
	transport, err := rest.TransportFor(c.Anonymous())
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Get(c.Anonymous().Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func bootstrapToken(t *testing.T, c *framework.Cluster) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}
	if _, err := c.Client.CoreV1().Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectUser(t, bearer(c, "abcdef.0123456789abcdef"), "system:bootstrap:abcdef", "system:bootstrappers")
}

// legacyToken follows a token in a secret from its first use to its end.
func legacyToken(t *testing.T, c *framework.Cluster, signer []byte) {
	t.Helper()
	ctx := t.Context()
	account, err := c.Client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.ParseKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot",
		"kubernetes.io/serviceaccount/namespace": "default", "kubernetes.io/serviceaccount/secret.name": "robot-token",
		"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": string(account.UID),
	}).SignedString(key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	secrets := c.Client.CoreV1().Secrets("default")
	if _, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "robot-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken, StringData: map[string]string{"token": token},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectUser(t, bearer(c, token), "system:serviceaccount:default:robot", "system:serviceaccounts:default")
	used, err := secrets.Get(ctx, "robot-token", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if day := used.Labels[serviceaccount.LastUsedLabel]; !strings.HasPrefix(day, "20") {
		t.Errorf("day of the last use is %q", day)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"2026-01-01"}}}`, serviceaccount.InvalidSinceLabel)
	if _, err := secrets.Patch(ctx, "robot-token", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expectUnauthorized(t, bearer(c, token)) // once the cache of accepted tokens has forgotten it
}
