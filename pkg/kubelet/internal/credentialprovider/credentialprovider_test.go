// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package credentialprovider

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// fakePlugin answers with what it was told, fails, or hangs until it is released.
type fakePlugin struct {
	mu       sync.Mutex
	asked    []credentialproviderv1.CredentialProviderRequest
	response credentialproviderv1.CredentialProviderResponse
	err      error
	hang     chan struct{} // nil: it answers at once
	entered  chan struct{}
}

func (f *fakePlugin) Ask(ctx context.Context, _ *kubeletconfigv1.CredentialProvider, r *credentialproviderv1.CredentialProviderRequest) (*credentialproviderv1.CredentialProviderResponse, error) {
	f.mu.Lock()
	f.asked = append(f.asked, *r)
	response, err, hang := f.response.DeepCopy(), f.err, f.hang
	f.mu.Unlock()
	if hang != nil {
		f.entered <- struct{}{}
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return response, err
}

func (f *fakePlugin) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func answering(kind credentialproviderv1.PluginCacheKeyType, password string) credentialproviderv1.CredentialProviderResponse {
	return credentialproviderv1.CredentialProviderResponse{CacheKeyType: kind, Auth: map[string]credentialproviderv1.AuthConfig{"*.example.com": {Username: "u", Password: password}}}
}

func provider(change func(*kubeletconfigv1.CredentialProvider)) kubeletconfigv1.CredentialProvider {
	p := kubeletconfigv1.CredentialProvider{Name: "p", APIVersion: "credentialprovider.kubelet.k8s.io/v1", MatchImages: []string{"*.example.com"}, DefaultCacheDuration: &metav1.Duration{Duration: time.Hour}}
	if change != nil {
		change(&p)
	}
	return p
}

func tokens(kind kubeletconfigv1.ServiceAccountTokenCacheType, change func(*kubeletconfigv1.ServiceAccountTokenAttributes)) func(*kubeletconfigv1.CredentialProvider) {
	return func(p *kubeletconfigv1.CredentialProvider) {
		p.TokenAttributes = &kubeletconfigv1.ServiceAccountTokenAttributes{ServiceAccountTokenAudience: "aud", CacheType: kind, RequireServiceAccount: new(true)}
		if change != nil {
			change(p.TokenAttributes)
		}
	}
}

func pod(name, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{ServiceAccountName: account}}
}

// world gives each pod a token of its own; the service account "none" is not there, and "mute" gets no token.
func world(plugin Plugin, c *testingclock.FakeClock, all ...kubeletconfigv1.CredentialProvider) *Providers {
	return New(Config{Providers: all, Plugin: plugin, Clock: c,
		Account: func(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
			if name == "none" {
				return nil, errors.New("not found")
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"role": "reader", "other": "x"}}}, nil
		},
		Token: func(_ context.Context, pod *corev1.Pod, audience string) (string, error) {
			if pod.Spec.ServiceAccountName == "mute" {
				return "", errors.New("no token")
			}
			return audience + " of " + pod.Name, nil
		},
	})
}

