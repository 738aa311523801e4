# SPDX-License-Identifier: GPL-2.0
#
# Included by Kbuild: the rules that generate the raw bindings. $(crates-prefix) is what the paths of the
# crates begin with, seen from there.
#
# A type that the kernel crate's bindings define completely is not defined a
# second time, as a C type must be the same Rust type on both sides. The glob
# import in lib.rs finds it. The names of these types are taken from the kernel's
# generated file, and put into a file, as they are too many for make.

bindings := $(obj)/$(crates-prefix)bindings
bindings_src := $(src)/$(crates-prefix)bindings
kernel_bindings := $(objtree)/rust/bindings/bindings_generated.rs

# C flags that bindgen must not see. Only the kernel knows them.
rdma_skip_c_flags := $(shell sed -n '/^bindgen_skip_c_flags :=/,/[^\\]$$/p' \
	$(srctree)/rust/Makefile | sed 's/^bindgen_skip_c_flags :=//; s/\\$$//')
rdma_bindgen_params := $(shell grep -Ev '^\#|^$$|lru_status' $(srctree)/rust/bindgen_parameters)
# As in the kernel's rust/Makefile, which keeps its own to itself.
rdma_bindgen_target_x86 := x86_64-linux-gnu
rdma_bindgen_target_um := x86_64-linux-gnu
rdma_bindgen_target_arm64 := aarch64-linux-gnu
rdma_bindgen_target := $(rdma_bindgen_target_$(SRCARCH))
rdma_bindgen_c_flags = $(filter-out $(rdma_skip_c_flags) $(CC_FLAGS_LTO), $(c_flags)) \
	-w --target=$(rdma_bindgen_target) -fno-builtin -D__BINDGEN__ -DMODULE
rdma_bindgen_flags := --rust-target 1.85 --use-core --ctypes-prefix ffi \
	--no-debug '.*' --enable-function-attribute-detection

quiet_cmd_rdma_known = GEN     $@
      cmd_rdma_known = awk -f $(bindings_src)/known.awk $< > $@

$(bindings)/known_types_generated: $(kernel_bindings) $(bindings_src)/known.awk FORCE
	$(call if_changed,rdma_known)

quiet_cmd_rdma_bindgen = BINDGEN $@
      cmd_rdma_bindgen = \
	$(BINDGEN) $< $(rdma_bindgen_params) $(rdma_bindgen_flags) \
		$$(cat $(bindings)/known_types_generated) \
		$$(grep -Ev '^\#|^$$' $(bindings_src)/bindgen_parameters) \
		-o $@ -- $(rdma_bindgen_c_flags); \
	sed -Ei 's/pub const RUST_CONST_HELPER_([a-zA-Z0-9_]*)/pub const \1/g' $@

$(bindings)/bindings_generated.rs: $(bindings_src)/bindings_helper.h \
		$(bindings)/known_types_generated $(bindings_src)/bindgen_parameters FORCE
	$(call if_changed_dep,rdma_bindgen)

quiet_cmd_rdma_bindgen_helpers = BINDGEN $@
      cmd_rdma_bindgen_helpers = \
	$(BINDGEN) $< $(rdma_bindgen_flags) --blocklist-type '.*' \
		--allowlist-var '' --allowlist-function 'rust_helper_.*' \
		-o $@ -- $(rdma_bindgen_c_flags) -Wno-missing-prototypes; \
	sed -Ei 's/pub fn rust_helper_([a-zA-Z0-9_]*)/\#[link_name="rust_helper_\1"]\n    pub fn \1/g' $@

$(bindings)/helpers_generated.rs: $(src)/$(crates-prefix)helpers/helpers.c FORCE
	$(call if_changed_dep,rdma_bindgen_helpers)

# Where the bindings crate finds what is generated for it.
export RDMA_BINDINGS := $(abspath $(bindings))

targets += $(addprefix $(crates-prefix)bindings/,known_types_generated bindings_generated.rs \
	helpers_generated.rs)

$(bindings)/lib.o: $(bindings)/bindings_generated.rs $(bindings)/helpers_generated.rs
