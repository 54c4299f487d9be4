// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// strange are strings in which parsers and validations have been found wanting.
var strange = []string{
	"", " ", ".", "..", "-", "/", "%", "%2f", "\x00", "\xff\xfe", "\ud7ff", "\u202e", "\ufeff", "a\nb", "a\tb", "é", "𝕏", "*", "**", "$", "${x}", "$(x)", "{{x}}", "{", "}", "[", "](", "(?", "\\", "'", "\"", "`", "~", "~0~1",
	"A", "_", "a/b/c", "/a", "a/", "a=b", "a,b", "!a", "a in (b", "metadata.name=", "a==b==c", "a notin ()", ">1", "x>1,x<y",
	"null", "true", "True", "0", "-0", "-1", "1", "1.5", "1e9", "1E-9", "NaN", "Infinity", "0x10", "0b1", "1_000", "９", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
	"1e1000000000", "1E9999999999999", "-1e-999999999", "1e-1000000", ".1", "1.", "+1", "1Ki", "1Kik", "1000000000000Ei", "9999999999999999999999999999999Ei", "0.0000000000000000000001n", "1m", "-1m", "00", "1e", "1e+",
	"1h", "-1s", "9999999999h", "1h1", "1ns", "2026-13-45T25:61:61Z", "0000-00-00T00:00:00Z", "9999999999-01-01T00:00:00Z", "2026-01-02T03:04:05.123456789+99:99",
	"127.0.0.1", "::1", "::ffff:1.2.3.4", "1.2.3.4/33", "1.2.3.4/-1", "256.1.1.1", "01.02.03.04", "10.0.0.0/8", "fe80::1%eth0", "::/0", "0.0.0.0", "10.0.0.0/0x8",
	"* * * * *", "@every 0s", "@every -1s", "TZ=x * * * * *", "*/0 * * * *", "60 60 60 60 60", "0-99999999999 * * * *", "CRON_TZ= * * * * *",
	"self.x == 1", "1/0", "true ||", "object.spec.all(x, x)", "[1,2,3].map(x, [1,2,3].map(y, x*y))", "'a'.matches('(a+)+$')", strings.Repeat("(", 300), strings.Repeat("!", 1000) + "true", strings.Repeat("[", 600) + strings.Repeat("]", 600),
	"dyn(object)[dyn(1)]", "variables.x", "authorizer.group('').resource('pods').check('get').allowed()", "quantity('1e1000000000').asInteger()", "cel.bind(a, a, a)", "ip('::1')", "url('x').getHost()", "optional.none().value()",
	"{.spec.x}", "{.spec[", "{range .items[*]}{.x}{end}", "{..}", "{.x[?(@.y==1)]}", "{.x[-1:99:0]}", ".spec.x[0]", "$.",
	"(a+)+$", "[", "a{1000}{1000}", "^" + strings.Repeat("(a?)", 500), "\\C",
	"https://[::1", "http://user:pw@127.0.0.1:1/x?y#z", "file:///etc/passwd", "//x", "javascript:1", "https://127.0.0.1:99999/",
	"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN", "bm90IGEgY2VydA==", "!!!", "YQ", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K",
	"kubernetes.io/x", "k8s.io", "example.com/a b", "v1", "v0", "v1beta", "apps/v1", "apps/v1/x", "__internal", "autoscaling/__internal", "Pod", "List", "Status", "DeleteOptions", "WatchEvent", "system:masters", "system:node:x", "../../etc/passwd", "/proc/self/mem",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a.", 127), strings.Repeat("a", 254), strings.Repeat("é", 300), strings.Repeat("9", 1000), strings.Repeat("a/", 200),
}

var hugeNumbers = []string{"1e400", "-1e400", "1e1000000000", "99999999999999999999999999", "-99999999999999999999999999", "9223372036854775808", "2147483648", "-2147483649", "1.5", "-1", "-0", "0.1e-400", strings.Repeat("9", 5000), "1e19", "4294967296", "1E5"}