func TestCredentials(t *testing.T) {
	account := func(name string) *kubeletconfigv1beta1.ImagePullServiceAccount {
		return &kubeletconfigv1beta1.ImagePullServiceAccount{UID: "uid-" + name, Namespace: "ns", Name: name}
	}
	of := func(a *kubeletconfigv1beta1.ImagePullServiceAccount) []Credential {
		return []Credential{{Pattern: "*.example.com", Username: "u", Password: "p", Account: a}}
	}
	request := func(token string, annotations map[string]string) []credentialproviderv1.CredentialProviderRequest {
		return []credentialproviderv1.CredentialProviderRequest{{
			TypeMeta: metav1.TypeMeta{APIVersion: "credentialprovider.kubelet.k8s.io/v1", Kind: "CredentialProviderRequest"},
			Image:    "a.example.com/x", ServiceAccountToken: token, ServiceAccountAnnotations: annotations,
		}}
	}
	keyed := func(required, optional []string) func(*kubeletconfigv1.ServiceAccountTokenAttributes) {
		return func(a *kubeletconfigv1.ServiceAccountTokenAttributes) {
			a.RequiredServiceAccountAnnotationKeys, a.OptionalServiceAccountAnnotationKeys = required, optional
		}
	}
	const byAccount = kubeletconfigv1.ServiceAccountServiceAccountTokenCacheType
	for _, test := range []struct {
		name     string
		provider kubeletconfigv1.CredentialProvider
		account  string
		image    string
		plugin   *fakePlugin
		want     []Credential
		asked    []credentialproviderv1.CredentialProviderRequest
	}{
		{name: "for everybody", provider: provider(nil), plugin: &fakePlugin{response: answering("Image", "p")}, want: of(nil), asked: request("", nil)},
		{name: "another image", provider: provider(nil), image: "example.org/x", plugin: &fakePlugin{response: answering("Image", "p")}},
		{name: "it fails", provider: provider(nil), plugin: &fakePlugin{err: errors.New("boom")}, asked: request("", nil)},
		{name: "no way to keep it", provider: provider(nil), plugin: &fakePlugin{response: answering("", "p")}, asked: request("", nil)},
		{name: "for a service account", provider: provider(tokens(byAccount, keyed([]string{"role"}, []string{"absent"}))), account: "sa", plugin: &fakePlugin{response: answering("Image", "p")},
			want: of(account("sa")), asked: request("aud of a", map[string]string{"role": "reader"})},
		{name: "without an annotation", provider: provider(tokens(byAccount, keyed([]string{"absent"}, nil))), account: "sa", plugin: &fakePlugin{response: answering("Image", "p")}},
		{name: "without a service account", provider: provider(tokens(byAccount, nil)), plugin: &fakePlugin{response: answering("Image", "p")}},
		{name: "without one, which it need not have", provider: provider(tokens(byAccount, func(a *kubeletconfigv1.ServiceAccountTokenAttributes) { a.RequireServiceAccount = new(false) })),
			plugin: &fakePlugin{response: answering("Image", "p")}, want: of(nil), asked: request("", nil)},
		{name: "the service account is gone", provider: provider(tokens(byAccount, nil)), account: "none", plugin: &fakePlugin{response: answering("Image", "p")}},
		{name: "it gets no token", provider: provider(tokens(byAccount, nil)), account: "mute", plugin: &fakePlugin{response: answering("Image", "p")}},
		{name: "the token as password of a service account", provider: provider(tokens(byAccount, nil)), account: "sa", plugin: &fakePlugin{response: answering("Image", "aud of a")},
			asked: request("aud of a", map[string]string{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			image := test.image
			if image == "" {
				image = "a.example.com/x"
			}
			got, err := world(test.plugin, testingclock.NewFakeClock(time.Now()), test.provider).Credentials(t.Context(), pod("a", test.account), image)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.asked, test.plugin.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// An answer counts for what the plugin says, for as long as it says, and for nobody else.
func TestCredentials_Kept(t *testing.T) {
	const byToken, byAccount = kubeletconfigv1.TokenServiceAccountTokenCacheType, kubeletconfigv1.ServiceAccountServiceAccountTokenCacheType
	type call struct{ pod, account, image string }
	first := call{"a", "sa", "a.example.com/x"}
	for _, test := range []struct {
		name     string
		provider kubeletconfigv1.CredentialProvider
		kind     credentialproviderv1.PluginCacheKeyType
		duration *metav1.Duration
		wait     time.Duration
		second   call
		kept     bool
	}{
		{name: "the same image", provider: provider(nil), kind: "Image", second: first, kept: true},
		{name: "another image", provider: provider(nil), kind: "Image", second: call{"a", "sa", "a.example.com/y"}},
		{name: "another image of the registry", provider: provider(nil), kind: "Registry", second: call{"b", "", "a.example.com/y"}, kept: true},
		{name: "another registry", provider: provider(nil), kind: "Registry", second: call{"a", "sa", "b.example.com/x"}},
		{name: "everything", provider: provider(nil), kind: "Global", second: call{"a", "sa", "b.example.com/y"}, kept: true},
		{name: "too late", provider: provider(nil), kind: "Global", wait: time.Hour, second: first},
		{name: "its own time", provider: provider(nil), kind: "Global", duration: &metav1.Duration{Duration: 2 * time.Hour}, wait: time.Hour, second: first, kept: true},
		{name: "not to be kept", provider: provider(nil), kind: "Global", duration: &metav1.Duration{}, second: first},
		{name: "nothing said of keeping", provider: provider(func(p *kubeletconfigv1.CredentialProvider) { p.DefaultCacheDuration = &metav1.Duration{} }), kind: "Global", second: first},
		{name: "the same service account", provider: provider(tokens(byAccount, nil)), kind: "Global", second: call{"b", "sa", "b.example.com/y"}, kept: true},
		{name: "another service account", provider: provider(tokens(byAccount, nil)), kind: "Global", second: call{"a", "other", "a.example.com/x"}},
		{name: "the same token", provider: provider(tokens(byToken, nil)), kind: "Image", second: first, kept: true},
		{name: "another token", provider: provider(tokens(byToken, nil)), kind: "Image", second: call{"b", "sa", "a.example.com/x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			plugin := &fakePlugin{response: answering(test.kind, "p")}
			plugin.response.CacheDuration = test.duration
			c := testingclock.NewFakeClock(time.Now())
			p := world(plugin, c, test.provider)
			for i, a := range []call{first, test.second} {
				if i == 1 {
					c.Step(test.wait)
				}
				if got, err := p.Credentials(t.Context(), pod(a.pod, a.account), a.image); err != nil || len(got) != 1 {
					t.Fatalf("call %d: %v, %v", i, got, err)
				}
			}
			if kept := plugin.times() == 1; kept != test.kept {
				t.Errorf("asked %d times", plugin.times())
			}
		})
	}
}

// Who waits for a plugin that hangs can be called off; another who asks the same gets the answer.
func TestCredentials_Hangs(t *testing.T) {
	plugin := &fakePlugin{response: answering("Image", "p"), hang: make(chan struct{}), entered: make(chan struct{}, 2)}
	p := world(plugin, testingclock.NewFakeClock(time.Now()), provider(nil))
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		got []Credential
		err error
	}
	ask := func(ctx context.Context) chan result {
		done := make(chan result, 1)
		go func() {
			got, err := p.Credentials(ctx, pod("a", ""), "a.example.com/x")
			done <- result{got, err}
		}()
		return done
	}
	first := ask(ctx)
	<-plugin.entered
	second := ask(t.Context())
	cancel()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Errorf("who was called off: %v", r.err)
	}
	close(plugin.hang)
	if r := <-second; r.err != nil || len(r.got) != 1 {
		t.Errorf("who waits: %v, %v", r.got, r.err)
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, image string
		want           bool
	}{
		{"example.com", "example.com/x", true}, {"example.com", "example.org/x", false},
		{"*.example.com", "a.example.com/x", true}, {"*.example.com", "a.b.example.com/x", false}, {"a*.example.com", "ab.example.com/x", true},
		{"example.com:5000", "example.com:5000/x", true}, {"example.com", "example.com:5000/x", false}, {"example.com:5000", "example.com/x", false},
		{"example.com/team", "example.com/team/x", true}, {"example.com/team", "example.com/other/x", false}, {"[", "example.com/x", false},
	} {
		if got := Match(test.pattern, test.image); got != test.want {
			t.Errorf("%s and %s: %v", test.pattern, test.image, got)
		}
	}
}
