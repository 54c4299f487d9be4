// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// issued is a token with these claims, which was issued at a time.
func issued(at int64, audience string, lifetime int64) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"aud":[%q],"exp":%d,"iat":%d,"nbf":%d,"jti":"11111111-1111-1111-1111-11111111%04d","kubernetes.io":{"namespace":"a","warnafter":%d}}`, audience, at+lifetime, at, at, at%10000, at+60)
	return strings.Join([]string{encode([]byte(`{"alg":"ES256","kid":"x"}`)), encode([]byte(claims)), encode([]byte(fmt.Sprint(at)))}, ".")
}

func answered(token string, ends int64) Answer {
	return Answer{Code: 201, Body: map[string]any{"kind": "TokenRequest", "apiVersion": "v1", "status": map[string]any{"token": token, "expirationTimestamp": time.Unix(ends, 0).UTC().Format(time.RFC3339)}}}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	const then = 1_900_000_000
	for _, test := range []struct {
		name string
		ours Answer
		want string
	}{
		{"at another time", answered(issued(then+500, "a", 3600), then+4100), ""},
		{"for another audience", answered(issued(then, "b", 3600), then+3600), "status.token"},
		{"that ends later", answered(issued(then, "a", 7200), then+3600), "status.token"},
		{"said to end later", answered(issued(then, "a", 3600), then+7200), "status.expirationTimestamp"},
		{"that says nothing", answered("eyJh.eyJh.eyJh", then), "status.expirationTimestamp status.token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, d := range Answers(answered(issued(then, "a", 3600), then+3600), test.ours, nil) {
				paths = append(paths, d.Path)
			}
			if got := strings.Join(paths, " "); got != test.want {
				t.Errorf("it differs in %q, want %q", got, test.want)
			}
		})
	}
}
