//! The gateway of this workspace, which belongs to another crate, on which this one must not depend.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Where all tests are run it was built with them; alone, it is built here if there is none yet.
pub(crate) static GATEWAY: LazyLock<PathBuf> = LazyLock::new(|| {
    let own = Path::new(env!("CARGO_BIN_EXE_presence-loadtest"));
    let beside = own.with_file_name("presence-gateway");
    if !beside.is_file() {
        let package = ["--package", "presence-gateway", "--bin", "presence-gateway"];
        let built = Command::new(env!("CARGO")).args(["build", "--locked"]).args(package).status();
        assert!(built.is_ok_and(|status| status.success()), "the gateway does not build");
    }
    beside
});