// value makes up a value of any type.
func value(r *rand.Rand) any {
	switch r.IntN(12) {
	case 0:
		return nil
	case 1:
		return chance(r, 2)
	case 2:
		return []any{}
	case 3:
		return map[string]any{}
	case 4:
		return pick(r, []any{[]any{nil}, []any{[]any{}}, map[string]any{"": nil}, map[string]any{"": ""}, []any{map[string]any{}}, map[string]any{"a": map[string]any{}}, []any{"a", "a"}, map[string]any{"name": nil}})
	case 5, 6:
		return pick(r, []any{json.Number("0"), json.Number("-1"), json.Number("1"), json.Number("2147483647"), json.Number("65536"), json.Number("9223372036854775807")})
	case 7:
		if n := pick(r, hugeNumbers); json.Valid([]byte(n)) {
			return json.RawMessage(n)
		}
		return json.Number("1")
	case 8:
		if chance(r, 10) {
			return strings.Repeat("x", pick(r, []int{5_000, 70_000, 300_000}))
		}
		return pick(r, strange)
	case 9:
		return map[string]any{pick(r, strange): pick(r, strange), pick(r, strange): nil}
	case 10:
		return []any{pick(r, strange), pick(r, strange), nil}
	}
	return pick(r, strange)
}

var contentTypes = []string{
	"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=utf-16", "application/json;", "application/json,application/yaml", "*/*", "/", "application/", ";",
	"application/vnd.kubernetes.protobuf;stream=watch", "application/json;stream=watch", "application/cbor-seq", "application/json-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor", strings.Repeat("a", 3000), "application/yaml;x=" + strings.Repeat("y", 500), "\"", "application/json; =", "text/html; a=\"",
}

var jsonTexts = []string{
	"", " ", "null", "true", "0", "[]", "{}", "[{}]", `""`, `"a`, "{", "}", `{"kind":"Pod"}`, `{"kind":null,"apiVersion":null}`, `{"kind":1}`, `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod"}]}`,
	`{"apiVersion":"v1","kind":"Status"}`, `{"apiVersion":"v1","kind":"WatchEvent"}`, `{"apiVersion":"v1","kind":"DeleteOptions"}`, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"}`, `{"apiVersion":"meta.k8s.io/v1","kind":"Table","rows":[{"object":{}}]}`,
	`{"apiVersion":"__internal","kind":"Pod"}`, `{"apiVersion":"v1","kind":"Pod","metadata":null,"spec":null,"status":null}`, `{"apiVersion":"v1","kind":"PodList","items":[]}`, `{"apiVersion":"v1","kind":"APIGroup"}`, `{"apiVersion":"v1","kind":"ListOptions","limit":1}`,
	"\ufeff{}", "{}{}", "{} x", `{"a":1,}`, "// x\n{}", `{"a":"\ud800"}`, `{"a":"\u0000"}`, "{\"a\":\"\x01\"}", `{'a':1}`, "NaN", "{\"a\":\xc3\x28}", `{"metadata":{"creationTimestamp":1e99}}`, `{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{"k:{":{}}},"fieldsType":"FieldsV1","operation":"Apply","manager":"x"}]}}`,
	`{"metadata":{"managedFields":[{"fieldsV1":1}]}}`, `{"metadata":{"ownerReferences":[null]}}`, `{"metadata":{"deletionGracePeriodSeconds":9223372036854775808}}`,
}

var yamlTexts = []string{
	"", "---", "--- \n---\n", "...", "a: &a [*a]", "a: &a {b: *a}", "*x", "&a", "!!binary x", "!!python/object:os.system x", "? a\n: b", "? [a, b]\n: c", "? {a: b}\n: c", "1: 2", "null: null", "~: x", "a: !!float NaN", ".inf: 1", "a: .inf", "a: 0o777777777777777777777777",
	"%YAML 9.9\n---\na: b", "%TAG ! x", "a: |\n\tb", "\t", "a:\n\t- b", "<<: *a", "a: &a {b: c}\nd: {<<: [*a, *a]}", "<<: {kind: Pod}", "<<: 1", "kind: Pod\nkind: Pod", "- - - - - -", "{a: {", "\"\\x\"", "'", "a: 2001-99-99", "a: 1_000_000", "a: 0x" + strings.Repeat("f", 500), "\x00", "\xff\xfe\x00", "key: " + strings.Repeat("[", 1000), strings.Repeat("- ", 20000) + "x", "apiVersion: v1\nkind: Pod\nmetadata: {name: !!int \"x\"}", "? !!set {a}\n: x", "a: !!timestamp x", "a: !!merge x",
}

