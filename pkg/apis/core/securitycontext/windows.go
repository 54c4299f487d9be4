// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package securitycontext

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxCredentialSpecKiB = 64
	maxUserDomain        = 256
	maxUser              = 104
)

// The names of Windows accounts and their domains, see
// https://learn.microsoft.com/troubleshoot/windows-server/active-directory/naming-conventions-for-computer-domain-site-ou.
var (
	control       = regexp.MustCompile(`[[:cntrl:]]`)
	netBIOSDomain = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	dnsDomain     = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	dotsAndSpaces = regexp.MustCompile(`^[. ]+$`)
)

const notInUser = `"/\:;|=,+*?<>@[]`

func validateWindows(o *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	if name := o.GMSACredentialSpecName; name != nil {
		for _, msg := range validation.IsDNS1123Subdomain(*name) {
			errs = append(errs, field.Invalid(path.Child("gmsaCredentialSpecName"), *name, msg))
		}
	}
	if spec, p := o.GMSACredentialSpec, path.Child("gmsaCredentialSpec"); spec != nil {
		switch {
		case *spec == "":
			errs = append(errs, field.Invalid(p, *spec, "gmsaCredentialSpec cannot be an empty string"))
		case len(*spec) > maxCredentialSpecKiB<<10:
			errs = append(errs, field.Invalid(p, *spec, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpecKiB)))
		}
	}
	if o.RunAsUserName != nil {
		p := path.Child("runAsUserName")
		for _, msg := range userNameMessages(*o.RunAsUserName) {
			errs = append(errs, field.Invalid(p, *o.RunAsUserName, msg))
		}
	}
	return errs
}

// userNameMessages tells what is wrong with an account, written DOMAIN\USER or USER.
func userNameMessages(name string) []string {
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case control.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	var msgs []string
	domain, user, ok := strings.Cut(name, `\`)
	if !ok {
		domain, user = "", name
	}
	if len(domain) >= maxUserDomain {
		msgs = append(msgs, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxUserDomain))
	}
	if ok && !netBIOSDomain.MatchString(domain) && !dnsDomain.MatchString(domain) {
		msgs = append(msgs, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		msgs = append(msgs, "runAsUserName's User cannot be empty")
	case len(user) > maxUser:
		msgs = append(msgs, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxUser))
	}
	if dotsAndSpaces.MatchString(user) {
		msgs = append(msgs, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, notInUser) {
		msgs = append(msgs, "runAsUserName's User cannot contain the following characters: "+notInUser)
	}
	return msgs
}
