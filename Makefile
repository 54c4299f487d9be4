# minik8s: `make help` lists what can be made.
# The release of Kubernetes whose modules go.mod names: v0.37.2 there is v1.37.2.
KUBERNETES_VERSION := $(shell sed -n 's|^\tk8s.io/apiserver v0\.|v1.|p' go.mod)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMPONENT_VERSION := k8s.io/component-base/version
LDFLAGS := -s -w \
	-X main.productVersion=$(VERSION) \
	-X $(COMPONENT_VERSION).gitVersion=$(KUBERNETES_VERSION) \
	-X $(COMPONENT_VERSION).gitMajor=1 -X $(COMPONENT_VERSION).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION))) \
	-X $(COMPONENT_VERSION).gitCommit=$(shell git rev-parse HEAD 2>/dev/null) \
	-X $(COMPONENT_VERSION).gitTreeState=clean

# The same settings for every go command, so that builds and tests share one cache. The profile tells the compiler what
# matters: https://go.dev/doc/pgo. Tests are not vetted, which lint does: it takes minutes for the modules that they need.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -vet=off '-pgo=$(CURDIR)/cmd/minik8s/default.pgo'

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

.PHONY: build
build: ## build bin/minik8s
	go build -ldflags '$(LDFLAGS)' -o bin/minik8s ./cmd/minik8s

.PHONY: plain
plain: # what benches compare with: the same without a profile for the compiler
	go build -pgo=off -ldflags '$(LDFLAGS)' -o bin/minik8s-plain ./cmd/minik8s
	go build -pgo=off -o bin/bench-controllers-plain ./test/bench/controllers
	go build -pgo=off -o bin/bench-scheduler-plain ./test/bench/scheduler

.PHONY: docker
docker: ## see that a Docker engine answers, install it on Debian and Ubuntu
	@hack/ensure-docker

.PHONY: up
up: docker build ## build, start a cluster, wait until it is Ready, and say what to do next
	bin/minik8s up

.PHONY: down
down: ## stop that cluster; its data stays (bin/minik8s down --purge leaves nothing)
	bin/minik8s down

.PHONY: python-client
python-client: ## see that Python has the Kubernetes client, install it on Debian and Ubuntu
	@hack/ensure-python-client

.PHONY: images
images: docker ## build the images of the examples
	examples/guestbook/build
	examples/autoscaling/build
	examples/functions/build
	examples/workflow/build

.PHONY: compiler
compiler: ## see that there is a C compiler for the race detector, install it on Debian and Ubuntu
	@hack/ensure-compiler

.PHONY: dbus
dbus: ## see that there is a D-Bus daemon for tests, install it on Debian and Ubuntu
	@hack/ensure-dbus

# End-to-end tests wait for most of their time. Meanwhile the tree is checked, for which the linter has all packages compiled. Unit and
# integration tests run once, with the race detector, which is linked by a C compiler; no profile, for speed is not what is tested; client-go
# sees that nobody changes what informers share. The programs of the end-to-end tests are those that users get.
.PHONY: test
test: docker compiler dbus build ## everything that CI runs
	hack/meanwhile '$(MAKE) verify lint' $(MAKE) e2e
	CGO_ENABLED=1 MINIK8S_ALL_TESTS=1 KUBE_CACHE_MUTATION_DETECTOR=true go test -race -pgo=off -timeout 30m ./...

.PHONY: kubectl
kubectl: ## build bin/kubectl, upstream's published module and nothing else
	go build -ldflags '$(LDFLAGS)' -o bin/kubectl ./test/e2e/kubectl

# Programs that connect pods, published ones, for the tests of networks by CNI.
bin/cni/bridge: hack/tools/go.mod hack/tools/go.sum
	cd hack/tools && CGO_ENABLED=0 GOFLAGS=-trimpath go build -ldflags '-s -w' -o ../../bin/cni/ $(addprefix github.com/containernetworking/plugins/plugins/,ipam/host-local meta/firewall main/bridge)

