# Bad input: fuzz targets for TIME each, or COUNT malformed requests to a server, chosen by SEED.
.PHONY: fuzz fuzz-api
fuzz: ## run every fuzz target for TIME (1m)
	test/fuzz/run $(or $(TIME),1m)

fuzz-api: build ## send COUNT (200000) malformed requests to an API server
	go run ./test/fuzz/blackbox -count $(or $(COUNT),200000) -seed $(or $(SEED),1)
