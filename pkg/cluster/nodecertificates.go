// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/pki"
)

// nodeCertificates are those of a node that has joined. What the node's kubeconfig brings is only good for asking: its first deed
// is to ask the cluster for certificates of keys that never leave the machine, and it asks again before these end.
type nodeCertificates struct{ client, serving certificate.Manager }

// nodeKeysDir holds the certificates that a node got with one kubeconfig; a new kubeconfig begins anew, because the old ones may
// have been called back.
func nodeKeysDir(c Config, joined pki.Pair) string {
	return filepath.Join(c.DataDir, "pki", fmt.Sprintf("node-%x", sha256.Sum256(joined.Cert))[:21])
}

// newNodeCertificates returns the certificates that are on the disk, or else that of the kubeconfig, and the configuration of
// clients that use them. They are renewed between Start and Stop, or until ctx ends.
func newNodeCertificates(ctx context.Context, c Config, host string, ca []byte, joined pki.Pair) (*nodeCertificates, *rest.Config, error) {
	dir := nodeKeysDir(c, joined)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the directory of certificates: %w", err)
	}
	ips, err := nodeIPs(c)
	if err != nil {
		return nil, nil, fmt.Errorf("kubelet.nodeIP: %w", err)
	}
	n := &nodeCertificates{}
	config, err := clientConfig(host, ca, n.clientCertificate)
	if err != nil {
		return nil, nil, err
	}
	clients := func(*tls.Certificate) (kubernetes.Interface, error) { return kubernetes.NewForConfig(config) }
	manager := func(name, signer string, usages func(any) []certificatesv1.KeyUsage, hosts x509.CertificateRequest) (certificate.Manager, error) {
		files, err := certificate.NewFileStore(name, dir, dir, "", "")
		if err != nil {
			return nil, fmt.Errorf("opening the store of certificate %s: %w", name, err)
		}
		store := certificate.Store(files)
		if name == clientKeys {
			store = newKeys{files, joined, func() error { return removeOtherKeys(dir) }}
		}
		hosts.Subject = pkix.Name{CommonName: nodeUser(c.Kubelet.NodeName), Organization: []string{nodeGroup}}
		m, err := certificate.NewManager(&certificate.Config{
			Name: name, SignerName: signer, GetUsages: usages, Template: &hosts, ClientsetFn: clients, CertificateStore: store,
			BootstrapCertificatePEM: joined.Cert, BootstrapKeyPEM: joined.Key, Ctx: &ctx,
		})
		if err != nil {
			return nil, fmt.Errorf("preparing to renew certificate %s: %w", name, err)
		}
		return m, nil
	}
	if n.client, err = manager(clientKeys, certificatesv1.KubeAPIServerClientKubeletSignerName, certificate.DefaultKubeletClientGetUsages, x509.CertificateRequest{}); err != nil {
		return nil, nil, err
	}
	hosts := x509.CertificateRequest{DNSNames: []string{c.Kubelet.NodeName}}
	for _, ip := range ips {
		hosts.IPAddresses = append(hosts.IPAddresses, ip.AsSlice())
	}
	if n.serving, err = manager("kubelet-serving", certificatesv1.KubeletServingSignerName, certificate.DefaultKubeletServingGetUsages, hosts); err != nil {
		return nil, nil, err
	}
	return n, config, nil
}

// clientKeys is the name of the certificate by which the node proves itself.
const clientKeys = "kubelet-client"

// newKeys is the store of that certificate. Only one that the cluster has issued proves that the kubeconfig is good, so only then
// what others have brought is of no use any more.
type newKeys struct {
	certificate.Store
	joined pki.Pair // what the kubeconfig brings, which is stored first
	issued func() error
}

// Update implements certificate.Store.
func (k newKeys) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	cert, err := k.Store.Update(certPEM, keyPEM)
	if err != nil || bytes.Equal(certPEM, k.joined.Cert) {
		return cert, err
	}
	if err := k.issued(); err != nil {
		klog.Background().Error(err, "Keys that are of no use any more are still there")
	}
	return cert, nil
}

// removeOtherKeys removes what earlier kubeconfigs brought.
func removeOtherKeys(dir string) error {
	others, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "node-*"))
	if err != nil {
		return err
	}
	for _, other := range others {
		if other != dir {
			if err := os.RemoveAll(other); err != nil {
				return fmt.Errorf("removing old certificates: %w", err)
			}
		}
	}
	return nil
}

// run renews until ctx ends.
func (n *nodeCertificates) run(ctx context.Context) error {
	for _, m := range []certificate.Manager{n.client, n.serving} {
		m.Start()
		defer m.Stop()
	}
	<-ctx.Done()
	return nil
}

var errNodeCertificateEnded = errors.New("the node's certificate has ended: remove the node and join again by a new token, or make a new kubeconfig where the cluster runs, with: minik8s kubeconfig --node NAME --node-ip ADDRESS")

func (n *nodeCertificates) clientCertificate() (*tls.Certificate, error) {
	if cert := n.client.Current(); cert != nil {
		return cert, nil
	}
	return nil, errNodeCertificateEnded
}

// servingCertificate is what the kubelet serves with.
func (n *nodeCertificates) servingCertificate() (*tls.Certificate, error) {
	if cert := n.serving.Current(); cert != nil {
		return cert, nil
	}
	return nil, errNodeCertificateEnded
}
