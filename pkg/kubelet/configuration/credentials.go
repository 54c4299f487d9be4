// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	kubeletconfigv1alpha1 "k8s.io/kubelet/config/v1alpha1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	credentialproviderv1alpha1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1alpha1"
	credentialproviderv1beta1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1beta1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The versions of a CredentialProviderConfig, which differ in nothing but what the later ones have more, and those in which plugins
// are spoken to.
var (
	credentialConfigVersions = []string{
		kubeletconfigv1.SchemeGroupVersion.String(), kubeletconfigv1beta1.SchemeGroupVersion.String(), kubeletconfigv1alpha1.SchemeGroupVersion.String(),
	}
	credentialPluginVersions = []string{
		credentialproviderv1.SchemeGroupVersion.String(), credentialproviderv1beta1.SchemeGroupVersion.String(), credentialproviderv1alpha1.SchemeGroupVersion.String(),
	}
)

// CredentialProviders reads which plugins know logins for registries (KEP-2133), from a CredentialProviderConfig or a folder of such
// files, as upstream's --image-credential-provider-config names it, and makes sure that they are in binDir,
// --image-credential-provider-bin-dir. hash tells one configuration from another, in upstream's way. There are none if both are "".
func CredentialProviders(config, binDir string) (all []kubeletconfigv1.CredentialProvider, hash string, err error) {
	if config == "" && binDir == "" {
		return nil, "", nil
	}
	if config == "" || binDir == "" {
		return nil, "", errors.New("credential providers: their configuration and the directory of their programs go together")
	}
	if _, err := os.Stat(binDir); err != nil {
		return nil, "", fmt.Errorf("credential providers: plugin binary directory: %w", err)
	}
	files, err := credentialFiles(config)
	if err != nil {
		return nil, "", fmt.Errorf("credential providers: %w", err)
	}
	var contents [][]byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, "", fmt.Errorf("credential providers: %w", err)
		}
		some, err := decodeCredentialProviders(data)
		if err != nil {
			return nil, "", fmt.Errorf("credential providers: reading %s: %w", f, err)
		}
		all, contents = append(all, some...), append(contents, data)
	}
	if err := validateCredentialProviders(all).ToAggregate(); err != nil {
		return nil, "", fmt.Errorf("credential providers: %w", err)
	}
	for _, p := range all {
		if _, err := exec.LookPath(filepath.Join(binDir, p.Name)); err != nil {
			return nil, "", fmt.Errorf("credential providers: plugin binary executable: %w", err)
		}
	}
	return all, hashOf(contents), nil
}

// hashOf is the hash of files, in their order.
func hashOf(contents [][]byte) string {
	sum := sha256.New()
	for _, data := range contents {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		sum.Write(data)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// credentialFiles are the file of that path, or those of the folder in their order.
func credentialFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no configuration files found in directory %q", path)
	}
	return files, nil
}

func decodeCredentialProviders(data []byte) ([]kubeletconfigv1.CredentialProvider, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	var c kubeletconfigv1.CredentialProviderConfig
	strict, err := sigsjson.UnmarshalStrict(text, &c)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if !slices.Contains(credentialConfigVersions, c.APIVersion) || c.Kind != "CredentialProviderConfig" {
		return nil, fmt.Errorf("it is %s %s, want apiVersion: %s, kind: CredentialProviderConfig", c.APIVersion, c.Kind, credentialConfigVersions[0])
	}
	return c.Providers, nil
}

