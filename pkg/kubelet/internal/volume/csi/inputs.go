// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// tokensKey is where a driver finds the tokens that it has asked for.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// publishInputs are the context and the secrets of a publication: what the volume says, and what the driver wants to know of the pod.
func (c *CSI) publishInputs(ctx context.Context, pod *corev1.Pod, v *volume, info *storagev1.CSIDriver) (attributes, secrets map[string]string, err error) {
	attributes = maps.Clone(v.attributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	if secrets, err = c.secret(ctx, v.publishSecret); err != nil {
		return nil, nil, err
	}
	if info == nil {
		return attributes, secrets, nil
	}
	if ptr.Deref(info.Spec.PodInfoOnMount, false) {
		maps.Copy(attributes, podInfo(pod, v))
	}
	if len(info.Spec.TokenRequests) == 0 {
		return attributes, secrets, nil
	}
	tokens, err := c.tokens(ctx, pod, info.Spec.TokenRequests)
	if err != nil {
		return nil, nil, err
	}
	if !ptr.Deref(info.Spec.ServiceAccountTokenInSecrets, false) {
		attributes[tokensKey] = tokens
		return attributes, secrets, nil
	}
	if secrets == nil {
		secrets = map[string]string{}
	}
	secrets[tokensKey] = tokens
	return attributes, secrets, nil
}

// podInfo is what a driver learns of the pod that has asked for it (podInfoOnMount).
func podInfo(pod *corev1.Pod, v *volume) map[string]string {
	return map[string]string{
		"csi.storage.k8s.io/pod.name":            pod.Name,
		"csi.storage.k8s.io/pod.namespace":       pod.Namespace,
		"csi.storage.k8s.io/pod.uid":             string(pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": pod.Spec.ServiceAccountName,
		"csi.storage.k8s.io/ephemeral":           strconv.FormatBool(v.lifecycle == storagev1.VolumeLifecycleEphemeral),
	}
}

// tokens are those of the pod for the audiences that a driver asks for, as JSON.
func (c *CSI) tokens(ctx context.Context, pod *corev1.Pod, requests []storagev1.TokenRequest) (string, error) {
	out := map[string]authenticationv1.TokenRequestStatus{}
	for _, r := range requests {
		got, err := c.cfg.Tokens.Request(ctx, pod, &corev1.ServiceAccountTokenProjection{Audience: r.Audience, ExpirationSeconds: r.ExpirationSeconds})
		if err != nil {
			return "", fmt.Errorf("kubernetes.io/csi: failed to get service account token attributes: %w", err)
		}
		out[r.Audience] = got
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("kubernetes.io/csi: failed to get service account token attributes: %w", err)
	}
	return string(text), nil
}

// secret reads the Secret that a volume names, as the API lets a node do that has a pod with that volume. nil names none.
func (c *CSI) secret(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	s, err := c.cfg.Client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, unavailable(fmt.Errorf("failed to find the secret %s in the namespace %s with error: %w", ref.Name, ref.Namespace, err))
	}
	out := map[string]string{}
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out, nil
}