.PHONY: e2e
e2e: docker build kubectl images python-client bin/cni/bridge ## the end-to-end tests: the real binary, a separate kubectl, real Docker
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -p 1 -count=1 -timeout 40m ./test/e2e/...

.PHONY: lifecycle
lifecycle: build ## 200 rounds of up, down, purge and kill -9 by four at a time; ROUNDS=n, SEED=n to repeat one that failed
	MINIK8S_E2E=1 MINIK8S_LIFECYCLE_ROUNDS=$(or $(ROUNDS),200) MINIK8S_LIFECYCLE_SEED=$(SEED) go test -count=1 -v -timeout 90m ./test/e2e/lifecycle

.PHONY: faults
faults: docker build kubectl images ## 300 pods that come and go, and 4,000 that are scheduled, while the process is killed; PODS=n, SEED=n to repeat one that failed
	MINIK8S_E2E=1 MINIK8S_FAULTS_LONG=1 MINIK8S_FAULTS_PODS=$(or $(PODS),300) MINIK8S_FAULTS_KILLS=100 MINIK8S_FAULTS_SEED=$(SEED) go test -count=1 -v -timeout 90m -run '^TestCrash$$|^TestSchedulerCrash$$|^TestAPIServerAway$$|^TestProbesHang$$|^TestDockerRestarts' ./test/e2e

.PHONY: e2e-multinode
e2e-multinode: docker build kubectl images ## several nodes, a machine that joins, and what happens to them; takes minutes
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 MINIK8S_FAULTS_LONG=1 go test -count=1 -v -timeout 30m -run '^TestNodes$$|^TestAgent$$|^TestJoin$$|^TestMultinodeFaults$$' ./test/e2e

.PHONY: e2e-workflows
e2e-workflows: docker build kubectl images ## examples/workflow on a cluster that is killed meanwhile
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -count=1 -timeout 15m -run '^TestWorkflow$$' ./test/e2e

.PHONY: workflow-kit
workflow-kit: ## the conformance kit of the Serverless Workflow specification, in a checkout that SERVERLESSWORKFLOW_SPECIFICATION names
	@test -n "$(SERVERLESSWORKFLOW_SPECIFICATION)" || { echo 'The kit is read from a checkout of the specification. Get one, and say where it is:'; \
	  echo '  git clone --depth 1 https://github.com/serverlessworkflow/specification'; \
	  echo '  make workflow-kit SERVERLESSWORKFLOW_SPECIFICATION=$$PWD/specification'; exit 1; }
	SERVERLESSWORKFLOW_SPECIFICATION=$(abspath $(SERVERLESSWORKFLOW_SPECIFICATION)) go test -tags workflowkit -count=1 -timeout 15m -v -run '^TestKit$$' ./test/workflows

.PHONY: e2e-functions
e2e-functions: docker build kubectl images ## the life of functions, and the faults that they meet
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -count=1 -v -timeout 10m -run '^TestFunctions$$' ./test/e2e

# Built from its module with Go's own settings: it is no part of the product, whose profile tells nothing about it.
bin/golangci-lint: hack/tools/go.mod hack/tools/go.sum
	cd hack/tools && GOFLAGS=-trimpath go build -ldflags '-s -w' -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: e2e-slurm
e2e-slurm: docker build kubectl images ## a SlurmJob on Debian's Slurm in a pod; builds its image first, which takes minutes; no part of CI
	examples/slurm/build
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -tags slurm -count=1 -v -timeout 15m -run '^TestSlurm$$' ./test/e2e

.PHONY: e2e-dns
e2e-dns: docker build kubectl images ## host names for Services, in pods and on the machine
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -count=1 -v -timeout 15m -run '^TestDns$$' ./test/e2e

.PHONY: e2e-gpu
e2e-gpu: docker build kubectl images ## the Job of examples/gpu, with a device plugin that stands in for GPUs
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -count=1 -v -timeout 15m -run '^TestGPU$$' ./test/e2e

