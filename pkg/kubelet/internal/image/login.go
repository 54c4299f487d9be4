// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/credentialprovider"
)

// logins returns those of a pod's pull secrets that fit an image, the most specific first, and the names of secrets
// that could not be had. Errors are those of ctx.
func (p *Puller) logins(ctx context.Context, pod *corev1.Pod, image string) (fitting []login, missing string, err error) {
	var absent []string
	var entries []entry
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" || p.config.Secrets == nil {
			continue
		}
		secret, err := p.config.Secrets(ctx, pod.Namespace, ref.Name)
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Unable to retrieve pull secret", "pod", klog.KObj(pod), "secret", ref.Name, "err", err)
			absent = append(absent, ref.Name)
			continue
		}
		of, err := parseSecret(secret)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Pull secret is ignored", "pod", klog.KObj(pod), "secret", ref.Name)
			continue
		}
		entries = append(entries, of...)
	}
	fitting = match(entries, image)
	if p.config.Credentials != nil {
		others, err := p.config.Credentials(ctx, pod, repository(image))
		if err != nil {
			return nil, "", err
		}
		fitting = append(fitting, match(provided(others, image), image)...)
	}
	return fitting, strings.Join(absent, ", "), nil
}

// provided are the logins that plugins have given.
func provided(all []credentialprovider.Credential, image string) []entry {
	var entries []entry
	for _, c := range all {
		auth := container.RegistryAuth{Username: c.Username, Password: c.Password, ServerAddress: strings.SplitN(repository(image), "/", 2)[0]}
		entries = append(entries, entry{pattern: withoutScheme(c.Pattern), login: login{auth: auth, provided: true, account: c.Account}})
	}
	return entries
}

// login is one for a registry, and where it is from: a secret, or a plugin.
type login struct {
	auth   container.RegistryAuth
	secret kubeletv1beta1.ImagePullSecret
	// provided: it is from a plugin, for the pods of account, or for all if that is nil.
	provided bool
	account  *kubeletv1beta1.ImagePullServiceAccount
}

// entry is a login with the pattern of what it is for.
type entry struct {
	pattern string // host[:port][/path]
	login
}

// dockerConfig is the format of both kinds of secrets.
type dockerConfig map[string]struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// parseSecret reads a secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg; others have no logins.
func parseSecret(secret *corev1.Secret) ([]entry, error) {
	var config dockerConfig
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var file struct {
			Auths dockerConfig `json:"auths"`
		}
		if err := json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", corev1.DockerConfigJsonKey, err)
		}
		config = file.Auths
	case corev1.SecretTypeDockercfg:
		if err := json.Unmarshal(secret.Data[corev1.DockerConfigKey], &config); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", corev1.DockerConfigKey, err)
		}
	}
	var entries []entry
	for server, l := range config {
		auth := container.RegistryAuth{
			Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken,
			RegistryToken: l.RegistryToken, ServerAddress: server,
		}
		if l.Auth != "" {
			b, err := base64.StdEncoding.DecodeString(l.Auth)
			if err != nil {
				// Some writers leave the padding out.
				b, err = base64.RawStdEncoding.DecodeString(l.Auth)
			}
			user, password, ok := strings.Cut(string(b), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("the auth of %q is not a name and a password in base64", server)
			}
			auth.Username, auth.Password = user, strings.TrimRight(password, "\x00")
		}
		entries = append(entries, entry{pattern: withoutScheme(server), login: login{auth: auth, secret: kubeletv1beta1.ImagePullSecret{
			UID: string(secret.UID), Namespace: secret.Namespace, Name: secret.Name, CredentialHash: hash(auth),
		}}})
	}
	return entries, nil
}

func withoutScheme(server string) string {
	if _, rest, ok := strings.Cut(server, "://"); ok {
		return rest
	}
	return server
}

// dockerHub are the names that Docker Hub goes by.
var dockerHub = []string{"docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"}

// match returns the logins that fit an image, the longest pattern first and each once; pure.
func match(entries []entry, image string) []login {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil
	}
	fitting := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !fits(e.pattern, named) })
	slices.SortStableFunc(fitting, func(a, b entry) int { return strings.Compare(b.pattern, a.pattern) })
	var logins []login
	for _, e := range fitting {
		if !slices.ContainsFunc(logins, func(l login) bool { return l.auth == e.auth }) {
			logins = append(logins, e.login)
		}
	}
	return logins
}

// fits tells whether a pattern covers an image. Each part of the host may have wildcards, the port must be equal, and
// the path is a prefix.
func fits(pattern string, named reference.Named) bool {
	host, prefix, _ := strings.Cut(pattern, "/")
	prefix = strings.Trim(prefix, "/")
	if prefix == "v1" || prefix == "v2" {
		prefix = "" // an API's address, as docker login writes it
	}
	domain, repository := reference.Domain(named), reference.Path(named)
	if !strings.HasPrefix(repository, prefix) {
		return false
	}
	if slices.Contains(dockerHub, host) {
		return slices.Contains(dockerHub, domain)
	}
	return credentialprovider.Match(host, domain)
}
