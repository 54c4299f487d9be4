// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// TemplateHash is a short name for the template, as in pod-template-hash and controller-revision-hash. collisions counts how
// often that name turned out to be taken by another template.
func TemplateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%v", dump.ForHash(template))
	if collisions != nil {
		suffix := make([]byte, 8)
		binary.LittleEndian.PutUint32(suffix, uint32(*collisions))
		hash.Write(suffix)
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}