var protobufTexts = []string{
	"", "k8s", "k8s\x00", "k8s\x00\x00", "k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "k8s\x00\x0a\xff\xff\xff\xff\x7f", "k8s\x00\x0a\x00", "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x7f",
	"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x0a\x00", "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x04gzip", "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x22\x10application/json", "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x03\x0b\x0b\x0b", "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status", "k8s\x01{}", "\x0a\x00", "{}",
	"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + "\xa0\x9c\x01" + strings.Repeat("\x0b", 20000), "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x05\x12\xff\xff\xff\xff",
}

var cborTexts = []string{
	"", "\xd9\xd9\xf7", "\xd9\xd9\xf7\xa0", "\xd9\xd9\xf7\xf6", "\xd9\xd9\xf7\xff", "\xd9\xd9\xf7\xbf\x61a\x01\xff", "\xd9\xd9\xf7\xa2\x61a\x01\x61a\x02", "\xd9\xd9\xf7\xa1\x01\x02", "\xd9\xd9\xf7\xbb\xff\xff\xff\xff\xff\xff\xff\xff", "\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
	"\xd9\xd9\xf7\xa1\x44kind\x43Pod", "\xd9\xd9\xf7\xa2\x4aapiVersion\x42v1\x44kind\x43Pod", "\xd9\xd9\xf7" + strings.Repeat("\x81", 100_000), "\xd9\xd9\xf7\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", "\xd9\xd9\xf7\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00", "\xd9\xd9\xf7\xc0\x60", "\xd9\xd9\xf7\x61\xff",
	"\xd9\xd9\xf7\xd9\xd9\xf7\xa0", "\xa1\x61a\x01",
}

var strategicPatches = []string{
	`{"$retainKeys":[{}]}`, `{"spec":{"$retainKeys":[[]]}}`, `{"metadata":{"$setElementOrder/finalizers":[{}],"finalizers":["a"]}}`, `{"metadata":{"ownerReferences":[{"uid":{}},{"uid":"u"}]}}`, `{"spec":{"containers":[{"name":{}}],"template":{"spec":{"containers":[{"name":[]}]}}}}`,
	`{"spec":{"containers":[{"$patch":"replace"},{"name":"main","$patch":"delete"}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"main"},{"name":"x"}],"containers":[{"name":"x","image":"y"}]}}`,
	`{"spec":{"$retainKeys":["a"],"a":{}}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["b"],"$setElementOrder/finalizers":["b","a"]}}`, `{"$patch":"replace","metadata":{"name":"a"}}`, `{"$patch":"unknown"}`, `{"$patch":1}`,
	`{"spec":{"containers":[{"image":"no key"}]}}`, `{"spec":{"containers":{"$patch":"delete"}}}`, `{"spec":{"containers":["a"]}}`, `{"$setElementOrder/x":1}`, `{"$retainKeys":{}}`, `{"$deleteFromPrimitiveList/x":{}}`, `{"spec":{"ports":[{"port":null}],"template":{"spec":{"containers":[null]}}}}`,
	`{"spec":{"$setElementOrder/containers":[null],"containers":[null]}}`, `{"spec":{"$setElementOrder/ports":[{"port":{}}],"ports":[{"port":[]}]}}`, `{"metadata":{"ownerReferences":[{"uid":null},{"uid":{}}],"$setElementOrder/ownerReferences":[{"uid":1}]}}`, `{"data":{"$patch":"merge"}}`, `{"metadata":{"labels":{"$patch":[]}}}`,
	`{"spec":{"template":{"spec":{"$retainKeys":[{}],"volumes":[{"name":"x","$retainKeys":["name",1]}]}}}}`, `{"spec":{"tolerations":[{"$patch":"replace"}],"$setElementOrder/tolerations":[]}}`, `{"metadata":{"finalizers":{"$patch":"replace"}}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[{}],"$setElementOrder/finalizers":[[]]}}`,
}

func sortedKeys(m map[string][]string) []string { return slices.Sorted(maps.Keys(m)) }
