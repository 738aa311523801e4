# SPDX-License-Identifier: GPL-2.0
#
# Included by Kbuild: the rules that generate the raw bindings.
#
# A type that the kernel crate's bindings define completely is not defined a
# second time, as a C type must be the same Rust type on both sides. The glob
# import in lib.rs finds it. The names of these types are taken from the kernel's
# generated file, and put into a file, as they are too many for make.

bindings := $(obj)/rust/bindings
kernel_bindings := $(objtree)/rust/bindings/bindings_generated.rs

# C flags that bindgen must not see. Only the kernel knows them.
rsiw_skip_c_flags := $(shell sed -n '/^bindgen_skip_c_flags :=/,/[^\\]$$/p' \
	$(srctree)/rust/Makefile | sed 's/^bindgen_skip_c_flags :=//; s/\\$$//')
rsiw_bindgen_params := $(shell grep -Ev '^\#|^$$|lru_status' $(srctree)/rust/bindgen_parameters)
# As in the kernel's rust/Makefile, which keeps its own to itself.
rsiw_bindgen_target_x86 := x86_64-linux-gnu
rsiw_bindgen_target_um := x86_64-linux-gnu
rsiw_bindgen_target_arm64 := aarch64-linux-gnu
rsiw_bindgen_target := $(rsiw_bindgen_target_$(SRCARCH))
rsiw_bindgen_c_flags = $(filter-out $(rsiw_skip_c_flags) $(CC_FLAGS_LTO), $(c_flags)) \
	-w --target=$(rsiw_bindgen_target) -fno-builtin -D__BINDGEN__ -DMODULE
rsiw_bindgen_flags := --rust-target 1.85 --use-core --ctypes-prefix ffi \
	--no-debug '.*' --enable-function-attribute-detection

quiet_cmd_rsiw_known = GEN     $@
      cmd_rsiw_known = awk -f $(src)/rust/bindings/known.awk $< > $@

$(bindings)/known_types_generated: $(kernel_bindings) $(src)/rust/bindings/known.awk FORCE
	$(call if_changed,rsiw_known)

quiet_cmd_rsiw_bindgen = BINDGEN $@
      cmd_rsiw_bindgen = \
	$(BINDGEN) $< $(rsiw_bindgen_params) $(rsiw_bindgen_flags) \
		$$(cat $(bindings)/known_types_generated) \
		$$(grep -Ev '^\#|^$$' $(src)/rust/bindings/bindgen_parameters) \
		-o $@ -- $(rsiw_bindgen_c_flags); \
	sed -Ei 's/pub const RUST_CONST_HELPER_([a-zA-Z0-9_]*)/pub const \1/g' $@

$(bindings)/bindings_generated.rs: $(src)/rust/bindings/bindings_helper.h \
		$(bindings)/known_types_generated $(src)/rust/bindings/bindgen_parameters FORCE
	$(call if_changed_dep,rsiw_bindgen)

quiet_cmd_rsiw_bindgen_helpers = BINDGEN $@
      cmd_rsiw_bindgen_helpers = \
	$(BINDGEN) $< $(rsiw_bindgen_flags) --blocklist-type '.*' \
		--allowlist-var '' --allowlist-function 'rust_helper_.*' \
		-o $@ -- $(rsiw_bindgen_c_flags) -Wno-missing-prototypes; \
	sed -Ei 's/pub fn rust_helper_([a-zA-Z0-9_]*)/\#[link_name="rust_helper_\1"]\n    pub fn \1/g' $@

$(bindings)/helpers_generated.rs: $(src)/rust/helpers/helpers.c FORCE
	$(call if_changed_dep,rsiw_bindgen_helpers)

targets += rust/bindings/known_types_generated
targets += rust/bindings/bindings_generated.rs rust/bindings/helpers_generated.rs

$(bindings)/lib.o: $(bindings)/bindings_generated.rs $(bindings)/helpers_generated.rs
