# SPDX-License-Identifier: GPL-2.0
#
# What a person types. Everything is made inside the build root (tools/), so
# the machine needs no Rust and no kernel headers. The module's own rules are
# in Kbuild, which the kernel's build system prefers to this file.

KERNEL ?= stock
A ?= rsiw
B ?= rsiw
T ?=
RUN ?=
STAGES ?=
KERNELS ?=
SUITE ?= trixie
DESTDIR ?=
PREFIX ?= /usr

.DEFAULT_GOAL := module
.PHONY: module debug siw-peer rxe-peer run shell vm bench bench-nfs bench-native docs test test-all steady in-tree rdma-core-patches format clippy host-test update-kernel clean help install uninstall deb provider

module: ## build rsiw.ko: KERNEL=stock (the distribution's newest), cloud-amd64, arm64, forky, $$(uname -r), ...
	@tools/build $(KERNEL) rsiw
	@echo build/$(KERNEL)/rsiw.ko

debug: ## build rsiw.ko for the debug kernel (and that kernel first, 10 minutes)
	@tools/build debug rsiw

siw-peer: ## build siw.ko of the same kernel, to test against
	@tools/build $(KERNEL) siw

rxe-peer: ## build rdma_rxe.ko of the same kernel, to compare with
	@tools/build $(KERNEL) rxe

run: ## build, boot two hosts, and show them at work over RDMA
	@tools/preflight run $(KERNEL)
	@tools/build $(KERNEL) rsiw
	@tools/vm-run test -v --kernel $(KERNEL) $(RUN) demo

shell: ## a console in a guest with the module loaded
	@tools/build $(KERNEL) rsiw
	@tools/vm-run shell --kernel $(KERNEL)

vm: ## run jobs: make vm T=smoke/rping A=rsiw B=siw KERNEL=debug
	@tools/build $(KERNEL) $(sort $(A) $(B)) kverbs
	@tools/vm-run test -v --kernel $(KERNEL) --pair $(A),$(B) $(RUN) $(T)

bench: ## rsiw, siw, rxe and TCP: tables, plots, JSON (half an hour; QUICK=1: 5 minutes); RUN='--env ROUNDS=9'
	@tools/bench $(RUN)

bench-nfs: ## NFS over TCP, rsiw and siw: throughput and CPU, table and plot (8 minutes); RUN=...
	@tools/bench-nfs $(RUN)

bench-native: ## the data path on the real processor, by user-mode Linux: where its time goes (10 minutes the first time)
	@tools/bench-native $(RUN)

docs: ## the documents as HTML (build/html), and the manual pages (build/man)
	@tools/docs

install: ## the module that was built for KERNEL, links over a reboot, manual pages; DESTDIR=, PREFIX=/usr
	@tools/install --kernel=$(KERNEL) --destdir=$(DESTDIR) --prefix=$(PREFIX) all

uninstall: ## remove them; /etc/rsiw/links.d/*.conf stay
	@tools/install --uninstall --kernel=$(KERNEL) --destdir=$(DESTDIR) --prefix=$(PREFIX) all

provider: ## the user-space provider, for libibverbs of SUITE=trixie, forky
	@tools/provider $(SUITE)

deb: ## Debian packages in build/deb: the module for each supported kernel (KERNELS=...), rsiw, rsiw-dkms, rsiw-provider
	@tools/deb $(KERNELS)

test: ## what CI runs: 20 minutes (45 where nothing is built); STAGES="scripts host" for some of it
	@tools/ci/run $(STAGES)

test-all: ## every test: all jobs, kernels, packages, races, long forms (many hours); STAGES="vm-debug deb"
	@tools/ci/run --all $(STAGES)

steady: ## run a job 20 times beside two busy processes: make steady T=smoke/rping
	@tools/build $(KERNEL) $(sort $(A) $(B)) kverbs
	@tools/vm-run steady --kernel $(KERNEL) --pair $(A),$(B) $(RUN) $(T)

in-tree: ## the driver as patches for the kernel's tree (build/in-tree), each checked; tools/in-tree --build tries them
	@tools/in-tree

rdma-core-patches: ## the provider as patches for rdma-core (build/rdma-core/SUITE/series), each checked; SUITE=forky, trixie
	@tools/rdma-core $(if $(filter file,$(origin SUITE)),forky,$(SUITE))

format: ## format all Rust code as the kernel does
	@tools/ci/format --write

clippy: ## the kernel's own lints, warnings as errors
	@tools/build stock clippy

host-test: ## the protocol engine's tests on this machine
	@tools/ci/run host

update-kernel: ## look again which kernel is the newest in trixie-backports; KERNEL=forky: in Debian testing
	@tools/kernel refresh $(KERNEL)
	@tools/kernel version $(KERNEL)

clean: ## remove build/ (the cache outside the checkout stays)
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' Makefile
	@echo "Cached: $${RSIW_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/rsiw} (RSIW_CACHE moves it)"
	@echo "RSIW_KERNEL=7.3 asks for another kernel than the newest complete one."
