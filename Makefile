# A front for `cargo xtask`, which does the work. Arguments go in ARGS:
#   make pipeline ARGS="--set train.epochs=1"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help pipeline test bench-stages bench-peers bench-claims bench-report lint

help: ## List these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '  make %-13s %s\n' "$$target" "$$text"; done

pipeline: ## Set up, build and run the pipeline
	cargo xtask pipeline $(ARGS)

test: ## Run everything CI runs
	cargo xtask test $(ARGS)

bench-stages: ## Benchmark the stages against their floors
	cargo xtask bench-stages $(ARGS)

bench-peers: ## Benchmark loader, normalize and trainer beside what people use today
	cargo xtask bench-peers $(ARGS)

bench-claims: ## Measure what optimisation guides promise, before and after
	cargo xtask bench-claims $(ARGS)

bench-report: ## Write the README's figures from what the benches found
	cargo xtask bench-report $(ARGS)

lint: ## Check formatting, clippy, tidy and docs
	cargo xtask lint $(ARGS)