func validateCredentialProviders(all []kubeletconfigv1.CredentialProvider) field.ErrorList {
	path := field.NewPath("providers")
	if len(all) == 0 {
		return field.ErrorList{field.Required(path, "at least 1 item in plugins is required")}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range all {
		p := &all[i]
		if problem := pluginName(p.Name); problem != "" {
			errs = append(errs, field.Invalid(path.Child("name"), p.Name, problem))
		}
		if seen.Has(p.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		seen.Insert(p.Name)
		switch {
		case p.APIVersion == "":
			errs = append(errs, field.Required(path.Child("apiVersion"), ""))
		case !slices.Contains(credentialPluginVersions, p.APIVersion):
			errs = append(errs, field.NotSupported(path.Child("apiVersion"), p.APIVersion, credentialPluginVersions))
		}
		if len(p.MatchImages) == 0 {
			errs = append(errs, field.Required(path.Child("matchImages"), "at least 1 item in matchImages is required"))
		}
		for _, m := range p.MatchImages {
			if _, err := filepath.Match(m, ""); err != nil || m == "" || strings.Contains(m, "://") {
				errs = append(errs, field.Invalid(path.Child("matchImages"), m, "match image is invalid"))
			}
		}
		errs = append(errs, cacheDuration(p.DefaultCacheDuration, path.Child("defaultCacheDuration"))...)
		if p.TokenAttributes != nil {
			errs = append(errs, validateTokenAttributes(p, path.Child("tokenAttributes"))...)
		}
	}
	return errs
}

// pluginName says why a name is none of a file in the directory of the programs.
func pluginName(name string) string {
	switch {
	case name == "":
		return "provider name cannot be empty"
	case strings.Contains(name, "/"):
		return "provider name cannot contain '/'"
	case strings.Contains(name, " "):
		return "provider name cannot contain spaces"
	case name == "." || name == "..":
		return fmt.Sprintf("provider name cannot be '%s'", name)
	}
	return ""
}

func cacheDuration(d *metav1.Duration, path *field.Path) field.ErrorList {
	switch {
	case d == nil:
		return field.ErrorList{field.Required(path, "")}
	case d.Duration < 0:
		return field.ErrorList{field.Invalid(path, d, "must be greater than or equal to 0")}
	}
	return nil
}

// validateTokenAttributes checks what is said of the tokens of service accounts (KEP-4412).
func validateTokenAttributes(p *kubeletconfigv1.CredentialProvider, path *field.Path) field.ErrorList {
	a := p.TokenAttributes
	var errs field.ErrorList
	if a.ServiceAccountTokenAudience == "" {
		errs = append(errs, field.Required(path.Child("serviceAccountTokenAudience"), ""))
	}
	required := path.Child("requiredServiceAccountAnnotationKeys")
	switch {
	case a.RequireServiceAccount == nil:
		errs = append(errs, field.Required(path.Child("requireServiceAccount"), ""))
	case !*a.RequireServiceAccount && len(a.RequiredServiceAccountAnnotationKeys) > 0:
		errs = append(errs, field.Forbidden(required, "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"))
	}
	if v := credentialPluginVersions[0]; p.APIVersion != v {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("tokenAttributes is only supported for %s API version", v)))
	}
	errs = append(errs, annotationKeys(a.RequiredServiceAccountAnnotationKeys, required)...)
	errs = append(errs, annotationKeys(a.OptionalServiceAccountAnnotationKeys, path.Child("optionalServiceAccountAnnotationKeys"))...)
	if both := sets.New(a.RequiredServiceAccountAnnotationKeys...).Intersection(sets.New(a.OptionalServiceAccountAnnotationKeys...)); both.Len() > 0 {
		errs = append(errs, field.Invalid(path, sets.List(both), "annotation keys cannot be both required and optional"))
	}
	types := []kubeletconfigv1.ServiceAccountTokenCacheType{kubeletconfigv1.ServiceAccountServiceAccountTokenCacheType, kubeletconfigv1.TokenServiceAccountTokenCacheType}
	switch {
	case a.CacheType == "":
		errs = append(errs, field.Required(path.Child("cacheType"), "cacheType is required to be set when tokenAttributes is specified. Supported values are: ServiceAccount, Token"))
	case !slices.Contains(types, a.CacheType):
		errs = append(errs, field.NotSupported(path.Child("cacheType"), a.CacheType, types))
	}
	return errs
}

func annotationKeys(keys []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for _, k := range keys {
		for _, msg := range validation.IsQualifiedName(strings.ToLower(k)) {
			errs = append(errs, field.Invalid(path, k, msg))
		}
		if seen.Has(k) {
			errs = append(errs, field.Duplicate(path, k))
		}
		seen.Insert(k)
	}
	return errs
}
