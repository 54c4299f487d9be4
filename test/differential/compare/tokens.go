// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// token is what a JWT says: its header and claims, in which times are seconds after it was issued, and what any two tokens
// have differently is named as elsewhere. What cannot be read is told as it is.
func (n normalizer) token(jwt string) string {
	parts := strings.Split(jwt, ".")
	header, err := part(parts[0])
	if err != nil {
		return "<token that cannot be read: " + err.Error() + ">"
	}
	claims, err := part(parts[1])
	if err != nil {
		return "<token that cannot be read: " + err.Error() + ">"
	}
	issued, ok := seconds(claims["iat"])
	if !ok {
		return "<token that does not tell when it was issued>"
	}
	return "<token " + spell(header) + spell(n.value("", since(issued, claims))) + ">"
}

// since makes differences to a time of the claims that are times.
func since(issued int64, claims map[string]any) map[string]any {
	m := make(map[string]any, len(claims))
	for k, v := range claims {
		if inner, ok := v.(map[string]any); ok {
			m[k] = since(issued, inner)
			continue
		}
		if at, ok := seconds(v); ok && (k == "iat" || k == "exp" || k == "nbf" || k == "warnafter") {
			v = fmt.Sprintf("iat%+ds", at-issued)
		}
		m[k] = v
	}
	return m
}

func seconds(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	at, err := n.Int64()
	return at, err == nil
}

func part(encoded string) (map[string]any, error) {
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var m map[string]any
	return m, d.Decode(&m)
}

// expiry is when a token ends, by an answer that has both, as seconds after it was issued.
func expiry(m map[string]any) (string, bool) {
	jwt, _ := m["token"].(string)
	at, _ := m["expirationTimestamp"].(string)
	parts := strings.Split(jwt, ".")
	when, err := time.Parse(time.RFC3339, at)
	if len(parts) != 3 || err != nil {
		return "", false
	}
	claims, err := part(parts[1])
	if err != nil {
		return "", false
	}
	issued, ok := seconds(claims["iat"])
	return fmt.Sprintf("iat%+ds", when.Unix()-issued), ok
}
