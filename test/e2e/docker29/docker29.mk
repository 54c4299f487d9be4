bin/docker29/dockerd: test/e2e/docker29/go.mod test/e2e/docker29/go.sum test/e2e/docker29/build
	test/e2e/docker29/build

# TESTS=pattern picks other end-to-end tests.
.PHONY: e2e-docker29
e2e-docker29: docker build kubectl bin/docker29/dockerd ## pods on Docker 29, which is built and started beside this machine's; no part of CI
	test/e2e/docker29/run
