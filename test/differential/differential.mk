# Upstream's kube-apiserver and ours, asked the same. Which: ONLY='^pods$$', PER_SEED=0 for every mutation, SEED=2.
.PHONY: differential differential-serve
test/conformance/bin/kube-apiserver:
	test/conformance/build kube-apiserver

differential: build test/conformance/bin/kube-apiserver ## ask upstream's kube-apiserver and ours the same thousands of things (10 minutes)
	go run ./test/differential -only '$(ONLY)' -per-seed $(or $(PER_SEED),100) -seed $(or $(SEED),1)

differential-serve: build test/conformance/bin/kube-apiserver ## run both, to try by hand what differs
	go run ./test/differential -serve
