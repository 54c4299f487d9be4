# The upstream conformance suite. Which tests: MILESTONES, SIGS, FOCUS; the other settings are in test/conformance/run.
.PHONY: conformance-build conformance-images conformance
conformance-build: ## build upstream's conformance suite (once, 10 to 20 minutes)
	test/conformance/build

conformance-images: docker ## build the images that it runs, without a registry
	test/conformance/images

conformance: docker build conformance-build conformance-images ## run it against a fresh cluster: MILESTONES="M1a M3", SIGS, FOCUS
	test/conformance/run

.PHONY: test-cmd
test-cmd: build ## upstream's tests of kubectl, by ours against our API server: WHAT="pod crd"
	test/conformance/test-cmd

.PHONY: node-tests
node-tests: docker build conformance-build conformance-images ## upstream's tests of a node against one that has joined: FOCUS, SKIP, LABELS
	test/conformance/node
