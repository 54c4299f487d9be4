// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/cluster/clusterinfo"
)

// Token lets machines join. Its fields are those of kubeadm's BootstrapToken.
type Token struct {
	// Token is ID.SECRET.
	Token       string `json:"token"`
	Description string `json:"description,omitempty"`
	// Expires is when it ends; nil: never.
	Expires *metav1.Time `json:"expires,omitempty"`
	Usages  []string     `json:"usages,omitempty"`
	Groups  []string     `json:"groups,omitempty"`
}

// Invitation is a token with all that a machine has to be told.
type Invitation struct {
	Token
	Server     string `json:"server"`
	CACertHash string `json:"caCertHash"`
	// Command is to be run on the machine.
	Command string `json:"command"`
}

// tokenPatience is how long the cluster may take to do what is asked about tokens.
const tokenPatience = 30 * time.Second

// tokenClient is the administrator's, of a cluster that runs.
func tokenClient(c Config) (kubernetes.Interface, error) {
	pid, err := Pid(c.Name)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, &Problem{Cause: fmt.Sprintf("cluster %q does not run", c.Name), Remedy: "start it with: minik8s up --name " + c.Name}
	}
	admin, err := Admin(c)
	if err != nil {
		return nil, err
	}
	client, err := clientOf(admin, "minik8s")
	return client, err
}

// CreateToken makes a token that lasts for ttl, 0 for ever, and returns when machines can join by it.
func CreateToken(ctx context.Context, c Config, ttl time.Duration, description string) (*Invitation, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	client, err := tokenClient(c)
	if err != nil {
		return nil, err
	}
	return createToken(ctx, client, c, ownCA(c), ttl, description)
}

func createToken(ctx context.Context, client kubernetes.Interface, c Config, ca []byte, ttl time.Duration, description string) (*Invitation, error) {
	if ttl < 0 {
		return nil, fmt.Errorf("a token cannot last for %s", ttl)
	}
	servers, err := nodeIPs(c)
	if err != nil {
		return nil, err
	}
	info := clusterinfo.Info{Server: "https://" + net.JoinHostPort(servers[0].String(), strconv.Itoa(c.APIPort)), CA: ca}
	hash, err := clusterinfo.Hash(ca)
	if err != nil {
		return nil, err
	}
	if info.About, err = json.Marshal(told(c, KubeletConfig{})); err != nil {
		return nil, err
	}
	if err := publishInfo(ctx, client, info); err != nil {
		return nil, err
	}
	made, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return nil, err
	}
	t := Token{Token: made, Description: description, Usages: []string{"authentication", "signing"}, Groups: []string{policy.JoiningGroup}}
	if ttl > 0 {
		// Whole seconds are kept; it lasts for ttl at least.
		t.Expires = &metav1.Time{Time: time.Now().Add(ttl + time.Second - 1).UTC().Truncate(time.Second)}
	}
	if _, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, t.secret(), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making the token: %w", err)
	}
	if err := awaitSignature(ctx, client, t, hash); err != nil {
		return nil, err
	}
	return &Invitation{
		Token: t, Server: info.Server, CACertHash: hash,
		Command: fmt.Sprintf("minik8s agent --join %s --token %s --ca-cert-hash %s", info.Server, made, hash),
	}, nil
}

// secret is how the cluster keeps the token.
func (t Token) secret() *corev1.Secret {
	id, secret, _ := strings.Cut(t.Token, ".")
	data := map[string]string{
		api.BootstrapTokenIDKey: id, api.BootstrapTokenSecretKey: secret,
		api.BootstrapTokenUsageAuthentication: "true", api.BootstrapTokenUsageSigningKey: "true",
		api.BootstrapTokenExtraGroupsKey: strings.Join(t.Groups, ","),
	}
	if t.Description != "" {
		data[api.BootstrapTokenDescriptionKey] = t.Description
	}
	if t.Expires != nil {
		data[api.BootstrapTokenExpirationKey] = t.Expires.Format(time.RFC3339)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraputil.BootstrapTokenSecretName(id), Namespace: metav1.NamespaceSystem},
		Type:       api.SecretTypeBootstrapToken, StringData: data,
	}
}

