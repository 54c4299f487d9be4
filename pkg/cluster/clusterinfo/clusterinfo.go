// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterinfo is the ConfigMap kube-public/cluster-info, by which a machine that joins gets to know a cluster before it
// can trust it: everybody may read it, a bootstrap token signs it, and the CA in it is the one whose hash the machine was told.
// Touch it when such a machine has to know more.
package clusterinfo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"k8s.io/cluster-bootstrap/util/tokens"
)

// Info is what the document says. Other installers know the first two, and read no further.
type Info struct {
	// Server is the URL of the API server, CA signs its certificate (PEM).
	Server string
	CA     []byte
	// About is what nodes of this project have to know besides, as JSON.
	About []byte
}

// extension is the entry of the document that holds Info.About.
const extension = "minik8s.io/node"

// Document returns the text that tokens sign: a kubeconfig without a user.
func (i Info) Document() (string, error) {
	k := clientcmdapi.NewConfig()
	k.Clusters[""] = &clientcmdapi.Cluster{
		Server: i.Server, CertificateAuthorityData: i.CA,
		Extensions: map[string]runtime.Object{extension: &runtime.Unknown{Raw: i.About, ContentType: runtime.ContentTypeJSON}},
	}
	data, err := clientcmd.Write(*k)
	return string(data), err
}

func parse(document string) (Info, error) {
	k, err := clientcmd.Load([]byte(document))
	if err != nil {
		return Info{}, fmt.Errorf("reading cluster-info: %w", err)
	}
	c := k.Clusters[""]
	if c == nil {
		return Info{}, errors.New("cluster-info names no cluster")
	}
	i := Info{Server: c.Server, CA: c.CertificateAuthorityData}
	if about, ok := c.Extensions[extension].(*runtime.Unknown); ok {
		i.About = about.Raw
	}
	return i, nil
}

// ErrNotSigned says that the document has no signature of a token: that is not known to the cluster, or not yet.
var ErrNotSigned = errors.New("cluster-info is not signed by this token")

// Verify returns what data, the content of the ConfigMap, says, if token has signed it and its CA has one of hashes.
func Verify(data map[string]string, token string, hashes []string) (Info, error) {
	id, secret, err := tokens.ParseToken(token)
	if err != nil {
		return Info{}, errors.New("the token is not of the form ID.SECRET") // the text of err has it
	}
	document := data[api.KubeConfigKey]
	signature, signed := data[api.JWSSignatureKeyPrefix+id]
	if document == "" || !signed {
		return Info{}, ErrNotSigned
	}
	if !jws.DetachedTokenIsValid(signature, document, id, secret) {
		return Info{}, fmt.Errorf("the signature of token %q on cluster-info is invalid: the server does not have the same token", id)
	}
	i, err := parse(document)
	if err != nil {
		return Info{}, err
	}
	return i, checkHash(i.CA, hashes)
}

// hashPrefix names the only kind of hash that there is.
const hashPrefix = "sha256:"

// Hash is that of a CA (PEM), as kubeadm's --discovery-token-ca-cert-hash has it: of its public key, so that the CA may be
// signed anew.
func Hash(ca []byte) (string, error) {
	block, rest := pem.Decode(ca)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return "", errors.New("a CA is one certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("reading the CA: %w", err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hashPrefix + hex.EncodeToString(sum[:]), nil
}

// CheckHashes refuses what Hash cannot have returned.
func CheckHashes(hashes []string) error {
	for _, h := range hashes {
		sum, is := strings.CutPrefix(strings.ToLower(h), hashPrefix)
		if b, err := hex.DecodeString(sum); !is || err != nil || len(b) != sha256.Size {
			return fmt.Errorf("invalid hash %q, expected %s and %d hexadecimal digits", h, hashPrefix, 2*sha256.Size)
		}
	}
	return nil
}

func checkHash(ca []byte, hashes []string) error {
	have, err := Hash(ca)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(hashes, func(h string) bool { return strings.EqualFold(h, have) }) {
		return fmt.Errorf("the CA in cluster-info has hash %s, which is none of those given: another server answers there, or the hash is wrong", have)
	}
	return nil
}

// patience is how long a server may take to answer.
const patience = 10 * time.Second

// Fetch reads the content of the ConfigMap. Without a CA it is not known whose it is: Verify finds out.
func Fetch(ctx context.Context, server string, ca []byte) (map[string]string, error) {
	tls := rest.TLSClientConfig{CAData: ca, Insecure: len(ca) == 0}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server, TLSClientConfig: tls, Timeout: patience})
	if err != nil {
		return nil, err
	}
	info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, api.ConfigMapClusterInfo, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return info.Data, nil
}

// Discover reads the document from a server that nobody vouches for, and again from the one that it speaks of.
func Discover(ctx context.Context, server, token string, hashes []string) (Info, error) {
	data, err := Fetch(ctx, server, nil)
	if err != nil {
		return Info{}, fmt.Errorf("reading cluster-info from %s: %w", server, err)
	}
	first, err := Verify(data, token, hashes)
	if err != nil {
		return Info{}, err
	}
	if data, err = Fetch(ctx, first.Server, first.CA); err != nil {
		return Info{}, fmt.Errorf("reading cluster-info from %s: %w", first.Server, err)
	}
	return Verify(data, token, hashes)
}
