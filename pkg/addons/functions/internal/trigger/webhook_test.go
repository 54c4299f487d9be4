// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"net/http"
	"testing"
	"time"
)

// TestVerify has the examples of GitHub's documentation and of standardwebhooks.com.
func TestVerify(t *testing.T) {
	t.Parallel()
	github := header("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	standard := func(signature string) http.Header {
		return header("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330", "Webhook-Signature", signature)
	}
	const sent, whsec = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	signed := time.Unix(1614265330, 0)
	for _, test := range []struct {
		name   string
		secret string
		header http.Header
		body   string
		now    time.Time
		valid  bool
	}{
		{"GitHub", "It's a Secret to Everybody", github, "Hello, World!", signed, true},
		{"GitHub, another body", "It's a Secret to Everybody", github, "Hello, World?", signed, false},
		{"GitHub, another secret", "It's known", github, "Hello, World!", signed, false},
		{"GitHub, no hexadecimal", "s", header("X-Hub-Signature-256", "sha256=xyz"), "", signed, false},
		{"GitHub, a token beside", "s", header("X-Hub-Signature-256", "sha256=00", "Authorization", "Bearer s"), "", signed, false},
		{"standard", whsec, standard(sent), `{"test": 2432232314}`, signed.Add(time.Minute), true},
		{"standard, several", whsec, standard("v1a,x v1,AAAA " + sent), `{"test": 2432232314}`, signed, true},
		{"standard, another body", whsec, standard(sent), `{"test": 1}`, signed, false},
		{"standard, later", whsec, standard(sent), `{"test": 2432232314}`, signed.Add(6 * time.Minute), false},
		{"standard, sooner", whsec, standard(sent), `{"test": 2432232314}`, signed.Add(-6 * time.Minute), false},
		{"standard, no base64", "whsec_*", standard(sent), `{"test": 2432232314}`, signed, false},
		{"standard, another version", whsec, standard("v2" + sent[2:]), `{"test": 2432232314}`, signed, false},
		{"GitLab", "s", header("X-Gitlab-Token", "s"), "", signed, true},
		{"GitLab, another", "s", header("X-Gitlab-Token", "t"), "", signed, false},
		{"bearer", "s", header("Authorization", "Bearer s"), "{}", signed, true},
		{"bearer, another", "s", header("Authorization", "Bearer ss"), "{}", signed, false},
		{"basic", "s", header("Authorization", "Basic s"), "{}", signed, false},
		{"nothing", "s", nil, "{}", signed, false},
		{"no secret", "", header("Authorization", "Bearer "), "{}", signed, false},
	} {
		if err := Verify([]byte(test.secret), test.header, []byte(test.body), test.now); (err == nil) != test.valid {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}
