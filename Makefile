# The commands of this repository; `make help` lists them.

CARGO ?= cargo
# Flags for the gateway, as in: make run ARGS="--listen 127.0.0.1:9000"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test bench figures fuzz leak browser autobahn audit setup lint cargo-test client-test browser-test

help: ## List the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-8s %s\n", $$1, $$2 }'

run: ## Build and start a gateway with its demo page, on this machine alone
	$(CARGO) run --release --locked --package presence-gateway --bin presence-gateway -- --dev $(ARGS)

test: setup lint cargo-test client-test browser-test ## Check the format, the lints and every test

# Each crate has one bench, and ARGS chooses among them, as in: make bench ARGS=wheel
bench: ## Measure the codec and the engine's own work
	$(CARGO) bench --locked --package presence-protocol --bench codec -- $(ARGS)
	$(CARGO) bench --locked --package presence --bench engine -- $(ARGS)

figures: ## Measure what docs/benchmarks.md sets beside its targets, as in: make figures ARGS=push
	$(CARGO) build --release --locked --bins
	@scripts/figures $(ARGS)

# How many inputs each property is tried with. Without CASES, cargo test tries 256.
fuzz: CASES ?= 20000
fuzz: ## Try the readers of bytes with many random inputs, as in: make fuzz CASES=100000
	PROPTEST_CASES=$(CASES) $(CARGO) test --locked --package presence-protocol --package presence-gateway properties

leak: CONNECTS ?= 200000
leak: ## Connect and disconnect many times, and see that memory does not grow
	LEAK_CONNECTS=$(CONNECTS) $(CARGO) test --locked --package presence-gateway --test leak -- --nocapture

browser: setup client-test ## Hide a page for eight minutes and stop a browser for one, with the default times
	$(MAKE) browser-test LONG=1

autobahn: ## Run the Autobahn test suite against the gateway's socket code
	@scripts/autobahn

# Known faults come from a database on the network; without it: make audit ARGS="licenses bans sources"
audit: ## Check licences, sources and known faults of all dependencies (needs cargo-deny)
	$(CARGO) deny --locked check $(ARGS)

setup: ## Install what the tests need and this machine lacks
	@scripts/setup

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --package presence-gateway --example echo --features echo --locked -- -D warnings

# Each test binary starts one Redis for all of its tests, where one process per test would start one for each. More
# threads than cores, since the tests mostly wait.
cargo-test:
	RUST_TEST_THREADS=6 $(CARGO) test --workspace --locked --no-fail-fast

# The clients in other languages, against the gateway program that cargo-test has built, and what the dashboard makes of
# figures. Only they are told where the program is: a gateway refuses to start with a variable of its prefix that it does
# not know.
client-test browser-test: export PRESENCE_GATEWAY ?= $(abspath $(or $(CARGO_TARGET_DIR),target))/debug/presence-gateway
client-test:
	$(CARGO) build --locked --package presence-gateway
	cd clients/typescript && npm ci --no-audit --no-fund && npm test
	node --test crates/gateway/tests/dashboard/health.test.mjs
	python3 -m unittest discover --start-directory examples/python

# After client-test, whose packages it needs. LONG=1 takes ten minutes more.
browser-test:
	cd clients/browser && npm ci --no-audit --no-fund && npm test
