// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Verification says of which images that are on the node a pod must show that it may pull them (KEP-2535).
type Verification struct {
	// Policy is by default NeverVerifyPreloadedImages: what was built or loaded here is everybody's.
	Policy kubeletv1beta1.ImagePullCredentialsVerificationPolicy
	// Allowlist are the images that are everybody's with the policy NeverVerifyAllowlistedImages, without tag and digest; what
	// ends in "/*" stands for all that begin so.
	Allowlist []string
}

// verifies says whether an image is to be verified. pulled: it was pulled here, or may have been.
func (v Verification) verifies(image string, pulled bool) bool {
	switch v.Policy {
	case kubeletv1beta1.NeverVerify:
		return false
	case kubeletv1beta1.AlwaysVerify:
		return true
	case kubeletv1beta1.NeverVerifyAllowlistedImages:
		name := image
		if bare, err := withoutTag(image); err == nil {
			name = bare
		}
		return !slices.ContainsFunc(v.Allowlist, func(pattern string) bool {
			if prefix, is := strings.CutSuffix(pattern, "*"); is {
				return strings.HasPrefix(name, prefix)
			}
			return name == pattern
		})
	default:
		return pulled
	}
}

// CheckAllowlist says which pattern of Verification.Allowlist is none.
func CheckAllowlist(patterns []string) error {
	for _, p := range patterns {
		if err := checkPattern(p); err != nil {
			return err
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	if pattern != strings.TrimSpace(pattern) {
		return fmt.Errorf("leading/trailing spaces are not allowed: %s", pattern)
	}
	bare, wildcard := pattern, strings.HasSuffix(pattern, "/*")
	if wildcard {
		bare = strings.TrimSuffix(pattern, "*")
	}
	switch {
	case bare == "":
		return fmt.Errorf("the supplied pattern is too short: %s", pattern)
	case strings.Contains(bare, "*"):
		return fmt.Errorf("not a valid wildcard pattern, only patterns ending with '/*' are allowed: %s", pattern)
	case bare == "/":
		return errors.New("at least registry hostname is required")
	case wildcard:
		return nil
	}
	name, err := withoutTag(bare)
	if err != nil {
		return fmt.Errorf("failed to parse as an image name: %w", err)
	}
	if name != bare {
		return fmt.Errorf("neither tag nor digest is accepted in an image reference: %s", pattern)
	}
	return nil
}

// withoutTag is an image as it is written, without tag and digest.
func withoutTag(image string) (string, error) {
	parsed, err := reference.Parse(image)
	if err != nil {
		return "", err
	}
	if d, is := parsed.(reference.Digested); is {
		image = strings.TrimSuffix(image, "@"+d.Digest().String())
	}
	if t, is := parsed.(reference.Tagged); is {
		image = strings.TrimSuffix(image, ":"+t.Tag())
	}
	return image, nil
}
