// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// signatureAge is how far the time that a request was signed at may be from now, so that one which was overheard cannot be sent again
// later (standardwebhooks.com).
const signatureAge = 5 * time.Minute

// Verify returns an error unless whoever has sent a request to a webhook knows its secret. Headers are looked at in this order, and the
// first that is there decides: X-Hub-Signature-256 (GitHub, Gitea, Forgejo), Webhook-Signature (standardwebhooks.com), X-Gitlab-Token,
// Authorization.
func Verify(secret []byte, header http.Header, body []byte, now time.Time) error {
	if len(secret) == 0 {
		return errors.New("the webhook's secret is empty")
	}
	if signature := header.Get("X-Hub-Signature-256"); signature != "" {
		sent, err := hex.DecodeString(strings.TrimPrefix(signature, "sha256="))
		if err != nil || !hmac.Equal(sent, sign(secret, body)) {
			return errors.New("X-Hub-Signature-256 is not that of this body with the webhook's secret")
		}
		return nil
	}
	if signatures := header.Get("Webhook-Signature"); signatures != "" {
		return verifyStandard(secret, signatures, header, body, now)
	}
	token, found := header.Get("X-Gitlab-Token"), header.Get("X-Gitlab-Token") != ""
	if !found {
		token, found = strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	}
	if !found {
		return errors.New("a webhook wants X-Hub-Signature-256, Webhook-Signature, X-Gitlab-Token or Authorization: Bearer")
	}
	if subtle.ConstantTimeCompare([]byte(token), secret) != 1 {
		return errors.New("the token is not the webhook's secret")
	}
	return nil
}

// verifyStandard looks for a signature of id, time and body among several, of which those of other versions do not matter.
func verifyStandard(secret []byte, signatures string, header http.Header, body []byte, now time.Time) error {
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > signatureAge {
		return errors.New("Webhook-Timestamp is not within five minutes of this machine's time")
	}
	if encoded, found := strings.CutPrefix(string(secret), "whsec_"); found {
		if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return errors.New("the webhook's secret begins with whsec_ and does not go on in base64")
		}
	}
	want := sign(secret, []byte(id+"."+stamp+"."), body)
	for signature := range strings.FieldsSeq(signatures) {
		version, encoded, _ := strings.Cut(signature, ",")
		sent, err := base64.StdEncoding.DecodeString(encoded)
		if version == "v1" && err == nil && hmac.Equal(sent, want) {
			return nil
		}
	}
	return errors.New("Webhook-Signature has none of this request with the webhook's secret")
}

func sign(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}
