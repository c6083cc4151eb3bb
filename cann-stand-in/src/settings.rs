//! What the environment says.

use std::path::PathBuf;
use std::time::Duration;

use moe_core::Soc;

/// How the stand-in behaves in this process.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) soc: Soc,
    pub(crate) num_npus: u32,
    pub(crate) is_mesh: bool,
    pub(crate) report: Option<PathBuf>,
    pub(crate) connect_timeout: Duration,
    pub(crate) window_bytes: u64,
}

const MIB: u64 = 1 << 20;

impl Settings {
    pub(crate) fn from_env() -> Self {
        let text = |name: &str| std::env::var(name).ok();
        let number = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok());
        let soc = text("CANN_STAND_IN_SOC").unwrap_or_else(|| "Ascend910B1".to_owned());
        let unknown = |name: String| Soc {
            name,
            ..Soc::named("Ascend910B1").expect("socs.toml has it")
        };
        Self {
            soc: Soc::named(&soc).unwrap_or_else(|_| unknown(soc)),
            num_npus: number("CANN_STAND_IN_NPUS").map_or(16, |count| count as u32),
            is_mesh: text("CANN_STAND_IN_TOPOLOGY").is_none_or(|value| value != "ring"),
            report: text("CANN_STAND_IN_REPORT").map(PathBuf::from),
            connect_timeout: Duration::from_secs(number("HCCL_CONNECT_TIMEOUT").unwrap_or(120)),
            window_bytes: number("HCCL_BUFFSIZE").unwrap_or(200) * MIB,
        }
    }
}