.PHONY: e2e-upstream
e2e-upstream: docker build kubectl images test/conformance/bin/kube-apiserver ## that kubectl prints the same on upstream's kube-apiserver and on ours; no part of CI
	MINIK8S_ALL_TESTS=1 MINIK8S_E2E=1 go test -tags upstream -count=1 -timeout 15m -run '^TestKubectlLikeUpstream$$' ./test/e2e

# The linter has all packages compiled, and so has them as the tests do, which find them compiled then.
.PHONY: lint
lint: compiler bin/golangci-lint ## golangci-lint with .golangci.yml
	CGO_ENABLED=1 GOFLAGS='-trimpath -race -pgo=off' bin/golangci-lint run ./...

.PHONY: verify
verify: ## check format, modules and generated files; tells which update mends what
	hack/verify/all

.PHONY: update
update: ## mend what verify complains about
	hack/update/all

.PHONY: generate
generate: ## generate what is derived from the API types
	hack/update/codegen

.PHONY: bench-boot
bench-boot: docker build plain images ## print how fast a cluster and a pod start, and what an idle cluster takes
	go run ./test/bench/boot $(if $(QUICK),-print-only)

.PHONY: bench-apiserver
bench-apiserver: build plain test/conformance/bin/kube-apiserver ## measure upstream's kube-apiserver and ours side by side; QUICK=1 for a short look
	go run ./test/bench/apiserver $(if $(QUICK),-quick -print-only)

.PHONY: bench-controllers
bench-controllers: build plain test/conformance/bin/kube-apiserver test/conformance/bin/kube-controller-manager ## measure upstream's kube-controller-manager and our controllers side by side; QUICK=1 for a short look
	go run ./test/bench/controllers $(if $(QUICK),-quick -print-only)

.PHONY: bench-functions
bench-functions: docker build ## measure functions: cold, warm, many, idle; QUICK=1 for a short look
	examples/functions/build
	go run ./test/bench/functions $(if $(QUICK),-quick)

.PHONY: bench-kubelet
bench-kubelet: docker build images ## measure pods beside the same containers by Docker alone, and a node at rest; QUICK=1 for a short look
	go run ./test/bench/kubelet $(if $(QUICK),-quick -print-only)

.PHONY: bench-network
bench-network: build test/conformance/bin/kube-proxy test/conformance/bin/coredns ## measure Services beside upstream's kube-proxy, names beside CoreDNS, HTTP beside nginx, pods beside Docker's bridge; QUICK=1 for a short look
	go run ./test/bench/network $(if $(QUICK),-quick -print-only)

.PHONY: bench-plane
bench-plane: build plain test/conformance/bin/kube-apiserver test/conformance/bin/kube-controller-manager test/conformance/bin/kube-scheduler ## measure upstream's control plane and ours side by side; QUICK=1 for a short look
	go run ./test/bench/plane $(if $(QUICK),-quick -print-only)

.PHONY: bench-scheduler
bench-scheduler: build plain test/conformance/bin/kube-apiserver test/conformance/bin/kube-scheduler test/conformance/bin/unbind ## measure upstream's kube-scheduler and ours side by side by upstream's workloads, in hours; QUICK=1 for a short look
	go run ./test/bench/scheduler $(if $(QUICK),-quick -print-only)

test/conformance/bin/kube-controller-manager:
	test/conformance/build kube-controller-manager

test/conformance/bin/kube-proxy:
	test/conformance/build kube-proxy

test/conformance/bin/coredns:
	test/conformance/build coredns

test/conformance/bin/kube-scheduler:
	test/conformance/build kube-scheduler

test/conformance/bin/unbind:
	test/conformance/build unbind

.PHONY: profile
profile: build ## measure anew what the compiler is told to matter, in half an hour
	hack/profile

include test/conformance/conformance.mk
include test/differential/differential.mk
include test/envtest/envtest.mk
include test/fuzz/fuzz.mk
include test/gateway/gateway.mk
include test/e2e/docker29/docker29.mk
include test/networkpolicy/networkpolicy.mk
include test/operators/operators.mk
include test/e2e/vm/vm.mk
