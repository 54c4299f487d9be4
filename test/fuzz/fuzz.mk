# Bad input: fuzz targets for TIME each, or malformed REQUESTS of users with few rights to a server, chosen by SEED.
.PHONY: fuzz fuzz-api
fuzz: ## run every fuzz target for TIME (1m)
	test/fuzz/run $(or $(TIME),1m)

fuzz-api: build ## send an API server REQUESTS (200000) malformed ones by users with few rights, and see what must not happen
	go run ./test/fuzz/blackbox -requests $(or $(REQUESTS),200000) -seed $(or $(SEED),1)
