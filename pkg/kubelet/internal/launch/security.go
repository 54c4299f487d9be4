// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// secure maps the security contexts of pod and container to what the engine is told. seccompDefault: who asks
// for no seccomp profile has the engine's (KEP-2413). profiles reads one by its localhost name.
func secure(cfg *container.ContainerConfig, pod *corev1.Pod, c *corev1.Container, imageUser string, seccompDefault bool, profiles func(string) (string, error)) error {
	psc := pod.Spec.SecurityContext
	if psc == nil {
		psc = &corev1.PodSecurityContext{}
	}
	sc := c.SecurityContext
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	uid, gid := first(sc.RunAsUser, psc.RunAsUser), first(sc.RunAsGroup, psc.RunAsGroup)
	if err := nonRoot(pod, c.Name, first(sc.RunAsNonRoot, psc.RunAsNonRoot), uid, imageUser); err != nil {
		return err
	}
	switch user, _, _ := strings.Cut(imageUser, ":"); {
	case uid != nil && gid != nil:
		cfg.User = fmt.Sprintf("%d:%d", *uid, *gid)
	case uid != nil:
		cfg.User = strconv.FormatInt(*uid, 10)
	case gid != nil && user != "":
		cfg.User = fmt.Sprintf("%s:%d", user, *gid)
	case gid != nil:
		cfg.User = fmt.Sprintf("0:%d", *gid)
	default:
		cfg.User = imageUser
	}
	cfg.StrictGroups = ptr.Deref(psc.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge) == corev1.SupplementalGroupsPolicyStrict
	cfg.Groups = slices.Clone(psc.SupplementalGroups)
	if psc.FSGroup != nil && !slices.Contains(cfg.Groups, *psc.FSGroup) {
		cfg.Groups = append(cfg.Groups, *psc.FSGroup)
	}

	cfg.Privileged = sc.Privileged != nil && *sc.Privileged
	cfg.ReadOnlyRootFilesystem = sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem
	cfg.NoNewPrivileges = sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation
	cfg.UnmaskedProc = sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount
	if sc.Capabilities != nil {
		for _, a := range sc.Capabilities.Add {
			cfg.CapAdd = append(cfg.CapAdd, string(a))
		}
		for _, d := range sc.Capabilities.Drop {
			cfg.CapDrop = append(cfg.CapDrop, string(d))
		}
	}

	seccomp := sc.SeccompProfile
	if seccomp == nil {
		seccomp = psc.SeccompProfile
	}
	if seccomp == nil && seccompDefault {
		seccomp = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	switch {
	case cfg.Privileged, seccomp == nil, seccomp.Type == corev1.SeccompProfileTypeUnconfined:
		cfg.Seccomp = "unconfined"
	case seccomp.Type == corev1.SeccompProfileTypeRuntimeDefault:
		cfg.Seccomp = ""
	case seccomp.Type == corev1.SeccompProfileTypeLocalhost:
		if seccomp.LocalhostProfile == nil || *seccomp.LocalhostProfile == "" {
			return fmt.Errorf("localhostProfile must be set if seccompProfile type is Localhost.") //nolint:staticcheck,revive // upstream's words
		}
		text, err := profiles(*seccomp.LocalhostProfile)
		if err != nil {
			return err
		}
		cfg.Seccomp = text
	default:
		return fmt.Errorf("unknown seccomp profile type %q", seccomp.Type)
	}

	armor := sc.AppArmorProfile
	if armor == nil {
		armor = psc.AppArmorProfile
	}
	switch {
	case cfg.Privileged && armor == nil:
		cfg.AppArmor = "unconfined"
	case armor == nil, armor.Type == corev1.AppArmorProfileTypeRuntimeDefault:
	case armor.Type == corev1.AppArmorProfileTypeUnconfined:
		cfg.AppArmor = "unconfined"
	case armor.Type == corev1.AppArmorProfileTypeLocalhost && armor.LocalhostProfile != nil:
		cfg.AppArmor = *armor.LocalhostProfile
	default:
		return fmt.Errorf("unknown AppArmor profile type %q", armor.Type)
	}
	return nil
}

// nonRoot enforces runAsNonRoot as far as it can be known before the container runs.
func nonRoot(pod *corev1.Pod, name string, must *bool, uid *int64, imageUser string) error {
	if must == nil || !*must {
		return nil
	}
	if uid != nil {
		if *uid == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", podspec.FullName(pod), name)
		}
		return nil
	}
	user, _, _ := strings.Cut(imageUser, ":")
	switch n, err := strconv.ParseInt(user, 10, 64); {
	case user == "" || err == nil && n == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", podspec.FullName(pod), name)
	case err != nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)", user, podspec.FullName(pod), name)
	}
	return nil
}

func first[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// profileIn reads seccomp profiles below dir, and nothing outside it.
func profileIn(dir string) func(string) (string, error) {
	return func(name string) (string, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", fmt.Errorf("cannot load seccomp profile %q: %w", filepath.Join(dir, name), err)
		}
		defer root.Close()
		data, err := root.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("cannot load seccomp profile %q: %w", filepath.Join(dir, name), err)
		}
		return string(data), nil
	}
}