// publishInfo writes what machines that join read and what is noted of them, as far as it is not there.
func publishInfo(ctx context.Context, client kubernetes.Interface, info clusterinfo.Info) error {
	joined := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: policy.JoinedNodes}}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, joined, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the list of joined nodes: %w", err)
	}
	document, err := info.Document()
	if err != nil {
		return err
	}
	all := client.CoreV1().ConfigMaps(metav1.NamespacePublic)
	for {
		have, err := all.Get(ctx, api.ConfigMapClusterInfo, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = all.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: api.ConfigMapClusterInfo}, Data: map[string]string{api.KubeConfigKey: document},
			}, metav1.CreateOptions{})
		case err == nil && have.Data[api.KubeConfigKey] == document:
			return nil
		case err == nil:
			have.Data = maps.Clone(have.Data) // the signatures are mended by their controller
			if have.Data == nil {
				have.Data = map[string]string{}
			}
			have.Data[api.KubeConfigKey] = document
			_, err = all.Update(ctx, have, metav1.UpdateOptions{})
		}
		again := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
		if !again || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("writing cluster-info: %w", err)
			}
			return nil
		}
	}
}

// errTokenEnded is that a token has ended while it was waited for.
var errTokenEnded = errors.New("the token has ended")

// awaitSignature waits until a machine would believe the cluster; nobody signs with a token that has ended.
func awaitSignature(ctx context.Context, client kubernetes.Interface, t Token, hash string) error {
	if t.Expires != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, t.Expires.Time, errTokenEnded)
		defer cancel()
	}
	var unread, unsigned error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, api.ConfigMapClusterInfo, metav1.GetOptions{})
		if unread = err; err == nil {
			_, unsigned = clusterinfo.Verify(info.Data, t.Token, []string{hash})
			return unsigned == nil, nil
		}
		return false, nil
	})
	last := cmp.Or(unsigned, unread, err) // what was read says more than why it could not be read again at the end
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errTokenEnded):
		return &Problem{
			Cause:  fmt.Sprintf("the token ended before cluster-info was signed with it (%v)", last),
			Remedy: "make one that lasts longer, for example with --ttl 1h", Err: errTokenEnded,
		}
	}
	return &Problem{
		Cause:  fmt.Sprintf("the token is made, but no controller signs cluster-info with it (%v)", last),
		Remedy: "let bootstrap-signer-controller run (controllers in the --config file)", Err: last,
	}
}

// Tokens are those of a cluster, sorted. What is no whole token is left out.
func Tokens(ctx context.Context, c Config) ([]Token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	client, err := tokenClient(c)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(api.SecretTypeBootstrapToken)})
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	all := []Token{}
	for i := range list.Items {
		if t, ok := tokenOf(&list.Items[i]); ok {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Token) int { return cmp.Compare(a.Token, b.Token) })
	return all, nil
}

func tokenOf(s *corev1.Secret) (t Token, ok bool) {
	get := func(key string) string { return bootstrapsecrets.GetData(s, key) }
	t = Token{
		Token:       bootstraputil.TokenFromIDAndSecret(get(api.BootstrapTokenIDKey), get(api.BootstrapTokenSecretKey)),
		Description: get(api.BootstrapTokenDescriptionKey),
	}
	if groups := get(api.BootstrapTokenExtraGroupsKey); groups != "" {
		t.Groups = strings.Split(groups, ",")
	}
	for key, value := range s.Data {
		if usage, is := strings.CutPrefix(key, api.BootstrapTokenUsagePrefix); is && string(value) == "true" {
			t.Usages = append(t.Usages, usage)
		}
	}
	slices.Sort(t.Usages)
	if expires := get(api.BootstrapTokenExpirationKey); expires != "" {
		// One whose end cannot be read has ended.
		at, _ := time.Parse(time.RFC3339, expires)
		t.Expires = &metav1.Time{Time: at}
	}
	return t, bootstraputil.IsValidBootstrapToken(t.Token)
}

// DeleteToken makes a token worthless, which is named by its id or as a whole. Machines that have joined by it stay.
func DeleteToken(ctx context.Context, c Config, token string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	if id, _, _ = strings.Cut(token, "."); !bootstraputil.IsValidBootstrapTokenID(id) || id != token && !bootstraputil.IsValidBootstrapToken(token) {
		return "", errors.New("what is given is neither a token nor the id of one, which has six lower-case letters and digits")
	}
	client, err := tokenClient(c)
	if err != nil {
		return "", err
	}
	err = client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, bootstraputil.BootstrapTokenSecretName(id), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return "", &Problem{Cause: fmt.Sprintf("there is no token %q", id), Remedy: "see: minik8s token list", Err: err}
	}
	if err != nil {
		return "", fmt.Errorf("deleting token %q: %w", id, err)
	}
	return id, nil
}
