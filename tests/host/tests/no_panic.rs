// SPDX-License-Identifier: GPL-2.0

//! No code path of the engine ends in a panic: compiled with the kernel's flags, its machine code
//! refers to none of `core`'s panic functions. A test can only fail to find an input that panics;
//! this excludes one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` as the kernel would and returns its object file.
fn compile(name: &str, source: &Path, out: &Path, extra: &[String]) -> PathBuf {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let object = out.join(format!("{name}.o"));
    let status = Command::new(rustc)
        .arg(source)
        .args(["--edition=2021", "--crate-type=lib", "--crate-name", name])
        .args(["-Copt-level=2", "-Coverflow-checks=y", "-Cpanic=abort"])
        .args(["-Ccodegen-units=1", "-Cdebuginfo=0"])
        .arg(format!("--emit=obj={}", object.display()))
        .arg(format!("--emit=metadata={}/lib{name}.rmeta", out.display()))
        .args(extra)
        .status()
        .expect("rustc");
    assert!(status.success());
    object
}

fn contains(object: &Path, text: &str) -> bool {
    let bytes = std::fs::read(object).expect("object file");
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

#[test]
fn no_panic_in_machine_code() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let engine = compile("iwarp", &here.join("../../rust/iwarp/lib.rs"), out, &[]);
    let found = format!("--extern=iwarp={}/libiwarp.rmeta", out.display());
    let uses = compile("uses", &here.join("no_panic/uses.rs"), out, &[found]);

    assert!(contains(&uses, "transmit"));
    for object in [engine, uses] {
        assert!(!contains(&object, "panicking"), "{}", object.display());
    }
}
